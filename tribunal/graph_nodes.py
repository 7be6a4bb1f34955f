"""The nodes of our own graphs, those inside their subgraphs too, and which of them ask a model."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

ALL = "all"  # every agent, in the setting `stops`


class GraphNode(NamedTuple):
    """A node of one of our graphs.

    `top` is the node of the graph itself that it is, or lies in; `drawn` its name in the drawing: `deep_dive:defend`.
    """

    name: str
    top: str
    drawn: str
    asks: bool


def nodes_of(graph: str) -> list[GraphNode]:
    """Return the nodes of one of our graphs, with those inside its subgraphs."""
    # On a floor above, and imported only when somebody asks: a server loads the file of a graph under another name.
    return list(_nodes_in(import_module(f"tribunal.graphs.{graph}").builder, "", ""))


def _nodes_in(builder: Any, top: str, around: str) -> Iterator[GraphNode]:
    for name, spec in builder.nodes.items():
        asks = getattr(getattr(spec.runnable, "afunc", None), "asks_a_model", False)
        yield GraphNode(name, top or name, f"{around}{name}", asks)
        if hasattr(spec.runnable, "builder"):
            yield from _nodes_in(spec.runnable.builder, top or name, f"{around}{name}:")


def agents_of(graph: str) -> list[str]:
    """Return the names of the nodes of a graph that ask a model, in the order in which they stand in it."""
    return list(dict.fromkeys(node.name for node in nodes_of(graph) if node.asks))
