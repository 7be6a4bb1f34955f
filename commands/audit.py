"""`tribunal audit`: the service's log of who did what, shown and checked."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option, Typer

from tribunal.commands.database import epoch_seconds, run_in_store
from tribunal.commands.printing import print_template
from tribunal.commands.shared_options import DATES, Database, JsonLines
from tribunal.core.text import count_noun
from tribunal.core.times import format_date
from tribunal.errors import BadInput
from tribunal.process.terminal import say, say_json

if TYPE_CHECKING:
    from tribunal.review.audit import RecordTally
    from tribunal.schema import JSON
    from tribunal.store.engine import Store

app = Typer(help="Check and show the service's audit log.", no_args_is_help=True)


@app.command("verify")
def verify_log(
    head: Annotated[
        str | None,
        Option(metavar="HASH", help="A head kept elsewhere: the log must still contain it."),
    ] = None,
    results: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="A run's results.jsonl: kept verdicts must be as the log tells."
        ),
    ] = None,
    database: Database = None,
) -> None:
    """Check the log for the first entry that was altered, removed, moved or inserted, then each case.

    Exit status 1: an entry is wrong, or a case, head or result isn't as the log tells. Of a run's results,
    those kept as cases (--keep) are compared.
    """
    from tribunal.review.audit import check_records, check_results
    from tribunal.store import audit as audit_log

    kept = head.strip().lower() if head is not None else None
    if kept is not None and not (len(kept) == 64 and set(kept) <= set("0123456789abcdef")):
        raise BadInput(
            f"head: {head!r}: is no hash; give the 64 digits that tribunal audit verify printed"
        )

    async def check(store: Store) -> bool:
        walk = await audit_log.verify(store, kept)
        if walk.fault is not None:
            say(walk.fault)
            print_template("audit", aside=True, log=walk)
            return False
        entries = count_noun(walk.entries, "entry", "entries")
        say(f"{entries}, each follows from the one before; the head is {walk.head}")
        records = await check_records(store)
        _print_tally(records, "case")
        wrong = records.found
        if results is not None:
            found = await check_results(store, results)
            _print_tally(found, "result")
            wrong += found.found
        print_template("audit", aside=True, log=walk)
        return not wrong

    if not run_in_store(database, check):
        raise Exit(1)


def _print_tally(records: RecordTally, noun: str) -> None:
    """Print what differs, a line each, and how many were compared."""
    for line in records.faults:
        say(line)
    more = records.found - len(records.faults)
    if more:
        say(f"and {count_noun(more, noun)} more that differ")
    left = "; ".join(
        f"{count_noun(number, noun)} {reason}"
        for reason, number in sorted(records.uncompared.items())
    )
    compared = f"{count_noun(records.compared, noun)} compared with the log, {records.found or 'none'} differing"
    say(f"{compared}; nothing to compare: {left}" if left else compared)


@app.command("show")
def show_entries(
    case: Annotated[
        str | None,
        Option(metavar="ID", help="Only entries of this case, batch, key, webhook or message."),
    ] = None,
    since: Annotated[
        datetime | None,
        Option(metavar="DATE", formats=DATES, help="Only entries from this time on (UTC)."),
    ] = None,
    as_json: JsonLines = False,
    database: Database = None,
) -> None:
    """Print the entries, the oldest first: number, time, who, what, and to what."""
    from tribunal.store import audit as audit_log

    async def print_entries(store: Store) -> None:
        after = None
        while rows := await audit_log.page(store, after, subject=case, since=epoch_seconds(since)):
            for row in rows:
                _print_entry(audit_log.readable(row), as_json=as_json)
            after = rows[-1]["seq"]

    run_in_store(database, print_entries)


def _print_entry(entry: JSON, *, as_json: bool) -> None:
    if as_json:
        say_json(entry)
        return
    at = format_date(entry["at"])
    who = f"{entry['who']} {entry['name']}".strip()
    details = "  ".join(f"{name}={value}" for name, value in (entry["details"] or {}).items())
    say(f"{entry['seq']}  {at}  {who}  {entry['kind']}  {entry['subject']}  {details}".rstrip())
