"""The docket: cases that a person may have to decide, as the terminal, Python and precedents have them.

It shares the database, and so the desk, with the service. A process that works on a case writes its own id into the row
and gives heartbeats. Whoever takes up a case that was cut off first looks at its checkpoints.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, or_, select

from tribunal.docket.case_store import CaseStore
from tribunal.docket.checkpoints import TakenOver
from tribunal.docket.decision_effects import Sampling, load_sampling
from tribunal.docket.docket_entries import DocketEntry, decided_line, entry_of_row, holder_line
from tribunal.docket.keeping import unkept_warning
from tribunal.docket.leases import (
    LEASE,
    Held,
    NewCase,
    held_case_from_row,
    new_owner,
    seconds_left,
    without_earlier_calls,
)
from tribunal.docket.record_rows import store_here
from tribunal.docket.trials import TrialResult, Trials, trusted_graph
from tribunal.docket.waiting_cases import (
    SOMEBODY,
    WaitingCases,
    check_waits,
    undoable_line,
)
from tribunal.errors import BadInput, Problem
from tribunal.graphs import load_seats
from tribunal.models.budget import spending_of
from tribunal.process.loops import PerLoop
from tribunal.schema import JSON, Record
from tribunal.settings.context import Context, context_from, settings_for_record
from tribunal.settings.environment import data_folder
from tribunal.store.audit import Who
from tribunal.store.engine import Store
from tribunal.store.table_versions import (
    DatabaseDamaged,
    DatabaseUnreachable,
    copy_old_cases,
    database_problems,
)
from tribunal.store.tables import cases, replicas
from tribunal.trust import stored_settings

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from tribunal.events import Listener

_LOG = logging.getLogger("tribunal")


class Docket:
    """The docket of one database, of one event loop.

    All methods raise `BadInput` where the database is damaged, and `DatabaseUnreachable` where it can't be written.

    Attributes:
        store: the database.
        waiting: its cases that wait for a person, to be claimed and given back.
    """

    def __init__(self, store: Store, sampling: Sampling | None = None) -> None:
        """Use `open`."""
        self.store = store
        self._cases = CaseStore(store, new_owner(), LEASE, sampling=sampling)
        self.waiting = WaitingCases(store)
        # Each step is on disk before the next begins, so that a crash costs no call but those in flight.
        self._trials = Trials(store, self._cases, moment=0)
        self._beating: asyncio.Task[None] | None = None
        self._at_work = 0
        self._at_rest = asyncio.Event()

    @classmethod
    async def open(cls, database: str | None = None) -> Docket:
        """Open the docket of a database; None is the one in the data folder.

        Raises:
            BadInput: it can't be used.
        """
        store = await store_here(database)
        await migrate_old_docket(store)
        return cls(store, await load_sampling(store))

    async def judge(
        self, post: JSON, graph: str, context: Context, listen: Listener | None, config: RunnableConfig | None = None,
        author_sha: str | None = None,
    ) -> Record:  # fmt: skip
        """Try a new case until it is decided, or waits for a person.

        Returns:
            its record. It has no thread where nobody needs to see the case, and nothing is kept; and where it couldn't
            be kept, which a warning says.

        Raises:
            BadInput: the post or a setting is wrong, or another process has taken the case over meanwhile.
            DatabaseUnreachable: the database can't be written; nothing was asked yet.
        """
        graph = await asyncio.to_thread(trusted_graph, graph)
        given = {name: value for name, value in post.items() if value}
        own: JSON = {
            "settings": settings_for_record(context),
            "via": "python",
            "author_sha": author_sha,
        }
        async with self._heartbeats():
            with self._problems_as_bad_input():
                held = await self._cases.begin(NewCase(graph=graph, post=given, **own))
            try:
                result = await self._try(held, listen, context, config, forgiving=True)
            except BadInput:
                await self._discard(held)
                raise
            why = result.unwritable
            if why is None:
                try:
                    return await self._finish(held, result)
                except (DatabaseUnreachable, DatabaseDamaged) as error:
                    why = str(error)
            await self._discard(held)
            return _without_thread(
                result.record, f"{unkept_warning(why, review=True)}; no thread holds it"
            )

    async def resume(self, thread: str, listen: Listener | None = None) -> Record:
        """Go on with a case whose process ended in the middle.

        Returns:
            its record: decided, waiting, or over with nobody to decide it, and then it isn't kept.

        Raises:
            BadInput: there is no such case, it isn't in the middle of anything, or a process works on it.
        """
        row = await self.row(thread)
        await self._check_at_rest(row, resumed=True)
        context = await self._context(row)
        waits = row["status"] == "done"
        if waits:
            with stored_settings():
                if (await self._trials.look(row, context)).standing == "waiting":
                    raise BadInput(
                        f"thread: {thread}: is pending, and not in the middle of a trial; decide it"
                    )
        async with self._heartbeats():
            with self._problems_as_bad_input(thread):
                held = await (
                    self._cases.reopen(row)
                    if waits
                    else self._cases.take_up(thread, any_way_in=True)
                )
                if held is None:
                    await self._check_at_rest(await self.row(thread), resumed=True)
                    raise TakenOver
            return await self._finish(held, await self._try(held, listen, context))

    async def decide(
        self,
        thread: str,
        answer: JSON,
        listen: Listener | None = None,
        config: RunnableConfig | None = None,
    ) -> Record:
        """Give a waiting case a reviewer's answer (`ReviewAnswer`, as JSON), and go on with it.

        Returns:
            its record: decided, or waiting again after one more trial.

        Raises:
            BadInput: there is no such case, somebody else has decided, claimed or is deciding it, its trial isn't over,
                or the answer is wrong. The case is as it was.
        """
        reviewer = str(answer.get("reviewer") or SOMEBODY)
        row = await self.row(thread)
        await self._check_at_rest(row)
        context = await self._context(row)
        with self._problems_as_bad_input(thread, reading=thread), stored_settings():
            check_waits(row, reviewer)
            await self._trials.check_answer(row, answer)
        by = Who(who="operator", name=reviewer)
        async with self._heartbeats():
            with self._problems_as_bad_input(thread):
                changed = await self.waiting.take_answer(
                    row, reviewer, answer, by, self._cases.replica
                )
            held = held_case_from_row(changed)
            try:
                result = await self._try(held, listen, context, config)
            except DatabaseUnreachable:
                raise
            except BadInput as error:
                with suppress(Exception):
                    await self._cases.cancel(held, str(error))  # it goes back to whoever is asked
                raise
            return await self._finish(held, result)

    async def record(self, thread: str) -> Record:
        """Return the record of a case that waits or is decided.

        Raises:
            BadInput: there is no such case, its trial isn't over, or its words were erased.
        """
        row = await self.row(thread)
        if row["erased"] is not None and row["words"]:
            raise BadInput(
                f"thread: {thread}: its words were erased, and only this is left: {decided_line(row)}"
            )
        if row["status"] != "done":
            await self._check_at_rest(row)
        with self._problems_as_bad_input(reading=thread):
            return Record.model_validate(row["record"])

    async def row(self, thread: str) -> JSON:
        """Return a case as it lies in the database.

        Raises:
            BadInput: there is no such case.
        """
        with self._problems_as_bad_input(reading=thread):
            try:
                row = await self._cases.case(thread)
                entry_of_row({**row, "seen": None})  # else it is told that the row can't be read
                return row
            except Problem:
                missing = f"there is no such case in {self.store.address}; tribunal review list shows them"
                raise BadInput(f"thread: {thread}: {missing}") from None

    async def entries(self, *more: Any, decided: bool = False) -> list[DocketEntry]:
        """Return the cases that wait for a person or are under way, the oldest first; also those `decided` by one."""
        told_of = or_(cases.c.via != "service", cases.c.answer.is_not(None))
        under_way = and_(cases.c.status.in_(("running", "queued")), told_of)
        meant = [
            cases.c.waits_since.is_not(None),
            under_way,
            *([cases.c.reviewer.is_not(None)] if decided else []),
        ]
        shown = select(cases, replicas.c.seen).join(
            replicas, replicas.c.id == cases.c.owner, isouter=True
        )
        wanted = shown.where(or_(*meant), cases.c.appeal_id.is_(None), *more).order_by(
            "created", "id"
        )
        with self._problems_as_bad_input(reading="the list"):
            return [entry_of_row(row) for row in await self.store.fetch_rows(wanted)]

    async def settle_copied(self, thread: str) -> None:
        """Let a case that was copied from an earlier release's docket wait, or be decided, as it did there.

        One whose graph isn't allowed here, or that was in the middle of a trial, stays cut off, and says why when
        somebody resumes it.
        """
        with suppress(BadInput):
            row = await self.row(thread)
            context = await self._context(row)
            with stored_settings():
                standing = (await self._trials.look(row, context)).standing
            if standing in ("waiting", "over"):
                await self.resume(thread)

    # How a case is worked on

    @asynccontextmanager
    async def _heartbeats(self) -> AsyncIterator[None]:
        """Give a heartbeat while any such block is open, by which others know that this process has its cases still.

        What the first heartbeat raises is raised here.
        """
        self._at_work += 1
        try:
            if self._at_work == 1:
                with self._problems_as_bad_input():
                    await self._cases.send_heartbeat()
                self._at_rest.clear()
                self._beating = asyncio.create_task(self._beat_until_rest())
            yield
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._at_rest.set()
                if self._beating is not None:  # not cancelled: it may be writing
                    await self._beating
                    self._beating = None
                with suppress(Exception):
                    await self._cases.deregister()

    async def _beat_until_rest(self) -> None:
        while not self._at_rest.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._at_rest.wait(), LEASE / 6)
            if not self._at_rest.is_set():
                with suppress(
                    Exception
                ):  # a disk that is full for a while; it beats again in a moment
                    await self._cases.send_heartbeat()

    @contextmanager
    def _problems_as_bad_input(self, thread: str = "", *, reading: str = "") -> Iterator[None]:
        """Raise what is the matter with the database, as `database_problems`, or with a case, as the terminal does."""
        try:
            with database_problems(self.store.address, reading=reading):
                yield
        except TakenOver:
            left = f"nothing of this one was kept; tribunal review show {thread} has it"
            raise BadInput(
                f"thread: {thread}: another process has taken this case over, so {left}"
            ) from None
        except Problem as problem:
            raise BadInput(
                f"thread: {thread}: {problem.message.removeprefix(f'case: {thread}: ')}"
            ) from None

    async def _try(
        self, held: Held, listen: Listener | None, context: Context, config: RunnableConfig | None = None,
        *, forgiving: bool = False,
    ) -> TrialResult:  # fmt: skip
        """Let a case go on until it ends or waits, as `Trials.run`; one that isn't new has stored settings."""
        with (
            self._problems_as_bad_input(held.id),
            nullcontext() if forgiving else stored_settings(),
        ):
            return await self._trials.run(held, listen, context, config, forgiving=forgiving)

    async def _finish(self, held: Held, result: TrialResult) -> Record:
        """Write down how a case came to rest; one that nobody has to decide is forgotten.

        Raises:
            DatabaseUnreachable: that can't be written.
            BadInput: another process has taken the case over.
        """
        record = result.record
        with self._problems_as_bad_input(held.id):
            if (result.question is None and record.review is None) or not result.readable:
                await self._cases.discard(held)
                return _without_thread(record)
            record = record.model_copy(update={"kept": held.id})
            question = result.question.dump() if result.question else None
            paid = without_earlier_calls(held, record)
            spent = spending_of(paid.calls, None)  # the service's price table says what they cost
            if not await self._cases.finish(
                held, record, question, spent=spent, money=spent.known_money
            ):
                raise TakenOver
        return record

    async def _discard(self, held: Held) -> None:
        """Forget a new case that came to nothing, if that can be written."""
        with suppress(Exception):
            await self._cases.discard(held)

    async def _context(self, row: JSON) -> Context:
        """Return the settings of a case.

        Raises:
            BadInput: its graph isn't trusted, or a setting is none.
        """
        await asyncio.to_thread(trusted_graph, row["graph"])
        try:
            with stored_settings():
                await asyncio.to_thread(load_seats, row["graph"], row["settings"])
                return context_from(row["settings"])
        except BadInput as error:
            raise BadInput(
                f"thread: {row['id']}: a setting of it can't be used: {error}"
            ) from error

    async def _check_at_rest(self, row: JSON, *, resumed: bool = False) -> None:
        """Check that no process works on a case, and that its trial is over unless it is to be resumed.

        Raises:
            BadInput: one does, or it isn't; or it was decided already.
        """
        thread = row["id"]
        if row["erased"] is not None and row["question"] is None and row["words"]:
            raise BadInput(
                f"thread: {thread}: its words were erased, and only this is left: {decided_line(row)}"
            )
        if row["status"] in ("done", "cancelled"):
            if row["question"] is None:
                raise BadInput(
                    f"thread: {thread}: was decided already: {decided_line(row)}; nothing was changed"
                )
            return
        undoable = undoable_line(row)
        if undoable:
            raise BadInput(f"thread: {thread}: {undoable}")
        seen = await self.store.fetch_value(
            select(replicas.c.seen).where(replicas.c.id == row["owner"])
        )
        left = seconds_left(seen)
        if left:
            raise BadInput(
                f"thread: {thread}: {holder_line(row)} right now, in another process; look again in a moment "
                f"(if that process was killed: in {max(1, round(left))} s)"
            )
        if not resumed:
            raise BadInput(
                f"thread: {thread}: its trial is not over; tribunal review resume {thread} goes on with it"
            )


