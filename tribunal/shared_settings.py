"""How a setting is declared, and the settings that every graph, every panel and every researcher shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Scheme = Literal["fine", "binary"]
Task = Literal["hate", "sarcasm", "misinformation"]
# Where the probability of hate is from: a fitted file, the judge's confidence, the verdict alone, or a person.
ProbabilitySource = Literal["calibrated", "confidence", "verdict", "person"]
Mode = Literal[
    "full", "round-1-only", "majority", "single", "base", "leave-out", "criterion-only", "examples-only",
    "no-knowledge", "no-search", "no-details", "zero-shot",
]  # fmt: skip
Clients = Literal["nothing", "anything", "up to default", "named things"]

MAX_ROUNDS = 10
ALL = "all"  # every agent, in the setting `stops`
# The views of `mv_debate`: a name, and its title; its words are prompts/mv_debate/view_NAME.md.
VIEWS = {
    "surface": "Surface Analyst",
    "deep": "Deep Reasoner",
    "contrast": "Modality Contrast",
    "context": "Social Contextualist",
}
# Seats of which there are several, told apart after a colon: perspective:kold, view:surface, agent:2.
KINDS = ("perspective", "debater", "view", "agent")
# The nodes that decide. Every other node that asks a model asks that of `aux_model`, triage excepted.
DECIDING = ("judge", "score", "reflect", "rescore", "summarise", "conclude", "answer", "classify", "draw")
# The nodes that give a verdict, by a model or by a vote.
_CONCLUDING = ("judge", "summarise", "conclude", "answer", "classify", "annotate", "draw", "vote")
_LOOKING_UP = ("propose", "search", "choose", "fetch", "read", "weigh", "enough")
SECTION_TITLES = (
    "Task and policy", "Models", "What is looked up", "How they argue", "Votes and confidence", "Review", "Budget",
    "Limits", "Technical",
)  # fmt: skip
POLICY, MODELS, LOOKED_UP, ARGUING, VOTES, REVIEW, BUDGET, LIMITS, TECHNICAL = SECTION_TITLES


DECLARED: list[Setting] = []


@dataclass
class Setting:
    """One setting, as the class of a graph declares it.

    Attributes:
        section: the section of the help and of docs/settings.md that it stands in.
        title: its title in Studio.
        does: what it does, in words.
        value: its default; `list` and `dict` stand for an empty one.
        default: its default in words, where they aren't those of the value.
        nodes: the nodes that heed it; empty: every node that asks a model.
        clients: what a server's client may set it to (`tribunal.trust`).
        ge, gt, le: its bounds, as pydantic's `Field` takes them.
        name: its name, which is that of the class's attribute.
        graphs: the graphs that heed it; empty: every graph.
    """

    section: str
    title: str
    does: str
    value: Any
    default: str = ""
    nodes: Sequence[str] = ()
    clients: Clients = "nothing"
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    name: str = ""
    graphs: tuple[str, ...] = ()

    def __set_name__(self, owner: type, name: str) -> None:
        """Take the name of the attribute."""
        self.name, self.default = name, self.default or _in_words(self.value)
        DECLARED.append(self)


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None or isinstance(value, type) else f"{value:g}" if type(value) is float else str(value)


setting: Any = Setting  # declares a setting, whose type is that of the attribute


# fmt: off
class EveryGraph:
    """The settings that every graph heeds, and what a graph says of itself: who sits in it, and its modes."""

    about: ClassVar[str]
    seated: ClassVar[tuple[str, ...]] = ()  # of several of a kind, such as view:surface, the kind
    modes: ClassVar[tuple[Mode, ...]] = ("full",)

    policy: str = setting(
        POLICY, "Policy",
        "The definition and the categories that a decision rests on: a shipped policy by its name, or a TOML file.",
        "", default="the task's own: h-vli, sarcasm or misinformation", clients="named things",
    )
    policy_language: Literal["policy", "post"] = setting(
        POLICY, "Language of the policy",
        "The language in which agents read the policy. policy: its own. post: the post's, if the policy is translated "
        "into it.",
        "policy", clients="anything",
    )
    prompts: str | None = setting(
        POLICY, "Prompts", "A folder of your own prompts. A file replaces ours of the same name; the others stay ours.",
        None, default="ours",
    )
    model: str | None = setting(
        MODELS, "Model",
        "The model of every seat that has none of its own, as provider:model. Of several, separated by commas, the "
        "next is asked if one refuses or fails.",
        None, default="TRIBUNAL_MODEL, else the offline rehearsal model", clients="named things",
    )
    seats: dict[str, str] = setting(
        MODELS, "Models by seat",
        "A model for one seat, by the seat's name: gatekeeper, prosecutor, defender, judge, … It takes precedence over "
        "every other model. view:surface is one of several views; view is all of them.",
        dict, clients="named things",
    )
    temperatures: dict[str, float] = setting(
        MODELS, "Temperatures by seat", "A temperature for one seat, by the seat's name, from 0 to 2.",
        dict, default="each seat's published one", clients="anything",
    )
    extra_body: dict[str, dict[str, Any]] = setting(
        MODELS, "Further fields of requests",
        "Fields to add to the body of each request, by model, as provider:model or with * for any letters, such as "
        "{'openai:qwen3*' = {chat_template_kwargs = {enable_thinking = false}}}. For OpenAI-compatible servers and "
        "Ollama.",
        dict,
    )
    line_up: str | None = setting(
        MODELS, "Line-up",
        "Models, temperatures and views under one name: a shipped line-up, such as mv-debate-paper, or a TOML file "
        "with [seats], [temperatures], [extra_body] and views. What a run sets itself takes precedence.",
        None,
    )
    threshold: float | None = setting(
        VOTES, "Threshold (confidence)",
        "The confidence, from 0 to 1, below which a verdict is uncertain. If it is set, whoever decides states one; "
        "the confidence of a vote is the winner's share.",
        None, default="that of `threshold_file`, else 0.75", nodes=_CONCLUDING, ge=0, le=1,
        clients="anything",
    )
    threshold_file: str | None = setting(
        VOTES, "Threshold file",
        "A file made by the command tribunal fit. What it doesn't accept, dismissals too, is uncertain.",
        None, nodes=_CONCLUDING,
    )
    max_text: int = setting(
        LIMITS, "Longest post (characters)", "How many characters a post may have.",
        131_072, nodes=["receive"], ge=1, le=1_000_000, clients="up to default",
    )
    image_edge: int = setting(
        LIMITS, "Image edge (pixels)", "Images are scaled down until their longer edge has this many pixels.",
        1024, nodes=["receive"], ge=64, le=4096, clients="up to default",
    )
    max_output_tokens: int = setting(
        LIMITS, "Longest answer (tokens)", "How many tokens one answer may have.",
        2048, ge=16, le=65536, clients="up to default",
    )
    timeout: float = setting(
        LIMITS, "Time for a request (seconds)", "How many seconds one request may take.",
        120.0, gt=0, le=3600, clients="up to default",
    )
    attempts: int = setting(
        LIMITS, "Attempts", "How often a request is sent at most, if it fails for a passing reason.",
        4, ge=1, le=20, clients="up to default",
    )
    cache: str | None = setting(
        TECHNICAL, "Cache", "A SQLite file of answers. A call that was made before is answered from it.",
        None,
    )
    repeat: int = setting(
        TECHNICAL, "Repeat", "Which repeat of a run this is. The cache answers a call only within its repeat.",
        0, ge=0, clients="anything",
    )
    trace: bool = setting(
        TECHNICAL, "Trace", "Stream every prompt and raw answer as custom events.",
        False, clients="anything",
    )
    stops: list[str] = setting(
        TECHNICAL, "Stops",
        "Stop before these agents are asked, and show the whole prompt: names of nodes, such as defend, or of "
        "seats, such as defender; all: every agent. Only where a run can be resumed: in Studio, on langgraph "
        "dev, or with a checkpointer of your own.",
        list, clients="anything",
    )


class ManyTasks(EveryGraph):
    """A graph that decides on more than hate."""

    task: Task = setting(
        POLICY, "Task", "What is decided: hate, sarcasm or misinformation.",
        "hate", clients="anything",
    )


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


class Panel(EveryGraph):
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


class Research(EveryGraph):
    """A graph that searches the web."""

    search: str = setting(
        LOOKED_UP, "Search engine",
        "Where to search the web: duckduckgo, searxng, langchain:NAME, none, or an engine of your own by entry "
        "point or as module:object. Of several, separated by commas, the next is used if one fails. replay:FILE "
        "replays an archive, without the network.",
        "duckduckgo", nodes=_LOOKING_UP, clients="named things",
    )
    searxng_url: str | None = setting(
        LOOKED_UP, "SearXNG address", "The base URL of a SearXNG server.",
        None, default="SEARXNG_URL", nodes=_LOOKING_UP,
    )
    archive: str | None = setting(
        LOOKED_UP, "Archive of web research",
        "The SQLite file that keeps searches, pages and replies, so that they can be replayed.",
        None, default="evidence.sqlite in the data folder", nodes=_LOOKING_UP,
    )
    fresh: bool = setting(
        LOOKED_UP, "Ask anew in a replay", "In a replay, ask the models anew about the archived pages.",
        False, nodes=_LOOKING_UP, clients="anything",
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
        8, nodes=["fetch"], ge=1, le=100, clients="up to default",
    )
    window_tokens: int = setting(
        LOOKED_UP, "Reading window (tokens)", "How long a reading window is, in tokens.",
        2000, nodes=["fetch"], ge=100, le=100_000, clients="up to default",
    )
    window_overlap: int = setting(
        LOOKED_UP, "Overlap of windows (tokens)",
        "How many tokens two neighbouring reading windows share; fewer than `window_tokens`.",
        200, nodes=["fetch"], ge=0, clients="anything",
    )
    max_seconds: float = setting(
        LOOKED_UP, "Time for research (seconds)",
        "How many seconds research takes at most. Then the verdict rests on what was found.",
        600.0, nodes=["read", "enough"], gt=0, clients="up to default",
    )
# fmt: on
