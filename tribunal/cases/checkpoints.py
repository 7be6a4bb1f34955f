"""LangGraph's checkpoints in the docket's file: written whole, under a lease, and read as plain values."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import ormsgpack
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import RESUME
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Interrupt, Overwrite, Send

from tribunal.cases.lease import Leases
from tribunal.database import Database, DatabaseError, Unwritable
from tribunal.errors import BadInput

_CHECKPOINT = (
    "INSERT OR REPLACE INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type,"
    " checkpoint, metadata) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_WRITE = (
    "INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Checkpoints(BaseCheckpointSaver[str]):
    """Each write is one transaction, which a process that has lost its lease can't make."""

    def __init__(self, database: Database, leases: Leases) -> None:
        super().__init__(serde=Plain())
        self._db, self._leases = database, leases
        self._unkept: dict[str, list[Unwritable]] = {}

    @contextmanager
    def forgiving(self, thread: str) -> Iterator[list[Unwritable]]:
        """Let a case go on where it can't be written down: a new one, whose verdict is worth more than its place.

        Gives a list that holds why, as soon as there is a reason; from then on nothing of the case is written.
        """
        self._unkept[thread] = []
        try:
            yield self._unkept[thread]
        finally:
            del self._unkept[thread]

    async def unanswer(self, thread: str) -> None:
        """Take away answers to a question that the case still waits on.

        Raises:
            LeaseLost: another process has the case now.
            DatabaseError: it can't be written.
        """
        delete = "DELETE FROM writes WHERE thread_id = ? AND channel = ?"
        await self._write(thread, lambda made: made.execute(delete, (thread, RESUME)))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a channel's version after this one, as LangGraph's own savers count them."""
        return next_version(current)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with what tasks wrote on it, or None if there is none.

        Raises:
            DatabaseError: it can't be read.
        """

        def read(connection: sqlite3.Connection) -> CheckpointTuple | None:
            saver = SqliteSaver(connection, serde=self.serde)
            saver.is_setup = True  # the docket makes the tables, with its own
            return saver.get_tuple(config)

        return await self._db.run(read)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint.

        Raises:
            LeaseLost: another process has the case now.
            DatabaseError: it can't be written.
        """
        statement, row = checkpoint_row(config, checkpoint, metadata, self.serde)
        await self._write(row[0], lambda made: made.execute(statement, row))
        return made_at(config, checkpoint)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote, all of it or nothing: a half would be taken for the whole.

        Raises:
            LeaseLost: another process has the case now.
            DatabaseError: it can't be written.
        """
        statement, rows = write_rows(config, writes, task_id, task_path, self.serde)
        await self._write(str(config["configurable"]["thread_id"]), lambda made: made.executemany(statement, rows))

    async def _write(self, thread: str, work: Callable[[sqlite3.Connection], object]) -> None:
        def fenced(made: sqlite3.Connection) -> None:
            self._leases.check(made, thread)
            work(made)

        unkept = self._unkept.get(thread)
        if unkept:
            return
        try:
            await self._db.together(fenced)
        except Unwritable as error:
            if unkept is None:
                raise
            unkept.append(error)


def next_version(current: str | None) -> str:
    """Return a channel's version after this one: a number that grows, and a random one that tells two writers apart."""
    number = int(str(current).partition(".")[0]) + 1 if current is not None else 1
    return f"{number:032}.{random.random():016}"


def made_at(config: RunnableConfig, checkpoint: Checkpoint) -> RunnableConfig:
    """Where a checkpoint lies: what `aput` gives."""
    where = config["configurable"]
    place = {"thread_id": where["thread_id"], "checkpoint_ns": where["checkpoint_ns"]}
    return {"configurable": {**place, "checkpoint_id": checkpoint["id"]}}


def checkpoint_row(
    config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, serde: SerializerProtocol
) -> tuple[str, tuple[Any, ...]]:
    """The statement for SQLite that saves a checkpoint, and its row."""
    where = config["configurable"]
    place = (str(where["thread_id"]), where["checkpoint_ns"], checkpoint["id"], where.get("checkpoint_id"))
    about = json.dumps(get_checkpoint_metadata(config, metadata), ensure_ascii=False).encode("utf-8", "ignore")
    return _CHECKPOINT, (*place, *serde.dumps_typed(checkpoint), about)


def write_rows(
    config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str, serde: SerializerProtocol
) -> tuple[str, list[tuple[Any, ...]]]:
    """The statement for SQLite that saves what a task wrote, and its rows."""
    where = config["configurable"]
    place = (str(where["thread_id"]), str(where["checkpoint_ns"]), str(where["checkpoint_id"]), task_id, task_path)
    special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
    rows = [
        (*place, WRITES_IDX_MAP.get(channel, number), channel, *serde.dumps_typed(value))
        for number, (channel, value) in enumerate(writes)
    ]
    return f"INSERT OR {'REPLACE' if special else 'IGNORE'} {_WRITE}", rows


class Packed:
    """A plain value that a saver would else write in a way of its own; it comes back as the value itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Plain(SerializerProtocol):
    """State as msgpack behind a digest, by which a byte that has changed on the disk is found.

    Of objects it knows LangGraph's own three, by a number: the file names no class and no function, so that reading it
    can make nothing else and run nothing.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value's kind and bytes.

        Raises:
            BadInput: it holds something else than plain values.
        """
        try:
            packed = _packed(obj)
        except ormsgpack.MsgpackEncodeError as error:
            raise BadInput(
                f"graph: a case of this graph can't wait for a person: {error.__cause__ or error}; keep plain JSON in"
                " its state"
            ) from error
        return "plain", _digest(packed) + packed

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value again.

        Raises:
            DatabaseError: it isn't what was written.
        """
        kind, held = data
        if kind != "plain" or not isinstance(held, bytes):
            raise DatabaseError("a checkpoint is of another kind than this program writes")
        digest, packed = held[:_DIGEST], held[_DIGEST:]
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
_SEND, _INTERRUPT, _OVERWRITE, _VALUE = 1, 2, 3, 4


def _digest(packed: bytes) -> bytes:
    return blake2b(packed, digest_size=_DIGEST).digest()


def _packed(value: Any) -> bytes:
    return ormsgpack.packb(value, default=_plain, option=_OPTIONS)


def _plain(value: Any) -> Any:
    match value:
        case Send():
            return ormsgpack.Ext(_SEND, _packed([value.node, value.arg]))
        case Interrupt():
            return ormsgpack.Ext(_INTERRUPT, _packed([value.value, value.id, value.response_schema]))
        case Overwrite():
            return ormsgpack.Ext(_OVERWRITE, _packed(value.value))
        case Packed():
            return ormsgpack.Ext(_VALUE, _packed(value.value))
        case BaseException():
            return repr(value)  # what a node raised, which nobody reads back
    raise TypeError(f"it holds a {type(value).__name__}")


def _object(kind: int, packed: bytes) -> Any:
    held = ormsgpack.unpackb(packed, ext_hook=_object, option=ormsgpack.OPT_NON_STR_KEYS)
    match kind:
        case 1:
            return Send(*held)
        case 2:
            value, id_, schema = held
            return Interrupt(value, id_, response_schema=schema)
        case 3:
            return Overwrite(held)
        case 4:
            return held
    raise ValueError(f"there is no object of number {kind}")
