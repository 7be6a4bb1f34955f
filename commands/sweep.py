"""`tribunal sweep`: a grid of settings over the same posts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tribunal.commands.errors import ending_well
from tribunal.commands.evaluate import AsJson, status, warn

if TYPE_CHECKING:
    from tribunal.eval.runs.tally import Tally, Watch


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What is run, and what varies (docs/runs.md).")],
    as_json: AsJson = False,
) -> None:
    """Run every combination of some settings over the same posts, sharing answered calls. Goes on where it stopped."""
    from contextlib import ExitStack
    from functools import cache

    from tribunal.eval.runs.progress import shown
    from tribunal.eval.sweep import read_sweep, run_sweep

    with ending_well(), ExitStack() as stack:
        wanted = read_sweep(file)
        watch = stack.enter_context(shown(quiet=as_json))

        def watch_cell(name: str, number: int, count: int) -> Watch:
            if not as_json:
                sys.stderr.write(f"{number} of {count}: {name}\n")
            return watch

        cells = run_sweep(wanted, watch_cell, cache(warn))  # each warning once
        rows = [_row(wanted.out / name, name, cell, tally) for name, cell, tally in cells]
        if as_json:
            sys.stdout.write(json.dumps({"out": str(wanted.out), "cells": rows}, ensure_ascii=False) + "\n")
        else:
            _print(rows)
    raise typer.Exit(status(cells[-1][2]))


def _row(folder: Path, name: str, cell: dict[str, Any], tally: Tally) -> dict[str, Any]:
    from tribunal.eval.measures.metrics import written_metrics

    measured = written_metrics(folder) or {}
    headline = {each: measured.get(each) for each in ("n", "accuracy", "macro_f1", "f1", "refusals", "failures")}
    return {"folder": name, **cell, **headline, "calls": tally.calls, "stopped": tally.stopped or None}


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from tribunal.text import visible

    hidden = {"folder", "stopped"}
    names = [name for name in rows[0] if name not in hidden]
    table = Table(*names, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(visible(_said(row[name])) for name in names))
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 200)
    console.print(table)


def _said(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
