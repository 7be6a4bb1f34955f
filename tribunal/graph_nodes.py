"""The nodes of our graphs by name, and at which of them Studio offers a setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from tribunal.shared_settings import DECIDING


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


def nodes_heeding(setting: str, named: Sequence[str], graph: str) -> list[str]:
    """Return the nodes of a graph at which Studio offers a setting.

    Each stands there by the name of the graph's own node, and if it lies inside one, by its name in the drawing too.

    Args:
        setting: its name.
        named: the nodes that read it; empty: every node that asks a model.
        graph: one of our graphs.
    """
    if setting == "aux_model":
        heeding = [node for node in nodes_of(graph) if node.asks and node.name not in (*DECIDING, "triage")]
    else:
        heeding = [node for node in nodes_of(graph) if (node.name in named if named else node.asks)]
    return list(dict.fromkeys(name for node in heeding for name in (node.top, node.drawn)))
