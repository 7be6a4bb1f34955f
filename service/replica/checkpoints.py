"""LangGraph's checkpoints in the service's database: gathered for a moment, and written under the case's fence.

A trial that is over before the moment has passed writes nothing at all, and of the checkpoints of a moment only the
last counts. So a replica that is killed loses the calls in flight and those of the last second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from inspect import signature
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.types import RESUME
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.cases.checkpoints import Packed, Plain, checkpoint_row, made_at, next_version, write_rows
from tribunal.errors import BadInput
from tribunal.service.replica.caseload import MINE, Caseload, Held
from tribunal.store.checkpoint_tables import names
from tribunal.store.engine import Store
from tribunal.store.tables import cases

_LOG = logging.getLogger(__name__)
MOMENT = 1.0  # seconds for which checkpoints are gathered
_STILL_MINE = select(cases.c.id).where(MINE).with_for_update(read=True)  # on SQLite the whole file is locked
_Writes = tuple[RunnableConfig, Sequence[tuple[str, Any]], str, str]


class TakenOver(Exception):
    """Another replica has the case now: nothing of this trial counts any more."""


class Checkpoints(BaseCheckpointSaver[str]):
    """The checkpoints of the cases that a replica tries; only of those that it has begun with (`of`)."""

    def __init__(self, store: Store, caseload: Caseload) -> None:
        super().__init__(serde=Plain())
        self._store, self._caseload = store, caseload
        self._trials: dict[str, Attempt] = {}

    @asynccontextmanager
    async def of(self, held: Held) -> AsyncIterator[Attempt]:
        """While this is open, the checkpoints of a case are this attempt's."""
        trial = self._trials[held.id] = Attempt(held)
        try:
            yield trial
        except BaseException:
            with suppress(Exception):
                await asyncio.shield(self._write(trial))  # for whoever takes it up next
            raise
        finally:
            async with trial.lock:  # a transaction that was begun is ended
                if trial.writing:
                    trial.writing.cancel()
                    trial.writing = None  # else it and its trial hold each other until the collector finds them
            if self._trials.get(held.id) is trial:
                del self._trials[held.id]

    async def unanswer(self, held: Held) -> None:
        """Take away answers to a question that the case still waits on.

        Raises:
            TakenOver: another replica has the case now.
        """
        table = names(postgres=self._store.postgres)[-1]
        gone = text(f"DELETE FROM {table} WHERE thread_id = :thread AND channel = :channel")  # noqa: S608
        async with self._store.transaction() as connection:
            await self._fence(connection, held)
            await connection.execute(gone, {"thread": held.id, "channel": RESUME})

    # What LangGraph asks

    def get_next_version(self, current: str | None, channel: None) -> str:
        return next_version(current)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        trial = self._trial(config)
        trial.spaces.add(config["configurable"]["checkpoint_ns"])
        trial.gathered.put(config, checkpoint, metadata, set(new_versions))
        self._soon(trial)
        return made_at(config, checkpoint)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        trial = self._trial(config)
        trial.gathered.writes.append((config, list(writes), task_id, task_path))
        self._soon(trial)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        trial = self._trials.get(str(config["configurable"]["thread_id"]))
        if trial is not None:
            if trial.held.attempt == 1 and config["configurable"].get("checkpoint_ns", "") not in trial.spaces:
                return None  # there can be nothing yet
            await self._write(trial)
        async with self._store.reading() as connection:
            return await (await self._library(connection)).aget_tuple(config)

    def _trial(self, config: RunnableConfig) -> Attempt:
        trial = self._trials[str(config["configurable"]["thread_id"])]
        if trial.lost:
            raise TakenOver
        return trial

    # The database

    async def _write(self, trial: Attempt) -> None:
        """Write what was gathered.

        Raises:
            TakenOver: another replica has the case now.
        """
        async with trial.lock:
            gathered, trial.gathered = trial.gathered, _Gathered()
            if not gathered or trial.unfit:
                return
            try:
                async with self._store.transaction() as connection:
                    await self._fence(connection, trial.held)
                    await self._put(connection, gathered)
            except TakenOver:
                trial.lost = True
                raise
            except BadInput as error:  # a state that holds more than plain values is tried without
                _LOG.warning("case %s: has no checkpoints: %s", trial.held.id, error)
                trial.unfit = True
            except BaseException:
                trial.gathered = gathered.then(trial.gathered)
                raise
            trial.written = True

    def _soon(self, trial: Attempt) -> None:
        if trial.writing is None or trial.writing.done():
            trial.writing = asyncio.create_task(self._in_a_moment(trial))

    async def _in_a_moment(self, trial: Attempt) -> None:
        while trial.gathered and not trial.lost and not trial.unfit:
            await asyncio.sleep(MOMENT)
            try:
                await self._write(trial)
            except TakenOver:
                return  # which the trial is told at its next step
            except Exception as error:  # noqa: BLE001 (the database may come back)
                _LOG.warning("case %s: checkpoints can't be written: %s", trial.held.id, type(error).__name__)

    async def _fence(self, connection: AsyncConnection, held: Held) -> None:
        """Go on only while the case is this attempt's, and let nobody take it up before the transaction ends."""
        if (await connection.execute(_STILL_MINE, self._caseload.its(held))).first() is None:
            raise TakenOver

    async def _put(self, connection: AsyncConnection, gathered: _Gathered) -> None:
        if not self._store.postgres:
            for config, checkpoint, metadata, _ in gathered.checkpoints.values():
                await connection.exec_driver_sql(*checkpoint_row(config, checkpoint, metadata, self.serde))
            for each in gathered.writes:
                statement, rows = write_rows(*each, self.serde)
                if rows:
                    await connection.exec_driver_sql(statement, rows)
            return
        saver = await self._library(connection)
        for config, checkpoint, metadata, changed in gathered.checkpoints.values():
            # Words go where the rest of the state goes: JSONB takes neither NUL nor half a surrogate pair.
            values = checkpoint["channel_values"]
            packed = {name: Packed(each) if isinstance(each, str | float) else each for name, each in values.items()}
            versions = {name: version for name, version in checkpoint["channel_versions"].items() if name in changed}
            await saver.aput(config, {**checkpoint, "channel_values": packed}, metadata, versions)
        for each in gathered.writes:
            await saver.aput_writes(*each)

    async def _library(self, connection: AsyncConnection) -> AsyncPostgresSaver | AsyncSqliteSaver:
        """LangGraph's own saver, in the transaction of this connection."""
        driver: Any = (await connection.get_raw_connection()).driver_connection
        if self._store.postgres:
            return AsyncPostgresSaver(driver, serde=self.serde)
        saver = AsyncSqliteSaver(driver, serde=self.serde)
        saver.is_setup = True
        return saver


