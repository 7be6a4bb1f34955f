"""`tribunal appeals`: decisions of the service that were opened again, and what a person decides on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tribunal.commands.database import run_in_store
from tribunal.commands.printing import print_template
from tribunal.commands.shared_options import AsJson, Clauses, Database
from tribunal.errors import BadInput
from tribunal.terminal import say, say_json

if TYPE_CHECKING:
    from tribunal.schema import JSON
    from tribunal.service.replica.appeals import Appeals

app = typer.Typer(help="List, show and decide the appeals of tribunal serve.", no_args_is_help=True)
AppealId = Annotated[str, typer.Argument(metavar="ID", help="The appeal's id, as tribunal appeals list shows it.")]
_STATUS = ("waiting", "trying", "tried", "decided")
_PAGE = 200  # appeals that are read at a time
Given = TypeVar("Given")


def _with_appeals(database: str | None, work: Callable[[Appeals], Awaitable[Given]]) -> Given:
    """Do something with the appeals of a database.

    Raises:
        BadInput: it can't be done.
    """
    from tribunal.cases.outbox import Outbox
    from tribunal.cases.problem import Problem
    from tribunal.service.replica.appeals import Appeals

    try:
        # Nobody appeals from here, so how long one may doesn't matter.
        return run_in_store(database, lambda store: work(Appeals(store, Outbox(store), 0.0)))
    except Problem as problem:
        raise BadInput(problem.message) from None


@app.command("list")
def list_appeals(
    status: Annotated[
        str | None, typer.Option(help="waiting, trying, tried or decided. Without it: all that aren't decided.")
    ] = None,
    database: Database = None,
) -> None:
    """List appeals, the oldest first: id, case, kind, status, when it was received, and the decision before."""
    if status is not None and status not in _STATUS:
        raise BadInput(f"status: {status}: is none; they are {', '.join(_STATUS)}")

    async def find_rows(appeals: Appeals) -> list[JSON]:
        rows: list[JSON] = []
        for wanted in [status] if status else _STATUS[:-1]:
            before = None
            while True:
                page = await appeals.search({"status": wanted}, before=before, limit=_PAGE)
                rows += page
                if len(page) < _PAGE:
                    break
                before = page[-1]["id"]
        return sorted(rows, key=lambda row: float(row["created"]))

    print_template("appeals", rows=_with_appeals(database, find_rows))


@app.command("show")
def show(
    appeal_id: AppealId,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Show an appeal: who appeals and why, what was decided before, and what came of a new trial."""

    async def read(appeals: Appeals) -> tuple[JSON, JSON | None]:
        row = await appeals.find(appeal_id)
        trial = await appeals.trial(row)
        return row, trial["record"] if trial is not None else None

    row, trial = _with_appeals(database, read)
    if as_json:
        say_json({**row, "trial": trial})
    else:
        print_template("appeal", row=row, trial=trial)


@app.command("decide")
def decide(
    appeal_id: AppealId,
    reviewer: Annotated[str, typer.Option(help="Who decides: another person than the one who decided the case.")],
    uphold: Annotated[bool, typer.Option("--uphold", help="The decision stands.")] = False,
    change: Annotated[
        str | None, typer.Option(metavar="CATEGORY", help="Another category of the case's policy, by name or number.")
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Order a new trial that hears the appeal; a running replica holds it.")
    ] = False,
    note: Annotated[str, typer.Option(help="Why. Required with --change.")] = "",
    clauses: Clauses = None,
    database: Database = None,
) -> None:
    """Decide an appeal: uphold the decision, change it, or order a new trial and decide after it."""
    ways = {"uphold": uphold, "change": change is not None, "retry": retry}
    if sum(ways.values()) != 1:
        raise BadInput("decide: give one of --uphold, --change CATEGORY and --retry")
    action: Any = next(name for name, given in ways.items() if given)
    who = f"{reviewer.strip()} (operator)"
    given: Any = {"category": change, "note": note, "clauses": clauses or ()}
    row = _with_appeals(database, lambda appeals: appeals.decide(appeal_id, who, action, **given))
    if row["status"] == "decided":
        say(f"{row['id']}: {row['result']}: {row['category']}")
    else:
        say(f"{row['id']}: a new trial is ordered: {row['trial_id']}; decide once it is tried")
