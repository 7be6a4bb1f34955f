"""The settings that several graphs share, by what such graphs do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, ValidationInfo

from tribunal.settings.base import EveryGraph
from tribunal.settings.names import (
    ARGUING,
    BUDGET,
    DECIDING,
    LOOKED_UP,
    LOOKING_UP,
    MAX_ROUNDS,
    MODELS,
    POLICY,
    REVIEW,
    VOTES,
    Mode,
    Scheme,
    Task,
)
from tribunal.settings.setting import setting


def _check_overlap(overlap: int, info: ValidationInfo) -> int:
    # missing where it is wrong itself, or no setting of a system
    window = info.data.get("window_tokens", overlap + 1)
    if overlap >= window:
        raise ValueError(f"is not below window_tokens, {window}")
    return overlap


def settings_of_seats(*seats: str) -> tuple[str, ...]:
    """Return the settings of these seats: a model and a temperature each."""
    return tuple(f"{table}.{seat}" for seat in seats for table in ("seats", "temperatures"))


# fmt: off
class ManyTasks(EveryGraph):
    """A graph that decides on more than hate."""

    task: Task = setting(
        POLICY, "Task", "What is decided: hate, sarcasm or misinformation.",
        "hate", clients="anything",
    )


class Defined(EveryGraph):
    """A graph whose agents are shown the policy's definition."""

    policy_definition: str | None = setting(
        POLICY, "Definition",
        "A definition to use in place of the policy's own. The rest of the policy stays.",
        None, default="the policy's own", words=True,
    )

    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield the definition where a translation would take its place."""
        if self.policy_language == "post":
            yield ("policy_definition",), "translations of the policy have their own; set policy_language to policy"
        yield from super().idle_settings()


class Exemplified(EveryGraph):
    """A graph whose policy may have examples."""

    policy_examples: bool | None = setting(
        POLICY, "Examples of the policy",
        "Show who decides the policy's examples of each category. The papers show none.",
        None, default="on in tribunal; off elsewhere", nodes=["judge", "classify", "draw", "speak", "summarise"],
        clients="anything",
    )


class Clausal(EveryGraph):
    """A graph whose cues and verdicts can cite the clauses of the policy."""

    policy_clauses: bool | None = setting(
        POLICY, "Clauses of the policy",
        "Show the policy's clauses to those who argue and decide, and have each cue and verdict cite them. The papers "
        "have none.",
        None, default="on with a policy that you name; off with the one that comes with the task",
        nodes=["indict", "investigate", "judge", "classify", "draw", "speak", "summarise", "annotate", "conclude"],
        clients="anything",
    )


class Ordered(EveryGraph):
    """A graph whose published answers have the label first."""

    answer_order: Literal["reason-first", "label-first"] | None = setting(
        ARGUING, "Order of an answer",
        "What an answer begins with: reason-first, or label-first as in PREDICT's paper and ARCADE's one call.",
        None, default="label-first in baseline (hate, mode full), else reason-first", clients="anything",
        nodes=["perspective", "answer_non_hate", "answer_hate", "annotate", "judge", "classify", "draw"],
    )


class Variants(EveryGraph):
    """A graph that runs in several modes, which are its `modes`."""

    mode: Mode = setting(
        ARGUING, "Mode",
        "",  # written in `tribunal.settings.graph_settings`, of the modes that the graphs have
        "full",
        nodes=["recall", "perspective", "heard", "propose", "choose", "read", "weigh", "enough", "classify", "draw"],
        clients="anything",
    )


class Panel(Variants):
    """A graph that hears perspectives."""

    perspectives: list[str] = setting(
        LOOKED_UP, "Perspectives",
        "The perspectives to hear, by name or TOML file. all: every one that is built. none: no perspective "
        "(tribunal only).",
        list, default="none in tribunal; five small examples in predict", nodes=["recall"],
        clients="named things",
    )
    leave_out: str | None = setting(
        LOOKED_UP, "Perspective left out", "One of the perspectives, which is not heard.",
        None, nodes=["recall"], clients="named things",
    )
    examples_k: int = setting(
        LOOKED_UP, "Similar texts",
        "How many similar texts, with their labels, each perspective is shown. 3 is PREDICT's paper, 4 what its "
        "published retriever finds.",
        3, nodes=["recall"], ge=1, le=20, clients="up to default",
    )
    embedding: str | None = setting(
        LOOKED_UP, "Embedding", "The embedding that the perspectives' indexes must be built with.",
        None, default="each index's own", nodes=["recall"],
    )

    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield the number of texts in the mode that shows none."""
        if self.mode == "criterion-only":
            yield ("examples_k",), "the mode criterion-only shows no text; choose another"
        yield from super().idle_settings()


