"""The docket: cases that a person may have to decide, in a SQLite file, so that another process can take them up.

LangGraph's checkpoints of a case and our list of cases lie in the same file. A case that no person has to see leaves
nothing in it. One reviewer at a time decides a case: a claim with a lease keeps a second one out, who is told.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.errors import is_invalid_resume
from langgraph.types import Command
from pydantic import ValidationError

from tribunal.context import Context, context_from, kept_settings
from tribunal.database import Database
from tribunal.environment import data_folder
from tribunal.errors import BadInput
from tribunal.graphs import builder
from tribunal.loops import PerLoop
from tribunal.nodes.court.case import review_reason
from tribunal.schema import JSON, Review

Status = Literal["running", "pending", "decided"]
LEASE = 900.0  # seconds after which a claim is void: its reviewer's process has died, or hangs
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS cases (thread TEXT PRIMARY KEY, graph TEXT NOT NULL, settings TEXT NOT NULL,"
    " opened REAL NOT NULL, status TEXT NOT NULL, post_id TEXT, reason TEXT, court TEXT, decided TEXT)",
    "CREATE TABLE IF NOT EXISTS claims (thread TEXT PRIMARY KEY, reviewer TEXT NOT NULL, since REAL NOT NULL)",
)


@dataclass(frozen=True)
class DocketEntry:
    """A case as the docket lists it. `opened` is in seconds of the epoch; `court` and `decided` are one line each."""

    thread: str
    graph: str
    settings: JSON
    opened: float
    status: Status
    post_id: str | None
    reason: str | None
    court: str | None
    decided: str | None


Listener = Callable[[JSON], None]


class Docket:
    """An open docket, of one event loop."""

    def __init__(self, database: Database) -> None:
        self.path = database.path
        self._db = database
        self._saver = AsyncSqliteSaver(database.connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        self._compiled: dict[str, Any] = {}

    @classmethod
    async def open(cls, path: str | Path | None = None) -> Docket:
        """The docket in a file; None is the one in the data folder.

        Raises:
            BadInput: the file can't be used.
        """
        file = await asyncio.to_thread(lambda: Path(path).expanduser() if path else data_folder() / "cases.sqlite")
        try:
            docket = cls(await Database.open(file, schema=_SCHEMA))
            await docket._saver.setup()
        except (OSError, sqlite3.Error) as error:
            raise BadInput(f"cases: {file}: can't be used: {error}; give another file") from error
        return docket

    async def close(self) -> None:
        await self._db.close()

    async def open_case(self, post: JSON, graph: str, context: Context, listen: Listener | None) -> tuple[str, JSON]:
        """Try a new case until it is decided, or waits for a person.

        Returns:
            its thread, and its state; the thread is empty where nobody needs to see the case, and nothing is kept.
        """
        thread = f"case-{uuid.uuid4().hex[:12]}"
        settings = json.dumps(kept_settings(context))
        insert = "INSERT INTO cases (thread, graph, settings, opened, status) VALUES (?, ?, ?, ?, 'running')"
        await self._db.write(insert, thread, graph, settings, time.time())
        try:
            state = await self._go_on(thread, graph, context, post, listen)
        except BadInput:
            await self._forget(thread)
            raise
        return (thread, state) if state.get("waits") else ("", state)

    async def finish(self, thread: str, listen: Listener | None = None) -> JSON:
        """Go on with a case whose process ended in the middle of its trial.

        Raises:
            BadInput: there is no such case, or it isn't in the middle of anything.
        """
        case = await self.entry(thread)
        if case.status != "running":
            raise BadInput(f"thread: {thread}: is {case.status}, and not in the middle of a trial")
        if not (await self.state(thread)).get("post"):
            await self._forget(thread)
            raise BadInput(f"thread: {thread}: was cut off before its post was taken in; judge the post again")
        async with self._claimed(thread, "its trial, which goes on"):
            return await self._go_on(thread, case.graph, context_from(case.settings), None, listen)

    async def decide(self, thread: str, answer: JSON, listen: Listener | None = None) -> JSON:
        """Give a waiting case a reviewer's answer (`ReviewAnswer`, as JSON), and go on with it.

        Returns:
            its state: decided, or waiting again after one more trial.

        Raises:
            BadInput: there is no such case, somebody else has decided it or is deciding it, or the answer is wrong. The
                case is as it was.
        """
        await self._waiting(thread)
        async with self._claimed(thread, str(answer.get("reviewer") or "another reviewer")):
            case = await self._waiting(thread)  # between the first look and the claim somebody may have decided it
            try:
                return await self._go_on(
                    thread, case.graph, context_from(case.settings), Command(resume=answer), listen
                )
            except ValidationError as error:
                if not is_invalid_resume(error):
                    raise
                problem = error.errors(include_url=False)[0]
                where = f"{problem['loc'][-1]}: {problem['input']!r}: " if problem["type"] != "value_error" else ""
                raise BadInput(f"answer: {where}{problem['msg'].removeprefix('Value error, ')}") from error

    async def state(self, thread: str) -> JSON:
        """The state of a case as it lies in the file.

        Raises:
            BadInput: there is no such case.
        """
        case = await self.entry(thread)
        return await self._state(thread, self._graph(case.graph), context_from(case.settings))

    async def entry(self, thread: str) -> DocketEntry:
        """A case as the docket lists it.

        Raises:
            BadInput: there is no such case.
        """
        found = await self._rows("SELECT * FROM cases WHERE thread = ?", thread)
        if not found:
            raise BadInput(f"thread: {thread}: there is no such case in {self.path}; tribunal review list shows them")
        return found[0]

    async def cases(self, *statuses: Status) -> list[DocketEntry]:
        """The cases of these states, the oldest first."""
        marks = ", ".join("?" * len(statuses))
        return await self._rows(f"SELECT * FROM cases WHERE status IN ({marks}) ORDER BY opened", *statuses)  # noqa: S608

    async def _go_on(self, thread: str, graph: str, context: Context, given: Any, listen: Listener | None) -> JSON:
        compiled = self._graph(graph)
        config = {"configurable": {"thread_id": thread}}
        # Each step is on disk before the next begins, so that a crash costs no call but those in flight.
        if listen is None:
            await compiled.ainvoke(given, config, context=context, durability="sync")
        else:
            events = compiled.astream(
                given, config, context=context, stream_mode="custom", subgraphs=True, durability="sync"
            )
            async for _, event in events:
                listen(event)
        state = await self._state(thread, compiled, context)
        await self._write_down(thread, state)
        return state

    async def _state(self, thread: str, compiled: Any, context: Context) -> JSON:
        """The state of a case; one that waits for a person has in `review` what they are to look at, and why."""
        snapshot = await compiled.aget_state({"configurable": {"thread_id": thread}})
        asked = [each.value for task in snapshot.tasks for each in task.interrupts]
        state = {**snapshot.values, "thread": thread, "waits": asked[0][0] if asked else None}
        if asked:
            state["review"] = Review(reason=review_reason(state, context), court=state["outcome"]).dump()
        return state

    async def _write_down(self, thread: str, state: JSON) -> None:
        """What the docket lists of a case that has come to rest."""
        review: JSON | None = state.get("review")
        if review is None:
            await self._forget(thread)
            return
        waits, court = state["waits"], review["court"]
        decided = None if waits else f"{review['action']} by {review['reviewer'] or 'somebody'} at {review['at']}"
        await self._db.write(
            "UPDATE cases SET status = ?, post_id = ?, reason = ?, court = ?, decided = ? WHERE thread = ?",
            "pending" if waits else "decided",
            state["post"]["id"],
            review["reason"],
            court.get("category") or court["outcome"],
            decided,
            thread,
        )

    async def _forget(self, thread: str) -> None:
        await self._saver.adelete_thread(thread)
        await self._db.write("DELETE FROM cases WHERE thread = ?", thread)

    async def _waiting(self, thread: str) -> DocketEntry:
        case = await self.entry(thread)
        if case.status == "decided":
            raise BadInput(f"thread: {thread}: was decided already: {case.decided}; nothing was changed")
        if case.status == "running":
            raise BadInput(f"thread: {thread}: its trial is not over; tribunal review resume {thread} goes on with it")
        return case

    @asynccontextmanager
    async def _claimed(self, thread: str, reviewer: str) -> AsyncIterator[None]:
        """Keep others out of a case meanwhile."""
        now = time.time()
        taken = await self._db.write(
            "INSERT INTO claims (thread, reviewer, since) VALUES (?, ?, ?) ON CONFLICT (thread) DO UPDATE "
            "SET reviewer = excluded.reviewer, since = excluded.since WHERE claims.since < ?",
            thread, reviewer, now, now - LEASE,
        )  # fmt: skip
        if taken != 1:
            holder = await self._db.rows("SELECT reviewer FROM claims WHERE thread = ?", thread)
            who = holder[0]["reviewer"] if holder else "another reviewer"
            raise BadInput(f"thread: {thread}: is being decided by {who} right now; look again in a moment")
        try:
            yield
        finally:
            await self._db.write("DELETE FROM claims WHERE thread = ? AND since = ?", thread, now)

    async def _rows(self, query: str, *values: Any) -> list[DocketEntry]:
        rows = await self._db.rows(query, *values)
        return [DocketEntry(**{**dict(row), "settings": json.loads(row["settings"])}) for row in rows]

    def _graph(self, name: str) -> Any:
        if name not in self._compiled:
            self._compiled[name] = builder(name).compile(checkpointer=self._saver, name=name)
        return self._compiled[name]


_dockets = PerLoop(Docket.open, Docket.close)


async def docket_here() -> Docket:
    """The docket in the data folder, open in the running event loop."""
    return await _dockets.here()
