"""LangGraph's checkpoints in our database: gathered for a moment, and written by its own savers under a case's lease.

A trial that is over before the moment has passed writes nothing at all, and of the checkpoints of a moment only the
last counts. So a service that is killed loses the calls in flight and those of the last second. Without a moment each
step is on disk before the next begins.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from hashlib import blake2b
from inspect import signature
from typing import Any

import ormsgpack
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import RESUME
from langgraph.types import Interrupt, Overwrite, Send
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.docket.case_store import CaseStore
from tribunal.docket.graph_run import ATTEMPT
from tribunal.docket.leases import MINE, Held
from tribunal.errors import BadInput
from tribunal.process.database import DatabaseError
from tribunal.store.checkpoint_tables import library_saver, table_names
from tribunal.store.engine import Store
from tribunal.store.group_commit import Group
from tribunal.store.table_versions import is_broken
from tribunal.store.tables import cases

_LOG = logging.getLogger(__name__)
MOMENT = 1.0  # seconds for which a service gathers checkpoints
# on SQLite the whole file is locked
_STILL_MINE = select(cases.c.id).where(MINE).with_for_update(read=True)
# with the channels that changed
_Put = tuple[RunnableConfig, Checkpoint, CheckpointMetadata, set[str]]
_Writes = tuple[RunnableConfig, Sequence[tuple[str, Any]], str, str]


class TakenOver(Exception):
    """Another process has the case now: nothing of this trial counts any more."""


class Attempt:
    """An attempt at a case, with what it has still to write.

    That is of each graph and subgraph its last checkpoint, and what tasks wrote since.

    Attributes:
        written: whether something of it lies in the database; until its block ends that may change.
        unwritable: why nothing of a forgiving one is written any more.
    """

    def __init__(self, held: Held, *, forgiving: bool = False) -> None:
        """Begin with nothing to write."""
        self.held = held
        self.forgiving = forgiving
        self.checkpoints: dict[str, _Put] = {}
        self.writes: list[_Writes] = []
        # the graph and those of its subgraphs that have put a checkpoint
        self.spaces: set[str] = set()
        self.lock = asyncio.Lock()
        self.writing: asyncio.Task[None] | None = None
        self.written = self.lost = self.unfit = False
        self.unwritable: BaseException | None = None

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new: set[str],
    ) -> None:
        """Take a checkpoint in place of the one before it and of what was written on that."""
        space = config["configurable"]["checkpoint_ns"]
        before = self.checkpoints.get(space)
        self.spaces.add(space)
        self.checkpoints[space] = config, checkpoint, metadata, new | before[3] if before else new
        self.writes = [
            each for each in self.writes if not _is_overtaken(each, space, checkpoint["id"])
        ]

    def forget_written(self, checkpoints: Sequence[_Put], writes: Sequence[_Writes]) -> None:
        """Forget what was written; what came meanwhile stays."""
        written = {id(each) for each in (*checkpoints, *writes)}
        self.checkpoints = {
            space: each for space, each in self.checkpoints.items() if id(each) not in written
        }
        self.writes = [each for each in self.writes if id(each) not in written]


def _is_overtaken(writes: _Writes, space: str, checkpoint_id: str) -> bool:
    where = writes[0]["configurable"]
    return bool(where["checkpoint_ns"] == space and where["checkpoint_id"] != checkpoint_id)


class CaseCheckpoints(BaseCheckpointSaver[str]):
    """The checkpoints of the cases that a process tries; only of those that it has begun with (`attempt`)."""

    def __init__(self, store: Store, case_store: CaseStore, moment: float = MOMENT) -> None:
        """Gather checkpoints for so many seconds; 0: each is written before the graph goes on."""
        super().__init__(serde=PlainSerializer())
        self._store = store
        self._case_store = case_store
        self._moment = moment
        self._attempts: dict[str, Attempt] = {}

    @asynccontextmanager
    async def attempt(self, held: Held, *, forgiving: bool = False) -> AsyncIterator[Attempt]:
        """Take the checkpoints of a case as this attempt's while this is open.

        A forgiving one, of a new case whose verdict is worth more than its place, goes on where it can't be written.
        It then says why (`unwritable`), and nothing of it is written from there on.
        """
        attempt = self._attempts[held.id] = Attempt(held, forgiving=forgiving)
        try:
            yield attempt
        except BaseException:
            with suppress(Exception):
                await asyncio.shield(self._write(attempt))  # for whoever takes it up next
            raise
        finally:
            async with attempt.lock:  # a transaction that was begun is ended
                if attempt.writing:
                    attempt.writing.cancel()
                    attempt.writing = None  # else it and its attempt hold each other until the collector finds them
            if self._attempts.get(held.id) is attempt:
                del self._attempts[held.id]

    def is_unwritable(self, held: Held) -> bool:
        """Return whether a forgiving attempt, which is under way, could not be written down."""
        return self._find(held.id, held.attempt).unwritable is not None

    def give_up(self, held: Held, error: BaseException) -> None:
        """Write nothing more of a forgiving attempt, for this reason; any other raises it."""
        attempt = self._find(held.id, held.attempt)
        if not attempt.forgiving:
            raise error
        attempt.unwritable = error

    async def discard_pending_answer(self, held: Held) -> None:
        """Delete answers to a question that the case still waits on.

        Raises:
            TakenOver: another process has the case now.
        """
        table = table_names(postgres=self._store.postgres)[-1]
        gone = text(f"DELETE FROM {table} WHERE thread_id = :thread AND channel = :channel")  # noqa: S608
        async with self._store.transaction() as connection:
            await self._check_lease(connection, held)
            await connection.execute(gone, {"thread": held.id, "channel": RESUME})

    # What LangGraph asks; where another process has the case now, `TakenOver` is raised

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a channel's version after this one: a number that grows, and a random one that tells writers apart."""
        number = int(str(current).partition(".")[0]) + 1 if current is not None else 1
        return f"{number:032}.{random.random():016}"

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Take a checkpoint, which is written in a moment."""
        attempt = self._attempt_of(config)
        place = config["configurable"]
        attempt.put(config, checkpoint, metadata, set(new_versions))
        await self._write_soon(attempt)
        where = {"thread_id": place["thread_id"], "checkpoint_ns": place["checkpoint_ns"]}
        return {"configurable": {**where, "checkpoint_id": checkpoint["id"]}}

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Take what a task wrote, which is written in a moment."""
        attempt = self._attempt_of(config)
        attempt.writes.append((config, list(writes), task_id, task_path))
        await self._write_soon(attempt)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with what tasks wrote on it, or None if there is none."""
        attempt = self._attempts.get(str(config["configurable"]["thread_id"]))
        if attempt is not None:
            if (
                attempt.held.attempt == 1
                and config["configurable"].get("checkpoint_ns", "") not in attempt.spaces
            ):
                return None  # there can be nothing yet
            await self._write(attempt)
        async with self._store.reading() as connection:
            return await (await library_saver(connection, self.serde)).aget_tuple(config)

    def _attempt_of(self, config: RunnableConfig) -> Attempt:
        place = config["configurable"]
        return self._find(str(place["thread_id"]), place.get(ATTEMPT))

    def _find(self, case_id: str, number: int | None) -> Attempt:
        """Return the attempt of this number at a case; None: the attempt under way.

        Raises:
            TakenOver: it is over, and another attempt may be under way, here or in another process.
        """
        attempt = self._attempts.get(case_id)
        if attempt is None or attempt.lost or number not in (None, attempt.held.attempt):
            raise TakenOver
        return attempt

    # The database

    async def _write(self, attempt: Attempt) -> None:
        """Write what was gathered.

        Raises:
            TakenOver: another process has the case now.
        """
        async with attempt.lock:
            checkpoints = list(attempt.checkpoints.values())
            writes = list(attempt.writes)
            if not (checkpoints or writes) or attempt.unfit or attempt.unwritable:
                return

            async def write(group: Group) -> None:
                await self._check_lease(group.connection, attempt.held)
                await self._put(group.connection, checkpoints, writes)

            try:
                await self._case_store.writes.write(write)
            except TakenOver:
                attempt.lost = True
                raise
            except BadInput as error:  # a state that holds more than plain values
                if not self._moment:
                    raise
                _LOG.warning("case %s: has no checkpoints: %s", attempt.held.id, error)
                attempt.unfit = True
            except BaseException as error:
                if not (attempt.forgiving and is_broken(error)):
                    raise
                attempt.unwritable = error
                return
            attempt.forget_written(checkpoints, writes)
            attempt.written = True

    async def _write_soon(self, attempt: Attempt) -> None:
        if not self._moment:
            await self._write(attempt)
        elif attempt.writing is None or attempt.writing.done():
            attempt.writing = asyncio.create_task(self._write_in_a_moment(attempt))

    async def _write_in_a_moment(self, attempt: Attempt) -> None:
        while (attempt.checkpoints or attempt.writes) and not attempt.lost and not attempt.unfit:
            await asyncio.sleep(self._moment)
            try:
                await self._write(attempt)
            except TakenOver:
                return  # which the trial is told at its next step
            except Exception as error:  # noqa: BLE001 (the database may come back)
                _LOG.warning(
                    "case %s: checkpoints can't be written: %s",
                    attempt.held.id,
                    type(error).__name__,
                )

    async def _check_lease(self, connection: AsyncConnection, held: Held) -> None:
        """Go on only while the case is this attempt's, and let nobody take it up before the transaction ends."""
        if (await connection.execute(_STILL_MINE, self._case_store.lease_of(held))).first() is None:
            raise TakenOver

    async def _put(
        self, connection: AsyncConnection, checkpoints: Sequence[_Put], writes: Sequence[_Writes]
    ) -> None:
        saver = await library_saver(connection, self.serde)
        for config, checkpoint, metadata, changed in checkpoints:
            # Words go where the rest of the state goes: PostgreSQL's JSONB takes neither NUL nor half a surrogate pair.
            values = checkpoint["channel_values"]
            if self._store.postgres:
                values = {
                    name: Packed(each) if isinstance(each, str | float) else each
                    for name, each in values.items()
                }
            versions = {
                name: version
                for name, version in checkpoint["channel_versions"].items()
                if name in changed
            }
            await saver.aput(config, {**checkpoint, "channel_values": values}, metadata, versions)
        for each in writes:
            await saver.aput_writes(*each)


