"""`tribunal cases`: find, show and export the verdicts that were kept."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tribunal.commands.database import epoch_seconds, require_service, run_in_store
from tribunal.commands.errors import report_write_errors
from tribunal.commands.printing import print_template
from tribunal.commands.review_export import export_format
from tribunal.commands.shared_options import DATES, AsJson, Database
from tribunal.errors import BadInput
from tribunal.terminal import print_table, say, say_json
from tribunal.text import count_noun
from tribunal.times import format_date

if TYPE_CHECKING:
    from tribunal.store.engine import Store

app = typer.Typer(help="Find and show the verdicts that were kept.", no_args_is_help=True, rich_markup_mode=None)
CaseId = Annotated[str, typer.Argument(metavar="CASE", help="The case's id, as the list shows it.")]


@app.command("list")
def list_(
    since: Annotated[
        datetime | None, typer.Option(metavar="DATE", formats=DATES, help="Taken in at or after, in UTC.")
    ] = None,
    until: Annotated[datetime | None, typer.Option(metavar="DATE", formats=DATES, help="Taken in before.")] = None,
    outcome: Annotated[str | None, typer.Option(help="verdict, refusal, failure or pending.")] = None,
    category: Annotated[str | None, typer.Option(help="Of the policy, by its name.")] = None,
    policy: Annotated[str | None, typer.Option(metavar="NAME|SHA", help="By its name, or how its hash begins.")] = None,
    via: Annotated[str | None, typer.Option(help="The way in: command, python, batch, service or studio.")] = None,
    post: Annotated[str | None, typer.Option(metavar="ID", help="What the post is called.")] = None,
    reviewer: Annotated[str | None, typer.Option(help="Who decided.")] = None,
    after: Annotated[str | None, typer.Option(metavar="CASE", help="The last case of the page before.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 50,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """List kept cases, the newest first. No post is shown."""
    from tribunal.cases.case_search import CaseFilter, find_cases
    from tribunal.store.tables import cases

    wanted = CaseFilter(
        since=epoch_seconds(since), until=epoch_seconds(until), policy=policy, outcome=outcome, category=category,
        via=via, post_id=post, reviewer=reviewer,
    )  # fmt: skip
    found = run_in_store(
        database,
        lambda store: find_cases(store, wanted, cases.c.outcome.is_not(None), before=after, limit=limit),
    )
    if as_json:
        say_json(found)
        return
    rows = []
    for row in found:
        decided = row["reviewer"] or ("waiting for review" if row["outcome"] == "pending" else "the model")
        policy_named = f"{row['policy_name']} {row['policy_sha']}" if row["policy_sha"] else None
        outcome_named = row["outcome"] + (" (words erased)" if row["erased"] else "")
        cells = [row["id"], format_date(row["created"]), row["via"], row["post_id"], outcome_named, row["category"]]
        rows.append([*cells, policy_named, decided])
    if rows:
        print_table(("case", "when", "via", "post", "outcome", "category", "policy", "decided by"), rows)
    else:
        say("No cases match these filters.")
    if len(found) == limit:
        say(f"there may be more; go on with --after {found[-1]['id']}", aside=True)


@app.command("show")
def show(case_id: CaseId, as_json: AsJson = False, database: Database = None) -> None:
    """Show a kept case: the post, what was said, the outcome, and the hashes of what it was decided by."""
    from tribunal.cases.case_search import load_case

    row = run_in_store(database, lambda store: load_case(store, case_id))
    if as_json:
        say_json(row)
        return
    from tribunal.commands.review import print_case
    from tribunal.schema import Record

    record: Any = row["record"]
    if record is not None and "outcome" in record:
        print_case(Record.model_validate(record), (row["post"] or {}).get("text"))
    elif record is not None:
        say(f"ended without an outcome: {record.get('cancelled')}")
    print_template("case_row", row=row)
    say("tribunal cases text SHA prints a policy, the prompts or a protocol in full", aside=True)


@app.command("text")
def text(
    sha: Annotated[str, typer.Argument(help="The hash of a policy, of prompts or of a protocol, from a case.")],
    database: Database = None,
) -> None:
    """Print the text behind a hash: a policy as its file had it, prompts and a protocol as JSON."""
    from tribunal.cases.record_rows import text_of

    found = run_in_store(database, lambda store: text_of(store, sha))
    if found is None:
        raise BadInput(f"sha: {sha[:80]!r}: no text is kept under this hash; tribunal cases show names them")
    say(found, lines=True)


@app.command("export")
def export(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--to", "--format", metavar="FORMAT", help="parquet, jsonl or csv. Default: by the suffix of FILE."
        ),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(metavar="DATE", formats=DATES, help="Only cases that ended from this time on (UTC)."),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(metavar="DATE", formats=DATES, help="Only cases that ended before (UTC)."),
    ] = None,
    posts: Annotated[
        bool, typer.Option("--posts", help="Add the words and the images of the posts, if they are kept.")
    ] = False,
    records: Annotated[
        bool, typer.Option("--records", help="Add each whole record, as JSON; it may quote the post.")
    ] = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Write all finished cases as a table: a row a case, with outcome, models, calls and what people decided.

    Without --posts and --records it holds no words of a post. Only a record names reviewers.
    """
    require_service()
    from tribunal.exports.case_tables import export_cases
    from tribunal.exports.finished_cases import log_export

    kind, begin, end = export_format(form, out), epoch_seconds(since), epoch_seconds(until)

    async def work(store: Store) -> int:
        with report_write_errors(out):
            count = await export_cases(store, out, kind, since=begin, until=end, posts=posts, records=records)
        told = {"format": kind, "rows": count, "since": begin, "until": end, "posts": posts, "records": records}
        await log_export(store, "cases", told)
        return count

    count = run_in_store(database, work)
    if as_json:
        say_json({"out": str(out), "rows": count})
    else:
        say(f"{out}: {count_noun(count, 'case')}")
