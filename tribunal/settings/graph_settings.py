"""The settings of each graph: one class per graph, with the rules for settings without an effect.

All else follows from these classes: `Context`, which has the settings of all of them; the form that Studio shows of a
graph; the options of the command line and docs/settings.md; what a server's clients may set; and what a run refuses as
a setting that its graph doesn't have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, WithJsonSchema

from tribunal.settings.base import GRAPH_SETTINGS, describe_modes
from tribunal.settings.mixins import (
    Argued,
    Budgeted,
    Clausal,
    Court,
    Defined,
    Exemplified,
    InRounds,
    Judged,
    Labelled,
    ManyTasks,
    Ordered,
    Panel,
    Precedented,
    Redrawn,
    Research,
    Reviewed,
    Triaged,
    Variants,
    settings_of_seats,
)
from tribunal.settings.names import (
    ARGUING,
    KINDS,
    LOOKED_UP,
    MODE_WORDS,
    SECTION_TITLES,
    VIEWS,
    Mode,
    join_names,
)
from tribunal.settings.setting import SETTABLE_SEATS, Setting, setting, settings_in_order

WEB_SETTINGS = Research.model_fields.keys() - Variants.model_fields.keys()
_PERSPECTIVE_SETTINGS = ("leave_out", "examples_k", "embedding", *settings_of_seats("perspective"))
_NO_WEB = "nothing is looked up; set web as well"
_NO_PERSPECTIVE = "no perspective is used; name some with perspectives"
_VIEWS_FORM = {
    "type": "array",
    "items": {"type": "string", "enum": list(VIEWS)},
    "uniqueItems": True,
}


def _check_views(named: list[str]) -> list[str]:
    unknown = next((name for name in named if name not in VIEWS), None)
    if unknown is not None:
        raise ValueError(f"there is no view {unknown!r}; the views are {', '.join(VIEWS)}")
    if named and (len(named) < 2 or len(set(named)) < len(named)):
        raise ValueError("a debate takes at least two views, each named once")
    return named


# fmt: off
class PieceSettings(Panel, Research, Precedented, Triaged, Reviewed, Court):
    """The settings of the hybrid court's pieces, with the rules for settings without an effect."""


class TribunalSettings(PieceSettings):
    """The settings of the hybrid court."""

    graph = "tribunal"
    about = "the debate of ARCADE, which can search the web, ask perspectives, and leave the decision to a person"
    seated: ClassVar[tuple[str, ...]] = (
        "triage", "gatekeeper", "prosecutor", "defender", "judge", "perspective", "researcher",
    )
    modes: ClassVar[tuple[Mode, ...]] = (
        "full", "leave-out", "criterion-only", "examples-only", "no-search", "no-details",
    )

    web: bool = setting(
        LOOKED_UP, "Look on the web", "Look the post up on the web while the gatekeeper scans it.",
        False, nodes=["open_case", "triage"], clients="anything",
    )
    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield settings of the web and of perspectives, if they are off."""
        if not self.web:
            yield (*WEB_SETTINGS, *settings_of_seats("researcher")), _NO_WEB
            if self.mode in ("no-search", "no-details"):
                yield ("mode",), _NO_WEB
        if self.perspectives in ([], ["none"]):
            yield _PERSPECTIVE_SETTINGS, _NO_PERSPECTIVE
            if self.mode in ("leave-out", "criterion-only", "examples-only"):
                yield ("mode",), _NO_PERSPECTIVE
        yield from super().idle_settings()


class ArcadeSettings(Court):
    """The settings that ARCADE heeds."""

    graph = "arcade"
    about = "a gatekeeper sends each post to a fast-track or a deep-dive debate, then a judge decides"
    seated: ClassVar[tuple[str, ...]] = ("gatekeeper", "prosecutor", "defender", "judge")


class MultiroundSettings(Court):
    """The settings that ARCADE without its gatekeeper heeds."""

    graph = "multiround"
    about = "ARCADE without the gatekeeper: every post gets the deep-dive debate"
    seated: ClassVar[tuple[str, ...]] = ("prosecutor", "defender", "judge")


class PredictSettings(Panel, Clausal, Judged, Argued, Ordered, Budgeted):
    """The settings that PREDICT heeds."""

    graph = "predict"
    about = "perspectives, each with its own criteria and examples, take stances; two debaters argue; a judge decides"
    seated: ClassVar[tuple[str, ...]] = ("perspective", "debater", "judge", "annotator")
    modes: ClassVar[tuple[Mode, ...]] = (
        "full", "round-1-only", "majority", "single", "base", "leave-out", "criterion-only", "examples-only",
    )
    debate_memory: Literal["whole", "arguments"] = setting(
        ARGUING, "Memory of the debate",
        "What is shown of round 1 later on. whole: to each side its reference and all that it read, to the judge both "
        "references, as in PREDICT's code. arguments: what was argued, as in its paper.",
        "whole", nodes=["answer_non_hate", "answer_hate", "judge"], clients="anything",
    )

    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield settings of the debate and the perspectives in modes without them."""
        if self.mode == "base":
            yield ("perspectives", *_PERSPECTIVE_SETTINGS), "the mode base hears no perspective; choose another"
        else:
            yield settings_of_seats("annotator"), "only the mode base has an annotator; choose that mode"
        if self.mode in ("majority", "single", "base", "criterion-only", "examples-only"):
            debating = ("judge_model", "debate_memory", *settings_of_seats("judge", "debater"))
            yield debating, "there is no debate in this mode; choose another"
        yield from super().idle_settings()


