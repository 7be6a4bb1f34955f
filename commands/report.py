"""`tribunal report`: what runs measured, as one page and as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tribunal.commands.errors import ending_well
from tribunal.terminal import say


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="The folders of one run or several.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where report.html and report.md go: of one run into its own folder."),
    ] = None,
    transcripts: Annotated[
        int, typer.Option(min=0, help="How many wrong posts, and how many uncertain ones, are shown of each run.")
    ] = 50,
) -> None:
    """Write a report on runs: one HTML page that loads nothing from anywhere, and a Markdown file.

    Posts and transcripts stand in it covered; the page shows each when it is asked for.
    """
    with ending_well():
        from tribunal.errors import BadInput
        from tribunal.eval.report import write_report

        if out is None and len(folders) > 1:
            raise BadInput("out: a report on several runs has no folder of its own; give one with --out")
        for written in write_report(folders, out or folders[0], most=transcripts):
            say(str(written))
