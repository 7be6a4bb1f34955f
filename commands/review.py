"""`tribunal review`: the cases that wait for a person, and deciding them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands import review_export
from tribunal.commands.database import login_name, print_review_command, run_in_docket
from tribunal.commands.errors import STATUS
from tribunal.commands.shared_options import AsJson, Database
from tribunal.errors import BadInput
from tribunal.terminal import print_table, say, say_json
from tribunal.times import format_time

if TYPE_CHECKING:
    from tribunal.cases.docket import Docket
    from tribunal.schema import JSON, Record

app = typer.Typer(
    name="review", help="The cases that a person has to decide.", no_args_is_help=True, rich_markup_mode=None
)

Thread = Annotated[str, typer.Argument(help="The case's thread, as the list shows it.")]
Reviewer = Annotated[str | None, typer.Option(help="Who decides. Default: the name you are logged in by.")]

app.command("export")(review_export.export)
app.command("import")(review_export.import_)


@app.command("list")
def list_(
    decided: Annotated[bool, typer.Option("--decided", help="Show decided cases, too.")] = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """List the cases that wait, those of the service included, the oldest first."""
    entries = run_in_docket(database, lambda docket: docket.entries(decided=decided))
    if as_json:
        say_json([each.model_dump(mode="json", exclude={"settings"}) for each in entries])
        return
    if not entries:
        say("No case is waiting for review.")
        return
    rows = []
    for each in entries:
        status = "interrupted; resume it" if each.status == "cut_off" else each.holder or each.status
        rows.append(
            (each.thread, each.post_id, format_time(each.opened), status, each.reason, each.court, each.decided)
        )
    print_table(("thread", "post", "waiting since", "status", "reason", "model verdict", "decided"), rows)


@app.command("show")
def show(thread: Thread, as_json: AsJson = False, database: Database = None) -> None:
    """Show a case: the post, what was said, what was found, and the outcome so far."""

    async def read(docket: Docket) -> tuple[Record, JSON]:
        return await docket.record(thread), await docket.row(thread)

    record, row = run_in_docket(database, read)
    if as_json:
        say_json(record.dump())
    else:
        print_case(record, str((row["post"] or {}).get("text") or ""))


@app.command("decide")
def decide(
    thread: Thread,
    accept: Annotated[bool, typer.Option("--accept", help="Take the court's outcome as it is.")] = False,
    category: Annotated[
        str | None, typer.Option(help="Decide otherwise: a category of the policy, by its name or number.")
    ] = None,
    ask: Annotated[
        str | None, typer.Option(metavar="QUESTION", help="Send the case back for one more trial, with this question.")
    ] = None,
    note: Annotated[str, typer.Option(help="Why; it becomes the explanation of an edited verdict.")] = "",
    reviewer: Reviewer = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Decide a case: --accept it, give another --category, or --ask a question."""
    import asyncio

    from tribunal.cases.session import submit_review
    from tribunal.cases.waiting_cases import answer_of

    if sum([accept, category is not None, ask is not None]) != 1:
        raise BadInput("decide: give one of --accept, --category and --ask")
    if ask is not None:
        answer = answer_of("ask", question=ask)
    else:
        answer = answer_of("accept", note=note) if accept else answer_of("change", category=category, note=note)
    answer = {**answer, "reviewer": reviewer or login_name() or None}
    _end_with(asyncio.run(submit_review(thread, answer, database=database)), as_json)


@app.command("resume")
def resume(thread: Thread, as_json: AsJson = False, database: Database = None) -> None:
    """Go on with a case whose process ended in the middle."""
    import asyncio

    from tribunal.cases.keep_options import keep_options
    from tribunal.cases.session import resume_case

    kept = keep_options("command", None, None, review=True, database=database)
    _end_with(asyncio.run(resume_case(thread, keep=kept, database=database)), as_json)


@app.command("claim")
def claim(
    thread: Thread,
    minutes: Annotated[float, typer.Option(min=1, max=1440, help="For how long.")] = 15,
    reviewer: Reviewer = None,
    database: Database = None,
) -> None:
    """Claim a case, so that nobody else decides it meanwhile, here or at the desk; claim it again to keep it longer."""
    from tribunal.store.audit import Who

    name = reviewer or login_name()
    by = Who(who="operator", name=name)
    run_in_docket(database, lambda docket: docket.waiting.claim(thread, name, minutes * 60, by))
    say(f"{thread} is yours for {minutes:g} min")


@app.command("release")
def release(thread: Thread, reviewer: Reviewer = None, database: Database = None) -> None:
    """Give a claim back."""
    from tribunal.store.audit import Who

    name = reviewer or login_name()
    run_in_docket(database, lambda docket: docket.waiting.release(thread, name, Who(who="operator", name=name)))
    say(f"{thread} is free again")


def _end_with(record: Record, as_json: bool) -> None:
    """Print the outcome of a case, and end with its status."""
    if as_json:
        say_json(record.dump())
    else:
        from tribunal.cases.view_maker import view_case
        from tribunal.commands.show import CasePrinter

        with CasePrinter(quiet=False, trace=False) as printer:
            printer.print_outcome(view_case(record))
        print_review_command(record)
    raise typer.Exit(STATUS[record.outcome])


def print_case(record: Record, post: str | None) -> None:
    """Print a case that is over: the post, what was said and found, and the outcome."""
    from tribunal.cases.view_maker import view_case
    from tribunal.commands.show import print_record

    print_record(record, view_case(record, post=post), post)
    print_review_command(record)
