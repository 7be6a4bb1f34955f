"""`tribunal graphs`: each graph as Mermaid text."""

from __future__ import annotations

from typing import Annotated

import typer

from tribunal.commands.completing import graph_names
from tribunal.commands.errors import ending_well
from tribunal.terminal import say


def graphs(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Which; default: all of them.", autocompletion=graph_names),
    ] = None,
) -> None:
    """Draw each graph, its subgraphs included, as Mermaid text; those of installed systems too."""
    with ending_well():
        from tribunal.graphs import named_graphs
        from tribunal.graphs.drawing import mermaid

        known = named_graphs()
        for name in names or known:
            say(f"%% {name}: {known.get(name, '')}\n{mermaid(name)}", lines=True)
