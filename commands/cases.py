"""`tribunal cases`: find, show and export kept cases, and erase their words."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Exit, Option, Typer

from tribunal.commands.database import (
    epoch_seconds,
    filter_from_options,
    login_name,
    require_service,
    run_in_docket,
    run_in_store,
    with_contents,
)
from tribunal.commands.printing import print_template, report_write_errors
from tribunal.commands.review import export_format
from tribunal.commands.shared_options import DATES, AsJson, Database, Yes
from tribunal.core.text import count_noun
from tribunal.core.times import format_date
from tribunal.errors import BadInput
from tribunal.process.terminal import print_table, say, say_json

if TYPE_CHECKING:
    from tribunal.docket.docket import Docket
    from tribunal.docket.erasure import ErasureRequest, ErasureResult
    from tribunal.store.engine import Store

app = Typer(
    help="Find, show, export and erase kept cases.", no_args_is_help=True, rich_markup_mode=None
)
CaseId = Annotated[str, Argument(metavar="CASE", help="The case's id, as the list shows it.")]


@app.command("list")
@with_contents
def list_(
    since: Annotated[
        datetime | None, Option(metavar="DATE", formats=DATES, help="Taken in at or after, in UTC.")
    ] = None,
    until: Annotated[
        datetime | None, Option(metavar="DATE", formats=DATES, help="Taken in before.")
    ] = None,
    outcome: Annotated[str | None, Option(help="verdict, refusal, failure or pending.")] = None,
    policy: Annotated[
        str | None, Option(metavar="NAME|SHA", help="By its name, or how its hash begins.")
    ] = None,
    via: Annotated[
        str | None, Option(help="The way in: command, python, batch, service or studio.")
    ] = None,
    post: Annotated[str | None, Option(metavar="ID", help="What the post is called.")] = None,
    reviewer: Annotated[str | None, Option(help="Who decided.")] = None,
    after: Annotated[
        str | None, Option(metavar="CASE", help="The last case of the page before.")
    ] = None,
    limit: Annotated[int, Option(min=1, max=10_000, help="How many.")] = 50,
    as_json: AsJson = False,
    database: Database = None,
    *,
    contents: dict[str, Any],
) -> None:
    """List kept cases, the newest first. No post is shown."""
    from tribunal.docket.case_search import CaseFilter, find_cases
    from tribunal.store.tables import cases

    wanted = filter_from_options(
        CaseFilter, since=epoch_seconds(since), until=epoch_seconds(until), policy=policy, outcome=outcome, via=via,
        post_id=post, reviewer=reviewer, **contents,
    )  # fmt: skip
    found = run_in_store(
        database,
        lambda store: find_cases(
            store, wanted, cases.c.outcome.is_not(None), before=after, limit=limit
        ),
    )
    if as_json:
        say_json(found)
        return
    rows = []
    for row in found:
        decided = row["reviewer"] or (
            "waiting for review" if row["outcome"] == "pending" else "the model"
        )
        policy_named = f"{row['policy_name']} {row['policy_sha']}" if row["policy_sha"] else None
        outcome_named = row["outcome"] + (" (words erased)" if row["erased"] else "")
        cells = [
            row["id"],
            format_date(row["created"]),
            row["via"],
            row["post_id"],
            outcome_named,
            row["category"],
        ]
        rows.append([*cells, policy_named, decided])
    if rows:
        print_table(
            ("case", "when", "via", "post", "outcome", "category", "policy", "decided by"), rows
        )
    else:
        say("No cases match these filters.")
    if len(found) == limit:
        say(f"there may be more; go on with --after {found[-1]['id']}", aside=True)


@app.command("retry")
def retry(
    case_id: CaseId,
    release: Annotated[
        bool,
        Option("--release", help="The process that tries the case is gone, or its clock is ahead."),
    ] = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Put a case of the service without a verdict, or a cancelled one, back into the queue.

    With --release: take a running case from its process. A case of the service goes back to the queue; resume any
    other with tribunal review resume.
    """
    from tribunal.docket.holds import retry_case

    if release:
        from tribunal.docket.leases import release_lease
        from tribunal.store.audit import Who

        by = Who(who="operator", name=login_name())
        owner = run_in_store(database, lambda store: release_lease(store, case_id, by))
        if as_json:
            say_json({"case": case_id, "taken_from": owner})
        else:
            say(f"{case_id}: taken from {owner}")
        return
    row = run_in_store(database, lambda store: retry_case(store, case_id))
    if as_json:
        say_json({"case": row["id"], "status": row["status"]})
    else:
        say(f"{row['id']}: is {row['status']} again")


