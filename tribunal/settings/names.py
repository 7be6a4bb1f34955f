"""Names that settings have: tasks, modes, seats, views, policies, and the nodes of graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple

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
DECIDING = (
    "judge",
    "score",
    "reflect",
    "rescore",
    "summarise",
    "conclude",
    "answer",
    "classify",
    "draw",
)
# The nodes that give a verdict, by a model or by a vote.
CONCLUDING = ("judge", "summarise", "conclude", "answer", "classify", "annotate", "draw", "vote")
LOOKING_UP = ("propose", "search", "choose", "fetch", "read", "weigh", "enough")
SECTION_TITLES = (
    "Task and policy", "Models", "What is looked up", "How they argue", "Votes and confidence", "Review", "Budget",
    "Limits", "Technical",
)  # fmt: skip
# The groups of the form that front ends draw: the settings that people change most, the sections, and the prompts.
MAIN_GROUP = "Main settings"
PROMPT_GROUP = "Prompts"
MAIN_SETTINGS = (
    "model", "judge_model", "aux_model", "task", "policy", "policy_definition", "mode", "views", "agents", "draws",
    "rounds", "web", "perspectives", "threshold", "review", "max_calls", "stops",
)  # fmt: skip
POLICY, MODELS, LOOKED_UP, ARGUING, VOTES, REVIEW, BUDGET, LIMITS, TECHNICAL = SECTION_TITLES
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
# Former names of settings.
RENAMED = {
    "samples": "draws",
    "judge_samples": "judge_draws",
    "sample_temperature": "draw_temperature",
    "draw": "repeat",
    "record": "archive",
}
# The shipped policy of each task.
POLICIES: dict[Task, str] = {
    "hate": "h-vli",
    "sarcasm": "sarcasm",
    "misinformation": "misinformation",
}
SHIPPED_POLICIES = (*POLICIES.values(), "moderations")


def join_names(names: Sequence[str]) -> str:
    """Join names as a sentence has them: `a`; `a and b`; `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


class GraphNode(NamedTuple):
    """A node of one of our graphs.

    Attributes:
        name: its name.
        top: the node of the graph itself that contains it, or is it.
        drawn: its name in the drawing: `deep_dive:defend`.
        asks: whether it asks a model.
        function: the name of its function, after that of the subgraph that it lies in, if any: `deep_dive:defend_post`.
    """

    name: str
    top: str
    drawn: str
    asks: bool
    function: str

    def runs(self, functions: Iterable[str]) -> bool:
        """Return whether it runs one of these functions, each named with or without the subgraph."""
        return not {self.function, self.function.rpartition(":")[2]}.isdisjoint(functions)


@cache
def nodes_of(graph: str) -> list[GraphNode]:
    """Return the nodes of one of our graphs, with those inside its subgraphs."""
    # On a floor above, and imported only when somebody asks: a server loads the file of a graph under another name.
    return list(nodes_in(import_module(f"tribunal.graphs.{graph}").builder))


def nodes_in(builder: Any, top: str = "", around: str = "") -> Iterator[GraphNode]:
    """Yield the nodes of a builder, with the nodes inside its subgraphs."""
    for name, spec in builder.nodes.items():
        asks = getattr(spec.runnable, "asks_a_model", False)
        within = around.rstrip(":").rpartition(":")[2]
        function = ":".join(filter(None, (within, getattr(spec.runnable, "__name__", ""))))
        yield GraphNode(name, top or name, f"{around}{name}", asks, function)
        if hasattr(spec.runnable, "builder"):
            yield from nodes_in(spec.runnable.builder, top or name, f"{around}{name}:")


def agents_of(graph: str) -> list[str]:
    """Return the names of a graph's nodes that ask a model, in the graph's order."""
    return list(dict.fromkeys(node.name for node in nodes_of(graph) if node.asks))


def nodes_heeding(setting: str, named: Sequence[str], graph: str) -> list[str]:
    """Return the nodes of a graph at which Studio offers a setting.

    Args:
        setting: its name.
        named: the nodes that read it; empty: every node that asks a model.
        graph: one of our graphs.
    """
    return _names_in_studio(node for node in nodes_of(graph) if node_heeds(node, setting, named))


def node_heeds(node: GraphNode, setting: str, named: Sequence[str]) -> bool:
    """Return whether a node of one of our graphs reads a setting.

    Args:
        node: the node.
        setting: the name of the setting.
        named: the nodes that read it; empty: every node that asks a model.
    """
    if setting == "aux_model":
        return node.asks and node.name not in (*DECIDING, "triage")
    return node.name in named if named else node.asks


def nodes_running(functions: Sequence[str], graph: str) -> list[str]:
    """Return the nodes of one of our graphs that run one of these functions, as Studio knows them."""
    return _names_in_studio(node for node in nodes_of(graph) if node.runs(functions))


def _names_in_studio(nodes: Iterable[GraphNode]) -> list[str]:
    """Return the name of the graph's own node and, of a node inside it, the name in the drawing too."""
    return list(dict.fromkeys(name for node in nodes for name in (node.top, node.drawn)))
