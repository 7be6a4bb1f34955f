"""A graph's picture, as the README shows it and `tribunal graphs` prints it."""

from __future__ import annotations

from tribunal.graphs import graph


def mermaid(name: str) -> str:
    """The Mermaid text of a graph, drawn from the compiled graph with its subgraphs opened (theirs stay closed).

    Raises:
        BadInput: there is no such graph.
    """
    return str(graph(name).get_graph(xray=1).draw_mermaid())