# LangGraph looks at it for every graph that it begins, and would else work it out anew.
Checkpoints.aput_writes.__signature__ = signature(Checkpoints.aput_writes)  # type: ignore[attr-defined]


class _Gathered:
    """Of each graph and subgraph its last checkpoint, with the channels that changed, and what tasks wrote since."""

    def __init__(self) -> None:
        self.checkpoints: dict[str, tuple[RunnableConfig, Checkpoint, CheckpointMetadata, set[str]]] = {}
        self.writes: list[_Writes] = []

    def __bool__(self) -> bool:
        return bool(self.checkpoints or self.writes)

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, changed: set[str]
    ) -> None:
        """A further checkpoint, which takes the place of the one before it and of what was written on that."""
        space = config["configurable"]["checkpoint_ns"]
        before = self.checkpoints.get(space)
        changed = changed | before[3] if before else changed
        self.checkpoints[space] = config, checkpoint, metadata, changed
        self.writes = [each for each in self.writes if not _overtaken(each, space, checkpoint["id"])]

    def then(self, later: _Gathered) -> _Gathered:
        """This, and what was gathered after it."""
        self.writes += later.writes
        for each in later.checkpoints.values():
            self.put(*each)
        return self


def _overtaken(writes: _Writes, space: str, checkpoint_id: str) -> bool:
    where = writes[0]["configurable"]
    return bool(where["checkpoint_ns"] == space and where["checkpoint_id"] != checkpoint_id)


class Attempt:
    """An attempt at a case. `written`: something of it lies in the database; until its block ends that may change."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.gathered = _Gathered()
        self.spaces: set[str] = set()  # the graph and those of its subgraphs that have put a checkpoint
        self.lock = asyncio.Lock()
        self.writing: asyncio.Task[None] | None = None
        self.written = self.lost = self.unfit = False