def _without_thread(record: Record, *warnings: str) -> Record:
    """Return the record of a case that lies nowhere."""
    return record.model_copy(update={"thread": None, "warnings": (*record.warnings, *warnings)})


async def migrate_old_docket(store: Store) -> None:
    """Bring an earlier release's docket into the database beside it; on any other database, log that it is left alone.

    A process that is killed over it does no harm: the file is there until the last case is in the database.

    Raises:
        BadInput: the old docket's file is damaged, none of ours, or of another version.
    """
    file = await asyncio.to_thread(data_folder) / "cases.sqlite"
    if not await asyncio.to_thread(file.exists):
        return
    beside = file.with_name("service.sqlite")
    if store.file is None or store.file.resolve() != beside.resolve():
        _LOG.warning(
            "%s: holds cases of an earlier release, and they are not in %s; without --database and TRIBUNAL_DATABASE, "
            "tribunal review list moves them to %s", file, store.address, beside,
        )  # fmt: skip
        return
    docket = Docket(store)
    for thread in await asyncio.to_thread(copy_old_cases, file, store.file):
        await docket.settle_copied(thread)
    for suffix in ("", "-wal", "-shm"):
        file.with_name(f"{file.name}{suffix}").unlink(missing_ok=True)


_dockets = PerLoop(Docket.open)


async def docket_here(database: str | None = None) -> Docket:
    """Return the running event loop's docket of a database; None is the one in force: TRIBUNAL_DATABASE's, or the file.

    Raises:
        BadInput: as `Docket.open`.
    """
    return await _dockets.get(database or os.environ.get("TRIBUNAL_DATABASE") or None)
