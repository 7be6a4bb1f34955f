"""`tribunal forget`: the words and images of cases, erased."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.database import login_name, run_in_docket
from tribunal.commands.shared_options import Database, Yes
from tribunal.errors import BadInput
from tribunal.terminal import say, say_json
from tribunal.text import count_noun

if TYPE_CHECKING:
    from tribunal.cases.docket import Docket
    from tribunal.cases.erasure import ErasureRequest, ErasureResult


def forget(
    post: Annotated[str | None, typer.Option(metavar="ID", help="Every case of the post with this id.")] = None,
    case: Annotated[str | None, typer.Option(metavar="ID", help="This case.")] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="All cases decided at least this long ago: 90d, 12h.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the cases.")] = False,
    yes: Yes = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, and don't ask: give --yes or --dry-run.")
    ] = False,
    database: Database = None,
) -> None:
    """Erase the words and images of cases. What was decided stays, and so does the audit log."""
    from tribunal.cases.erasure import count_erasable

    chosen = _chosen_cases(post, case, older_than)
    meant = run_in_docket(database, lambda docket: count_erasable(docket.store, chosen))
    cases = count_noun(meant.cases, "case")
    if not (dry_run or yes):
        if as_json or not sys.stdin.isatty():
            raise BadInput(f"forget: {cases}: nothing can be asked here; give --yes or --dry-run")
        if meant.cases:
            typer.confirm(f"Erase the words of {cases}? They can't be brought back", abort=True)
    if dry_run or not meant.cases:
        if as_json:
            say_json({"cases": meant.cases, "left": meant.left, "erased": False})
        else:
            say(f"{cases} would lose their words" if meant.cases else "no such case has any")
            _print_left(meant.left)
        return
    done, clean = run_in_docket(database, lambda docket: _erase(docket, chosen))
    if as_json:
        say_json({"cases": done.cases, "left": done.left, "erased": True, "wiped": clean})
    else:
        say(f"the words of {count_noun(done.cases, 'case')} are erased")
        _print_left(done.left)
    if not clean:
        say(
            "another process was reading, so a write-ahead log still holds old pages; run this again later, or "
            "restart that process",
            aside=True,
        )
        raise typer.Exit(1)


def _chosen_cases(post: str | None, case: str | None, older_than: str | None) -> ErasureRequest:
    from tribunal.cases.erasure import ErasureRequest
    from tribunal.times import seconds_of

    if sum(each is not None for each in (post, case, older_than)) != 1:
        raise BadInput("forget: give one of --post, --case and --older-than")
    try:
        age = None if older_than is None else seconds_of(older_than)
    except ValueError as error:
        raise BadInput(f"older-than: {error}") from error
    return ErasureRequest(post=post, case=case, older_than=age)


async def _erase(docket: Docket, chosen: ErasureRequest) -> tuple[ErasureResult, bool]:
    """Erase them; return also whether the disk holds nothing of them any more."""
    from tribunal.cases.erasure import erase_words, remove_images, wipe_file
    from tribunal.exports.finished_cases import forget_erased_precedents
    from tribunal.store.audit import Who

    store = docket.store
    done = await erase_words(store, chosen, Who(who="operator", name=login_name()))
    await asyncio.to_thread(remove_images, done.images)
    clean = store.file is None or await asyncio.to_thread(wipe_file, store.file, rewrite=True)
    try:
        await forget_erased_precedents(store)
    except BadInput as error:
        raise BadInput(f"forget: the words are erased, and a store of precedents may keep them: {error}") from error
    return done, clean


def _print_left(left: int) -> None:
    if left:
        are = "1 is left as it is: it waits" if left == 1 else f"{left:,} are left as they are: they wait"
        say(f"{are} for a person, under way, or under appeal", aside=True)
