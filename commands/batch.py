"""Decide the posts of a table: `tribunal batch`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import TyperPath

from tribunal.commands.options import Graph, parse_pairs, with_settings
from tribunal.commands.printing import print_template
from tribunal.commands.run_options import (
    end_run,
    print_totals,
    print_warning,
    read_price_table,
    report_output_errors,
    watch_run,
    with_engine,
)
from tribunal.commands.shared_options import AsJson, InFlight, Keep, KeepIn, KeepText, PriceTable, Retry
from tribunal.terminal import say_json

if TYPE_CHECKING:
    from tribunal.eval.batch import BatchOutput
    from tribunal.eval.runs.tally import RunTally

_PLACE = TyperPath()  # a shell completes it as one


@with_settings
@with_engine
def batch(
    posts: Annotated[
        str,
        typer.Argument(
            metavar="IN",
            click_type=_PLACE,
            help="CSV, TSV, JSONL or Parquet: a file or a folder of them, by its path or URL (s3://, …).",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            metavar="OUT",
            click_type=_PLACE,
            help="A path or URL, by its suffix: .jsonl (full records), .csv, .tsv, .parquet; with --engine ray also a "
            "folder, ending in a slash.",
        ),
    ],
    graph: Graph = "tribunal",
    columns: Annotated[
        list[str] | None, typer.Option(metavar="ROLE=NAME", help="The column of text, id, image, language, earlier.")
    ] = None,
    in_flight: InFlight = 16,
    retry: Retry = None,
    prices: PriceTable = None,
    run_folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where results lie as they come. Default: OUT.run; of a URL, a folder that is named at the end.",
        ),
    ] = None,
    as_json: AsJson = False,
    keep: Keep = None,
    keep_text: KeepText = None,
    database: KeepIn = None,
    *,
    settings: dict[str, Any],
    carried: dict[str, Any],
) -> None:
    """Decide every row of a table. The same command goes on where it stopped."""
    from tribunal.cases.keep_options import keep_options
    from tribunal.eval.batch import batch as run_batch
    from tribunal.eval.batch import find_output

    kept = keep_options("batch", keep, keep_text, review=bool(settings.get("review")), database=database)
    running: dict[str, Any] = {"in_flight": in_flight, "retry": retry, **carried}
    with watch_run(read_price_table(prices), quiet=as_json, **running) as options:
        tally = run_batch(
            posts,
            out,
            options,
            graph=graph,
            settings=settings,
            columns=parse_pairs(columns, "columns", "ROLE=NAME"),
            keep=kept,
            run_folder=run_folder,
        )
    with report_output_errors(tally):
        _print_batch(tally, find_output(out, run_folder), as_json, priced=options.prices is not None)
    end_run(tally)


def _print_batch(tally: RunTally, out: BatchOutput, as_json: bool, *, priced: bool) -> None:
    from tribunal.eval.runs.tally import response_format_shares, warn_of_mixed_formats

    asked = response_format_shares(tally.asked)
    if mixed := warn_of_mixed_formats(asked):
        print_warning(mixed)
    if as_json:
        printed = {
            "out": str(out),
            "run": out.kept_in,
            "total": tally.total,
            "done": tally.before + tally.done,
            "outcomes": dict(tally.outcomes),
            "calls": tally.calls,
            "tokens": tally.tokens,
            "rejoined": tally.rejoined,
            "waiting": tally.waiting,
            "unkept": tally.unkept,
            "rehearsed": tally.rehearsed,
            "rungs": asked,
            "stopped": tally.stopped or None,
        }
        say_json(printed)
        return
    print_totals(tally, priced=priced)
    if tally.unkept:
        print_warning(f"not saved to the database: {tally.unkept:,}; the warnings of each result say why")
    print_template("batch", tally=tally, out=out)