# LangGraph looks at it for every graph that it begins, and would else work it out anew.
CaseCheckpoints.aput_writes.__signature__ = signature(CaseCheckpoints.aput_writes)  # type: ignore[attr-defined]


# State as plain values


class Packed:
    """A plain value that a saver would else write in a way of its own; it comes back as the value itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        """Take a value."""
        self.value = value


class PlainSerializer(SerializerProtocol):
    """State as msgpack behind a digest, by which a byte that has changed on the disk is found.

    Of objects it knows LangGraph's own three, by a number: the file names no class and no function, so that reading it
    can make nothing else and run nothing.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the value's kind and bytes.

        Raises:
            BadInput: it holds something else than plain values.
        """
        try:
            packed = _pack(obj)
        except ormsgpack.MsgpackEncodeError as error:
            raise BadInput(
                f"graph: a case of this graph can't wait for a person: {error.__cause__ or error}; keep plain JSON in"
                " its state"
            ) from error
        return "plain", _digest(packed) + packed

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value again.

        Raises:
            DatabaseError: it isn't what was written.
        """
        kind, held = data
        if kind != "plain" or not isinstance(held, bytes):
            raise DatabaseError("a checkpoint is of another kind than this program writes")
        digest = held[:_DIGEST]
        packed = held[_DIGEST:]
        if digest != _digest(packed):
            raise DatabaseError("a checkpoint has changed on the disk")
        try:
            return ormsgpack.unpackb(packed, ext_hook=_object, option=ormsgpack.OPT_NON_STR_KEYS)
        except (ValueError, TypeError) as error:
            raise DatabaseError(f"a checkpoint can't be read: {error}") from error


