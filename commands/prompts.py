"""`tribunal prompts`: what every role is told, to be read, copied, changed and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tribunal.commands.completing import graph_names
from tribunal.commands.errors import ending_well
from tribunal.terminal import say, screen

app = typer.Typer(
    no_args_is_help=True,
    help="Prompts: what every role is told. A folder of your own takes their place, by --prompts FOLDER.",
)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of prompts.")]


@app.command("list")
def list_prompts() -> None:
    """List the prompts: the name of each, who is asked with it, and what for."""
    from rich.table import Table

    from tribunal.prompts.catalogue import CATALOGUE, of_systems

    with ending_well():
        table = Table("name", "seat", "for", box=None, pad_edge=False)
        for name, part in CATALOGUE.items():
            table.add_row(name, part.seat, part.says)
        for name in of_systems():
            table.add_row(name, "", f"the installed system {name.removeprefix('system/').partition('/')[0]}")
        screen(wide=True).print(table)


@app.command("show")
def show_prompt(name: Annotated[str, typer.Argument(metavar="NAME", help="Such as arcade/judge.")]) -> None:
    """Print one prompt as the file it is."""
    with ending_well():
        from tribunal.prompts.catalogue import prompt

        say(prompt(name), lines=True)


@app.command("export")
def export_prompts(folder: Folder) -> None:
    """Write every prompt into a new folder, with a README that says what each is filled with. Overwrites nothing."""
    with ending_well():
        from tribunal.prompts.catalogue import export

        made = export(folder)
        say(f"{len(made.sources)} prompts lie in {folder} (hash {made.sha}); run with --prompts {folder}")


@app.command("check")
def check_prompts(
    folder: Folder,
    graph: Annotated[
        str,
        typer.Option(help="An installed system, whose prompts the folder may hold too.", autocompletion=graph_names),
    ] = "",
) -> None:
    """Check a folder of prompts as a run does before its first call, and say which of ours it changes."""
    with ending_well():
        from tribunal.graphs import graph as load_graph
        from tribunal.prompts.sets import prompt_set, with_system
        from tribunal.systems import system_of

        system = system_of(graph) if graph and load_graph(graph) else None
        name = system.name if system else None
        made, ours = prompt_set(str(folder), name), with_system(name).sources
        changed = sorted(name for name, text in ours.items() if made.sources[name] != text)
        added = sorted(made.sources.keys() - ours.keys())
        say(f"{folder}: every prompt can be used (hash {made.sha})")
        say(f"other than ours: {', '.join(changed) or 'none'}")
        if added:
            say(f"parts of its own: {', '.join(added)}")