class AntihateSettings(Research, Defined, Clausal, Judged, Argued, Budgeted):
    """The settings that AntiHateAgent heeds."""

    graph = "antihate"
    about = "searches the web, reads pages, weighs evidence, and cites it"
    seated: ClassVar[tuple[str, ...]] = ("researcher", "judge", "classifier")
    modes: ClassVar[tuple[Mode, ...]] = ("full", "no-knowledge", "no-search", "no-details", "zero-shot")

    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield settings of the research in modes of one call, and seats of other modes."""
        if self.mode in ("no-knowledge", "zero-shot"):
            unasked = (*(WEB_SETTINGS - {"archive"}), "aux_model", "seats.researcher", "max_calls", "max_tokens")
            yield unasked, "this mode makes one call and looks nothing up; choose another"
        if self.mode == "zero-shot":
            yield settings_of_seats("judge"), "in the mode zero-shot the classifier decides; choose another mode"
        else:
            yield settings_of_seats("classifier"), "only the mode zero-shot has a classifier; choose that mode"
        yield from super().idle_settings()


class MvDebateSettings(ManyTasks, Defined, Clausal, Exemplified, Judged, Argued, InRounds, Budgeted):
    """The settings that MV-Debate heeds."""

    graph = "mv_debate"
    about = "views debate hate, sarcasm or misinformation in rounds; a reflection counts if it improves the answers"
    seated: ClassVar[tuple[str, ...]] = ("view", "judge", "reflection", "summary")

    views: Annotated[list[str], AfterValidator(_check_views), WithJsonSchema(_VIEWS_FORM)] = setting(
        ARGUING, "Views",
        f"The views that debate, at least two: {', '.join(VIEWS)}. If scores are equal, the view named first is the "
        "higher.",
        list, default="all four, in this order", nodes=["call_round", "compare", "select", "close"],
        clients="anything",
    )
    top_k: int | None = setting(
        ARGUING, "Answers revised (k)", "How many top answers are revised after reflection.",
        None, default="half the views", nodes=["select"], ge=1, clients="anything",
    )
    reflection_mode: Literal["gated", "none", "always"] = setting(
        ARGUING, "Reflection",
        "Which revised answers are adopted. gated: those that raise the score by `tau`. always: all. none: nothing "
        "is revised.",
        "gated", nodes=["compare", "close"], clients="anything",
    )
    tau: float = setting(
        ARGUING, "Gain to adopt (τ)", "How much the score must rise, from 0 to 1, for revised answers to be adopted.",
        0.1, nodes=["close"], ge=0, le=1, clients="anything",
    )
    history: Literal["best", "all"] = setting(
        ARGUING, "History", "Which answers of a round the next rounds see: best or all.",
        "best", nodes=["close"], clients="anything",
    )

    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield settings of a reflection that revises nothing, or asks for no gain."""
        if self.reflection_mode == "none":
            revising = ("top_k", *settings_of_seats("reflection"))
            yield revising, "nothing is revised; set reflection_mode to gated or always"
        if self.reflection_mode != "gated":
            yield ("tau",), "no gain is asked for; set reflection_mode to gated"
        yield from super().idle_settings()