_DIGEST = 16
_OPTIONS = (
    ormsgpack.OPT_NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_REPLACE_SURROGATES
)


def _digest(packed: bytes) -> bytes:
    return blake2b(packed, digest_size=_DIGEST).digest()


def _pack(value: Any) -> bytes:
    return ormsgpack.packb(value, default=_plain, option=_OPTIONS)


# LangGraph's own objects, by a number from 1 on: what is packed of each, and how it is made again.
_OBJECTS: tuple[tuple[Any, Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    (Send, lambda each: [each.node, each.arg], lambda held: Send(*held)),
    (
        Interrupt,
        lambda each: [each.value, each.id, each.response_schema],
        lambda held: Interrupt(held[0], held[1], response_schema=held[2]),
    ),
    (Overwrite, lambda each: each.value, Overwrite),
    (Packed, lambda each: each.value, lambda held: held),
)


def _plain(value: Any) -> Any:
    for number, (kind, parts_of, _) in enumerate(_OBJECTS, start=1):
        if isinstance(value, kind):
            return ormsgpack.Ext(number, _pack(parts_of(value)))
    if isinstance(value, BaseException):
        return repr(value)  # what a node raised, which nobody reads back
    raise TypeError(f"it holds a {type(value).__name__}")


def _object(number: int, packed: bytes) -> Any:
    held = ormsgpack.unpackb(packed, ext_hook=_object, option=ormsgpack.OPT_NON_STR_KEYS)
    if not 1 <= number <= len(_OBJECTS):
        raise ValueError(f"there is no object of number {number}")
    return _OBJECTS[number - 1][2](held)
