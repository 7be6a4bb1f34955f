"""`tribunal audit`: the service's log of who did what, shown and checked."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.database import epoch_seconds, require_service, run_in_store
from tribunal.commands.printing import print_template
from tribunal.commands.shared_options import DATES, Database, JsonLines
from tribunal.errors import BadInput
from tribunal.terminal import say, say_json
from tribunal.text import count_noun
from tribunal.times import format_date

if TYPE_CHECKING:
    from tribunal.cases.record_audit import RecordTally
    from tribunal.schema import JSON
    from tribunal.store.audit import FaultTally
    from tribunal.store.audit_heads import HeadTally
    from tribunal.store.engine import Store

app = typer.Typer(help="Check and show the service's audit log.", no_args_is_help=True)


@app.command("verify")
def verify_log(
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="A head kept elsewhere: the log must still contain it.")
    ] = None,
    heads: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Heads that were published or signed: the log must contain each."),
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --heads: the key that each must be signed with.")
    ] = None,
    tsa_certificates: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --heads: certificates (PEM) that vouch for their time-stamps."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A run's results.jsonl: kept verdicts must be as the log tells."),
    ] = None,
    database: Database = None,
) -> None:
    """Check the log for the first entry that was altered, removed, moved or inserted, then each case.

    Exit status 1: an entry is wrong, or a case, head or result isn't as the log tells. Of a run's results,
    those kept as cases (--keep) are compared.
    """
    from tribunal.cases.record_audit import check_records
    from tribunal.cases.result_audit import check_results
    from tribunal.store import audit as audit_log
    from tribunal.store.audit_heads import check_heads

    kept = head.strip().lower() if head is not None else None
    if kept is not None and not (len(kept) == 64 and set(kept) <= set("0123456789abcdef")):
        raise BadInput(f"head: {head!r}: is no hash; give the 64 digits that tribunal audit head printed")
    for name, given in (("public_key", public_key), ("tsa_certificates", tsa_certificates)):
        if given is not None and heads is None:
            raise BadInput(f"{name}: belongs to --heads FILE; give that, too")

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
        if heads is not None:
            of_heads = await check_heads(store, heads, public_key, tsa_certificates)
            _print_heads(of_heads)
            wrong += of_heads.found
        if heads is None or head is not None:
            print_template("audit", aside=True, log=walk)
        return not wrong

    if not run_in_store(database, check):
        raise typer.Exit(1)


def _print_faults(tally: FaultTally, noun: str, how: str = "") -> None:
    """Print a line for each of the first faults, and how many more there are."""
    for line in tally.faults:
        say(line)
    if more := tally.found - len(tally.faults):
        say(f"and {count_noun(more, noun)} more{how}")


def _print_tally(records: RecordTally, noun: str) -> None:
    """Print what differs, a line each, and how many were compared."""
    _print_faults(records, noun, " that differ")
    left = "; ".join(f"{count_noun(number, noun)} {reason}" for reason, number in sorted(records.uncompared.items()))
    compared = f"{count_noun(records.compared, noun)} compared with the log, {records.found or 'none'} differing"
    say(f"{compared}; nothing to compare: {left}" if left else compared)


def _print_heads(tally: HeadTally) -> None:
    """Print which heads aren't in the log, a line each, and how many were compared."""
    _print_faults(tally, "head")
    compared = f"{count_noun(tally.heads, 'head')} compared with the log, {tally.found or 'none'} wrong"
    stamped = f"; {tally.stamped} time-stamped, the last at {tally.stamped_at}" if tally.stamped else ""
    say(f"{compared}; {tally.signed} signed by the key{stamped}" if tally.signed else compared + stamped)
    if tally.torn:
        say(f"{count_noun(tally.torn, 'line')} of the file cut off, and passed over", aside=True)
    if tally.unchecked:
        say("signatures or time-stamps unchecked: give --public-key and --tsa-certificates", aside=True)


@app.command("key")
def make_key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The private key; the public one is FILE.pub.")],
) -> None:
    """Make a key that heads are signed with. Keep FILE from whoever writes to the database; FILE.pub is for anybody."""
    from tribunal.store import audit_heads

    say(f"{file}: the private key, and {file}.pub: the public one; its fingerprint is {audit_heads.make_key(file)}")


Sign = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Sign the head with this private key (tribunal audit key).")
]


@app.command("head")
def print_head(sign: Sign = None, database: Database = None) -> None:
    """Print the hash of the last entry. Keep it where whoever writes to the database can't change it.

    With --sign print a line of JSON, for audit verify --heads.
    """
    from tribunal.store import audit as audit_log
    from tribunal.store.audit_heads import load_private_key, publish_form

    key = None if sign is None else load_private_key(sign)
    end = run_in_store(database, audit_log.read_written_head)
    if end is None:
        raise BadInput("audit log: its head is gone; run tribunal audit verify")
    say(f"the head after {end.seq} entries:", aside=True)
    say(end.hash if key is None else publish_form(end, key).line())


@app.command("publish")
def publish_head(
    to: Annotated[
        list[str],
        typer.Option(metavar="PLACE", help="file:PATH, https://… or rfc3161:URL, once for each."),
    ],
    sign: Sign = None,
    http: Annotated[bool, typer.Option("--http", help="Allow a webhook without TLS.")] = False,
    database: Database = None,
) -> None:
    """Publish the head now; tribunal serve --publish-head does it regularly. Exit status 1: it failed somewhere.

    TRIBUNAL_SERVE_PUBLISH_SECRET signs a webhook's message. A time-stamp server's answer goes into the file.
    """
    require_service()
    import os

    from tribunal.service.replica.head_publishing import HeadPublisher, check_secret, parse_targets
    from tribunal.store import audit as audit_log
    from tribunal.store.audit_heads import load_private_key

    key = None if sign is None else load_private_key(sign)
    secret = os.environ.get("TRIBUNAL_SERVE_PUBLISH_SECRET") or None
    check_secret(secret)
    targets = parse_targets(to, http=http)

    async def publish(store: Store) -> bool:
        end = await audit_log.read_written_head(store)
        if end is None or end.seq == 0:
            raise BadInput("audit log: has no entry; there is no head to publish")
        publisher = HeadPublisher(store, targets, key=key, secret=secret)
        failed = False
        for target in targets:
            why = await publisher.publish(end, target)
            failed |= why is not None
            say(f"head {end.seq}: {target.name()}: {'published' if why is None else f'not published: {why}'}")
        return failed

    if run_in_store(database, publish):
        raise typer.Exit(1)


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
