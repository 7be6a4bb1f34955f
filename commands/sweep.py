"""`tribunal sweep`: a grid of settings over the same posts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tribunal.commands.engines import with_engine
from tribunal.commands.errors import ending_well
from tribunal.commands.evaluate import AsJson, PriceTable, status, telling, warn, warn_of_rehearsal
from tribunal.terminal import say, say_json, screen

if TYPE_CHECKING:
    from tribunal.eval.runs.tally import Tally, Watch


@with_engine
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What is run, and what varies (docs/runs.md).")],
    prices: PriceTable = None,
    as_json: AsJson = False,
    *,
    carried: dict[str, Any],
) -> None:
    """Run every combination of some settings over the same posts, sharing answered calls. Goes on where it stopped."""
    from contextlib import ExitStack
    from functools import cache

    from tribunal.eval.runs.prices import read_prices
    from tribunal.eval.runs.progress import shown
    from tribunal.eval.sweep import read_sweep, run_sweep

    with ending_well(), ExitStack() as stack:
        wanted = read_sweep(file)
        table = read_prices(prices) if prices else None
        watch = stack.enter_context(shown(priced=table is not None, quiet=as_json))

        def watch_cell(name: str, number: int, count: int) -> Watch:
            if not as_json:
                say(f"{number} of {count}: {name}", aside=True)
            return watch

        cells = run_sweep(
            wanted,
            watch_cell,
            cache(warn),  # each warning once
            prices=table,
            **carried,
        )
        rows = [_row(name, cell, tally) for name, cell, tally in cells]
        with telling(cells[-1][2]):
            if as_json:
                say_json({"out": str(wanted.out), "cells": rows})
            else:
                _print(rows)
    tallies = [tally for _, _, tally in cells]
    warn_of_rehearsal(sum(each.rehearsed for each in tallies), sum(each.before + each.done for each in tallies))
    raise typer.Exit(status(tallies[-1]))


def _row(name: str, cell: dict[str, Any], tally: Tally) -> dict[str, Any]:
    measured = tally.measured or {}
    headline = {
        each: measured.get(each) for each in ("n", "accuracy", "macro_f1", "f1", "refusals", "failures", "rehearsed")
    }
    return {"folder": name, **cell, **headline, "calls": tally.calls, "stopped": tally.stopped or None}


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    hidden = {"folder", "stopped"}
    names = [name for name in rows[0] if name not in hidden]
    table = Table(*names, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(_said(row[name]) for name in names))
    screen(wide=True).print(table)


def _said(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
