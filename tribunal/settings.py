"""The settings of every graph: one class a graph, and what a graph heeds are the settings of its class.

All else follows from these classes: `Context`, which has the settings of all of them; the form that Studio shows of a
graph; the options of the command line and docs/settings.md; what a server's clients may set; and what a run refuses as
a setting that its graph doesn't use. Nothing heavy is imported, so that `--help` is quick.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from tribunal.shared_settings import (
    ARGUING,
    BUDGET,
    DECIDING,
    DECLARED,
    LOOKED_UP,
    MAX_ROUNDS,
    MODELS,
    POLICY,
    REVIEW,
    SECTION_TITLES,
    VIEWS,
    VOTES,
    Clausal,
    EveryGraph,
    Exemplified,
    ManyTasks,
    Mode,
    Ordered,
    Panel,
    Research,
    Scheme,
    Setting,
    setting,
)


# fmt: off
class Variants(EveryGraph):
    """A graph that runs in several modes, which are its `modes`."""

    mode: Mode = setting(
        ARGUING, "Mode",
        "",  # written below, of the modes that the graphs have
        "full",
        nodes=["recall", "perspective", "heard", "propose", "choose", "fetch", "weigh", "enough", "classify", "draw"],
        clients="anything",
    )


class Labelled(EveryGraph):
    """A graph that decides on categories or on a yes or no."""

    scheme: Scheme = setting(
        POLICY, "Labels", "Which labels there are. fine: the policy's categories. binary: hateful or not.",
        "fine", default="fine; other tasks than hate, and the mode zero-shot, are always binary", clients="anything",
    )


class Judged(EveryGraph):
    """A graph in which one seat decides."""

    judge_model: str | None = setting(
        MODELS, "Judge's model",
        "The model of every seat that decides: the judge, the one-call classifier, and in mv_debate the reflection "
        "and the summary.",
        None, default="`model`", nodes=DECIDING, clients="named things",
    )


class Argued(EveryGraph):
    """A graph in which agents argue or look things up."""

    aux_model: str | None = setting(
        MODELS, "Other agents' model", "The model of every agent that argues or looks things up.",
        None, default="`model`", clients="named things",
    )


class Redrawn(EveryGraph):
    """A graph that makes the same call several times."""

    draw_temperature: float = setting(
        MODELS, "Temperature of further draws",
        "The temperature, from 0 to 2, of every draw after the first, where the same call is made several times. "
        "In self_consistency also of the first; a temperature of the seat classifier replaces it.",
        0.7, nodes=["judge", "draw", "speak"], ge=0, le=2, clients="anything",
    )


class InRounds(EveryGraph):
    """A graph that debates in rounds."""

    rounds: int = setting(
        ARGUING, "Rounds", f"How many rounds a debate has at most, from 1 to {MAX_ROUNDS}.",
        3, nodes=["defend", "debate_round", "next_round"], ge=1, le=MAX_ROUNDS, clients="anything",
    )


class Budgeted(EveryGraph):
    """A graph of several calls, which a budget can end early."""

    max_calls: int | None = setting(
        BUDGET, "Budget (requests)",
        "How many requests a post may cost. Once they are spent, the judge decides on what is there.",
        None, default="no limit", ge=1, clients="anything",
    )
    max_tokens: int | None = setting(
        BUDGET, "Budget (tokens)",
        "How many tokens, in and out, a post may cost. Once they are spent, the judge decides on what is there; "
        "self_consistency and symmetric_debate begin no draw or round that would cost more.",
        None, default="no limit", ge=1, clients="anything",
    )


class Court(Clausal, Exemplified, Labelled, Judged, Argued, Redrawn, InRounds, Budgeted):
    """A graph in which a prosecution and a defence argue cue by cue before a judge."""

    early_exit: bool | None = setting(
        ARGUING, "End early",
        "End a deep dive once no cue is in dispute: the defender concedes it, or the prosecutor withdraws it.",
        None, default="on in tribunal; off in arcade and multiround", nodes=["prosecute", "defend"],
        clients="anything",
    )
    turns_shown: Literal["previous", "none"] = setting(
        ARGUING, "Turns shown",
        "What of the debate each side of a deep dive is shown. previous: its own last turn and the other side's, as in "
        "ARCADE's paper. none: no turn of either side, as in its published code.",
        "previous", nodes=["prosecute", "defend"], clients="anything",
    )
    cue_limit: int = setting(
        ARGUING, "Cues at most",
        "How many cues the gatekeeper's scan and a deep dive's investigation bring at most. 2 is ARCADE's published "
        "code, 3 its paper.",
        2, nodes=["scan", "investigate"], ge=2, le=3, clients="anything",
    )
    judge_rejects: Literal["fast-track", "both-tracks"] = setting(
        ARGUING, "Where the judge rejects cues",
        "Where the judge is told to reject a cue if the post speaks of its own author or of no protected group, or its "
        "context is neutral. fast-track: there alone, as in ARCADE's code. both-tracks: also in a deep dive, as in its "
        "paper.",
        "fast-track", nodes=["judge"], clients="anything",
    )
    boxes: bool = setting(
        ARGUING, "Boxes in the image",
        "Ask the prosecution where in the image it sees each cue. The explanation of the case marks the place.",
        False, nodes=["indict", "investigate"], clients="anything",
    )
    judge_draws: int = setting(
        VOTES, "Draws of the judge", "How often the judge is asked, at most. The most frequent answer decides.",
        1, nodes=["judge"], ge=1, le=25, clients="up to default",
    )


class TribunalSettings(Panel, Research, Variants, Court):
    """The settings that the hybrid court heeds."""

    about = "ARCADE's debate, which can search the web, ask perspectives, and leave the decision to a person"
    seated: ClassVar[tuple[str, ...]] = (
        "triage", "gatekeeper", "prosecutor", "defender", "judge", "perspective", "researcher",
    )
    modes: ClassVar[tuple[Mode, ...]] = (
        "full", "leave-out", "criterion-only", "examples-only", "no-search", "no-details",
    )

    precedents: str | None = setting(
        LOOKED_UP, "Precedents",
        "The store of cases that people decided, by name or folder. Both sides and the judge see the cases "
        "most like the post, and what was decided.",
        None, nodes=["find_precedents"],
    )
    precedents_k: int = setting(
        LOOKED_UP, "Number of precedents", "How many precedents are shown, at most.",
        3, nodes=["find_precedents"], ge=1, le=20, clients="up to default",
    )
    web: bool = setting(
        LOOKED_UP, "Look on the web", "Look the post up on the web while the gatekeeper scans it.",
        False, nodes=["open_case", "triage"], clients="anything",
    )
    triage: str | None = setting(
        ARGUING, "Triage",
        "The model that looks at the post first. A clear decision spares the trial.",
        None, default="no triage", nodes=["triage"], clients="named things",
    )
    triage_confidence: float = setting(
        ARGUING, "Clear from (confidence)",
        "The confidence, from 0 to 1, from which a model's decision at triage is clear.",
        0.9, nodes=["triage"], ge=0, le=1, clients="anything",
    )
    review: bool = setting(
        REVIEW, "Review",
        "Stop for a person if the verdict is uncertain, the model refused, or `review_rule` names the case.",
        False, nodes=["review"], clients="anything",
    )
    review_rule: list[str] = setting(
        REVIEW, "Cases to review",
        "Which other cases a person sees: hateful, all, or categories of the policy by name.",
        list, default="no others", nodes=["open_case"], clients="anything",
    )


class ArcadeSettings(Court):
    """The settings that ARCADE heeds."""

    about = "a gatekeeper sends each post to a fast-track or a deep-dive debate, then a judge decides"
    seated: ClassVar[tuple[str, ...]] = ("gatekeeper", "prosecutor", "defender", "judge")


class MultiroundSettings(Court):
    """The settings that ARCADE without its gatekeeper heeds."""

    about = "ARCADE without the gatekeeper: every post gets the deep-dive debate"
    seated: ClassVar[tuple[str, ...]] = ("prosecutor", "defender", "judge")


class PredictSettings(Panel, Variants, Clausal, Judged, Argued, Ordered, Budgeted):
    """The settings that PREDICT heeds."""

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


class AntihateSettings(Research, Variants, Clausal, Judged, Argued, Budgeted):
    """The settings that AntiHateAgent heeds."""

    about = "searches the web, reads pages, weighs evidence, and cites it"
    seated: ClassVar[tuple[str, ...]] = ("researcher", "judge", "classifier")
    modes: ClassVar[tuple[Mode, ...]] = ("full", "no-knowledge", "no-search", "no-details", "zero-shot")


class MvDebateSettings(ManyTasks, Clausal, Exemplified, Judged, Argued, InRounds, Budgeted):
    """The settings that MV-Debate heeds."""

    about = "views debate hate, sarcasm or misinformation in rounds; a reflection counts if it improves the answers"
    seated: ClassVar[tuple[str, ...]] = ("view", "judge", "reflection", "summary")

    views: list[str] = setting(
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


class BaselineSettings(ManyTasks, Variants, Clausal, Exemplified, Labelled, Judged, Ordered):
    """The settings that the one-call baseline heeds."""

    about = "one call to one model"
    seated: ClassVar[tuple[str, ...]] = ("classifier",)
    modes: ClassVar[tuple[Mode, ...]] = ("full", "zero-shot")


class SelfConsistencySettings(BaselineSettings, Redrawn, Budgeted):
    """The settings that self-consistency heeds."""

    about = "several calls to one model, then a vote"
    draws: int = setting(
        ARGUING, "Draws", "How often the classifier is asked, at most.",
        5, nodes=["draw"], ge=1, le=100, clients="up to default",
    )


class SymmetricDebateSettings(ManyTasks, Clausal, Exemplified, Argued, Redrawn, InRounds, Budgeted):
    """The settings that a symmetric debate heeds."""

    about = "equal agents read each other's answers for some rounds, then vote"
    seated: ClassVar[tuple[str, ...]] = ("agent",)

    agents: int = setting(
        ARGUING, "Agents", "How many agents debate, from 2 to 12.",
        4, nodes=["next_round"], ge=2, le=12, clients="up to default",
    )


class EverySetting(
    MvDebateSettings,
    SelfConsistencySettings,
    SymmetricDebateSettings,
    AntihateSettings,
    PredictSettings,
    TribunalSettings,
    ArcadeSettings,
    MultiroundSettings,
):
    """The settings of all graphs: the fields of `Context`."""
# fmt: on


# In the order in which help and docs name the graphs.
GRAPH_SETTINGS: dict[str, type[EveryGraph]] = {
    "tribunal": TribunalSettings,
    "arcade": ArcadeSettings,
    "multiround": MultiroundSettings,
    "predict": PredictSettings,
    "antihate": AntihateSettings,
    "mv_debate": MvDebateSettings,
    "baseline": BaselineSettings,
    "self_consistency": SelfConsistencySettings,
    "symmetric_debate": SymmetricDebateSettings,
}
# What each does, by its name.
GRAPHS = {graph: settings.about for graph, settings in GRAPH_SETTINGS.items()}
# Every setting by its section, in the order in which a person would set them.
SECTIONS: dict[str, dict[str, Setting]] = {
    title: {each.name: each for each in DECLARED if each.section == title} for title in SECTION_TITLES
}
SETTINGS = {name: each for section in SECTIONS.values() for name, each in section.items()}
# Who may sit in some graph; of several of a kind, the kind.
SEATS = tuple(dict.fromkeys(seat for settings in GRAPH_SETTINGS.values() for seat in settings.seated))
# The modes of each graph that has several.
MODES = {graph: settings.modes for graph, settings in GRAPH_SETTINGS.items() if hasattr(settings, "mode")}
MODE_WORDS: dict[Mode, str] = {
    "full": "all of it",
    "round-1-only": "no responses in the debate",
    "majority": "a vote of the perspectives, no debate",
    "single": "one perspective decides",
    "base": "one annotator, no perspectives",
    "leave-out": "all perspectives but `leave_out`",
    "criterion-only": "perspectives without their examples",
    "examples-only": "perspectives without their criteria",
    "no-knowledge": "no research",
    "no-search": "the model names pages itself",
    "no-details": "shorter prompts",
    "zero-shot": "one call, answered yes or no",
}
# What a setting was called, and is called now.
RENAMED = {
    "samples": "draws",
    "judge_samples": "judge_draws",
    "sample_temperature": "draw_temperature",
    "draw": "repeat",
    "record": "archive",
}


def describe_modes(modes: Iterable[Mode], *, graphs: bool = False) -> str:
    """Describe modes, each with the graphs that have it if `graphs` are asked for."""
    said = []
    for mode in modes:
        having = [graph for graph in MODES if mode in MODES[graph]]
        said.append(f"{mode}{f' ({join_names(having)})' if graphs and mode != 'full' else ''}: {MODE_WORDS[mode]}")
    return f"Which variant of the system runs. {'; '.join(said)}."


def describe_setting(name: str) -> str:
    """Describe a setting as Studio, the command line and the docs do: who heeds it, what it does, its default."""
    each = SETTINGS[name]
    return " ".join(filter(None, [name_graphs(each.graphs), each.does, f"Default: {each.default}."]))


def name_graphs(graphs: tuple[str, ...]) -> str:
    """Return which graphs heed a setting, as a sentence; empty if every graph does."""
    others = [graph for graph in GRAPHS if graph not in graphs]
    if not graphs:
        return ""
    return f"{join_names(graphs)} only." if len(others) >= len(graphs) else f"Every graph but {join_names(others)}."


def join_names(names: Sequence[str]) -> str:
    """Join names as a sentence has them: `a`; `a and b`; `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


for _each in SETTINGS.values():
    _heeding = tuple(graph for graph in GRAPHS if hasattr(GRAPH_SETTINGS[graph], _each.name))
    _each.graphs = () if len(_heeding) == len(GRAPHS) else _heeding
SETTINGS["mode"].does = describe_modes(MODE_WORDS, graphs=True)
