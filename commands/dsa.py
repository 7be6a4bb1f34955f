"""`tribunal dsa`: statements of reasons, and the numbers of a transparency report."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option, Typer

from tribunal.commands.database import epoch_seconds, run_in_store
from tribunal.commands.options import parse_pairs
from tribunal.commands.printing import print_template, report_write_errors
from tribunal.commands.shared_options import DATES, AsJson, Database, JsonLines, Since, Until
from tribunal.errors import BadInput
from tribunal.process.terminal import say, say_json

if TYPE_CHECKING:
    from collections import Counter

    from tribunal.review.register import Register
    from tribunal.review.statements import StatementsMade
    from tribunal.schema import JSON
    from tribunal.store.engine import Store

app = Typer(
    help="Statements of reasons (DSA, article 17) and the transparency report.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
To = Annotated[
    str | None,
    Option(
        "--to",
        metavar="URL",
        help="The register's /statements, such as https://transparency.dsa.ec.europa.eu/api/v1/statements. The token "
        "is read from TRIBUNAL_DSA_TOKEN.",
    ),
]
Attempts = Annotated[
    int, Option(min=1, max=100, help="How often a batch is tried if the register is busy.")
]
TOKEN = "TRIBUNAL_DSA_TOKEN"  # noqa: S105  # where it is read from


def _print_example_mapping(asked: bool) -> None:
    if asked:
        from tribunal.explanations.notices import example_mapping

        say(example_mapping().rstrip(), lines=True)
        raise Exit


@app.command("statements")
def write_statements(
    out: Annotated[
        Path, Option(metavar="FOLDER", help="The folder of the batches, of 100 statements at most.")
    ],
    since: Since = None,
    until: Until = None,
    mapping: Annotated[
        Path | None,
        Option(metavar="FILE", help="What the platform did, by category. See --example-mapping."),
    ] = None,
    example_mapping: Annotated[
        bool,
        Option(
            "--example-mapping",
            callback=_print_example_mapping,
            is_eager=True,
            help="Print a mapping file to start from, and exit.",
        ),
    ] = False,
    visibility: Annotated[
        list[str] | None,
        Option(
            metavar="VALUE",
            help="decision_visibility, such as CONTENT_REMOVED; may be given again.",
        ),
    ] = None,
    field: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=VALUE",
            help="Any other field of the mapping, for all cases; may be given again.",
        ),
    ] = None,
    explanations: Annotated[
        bool,
        Option(
            "--explanations", help="Include the model's reasons, without quotations. Check them."
        ),
    ] = False,
    send: Annotated[
        bool, Option("--send", help="Send them, and earlier ones that were not sent.")
    ] = False,
    to: To = None,
    attempts: Attempts = 6,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Write a statement of reasons for each case decided against a post, hate or not, that has none yet.

    It holds no words of the post, no reviewer, and only an opaque id. An unknown field is refused.
    """
    from tribunal.explanations.notices import read_mapping
    from tribunal.review.register import send_statements
    from tribunal.review.statements import StatementRequest, make_statements

    fields = read_mapping(mapping, _fields_of_options(visibility, field))
    wanted = StatementRequest(fields, epoch_seconds(since), epoch_seconds(until), explanations)
    if to is not None and not send:
        raise BadInput("to: belongs to --send; add it, or leave --to out")
    register = _open_register(to, attempts) if send else None

    async def work(store: Store) -> tuple[StatementsMade, Counter[str] | None]:
        with report_write_errors(out):
            made = await make_statements(store, out, wanted)
        return made, await send_statements(store, register) if register is not None else None

    _end_with(*run_in_store(database, work), as_json=as_json)


@app.command("send")
def send_(
    to: To = None, attempts: Attempts = 6, as_json: AsJson = False, database: Database = None
) -> None:
    """Send the statements that were not sent yet. Exit status 1: the register refused one."""
    from tribunal.review.register import send_statements

    register = _open_register(to, attempts)
    _end_with(
        None,
        run_in_store(database, lambda store: send_statements(store, register)),
        as_json=as_json,
    )


