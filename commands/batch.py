"""`tribunal batch`: unlabelled posts in, the same rows with their outcomes out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import TyperPath

from tribunal.commands.engines import with_engine
from tribunal.commands.errors import ending_well
from tribunal.commands.evaluate import AsJson, InFlight, PriceTable, status, telling, warn, warn_of_rehearsal
from tribunal.commands.keeping import Keep, KeepIn, KeepText, wanted_by
from tribunal.commands.options import Graph, pairs, with_settings
from tribunal.terminal import say, say_json

if TYPE_CHECKING:
    from tribunal.eval.runs.outputs import Output
    from tribunal.eval.runs.tally import Tally

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
    retry: Annotated[list[str] | None, typer.Option(help="Decide again what ended so: failures, refusals.")] = None,
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
    """Decide every row of a table. Results lie in OUT.run as they come; the same command goes on where it stopped."""
    from tribunal.eval.batch import batch as run_batch
    from tribunal.eval.runs.outputs import output_of
    from tribunal.eval.runs.prices import read_prices
    from tribunal.eval.runs.progress import shown

    with ending_well():
        table = read_prices(prices) if prices else None
        kept = wanted_by("batch", keep, keep_text, database, review=bool(settings.get("review")))
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
                keep=kept,
                warn=warn,
                run_folder=run_folder,
                **carried,
            )
        with telling(tally):
            _tell(tally, output_of(out, run_folder), as_json, priced=table is not None)
    warn_of_rehearsal(tally.rehearsed, tally.before + tally.done)
    raise typer.Exit(status(tally))


def _tell(tally: Tally, out: Output, as_json: bool, *, priced: bool) -> None:
    from tribunal.eval.runs.progress import in_words
    from tribunal.eval.runs.rungs import mixed_in_words, rungs

    asked = rungs(tally.asked)
    if mixed := mixed_in_words(asked):
        warn(mixed)
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
    say(f"{tally.at:,} decided ({tally.done:,} now, {tally.before:,} before): {in_words(tally, priced=priced)}")
    if tally.rejoined:
        say(f"{tally.rejoined:,} that waited for a person carry what was decided")
    if tally.waiting:
        say(f"{tally.waiting:,} wait for a person (tribunal review list); this command again puts in what is decided")
    if tally.unkept:
        warn(f"{tally.unkept:,} could not be kept in the database; each result says why, among its warnings")
    if not tally.stopped:
        say(str(out))
    if tally.stopped or (out.place.here is None and not out.is_folder):
        say(f"kept{' so far' * bool(tally.stopped)}: {out.kept_in}")