class Research(Variants):
    """A graph that searches the web."""

    search: str = setting(
        LOOKED_UP, "Search engine",
        "Where to search the web: duckduckgo, searxng, langchain:NAME, none, or an engine of your own by entry "
        "point or as module:object. Of several, separated by commas, the next is used if one fails. replay:FILE "
        "replays an archive, without the network.",
        "duckduckgo", nodes=LOOKING_UP, clients="named things",
    )
    searxng_url: str | None = setting(
        LOOKED_UP, "SearXNG address", "The base URL of a SearXNG server.",
        None, default="SEARXNG_URL", nodes=LOOKING_UP,
    )
    archive: str | None = setting(
        LOOKED_UP, "Archive of web research",
        "The SQLite file that keeps searches, pages and replies, so that they can be replayed.",
        None, default="evidence.sqlite in the data folder", nodes=LOOKING_UP,
    )
    fresh: bool = setting(
        LOOKED_UP, "Ask anew in a replay", "In a replay, ask the models anew about the archived pages.",
        False, nodes=LOOKING_UP, clients="anything",
    )
    max_turns: int = setting(
        LOOKED_UP, "Turns of searching",
        "How many turns of searching there are at most: a first one, then new queries.",
        3, nodes=["enough"], ge=1, le=10, clients="up to default",
    )
    hits: int = setting(
        LOOKED_UP, "Results of a query", "How many search results of each query are taken.",
        5, nodes=["search", "choose"], ge=1, le=20, clients="up to default",
    )
    max_pages: int = setting(
        LOOKED_UP, "Pages in a turn", "How many pages are read in each turn of searching, at most.",
        6, nodes=["choose"], ge=1, le=50, clients="up to default",
    )
    max_windows: int = setting(
        LOOKED_UP, "Windows of a page", "How many reading windows of each page are read, at most.",
        8, nodes=["read"], ge=1, le=100, clients="up to default",
    )
    window_tokens: int = setting(
        LOOKED_UP, "Reading window (tokens)", "How long a reading window is, in tokens.",
        2000, nodes=["read"], ge=100, le=100_000, clients="up to default",
    )
    window_overlap: Annotated[int, AfterValidator(_check_overlap)] = setting(
        LOOKED_UP, "Overlap of windows (tokens)",
        "How many tokens two neighbouring reading windows share; fewer than `window_tokens`.",
        200, nodes=["read"], ge=0, clients="anything", validate_default=True,
    )
    max_seconds: float = setting(
        LOOKED_UP, "Time for research (seconds)",
        "How many seconds research takes at most. Then the verdict rests on what was found.",
        600.0, nodes=["read", "enough"], gt=0, clients="up to default",
    )

    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield the search in modes without one, and settings of an engine that is not asked."""
        replayed = self.search.startswith("replay:")
        if self.mode == "no-search" and not replayed:
            yield ("search", "searxng_url", "hits"), "the mode no-search asks no search engine; choose another"
        if "searxng" not in map(str.strip, self.search.split(",")):
            yield ("searxng_url",), "no SearXNG server is searched; set search to searxng"
        if not replayed:
            yield ("fresh",), "nothing is replayed; set search to replay:FILE"
        yield from super().idle_settings()


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


class Court(Defined, Clausal, Exemplified, Labelled, Judged, Argued, Redrawn, InRounds, Budgeted):
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
        2, nodes=["gatekeeper", "investigate"], ge=2, le=3, clients="anything",
    )
    judge_rejects: Literal["fast-track", "both-tracks"] = setting(
        ARGUING, "Where the judge rejects cues",
        "Where the judge is told to reject a cue if the post speaks of its own author, or its context is neutral. "
        "fast-track: only there, as in ARCADE's code. both-tracks: also in a deep dive, as in its paper.",
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

    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield the temperature of further draws of the judge, if there are none."""
        if self.judge_draws == 1:
            yield ("draw_temperature",), "the judge is drawn once; set judge_draws as well"
        yield from super().idle_settings()


class Precedented(EveryGraph):
    """A graph that looks up cases that people decided."""

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

    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield the number of precedents, if no store is named."""
        if not self.precedents:
            yield ("precedents_k",), "no store of precedents is named; set precedents as well"
        yield from super().idle_settings()


class Triaged(EveryGraph):
    """A graph with a first look that can spare the trial."""

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

    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield the confidence and the seat of the triage, if it is off."""
        if not self.triage:
            yield ("triage_confidence", *settings_of_seats("triage")), "triage is off; set triage as well"
        yield from super().idle_settings()


class Reviewed(EveryGraph):
    """A graph that can stop for a person."""

    review: bool = setting(
        REVIEW, "Review",
        "Stop for a person if the verdict is uncertain or missing, or `review_rule` names the case.",
        False, nodes=["review"], clients="anything",
    )
    review_rule: list[str] = setting(
        REVIEW, "Cases to review",
        "Which other cases a person sees: hateful, all, or categories of the policy by name.",
        list, default="no others", nodes=["open_case"], clients="anything",
    )

    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield the rule of the review, if it is off."""
        if not self.review:
            yield ("review_rule",), "nothing is reviewed; set review as well"
        yield from super().idle_settings()
# fmt: on
