"""The nodes of our own graphs, those inside their subgraphs too: which of them ask a model, and heed which setting."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

ALL = "all"  # every agent, in the setting `stops`
_DECIDING = ("judge", "score", "reflect", "rescore", "summarise", "conclude", "answer", "classify", "draw")
_LOOKING_UP = ("propose", "search", "choose", "fetch", "read", "weigh", "enough")
_PERSPECTIVES = ("recall",)
# The nodes that heed a setting, where it isn't every agent. Each graph has some of them (tests/graphs/test_heeded.py).
HEEDING: dict[str, tuple[str, ...]] = {
    "judge_model": _DECIDING,
    "draw_temperature": ("judge", "draw", "speak"),
    "perspectives": _PERSPECTIVES,
    "leave_out": _PERSPECTIVES,
    "embedding": _PERSPECTIVES,
    "precedents": ("find_precedents",),
    "precedents_k": ("find_precedents",),
    "web": ("open_case", "triage"),
    **dict.fromkeys(("search", "searxng_url", "archive", "fresh"), _LOOKING_UP),
    "max_turns": ("enough",),
    "hits": ("search", "choose"),
    "max_pages": ("choose",),
    **dict.fromkeys(("max_windows", "window_tokens", "window_overlap"), ("fetch",)),
    "max_seconds": ("read", "enough"),
    "triage": ("triage",),
    "triage_confidence": ("triage",),
    "rounds": ("defend", "debate_round", "next_round"),
    "early_exit": ("prosecute", "defend"),
    "boxes": ("indict", "investigate"),
    "mode": ("recall", "perspective", "heard", "propose", "choose", "fetch", "weigh", "enough", "classify", "draw"),
    "answer_order": ("perspective", "annotate", "judge"),
    "views": ("call_round", "compare", "select", "close"),
    "top_k": ("select",),
    "reflection_mode": ("compare", "close"),
    "tau": ("close",),
    "history": ("close",),
    "draws": ("draw",),
    "agents": ("next_round",),
    **dict.fromkeys(("judge_draws", "threshold", "threshold_file"), ("judge",)),
    "review": ("review",),
    "review_rule": ("open_case",),
    **dict.fromkeys(("max_text", "image_edge"), ("receive",)),
}


class GraphNode(NamedTuple):
    """A node of one of our graphs.

    `top` is the node of the graph itself that it is, or lies in; `drawn` its name in the drawing: `deep_dive:defend`.
    """

    name: str
    top: str
    drawn: str
    asks: bool


@cache
def nodes_of(graph: str) -> list[GraphNode]:
    """Return the nodes of one of our graphs, with those inside its subgraphs."""
    # On a floor above, and imported only when somebody asks: a server loads the file of a graph under another name.
    return list(_nodes_in(import_module(f"tribunal.graphs.{graph}").builder, "", ""))


def _nodes_in(builder: Any, top: str, around: str) -> Iterator[GraphNode]:
    for name, spec in builder.nodes.items():
        asks = getattr(spec.runnable, "asks_a_model", False)
        yield GraphNode(name, top or name, f"{around}{name}", asks)
        if hasattr(spec.runnable, "builder"):
            yield from _nodes_in(spec.runnable.builder, top or name, f"{around}{name}:")


def agents_of(graph: str) -> list[str]:
    """Return the names of the nodes of a graph that ask a model, in the order in which they stand in it."""
    return list(dict.fromkeys(node.name for node in nodes_of(graph) if node.asks))


def nodes_heeding(setting: str, graph: str) -> list[str]:
    """Return the nodes of a graph at which Studio offers a setting.

    Each stands there by the name of the graph's own node, and if it lies inside one, by its name in the drawing too.
    """
    if setting == "aux_model":
        heeding = [node for node in nodes_of(graph) if node.asks and node.name not in (*_DECIDING, "triage")]
    elif setting in HEEDING:
        heeding = [node for node in nodes_of(graph) if node.name in HEEDING[setting]]
    else:
        heeding = [node for node in nodes_of(graph) if node.asks]
    return list(dict.fromkeys(name for node in heeding for name in (node.top, node.drawn)))
