"""The database of a command: its option, the dates by which cases are chosen, and how it is opened."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Option

from tribunal.commands.options import extend_options
from tribunal.errors import BadInput
from tribunal.process.terminal import say

if TYPE_CHECKING:
    from tribunal.docket.case_search import ContentFilter
    from tribunal.docket.docket import Docket
    from tribunal.schema import Record
    from tribunal.store.engine import Store

Result = TypeVar("Result")
Filter = TypeVar("Filter", bound="ContentFilter")


def epoch_seconds(when: datetime | None) -> float | None:
    """Return a time in seconds of the epoch."""
    return when.replace(tzinfo=UTC).timestamp() if when is not None else None


def _list_contents(
    category: Annotated[
        str | None, Option(help="The verdict's, by its name; the models' while a case waits.")
    ] = None,
    clause: Annotated[
        str | None, Option(metavar="ID", help="A clause that the outcome rests on.")
    ] = None,
    severity: Annotated[
        str | None, Option(help="The highest of its clauses: low, medium, high or critical.")
    ] = None,
    image: Annotated[
        str | None, Option(help="Posts with or without an image: with, without.")
    ] = None,
    language: Annotated[str | None, Option(metavar="CODE", help="Of the post.")] = None,
    older: Annotated[
        float | None, Option(min=0, metavar="HOURS", help="Older than so many hours.")
    ] = None,
    younger: Annotated[
        float | None, Option(min=0, metavar="HOURS", help="Younger than so many hours.")
    ] = None,
    surer: Annotated[float | None, Option(min=0, max=1, help="At least so confident.")] = None,
    less_sure: Annotated[float | None, Option(min=0, max=1, help="At most so confident.")] = None,
    cluster: Annotated[
        str | None,
        Option(metavar="CASE", help="Cases to review with this case's text, image and policy."),
    ] = None,
    text: Annotated[str | None, Option(metavar="WORDS", help="Words of the post.")] = None,
) -> dict[str, Any]:
    return locals()


# Adds the filters of cases to a command's options. The command is given their values as `contents`.
with_contents = partial(extend_options, parameter="contents", parse=_list_contents)


def filter_from_options(kind: type[Filter], **given: object) -> Filter:
    """Return a filter of cases from options; raise BadInput if one is wrong."""
    from pydantic import ValidationError

    from tribunal.settings.validation import describe_validation_error

    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise BadInput(describe_validation_error(error)) from None


def require_service() -> None:
    """See that what the service is made of is there.

    Raises:
        BadInput: it isn't; with the command that installs it.
    """
    from tribunal.plugins import require_extra

    require_extra("service", "service")


def run_in_store(database: str | None, work: Callable[[Store], Awaitable[Result]]) -> Result:
    """Open the database, run `work` on it, close it, and return what `work` gives."""

    async def do_work() -> Result:
        from tribunal.store.engine import Store
        from tribunal.store.table_versions import database_problems

        store = await Store.open(database)
        try:
            with database_problems(store.address, "what is kept there"):
                return await work(store)
        finally:
            await store.close()

    return asyncio.run(do_work())


def run_in_docket(database: str | None, work: Callable[[Docket], Awaitable[Result]]) -> Result:
    """Run `work` on the docket of the database, and return what it gives."""

    async def do_work() -> Result:
        from tribunal.docket.docket import docket_here
        from tribunal.store.table_versions import database_problems

        docket = await docket_here(database)
        with database_problems(docket.store.address, "what is kept there"):
            return await work(docket)

    return asyncio.run(do_work())


def login_name() -> str:
    """Return the name that whoever runs this is logged in by; empty where there is none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def print_review_command(record: Record) -> None:
    """Print on standard error which command decides a case that waits for a person."""
    if record.outcome == "pending" and record.thread is not None:
        ways = "--accept (or --category NAME, or --ask QUESTION)"
        say(f"Decide it: tribunal review decide {record.thread} {ways}", aside=True)