class BaselineSettings(ManyTasks, Variants, Defined, Clausal, Exemplified, Labelled, Judged, Ordered):
    """The settings of the one-call baseline."""

    graph = "baseline"
    about = "one call to one model"
    seated: ClassVar[tuple[str, ...]] = ("classifier",)
    modes: ClassVar[tuple[Mode, ...]] = ("full", "zero-shot")

    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield the scheme in the mode that has one."""
        if self.mode == "zero-shot":
            yield ("scheme",), "the mode zero-shot is always binary; leave it out"
        yield from super().idle_settings()


class SelfConsistencySettings(BaselineSettings, Redrawn, Budgeted):
    """The settings that self-consistency heeds."""

    graph = "self_consistency"
    about = "several calls to one model, then a vote"
    draws: int = setting(
        ARGUING, "Draws", "How often the classifier is asked, at most.",
        5, nodes=["draw"], ge=1, le=100, clients="up to default",
    )


class SymmetricDebateSettings(ManyTasks, Defined, Clausal, Exemplified, Argued, Redrawn, InRounds, Budgeted):
    """The settings that a symmetric debate heeds."""

    graph = "symmetric_debate"
    about = "equal agents read the answers of the others for some rounds, then vote"
    seated: ClassVar[tuple[str, ...]] = ("agent",)

    agents: int = setting(
        ARGUING, "Agents", "How many agents debate, from 2 to 12.",
        4, nodes=["next_round"], ge=2, le=12, clients="up to default",
    )
# fmt: on


# Our graphs, each with what it does, in the order in which help and docs name them.
GRAPHS = {graph: settings.about for graph, settings in GRAPH_SETTINGS.items()}
for _each in settings_in_order():
    _having = tuple(graph for graph in GRAPHS if _each.name in GRAPH_SETTINGS[graph].model_fields)
    _each.graphs = () if len(_having) == len(GRAPHS) else _having
SETTINGS = {each.name: each for each in settings_in_order()}
SETTINGS["mode"].does = describe_modes(MODE_WORDS, graphs=True)
# Every setting by its section, in the order in which a person would set them.
SECTIONS: dict[str, dict[str, Setting]] = {
    title: {name: each for name, each in SETTINGS.items() if each.section == title}
    for title in SECTION_TITLES
}
# Who may sit in some graph; of several of a kind, the kind.
SEATS = tuple(
    dict.fromkeys(seat for settings in GRAPH_SETTINGS.values() for seat in settings.seated)
)
SETTABLE_SEATS.update({seat: seat in KINDS for seat in SEATS})
# The modes of each graph that has several.
MODES = {
    graph: settings.modes
    for graph, settings in GRAPH_SETTINGS.items()
    if "mode" in settings.model_fields
}


def describe_setting(name: str) -> str:
    """Describe a setting: the graphs that have it, its effect, its default."""
    each = SETTINGS[name]
    return " ".join(
        filter(None, [name_graphs(each.graphs), each.does, f"Default: {each.default}."])
    )


def name_graphs(graphs: tuple[str, ...]) -> str:
    """Return which graphs have a setting, as a sentence; empty if every graph does."""
    others = [graph for graph in GRAPHS if graph not in graphs]
    if not graphs:
        return ""
    return (
        f"{join_names(graphs)} only."
        if len(others) >= len(graphs)
        else f"Every graph but {join_names(others)}."
    )
