"""`tribunal shadow`: which threshold removes as much as the moderation that a service is to replace."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.database import run_in_store
from tribunal.commands.errors import report_write_errors
from tribunal.commands.options import parse_pairs
from tribunal.commands.printing import print_template
from tribunal.commands.run_options import print_warning
from tribunal.commands.shared_options import AsJson, Database
from tribunal.terminal import say_json

if TYPE_CHECKING:
    from tribunal.eval.shadow import Decision
    from tribunal.store.engine import Store


def shadow(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="What the other system did: CSV, TSV, JSONL, JSON or Parquet.")
    ],
    decisions: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR|FILE",
            help="Our decisions: a run's folder, or what tribunal batch wrote. Default: the database's cases.",
        ),
    ] = None,
    their_threshold: Annotated[
        float | None, typer.Option(help="They removed posts of this score or more. Default: by the column removed.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=NAME",
            help="The log's column of id, text, score or removed, or the path to it in an object: "
            "score=attributeScores.TOXICITY.summaryScore.value.",
        ),
    ] = None,
    removed_as: Annotated[
        list[str] | None,
        typer.Option(metavar="VALUE", help="A value of the column removed that means removed; may be repeated."),
    ] = None,
    differences: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the ids of posts that only one removed (CSV).")
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Find the threshold on our probability that removes as much as another system did, and where the two differ.

    Posts are matched by id, else by text. No post is shown.
    """
    from tribunal.eval.shadow import Decisions, LogForm, compare_with_log, read_decisions
    from tribunal.files import write_whole

    form = LogForm(parse_pairs(column, "column", "ROLE=NAME"), their_threshold, tuple(removed_as or ()))
    if decisions is not None:
        ours = Decisions(read_decisions(decisions), str(decisions))
    else:
        ours = Decisions(run_in_store(database, _decisions_of_store), "the database")
    report = compare_with_log(log, form, ours)
    if report.rehearsed:
        print_warning(f"the rehearsal model took part in {report.rehearsed} of these decisions; its threshold is none")
    if differences is not None:
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, ("id", "removed_by", "score", "probability"))
        table.writeheader()
        table.writerows(report.differing)
        with report_write_errors(differences):
            write_whole(differences, text.getvalue())
    if as_json:
        match = report.match
        parts = {name: each._asdict() for name in ("nearest", "other_side") if (each := getattr(match, name))}
        say_json({**match._asdict(), **parts, "left_out": report.left_out, "rehearsed": report.rehearsed})
        return
    print_template("shadow", report=report, differing_file=str(differences) if differences else "")


async def _decisions_of_store(store: Store) -> list[Decision]:
    from tribunal.eval.shadow import stored_decisions

    return [each async for each in stored_decisions(store)]
