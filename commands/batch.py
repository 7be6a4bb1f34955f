"""`tribunal batch`: unlabelled posts in, the same rows with their outcomes out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tribunal.commands.errors import ending_well
from tribunal.commands.evaluate import AsJson, InFlight, PriceTable, status, warn
from tribunal.commands.options import Graph, pairs, with_settings


@with_settings
def batch(
    posts: Annotated[Path, typer.Argument(metavar="IN", help="CSV, TSV, JSONL or Parquet.")],
    out: Annotated[
        Path, typer.Option(metavar="OUT", help="By its suffix: .jsonl (full records), .csv, .tsv, .parquet.")
    ],
    graph: Graph = "tribunal",
    columns: Annotated[
        list[str] | None, typer.Option(metavar="ROLE=NAME", help="The column of text, id, image, language.")
    ] = None,
    in_flight: InFlight = 16,
    retry: Annotated[list[str] | None, typer.Option(help="Decide again what ended so: failures, refusals.")] = None,
    prices: PriceTable = None,
    as_json: AsJson = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Decide every row of a file. Results lie in OUT.run as they come; the same command goes on where it stopped."""
    from tribunal.eval.batch import batch as run_batch
    from tribunal.eval.runs.prices import read_prices
    from tribunal.eval.runs.progress import in_words, shown
    from tribunal.text import visible

    with ending_well():
        table = read_prices(prices) if prices else None
        with shown(priced=table is not None, quiet=as_json) as watch:
            tally = run_batch(
                posts,
                out,
                graph=graph,
                settings=settings,
                columns=pairs(columns, "columns", "ROLE=NAME"),
                in_flight=in_flight,
                retry=retry or (),
                prices=table,
                watch=watch,
                warn=warn,
            )
        if as_json:
            printed = {
                "out": str(out),
                "total": tally.total,
                "done": tally.before + tally.done,
                "outcomes": dict(tally.outcomes),
                "calls": tally.calls,
                "tokens": tally.tokens,
                "stopped": tally.stopped or None,
            }
            sys.stdout.write(json.dumps(printed, ensure_ascii=False) + "\n")
        else:
            said = in_words(tally, priced=table is not None)
            typer.echo(f"{tally.done:,} decided now, {tally.before:,} before: {said}")
            typer.echo(visible(str(out)) if not tally.stopped else f"kept so far: {visible(str(out))}.run")
    raise typer.Exit(status(tally))
