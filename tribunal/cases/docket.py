"""The docket: cases that a person may have to decide, in a SQLite file, so that another process can take them up.

LangGraph's checkpoints of a case and our list of cases lie in the same file. A case that no person has to see leaves
nothing in it. One process at a time works on a case, under a lease. How far a case is, its checkpoints say: the list is
written when it comes to rest, and whoever takes up one that was cut off looks at them first.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import is_invalid_resume
from langgraph.types import Command

from tribunal.cases.checkpoints import Checkpoints
from tribunal.cases.docket_file import make, told
from tribunal.cases.following import notes_of_run
from tribunal.cases.lease import LeaseLost, Leases
from tribunal.cases.shape import GIVEN, DocketEntry, Status, find_wrong_state
from tribunal.cases.threads import Looked, Threads
from tribunal.context import Context, context_from, kept_settings
from tribunal.database import Database, DatabaseError, Unwritable
from tribunal.environment import data_folder
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS, load_seats
from tribunal.loops import PerLoop
from tribunal.parsed import from_json
from tribunal.plugins import names
from tribunal.schema import JSON
from tribunal.store.ids import new_id
from tribunal.telling import Listener
from tribunal.trust import check_code, stored_settings

_LISTED = (
    "SELECT cases.thread, graph, settings, opened, post_id, reason, court, decided, holder, CASE"
    " WHEN until > ? THEN 'running' WHEN until IS NOT NULL OR status = 'running' THEN 'cut_off' ELSE status END"
    " AS status FROM cases LEFT JOIN leases USING (thread)"
)
_FORGET = (
    "DELETE FROM checkpoints WHERE thread_id = ?",
    "DELETE FROM writes WHERE thread_id = ?",
    "DELETE FROM cases WHERE thread = ?",
)
_TRIED = "is being tried"


def _in_a_word(court: JSON) -> str:
    """The court's outcome as the docket lists it; what the rehearsal model had a part in says so."""
    said = str(court.get("category") or court["outcome"])
    return f"{said} (by the rehearsal's rules)" if court.get("rehearsed") else said


