"""`tribunal report`: what runs measured, as one page and as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tribunal.commands.errors import ending_well


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="The folders of one run or several.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where report.html and report.md go.")],
    transcripts: Annotated[
        int, typer.Option(min=0, help="How many wrong posts, and how many uncertain ones, are shown of each run.")
    ] = 50,
) -> None:
    """Write a report on runs: one HTML page that loads nothing from anywhere, and a Markdown file.

    Posts and transcripts stand in it covered; the page shows each when it is asked for.
    """
    with ending_well():
        from tribunal.eval.report import write_report
        from tribunal.text import visible

        for written in write_report(folders, out, most=transcripts):
            typer.echo(visible(str(written)))
