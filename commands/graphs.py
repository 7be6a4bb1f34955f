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
    """Draw each graph, its subgraphs included, as Mermaid text."""
    with ending_well():
        from tribunal.graphs import GRAPHS
        from tribunal.graphs.drawing import mermaid

        for name in names or GRAPHS:
            say(f"%% {name}: {GRAPHS.get(name, '')}\n{mermaid(name)}", lines=True)