class Docket:
    """An open docket, of one event loop.

    All methods raise `BadInput` where the file is damaged, and `DocketUnwritable` where it can't be written.
    """

    def __init__(self, database: Database) -> None:
        self.path = database.path
        self._db = database
        self._leases = Leases(database)
        self._saver = Checkpoints(database, self._leases)
        # Each step is on disk before the next begins, so that a crash costs no call but those in flight.
        self._threads = Threads(self._saver, "sync")

    @classmethod
    async def open(cls, path: str | Path | None = None) -> Docket:
        """The docket in a file; None is the one in the data folder.

        Raises:
            BadInput: the file can't be used.
        """
        file = await asyncio.to_thread(lambda: Path(path).expanduser() if path else data_folder() / "cases.sqlite")
        with told(file):
            return cls(await Database.open(file, prepare=partial(make, file)))

    async def close(self) -> None:
        await self._db.close()

    async def open_case(
        self, post: JSON, graph: str, context: Context, listen: Listener | None, config: RunnableConfig | None = None
    ) -> tuple[str, JSON]:
        """Try a new case until it is decided, or waits for a person.

        Returns:
            its thread, and its state. The thread is empty where nobody needs to see the case, and nothing is kept; and
            where it couldn't be kept, which a warning in the state says.

        Raises:
            BadInput: the post or a setting is wrong, or another process has taken the case over meanwhile.
        """
        thread = new_id()
        graph = await asyncio.to_thread(_trusted, graph)
        row = (thread, graph, json.dumps(kept_settings(context)), json.dumps(post), time.time())
        insert = "INSERT INTO cases (thread, graph, settings, given, opened, status) VALUES (?, ?, ?, ?, ?, 'running')"
        with told(self.path), self._saver.forgiving(thread) as unkept:
            async with AsyncExitStack() as lease:
                try:
                    taking = self._leases.held(thread, _TRIED, lambda made: made.execute(insert, row))
                    await lease.enter_async_context(taking)
                except Unwritable as error:
                    unkept.append(error)
                try:
                    state = await self._run(thread, graph, context, post, listen, config)
                except LeaseLost:
                    raise
                except BadInput:
                    await self._let_go(thread)
                    raise
                if find_wrong_state(state, context):  # nobody can review it; its record says why
                    await self._let_go(thread)
                    return "", state | {"thread": "", "waits": None}
                if not unkept:
                    try:
                        state = await self._rest(thread, graph, context) | notes_of_run(state)
                    except Unwritable as error:
                        unkept.append(error)
                if unkept:
                    await self._let_go(thread)
                    why = f"this case could not be kept for a person to review ({unkept[0]}); no thread holds it"
                    state |= {"warnings": [*state.get("warnings", []), why], "thread": "", "waits": None}
        return state["thread"], state

    async def finish(self, thread: str, listen: Listener | None = None) -> JSON:
        """Go on with a case whose process ended in the middle.

        Returns:
            its state: decided, waiting, or over with nobody to decide it, and then it isn't kept.

        Raises:
            BadInput: there is no such case, it isn't in the middle of anything, or a process works on it.
        """
        entry = await self.entry(thread)
        _check_open(entry)
        graph, context = await self._of(entry)
        with told(self.path), stored_settings():
            async with self._leases.held(thread, _TRIED):
                standing, *_ = await self._look(thread, graph, context)
                notes: JSON = {}
                if standing in ("unbegun", "under_way"):
                    given = await self.given(thread) if standing == "unbegun" else None
                    notes = notes_of_run(await self._run(thread, graph, context, given, listen))
                state = await self._rest(thread, graph, context) | notes
        if standing == "waiting" and entry.status == "pending":
            raise BadInput(f"thread: {thread}: is pending, and not in the middle of a trial; decide it")
        return state

    async def decide(
        self, thread: str, answer: JSON, listen: Listener | None = None, config: RunnableConfig | None = None
    ) -> JSON:
        """Give a waiting case a reviewer's answer (`ReviewAnswer`, as JSON), and go on with it.

        Returns:
            its state: decided, or waiting again after one more trial.

        Raises:
            BadInput: there is no such case, somebody else has decided it or is deciding it, its trial isn't over, or
                the answer is wrong. The case is as it was.
        """
        entry = await self.entry(thread)
        _check_open(entry)
        graph, context = await self._of(entry)
        wrong = None
        with told(self.path), stored_settings():
            async with self._leases.held(thread, f"is being decided by {answer.get('reviewer') or 'another reviewer'}"):
                standing, state, _ = await self._look(thread, graph, context)
                if standing == "waiting":
                    # An answer that a killed process left half taken in would be heard in the place of this one.
                    await self._saver.unanswer(thread)
                    try:
                        await self._run(thread, graph, context, Command(resume=answer), listen, config)
                    except BadInput as error:
                        if not is_invalid_resume(error):
                            raise
                        wrong = error
                elif standing != "over" or not state.get("review"):
                    raise _not_over(thread)
                state = await self._rest(thread, graph, context)
        if wrong:
            raise wrong
        if standing == "over":
            raise _decided(await self.entry(thread))
        return state

    async def state(self, thread: str) -> JSON:
        """The state of a case that waits or is decided, as it lies in the file.

        Raises:
            BadInput: there is no such case, or its trial isn't over.
        """
        entry = await self.entry(thread)
        if entry.status == "erased":
            raise _erased(entry)
        standing, state, _ = await self._look(thread, *await self._of(entry))
        if standing == "waiting" or state.get("review"):
            return state
        if entry.status == "running":
            raise BadInput(f"thread: {thread}: {entry.holder} right now; look again in a moment")
        raise _not_over(thread)

    async def entry(self, thread: str) -> DocketEntry:
        """A case as the docket lists it.

        Raises:
            BadInput: there is no such case.
        """
        found = await self._rows("thread = ?", thread)
        if not found:
            raise BadInput(f"thread: {thread}: there is no such case in {self.path}; tribunal review list shows them")
        return found[0]

    async def cases(self, *statuses: Status) -> list[DocketEntry]:
        """The cases of these states, the oldest first."""
        return [each for each in await self._rows("TRUE") if each.status in statuses]

    async def chosen(
        self, *, thread: str | None = None, post_id: str | None = None, before: float | None = None
    ) -> tuple[list[str], int]:
        """The cases whose words may be erased: by thread, by what the post is called, or decided and opened before.

        Returns:
            their threads; and how many were meant and are under way, or wait and were meant by their age alone.
        """
        meant = [
            each
            for each in await self._rows("status <> 'erased'")
            if each.thread == thread
            or (post_id is not None and each.post_id == post_id)
            or (before is not None and each.opened < before)
        ]
        free = ("decided",) if before is not None else ("decided", "pending", "cut_off")
        return [each.thread for each in meant if each.status in free], sum(each.status not in free for each in meant)

    async def holds(self, words: str) -> bool:
        """Whether a case whose words weren't erased was given these, as the path of its image is."""
        wanted = "SELECT 1 FROM cases WHERE status <> 'erased' AND instr(given, ?) LIMIT 1"
        with told(self.path, reading="the list"):
            return bool(await self._db.rows(wanted, words))

    async def erase(self, thread: str) -> None:
        """Erase the words of a case. Its line in the list stays, and says so.

        Raises:
            BadInput: there is no such case, or another process works on it.
        """
        entry = await self.entry(thread)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        said = f"{entry.decided}; its words were erased at {at}" if entry.decided else f"its words were erased at {at}"
        left = "UPDATE cases SET status = 'erased', given = '{}', decided = ? WHERE thread = ?"
        with told(self.path):
            async with self._leases.held(thread, "is being erased"):
                gone = [(statement, (thread,)) for statement in _FORGET[:2]]
                await self._end(thread, *gone, (left, (said, thread)))

    async def _run(
        self,
        thread: str,
        graph: str,
        context: Context,
        given: Any,
        listen: Listener | None,
        config: RunnableConfig | None = None,
    ) -> JSON:
        """Let a case go on until it ends or waits; gives its state as it was last streamed."""
        state, _ = await self._threads.run(thread, graph, context, given, listen, config)
        return state

    async def _look(self, thread: str, graph: str, context: Context) -> Looked:
        with told(self.path, reading=thread):
            return await self._threads.look(thread, graph, context)

    async def _rest(self, thread: str, graph: str, context: Context) -> JSON:
        """Write down what the docket lists of a case that has come to rest, and give its lease back; gives its state.

        A case that nobody has to decide is forgotten, and its state has no thread.
        """
        standing, state, _ = await self._look(thread, graph, context)
        review: JSON | None = state.get("review")
        if standing in ("unbegun", "under_way"):
            raise _not_over(thread)
        if review is None:
            await self._end(thread)
            return state | {"thread": ""}
        court = review["court"]
        decided = f"{review['action']} by {review['reviewer'] or 'somebody'} at {review['at']}"
        status = "pending" if standing == "waiting" else "decided"
        row = (
            status, state["post"]["id"], review["reason"], _in_a_word(court),
            decided if status == "decided" else None, thread,
        )  # fmt: skip
        update = "UPDATE cases SET status = ?, post_id = ?, reason = ?, court = ?, decided = ? WHERE thread = ?"
        await self._end(thread, (update, row))
        return state

    async def _end(self, thread: str, *statements: tuple[str, Sequence[Any]]) -> None:
        """The last write of a process that worked on a case: these statements, and without any it is forgotten."""

        def end(made: sqlite3.Connection) -> None:
            self._leases.check(made, thread)
            for statement, values in statements or [(each, (thread,)) for each in _FORGET]:
                made.execute(statement, values)
            self._leases.done(made, thread)

        await self._db.together(end)

    async def _let_go(self, thread: str) -> None:
        """Forget a new case that came to nothing, if that can be written."""
        with suppress(DatabaseError, LeaseLost):
            await self._end(thread)

    async def _of(self, entry: DocketEntry) -> tuple[str, Context]:
        """The graph and the settings of a case.

        Raises:
            BadInput: the graph isn't trusted, or a setting is none.
        """
        graph = await asyncio.to_thread(_trusted, entry.graph)
        try:
            await asyncio.to_thread(load_seats, graph, entry.settings)
            return graph, context_from(entry.settings)
        except BadInput as error:
            raise BadInput(f"thread: {entry.thread}: a setting of it in {self.path} can't be used: {error}") from error

    async def given(self, thread: str) -> JSON:
        """The post of a case, as it was given.

        Raises:
            BadInput: what lies there is none.
        """
        with told(self.path, reading=thread):
            [row] = await self._db.rows("SELECT given FROM cases WHERE thread = ?", thread)
            given: JSON = GIVEN.validate_json(row["given"])
        return given

    async def _rows(self, where: str, *values: Any) -> list[DocketEntry]:
        query = f"SELECT * FROM ({_LISTED}) WHERE {where} ORDER BY opened"  # noqa: S608
        with told(self.path, reading="the list"):
            rows = [dict(row) for row in await self._db.rows(query, time.time(), *values)]
            return [DocketEntry(**{**row, "settings": from_json(row["settings"])}) for row in rows]


