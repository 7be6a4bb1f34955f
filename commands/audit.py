"""`tribunal audit`: the service's log of who did what, shown and checked."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.database import epoch_seconds, run_in_store
from tribunal.commands.printing import print_template
from tribunal.commands.shared_options import DATES, Database, JsonLines
from tribunal.errors import BadInput
from tribunal.terminal import say, say_json
from tribunal.times import format_date

if TYPE_CHECKING:
    from tribunal.schema import JSON
    from tribunal.store.engine import Store

app = typer.Typer(help="Check and show the service's audit log.", no_args_is_help=True)


@app.command("verify")
def verify_log(
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="A head kept elsewhere: the log must still contain it.")
    ] = None,
    database: Database = None,
) -> None:
    """Check the log for the first entry that was altered, removed, moved or inserted. Exit status 1: there is one."""
    from tribunal.store import audit as audit_log

    kept = head.strip().lower() if head is not None else None
    if kept is not None and not (len(kept) == 64 and set(kept) <= set("0123456789abcdef")):
        raise BadInput(f"head: {head!r}: is no hash; give the 64 digits that tribunal audit head printed")
    found = run_in_store(database, lambda store: audit_log.verify(store, kept))
    if found.fault is not None:
        say(found.fault)
    else:
        entries = "1 entry" if found.entries == 1 else f"{found.entries} entries"
        say(f"{entries}, each follows from the one before; the head is {found.head}")
    print_template("audit", aside=True, log=found)
    if found.fault is not None:
        raise typer.Exit(1)


@app.command("head")
def print_head(database: Database = None) -> None:
    """Print the hash of the last entry. Keep it where whoever writes to the database can't change it."""
    from tribunal.store import audit as audit_log

    end = run_in_store(database, audit_log.read_written_head)
    if end is None:
        raise BadInput("audit log: its head is gone; run tribunal audit verify")
    say(f"the head after {end.seq} entries:", aside=True)
    say(end.hash)


@app.command("show")
def show_entries(
    case: Annotated[
        str | None, typer.Option(metavar="ID", help="Only entries of this case, batch, key, webhook or message.")
    ] = None,
    since: Annotated[
        datetime | None, typer.Option(metavar="DATE", formats=DATES, help="Only entries from this time on (UTC).")
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
