"""`tribunal review appeals`: list, show and decide the appeals of the service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Argument, Option

from tribunal.commands.database import run_in_store
from tribunal.commands.printing import print_template
from tribunal.commands.shared_options import AsJson, Clauses, Database
from tribunal.errors import BadInput
from tribunal.process.terminal import say, say_json

if TYPE_CHECKING:
    from tribunal.review.appeals import Appeals
    from tribunal.schema import JSON

_STATUS = ("waiting", "trying", "tried", "decided")
_PAGE = 200  # appeals that are read at a time
Result = TypeVar("Result")


def _with_appeals(database: str | None, work: Callable[[Appeals], Awaitable[Result]]) -> Result:
    """Run `work` on the appeals of a database, and return its result."""
    from tribunal.docket.outbox import Outbox
    from tribunal.review.appeals import Appeals

    # Nobody appeals from here, so the number of days in which one may doesn't matter.
    return run_in_store(database, lambda store: work(Appeals(store, Outbox(store), 0.0)))


def handle_appeals(
    appeal_id: Annotated[
        str | None,
        Argument(
            metavar="[APPEAL]", help="The id of one appeal. Without it: a list, oldest first."
        ),
    ] = None,
    status: Annotated[
        str | None,
        Option(
            help="Of the list: waiting, trying, tried or decided. Default: all that are not decided."
        ),
    ] = None,
    uphold: Annotated[
        bool, Option("--uphold", help="Decide: the earlier decision remains.")
    ] = False,
    change: Annotated[
        str | None,
        Option(
            metavar="CATEGORY",
            help="Decide: another category of the case's policy, by name or number.",
        ),
    ] = None,
    retry: Annotated[
        bool,
        Option(
            "--retry",
            help="Order a new trial that is shown the appeal; a running replica holds it.",
        ),
    ] = False,
    reviewer: Annotated[
        str | None,
        Option(help="Who decides; not the person who decided the case. Required to decide."),
    ] = None,
    note: Annotated[str, Option(help="Why. Required with --change.")] = "",
    clauses: Clauses = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """List, show or decide appeals of the service: --uphold, --change CATEGORY, or --retry and decide afterwards."""
    actions = {"uphold": uphold, "change": change is not None, "retry": retry}
    if appeal_id is None:
        if any(actions.values()):
            raise BadInput(
                "review appeals: which appeal? Give its id; tribunal review appeals lists them"
            )
        _list_appeals(status, as_json, database)
    elif not any(actions.values()):
        _show_appeal(appeal_id, as_json, database)
    elif sum(actions.values()) != 1:
        raise BadInput("review appeals: give one of --uphold, --change CATEGORY and --retry")
    elif not (reviewer := (reviewer or "").strip()):
        raise BadInput("review appeals: who decides? Give --reviewer NAME")
    else:
        action: Any = next(name for name, chosen in actions.items() if chosen)
        decision: Any = {"category": change, "note": note, "clauses": clauses or ()}
        by = f"{reviewer} (operator)"
        row = _with_appeals(
            database, lambda appeals: appeals.decide(appeal_id, by, action, **decision)
        )
        if as_json:
            say_json(row)
        elif row["status"] == "decided":
            say(f"{row['id']}: {row['result']}: {row['category']}")
        else:
            say(f"{row['id']}: a new trial is ordered: {row['trial_id']}; decide when it has ended")


def _list_appeals(status: str | None, as_json: bool, database: str | None) -> None:
    """Print the appeals, the oldest first: id, case, kind, status, time of receipt, and the earlier decision."""
    if status is not None and status not in _STATUS:
        raise BadInput(f"--status: unknown status {status!r}; use one of: {', '.join(_STATUS)}")

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

    rows = _with_appeals(database, find_rows)
    if as_json:
        say_json(rows)
    elif rows:
        print_template("appeals", rows=rows)
    else:
        say("No appeals.")


def _show_appeal(appeal_id: str, as_json: bool, database: str | None) -> None:
    """Print an appeal: who appeals and why, the earlier decision, and the outcome of a new trial."""

    async def read(appeals: Appeals) -> tuple[JSON, JSON | None]:
        row = await appeals.find(appeal_id)
        trial = await appeals.trial(row)
        return row, trial["record"] if trial is not None else None

    row, trial = _with_appeals(database, read)
    if as_json:
        say_json({**row, "trial": trial})
    else:
        print_template("appeal", row=row, trial=trial)
