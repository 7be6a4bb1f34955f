"""`tribunal dsa`: statements of reasons for the EU Transparency Database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tribunal.commands.errors import ending_well
from tribunal.commands.keys import in_store
from tribunal.commands.options import pairs
from tribunal.commands.review_export import AsJson, Since, Until, seconds
from tribunal.commands.serve import Database, installed
from tribunal.terminal import say, say_json

if TYPE_CHECKING:
    from collections import Counter

    from tribunal.exports.dsa.making import Made, Wanted
    from tribunal.exports.dsa.sending import Register
    from tribunal.schema import JSON
    from tribunal.store.engine import Store

app = typer.Typer(
    help="Statements of reasons (Digital Services Act, article 17) for the EU Transparency Database.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="URL",
        help="The register's /statements, such as https://transparency.dsa.ec.europa.eu/api/v1/statements. The token "
        "is read from TRIBUNAL_DSA_TOKEN.",
    ),
]
Attempts = Annotated[int, typer.Option(min=1, max=100, help="How often a batch is tried where the register is busy.")]
TOKEN = "TRIBUNAL_DSA_TOKEN"  # noqa: S105  # where it is read from


@app.command("statements")
def statements(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the batches are written, at most 100 in each.")],
    since: Since = None,
    until: Until = None,
    mapping: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What the platform did, by category; tribunal dsa mapping prints one."),
    ] = None,
    visibility: Annotated[
        list[str] | None,
        typer.Option(metavar="VALUE", help="decision_visibility, such as CONTENT_REMOVED; may be given again."),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Any other field of the mapping, for all; may be given again."),
    ] = None,
    explanations: Annotated[
        bool,
        typer.Option("--explanations", help="Tell the model's reasons, with what they quote taken out. Look at them."),
    ] = False,
    send: Annotated[bool, typer.Option("--send", help="Send them, and what was made before and not sent.")] = False,
    to: To = None,
    attempts: Attempts = 6,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Write a statement of reasons for each case decided to be hateful; of a case that has one, none.

    Nothing of the post, no reviewer and no id but an opaque one is told. A field that isn't known is refused.
    """
    with ending_well():
        installed()
        from tribunal.errors import BadInput
        from tribunal.exports.dsa.making import Wanted
        from tribunal.exports.dsa.mapping import read_mapping

        told = read_mapping(mapping, _given(visibility, field))
        wanted = Wanted(told, seconds(since), seconds(until), explanations)
        if to is not None and not send:
            raise BadInput("to: belongs to --send; add it, or leave --to out")
        register = _register(to, attempts) if send else None
        made, ended = in_store(database, lambda store: _make_and_send(store, out, wanted, register))
        _tell(made, ended, as_json=as_json)
    raise typer.Exit(1 if ended and ended["refused"] else 0)


@app.command("send")
def send_(to: To = None, attempts: Attempts = 6, as_json: AsJson = False, database: Database = None) -> None:
    """Send the statements that were made and not sent. Exit status 1: the register refused one."""
    with ending_well():
        installed()
        from tribunal.exports.dsa.sending import send

        register = _register(to, attempts)
        ended = in_store(database, lambda store: send(store, register))
        _tell(None, ended, as_json=as_json)
    raise typer.Exit(1 if ended["refused"] else 0)


@app.command("mapping")
def mapping_() -> None:
    """Print a mapping to begin with: what the platform did, and on which ground."""
    with ending_well():
        from tribunal.exports.dsa.mapping import EXAMPLE

        say(EXAMPLE.rstrip(), lines=True)


@app.command("list")
def list_(
    status: Annotated[
        str | None, typer.Option(help="Only those that are made, sent, known (there before) or refused.")
    ] = None,
    case: Annotated[str | None, typer.Option(metavar="ID", help="Only that of this case.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each as a line of JSON.")] = False,
    database: Database = None,
) -> None:
    """List the statements: id, case, status, where it is, and why it was refused."""
    with ending_well():
        installed()
        in_store(database, lambda store: _list(store, status, case, as_json=as_json))


async def _list(store: Store, status: str | None, case: str | None, *, as_json: bool) -> None:
    from sqlalchemy import select

    from tribunal.exports.decided import moment
    from tribunal.store.tables import statements as table

    query = select(table).order_by(table.c.created, table.c.file, table.c.place)
    if status is not None:
        query = query.where(table.c.status == status)
    if case is not None:
        query = query.where(table.c.case_id == case)
    async with store.reading() as connection:
        async for row in (await connection.stream(query)).mappings():
            held: JSON = {**row, "created": moment(row["created"]), "sent": moment(row["sent"])}
            if as_json:
                say_json(held)
            else:
                where = held["permalink"] or held["file"]
                say(f"{held['puid']}  {held['case_id']}  {held['status']}  {where}  {held['error'] or ''}".rstrip())


def _given(visibility: list[str] | None, field: list[str] | None) -> dict[str, Any]:
    """What options tell, by field. A value that is a list in TOML is one here."""
    from tribunal.parsed import from_toml

    given: dict[str, Any] = {}
    for name, value in pairs(field, "field", "NAME=VALUE").items():
        try:
            given[name] = from_toml(f"value = {value}")["value"] if value.startswith(("[", '"')) else value
        except ValueError:
            given[name] = value
    if visibility:
        prefix = "DECISION_VISIBILITY_"
        given["decision_visibility"] = [each if each.startswith(prefix) else f"{prefix}{each}" for each in visibility]
    return given


def _register(to: str | None, attempts: int) -> Register:
    from tribunal.environment import setting
    from tribunal.errors import BadInput
    from tribunal.exports.dsa.sending import Register

    if to is None:
        raise BadInput("to: where to send is missing; give --to URL, first that of the register's sandbox")
    return Register(to, setting(TOKEN) or "", attempts=attempts)


async def _make_and_send(
    store: Store, out: Path, wanted: Wanted, register: Register | None
) -> tuple[Made, Counter[str] | None]:
    from tribunal.errors import BadInput
    from tribunal.exports.dsa.making import make
    from tribunal.exports.dsa.sending import send

    try:
        made = await make(store, out, wanted)
    except OSError as error:
        raise BadInput(f"out: {out}: can't be written: {error.strerror or error}") from error
    return made, await send(store, register) if register is not None else None


def _tell(made: Made | None, ended: Counter[str] | None, *, as_json: bool) -> None:
    if as_json:
        told: JSON = {}
        if made is not None:
            files = [{"file": str(batch.path), "statements": batch.number} for batch in made.batches]
            told = {"statements": made.count, "files": files, "left_out": dict(sorted(made.left_out.items()))}
        if ended is not None:
            told |= {name: ended[name] for name in ("sent", "known", "refused")}
        say_json(told)
        return
    if made is not None:
        say(f"{made.count:,} statements in {len(made.batches):,} files")
        for batch in made.batches:
            say(f"{batch.path}: {batch.number}")
        for reason, count in sorted(made.left_out.items()):
            say(f"{count:,} cases left out: {reason}", aside=True)
    if ended is not None:
        say(
            f"{ended['sent']:,} sent, {ended['known']:,} that the register had before, {ended['refused']:,} refused"
            + (" (tribunal dsa list --status refused)" if ended["refused"] else "")
        )