def _trusted(graph: str) -> str:
    """The name by which a case holds its graph: a shipped or an installed one's, or the place of one that is allowed.

    Raises:
        BadInput: it is neither.
    """
    if graph in GRAPHS or graph in names("tribunal.graphs"):
        return graph
    if not graph.partition(":")[0].endswith(".py"):
        check_code(graph, stored=True)
        return graph
    path, _, member = graph.partition(":")
    place = f"{Path(path).expanduser().resolve()}:{member or 'graph'}"
    check_code(place, stored=True)
    return place


def _check_open(entry: DocketEntry) -> None:
    if entry.status == "decided":
        raise _decided(entry)
    if entry.status == "erased":
        raise _erased(entry)


def _erased(entry: DocketEntry) -> BadInput:
    return BadInput(f"thread: {entry.thread}: its words were erased, and only this is left: {entry.decided}")


def _decided(entry: DocketEntry) -> BadInput:
    return BadInput(f"thread: {entry.thread}: was decided already: {entry.decided}; nothing was changed")


def _not_over(thread: str) -> BadInput:
    return BadInput(f"thread: {thread}: its trial is not over; tribunal review resume {thread} goes on with it")


_dockets = PerLoop(Docket.open, Docket.close)


async def docket_here() -> Docket:
    """The docket in the data folder, open in the running event loop."""
    return await _dockets.here()