@app.command("show")
def show(
    case_id: CaseId,
    text: Annotated[
        bool,
        Option(
            "--text",
            help="CASE is the hash of a policy, of prompts or of a protocol: print its text.",
        ),
    ] = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Show a kept case: the post, the debate, the outcome, and the hashes of policy, prompts and protocol."""
    from tribunal.docket.case_search import load_case

    if text:
        from tribunal.docket.record_rows import text_of

        stored_text = run_in_store(database, lambda store: text_of(store, case_id))
        if stored_text is None:
            raise BadInput(
                f"--text: {case_id[:80]!r}: no text is kept under this hash; tribunal cases show CASE names them"
            )
        say(stored_text, lines=True)
        return
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
    say(
        "tribunal cases show HASH --text prints a policy, the prompts or a protocol in full",
        aside=True,
    )


@app.command("export")
def export(
    out: Annotated[Path, Option(metavar="FILE", help="The file to write.")],
    form: Annotated[
        str | None,
        Option(
            "--to",
            "--format",
            metavar="FORMAT",
            help="parquet, jsonl or csv. Default: by the suffix of FILE.",
        ),
    ] = None,
    since: Annotated[
        datetime | None,
        Option(
            metavar="DATE", formats=DATES, help="Only cases that ended from this time on (UTC)."
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        Option(metavar="DATE", formats=DATES, help="Only cases that ended before (UTC)."),
    ] = None,
    posts: Annotated[
        bool, Option("--posts", help="Add the words and the images of the posts, if they are kept.")
    ] = False,
    records: Annotated[
        bool, Option("--records", help="Add each whole record, as JSON; it may quote the post.")
    ] = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Write all finished cases as a table: a row a case, with outcome, models, calls and what people decided.

    Only --posts and --records add words of posts; only a record names reviewers.
    """
    require_service()
    from tribunal.review.case_tables import export_cases, log_export

    kind = export_format(form, out)
    begin = epoch_seconds(since)
    end = epoch_seconds(until)

    async def work(store: Store) -> int:
        with report_write_errors(out):
            count = await export_cases(
                store, out, kind, since=begin, until=end, posts=posts, records=records
            )
        told = {
            "format": kind,
            "rows": count,
            "since": begin,
            "until": end,
            "posts": posts,
            "records": records,
        }
        await log_export(store, "cases", told)
        return count

    count = run_in_store(database, work)
    if as_json:
        say_json({"out": str(out), "rows": count})
    else:
        say(f"{out}: {count_noun(count, 'case')}")


@app.command("forget")
def forget(
    post: Annotated[
        str | None, Option(metavar="ID", help="Every case of the post with this id.")
    ] = None,
    case: Annotated[str | None, Option(metavar="ID", help="This case.")] = None,
    older_than: Annotated[
        str | None,
        Option(metavar="AGE", help="All cases decided at least this long ago: 90d, 12h."),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only count the cases.")] = False,
    yes: Yes = False,
    as_json: Annotated[
        bool, Option("--json", help="Print JSON, and don't ask: give --yes or --dry-run.")
    ] = False,
    database: Database = None,
) -> None:
    """Erase the words and images of cases. What was decided stays, and so does the audit log.

    Exit status 1: no case matches, and nothing was erased.
    """
    from tribunal.core.times import seconds_of
    from tribunal.docket.erasure import ErasureRequest, count_erasable

    if sum(each is not None for each in (post, case, older_than)) != 1:
        raise BadInput("forget: give one of --post, --case and --older-than")
    try:
        age = None if older_than is None else seconds_of(older_than)
    except ValueError as error:
        raise BadInput(f"older-than: {error}") from error
    given = {"--post": post, "--case": case, "--older-than": older_than}
    option = " ".join(f"{name} {value}" for name, value in given.items() if value is not None)
    chosen = ErasureRequest(post=post, case=case, older_than=age)
    meant = run_in_docket(database, lambda docket: count_erasable(docket.store, chosen))
    cases = count_noun(meant.cases, "case")
    if not (dry_run or yes):
        if meant.cases and (as_json or not sys.stdin.isatty()):
            raise BadInput(f"forget: {cases}: nothing can be asked here; give --yes or --dry-run")
        if meant.cases:
            typer.confirm(f"Erase the words of {cases}? They can't be brought back", abort=True)
    erased = bool(meant.cases) and not dry_run
    done, clean = (
        run_in_docket(database, lambda docket: _erase(docket, chosen)) if erased else (meant, True)
    )
    if as_json:
        say_json(
            {
                "cases": done.cases,
                "left": done.left,
                "erased": erased,
                **({"wiped": clean} if erased else {}),
            }
        )
    else:
        print_template("forget", part="done", result=done, erased=erased, chosen=option)
        print_template("forget", aside=True, part="left", result=done)
    if not done.cases:
        raise Exit(1)
    if not clean:
        say(
            "another process was reading, so a write-ahead log still holds old pages; run this again later, or "
            "restart that process",
            aside=True,
        )
        raise Exit(1)


async def _erase(docket: Docket, chosen: ErasureRequest) -> tuple[ErasureResult, bool]:
    """Erase them; return also whether the disk holds nothing of them any more."""
    from tribunal.docket.erasure import erase_words, remove_images, wipe_file
    from tribunal.review.case_tables import forget_erased_precedents
    from tribunal.store.audit import Who

    store = docket.store
    done = await erase_words(store, chosen, Who(who="operator", name=login_name()))
    await asyncio.to_thread(remove_images, done.images)
    clean = store.file is None or await asyncio.to_thread(wipe_file, store.file, rewrite=True)
    try:
        await forget_erased_precedents(store)
    except BadInput as error:
        raise BadInput(
            f"forget: the words are erased, and a store of precedents may keep them: {error}"
        ) from error
    return done, clean