@app.command("list")
def list_(
    status: Annotated[
        str | None,
        Option(
            help="Only statements with this status: made, sent, known (there before) or refused."
        ),
    ] = None,
    case: Annotated[str | None, Option(metavar="ID", help="Only that of this case.")] = None,
    as_json: JsonLines = False,
    database: Database = None,
) -> None:
    """List the statements: id, case, status, place, and the error if it was refused."""
    from sqlalchemy import select

    from tribunal.review.case_tables import iso_time
    from tribunal.store.tables import statements as table

    query = select(table).order_by(table.c.created, table.c.file, table.c.place)
    if status is not None:
        query = query.where(table.c.status == status)
    if case is not None:
        query = query.where(table.c.case_id == case)

    async def print_statements(store: Store) -> None:
        any_listed = False
        async with store.reading() as connection:
            async for row in (await connection.stream(query)).mappings():
                any_listed = True
                held: JSON = {
                    **row,
                    "created": iso_time(row["created"]),
                    "sent": iso_time(row["sent"]),
                }
                if as_json:
                    say_json(held)
                else:
                    where = held["permalink"] or held["file"]
                    say(
                        f"{held['puid']}  {held['case_id']}  {held['status']}  {where}  {held['error'] or ''}".rstrip()
                    )
        if not any_listed and not as_json:
            say(
                "No statements."
                if status is None and case is None
                else "No statements match these filters."
            )

    run_in_store(database, print_statements)


def _fields_of_options(visibility: list[str] | None, field: list[str] | None) -> dict[str, Any]:
    """Return what options say, by field. A value that is a list in TOML is one here."""
    from tribunal.core.text import parse_toml

    given: dict[str, Any] = {}
    for name, value in parse_pairs(field, "field", "NAME=VALUE").items():
        try:
            given[name] = (
                parse_toml(f"value = {value}")["value"] if value.startswith(("[", '"')) else value
            )
        except ValueError:
            given[name] = value
    if visibility:
        prefix = "DECISION_VISIBILITY_"
        given["decision_visibility"] = [
            each if each.startswith(prefix) else f"{prefix}{each}" for each in visibility
        ]
    return given


def _open_register(to: str | None, attempts: int) -> Register:
    from tribunal.review.register import Register
    from tribunal.settings.environment import setting

    if to is None:
        raise BadInput(
            "to: where to send is missing; give --to URL, first that of the register's sandbox"
        )
    return Register(to, setting(TOKEN) or "", attempts=attempts)


def _end_with(made: StatementsMade | None, ended: Counter[str] | None, *, as_json: bool) -> None:
    """Print what was made and sent, and end with status 1 if the register refused any."""
    result: JSON = {}
    if made is not None:
        files = [{"file": str(path), "statements": number} for path, number in made.files.items()]
        result = {
            "statements": made.files.total(),
            "files": files,
            "left_out": dict(sorted(made.left_out.items())),
        }
    if ended is not None:
        result |= {name: ended[name] for name in ("sent", "known", "refused")}
    if as_json:
        say_json(result)
    else:
        print_template("dsa", result=result)
        print_template("dsa_left_out", aside=True, reasons=result.get("left_out", {}))
    raise Exit(1 if result.get("refused") else 0)


@app.command("report")
def report_transparency(
    begin: Annotated[
        datetime, Option("--from", metavar="DATE", formats=DATES, help="Start (UTC).")
    ],
    end: Annotated[
        datetime,
        Option("--to", metavar="DATE", formats=DATES, help="End (UTC), exclusive."),
    ],
    form: Annotated[str, Option("--format", help="html, markdown, json or csv.")] = "markdown",
    out: Annotated[
        Path | None, Option(metavar="FILE", help="The file to write. Default: print the report.")
    ] = None,
    suppress_below: Annotated[
        int | None,
        Option(
            min=2,
            metavar="NUMBER",
            help="Leave out counts by category and language that are above 0 and below this.",
        ),
    ] = None,
    database: Database = None,
) -> None:
    """Write the transparency report: decisions, automated share, reversals, times. It quotes no post."""
    from tribunal.process.files import write_whole
    from tribunal.service.replica.figures import TimeSpan
    from tribunal.service.replica.transparency import FORMATS, render_transparency
    from tribunal.service.replica.transparency import count_transparency as numbers

    if form not in FORMATS:
        raise BadInput(f"format: {form!r}: is none of {', '.join(FORMATS)}")
    since = epoch_seconds(begin) or 0.0
    until = epoch_seconds(end) or 0.0
    if until <= since:
        raise BadInput(f"to: {end:%Y-%m-%dT%H:%M}: is not after --from; give a later time")
    span = TimeSpan(since=since, until=until)
    report = render_transparency(
        run_in_store(database, lambda store: numbers(store, span, suppress_below)), form
    )
    if out is None:
        say(report.rstrip("\n"), lines=True)
        return
    with report_write_errors(out):
        write_whole(out, report)
    say(str(out))
