"""The tables of LangGraph's checkpoints: as its own savers have them, so that these can read and write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.base import SerializerProtocol

# As `AsyncSqliteSaver` has them.
_IN_SQLITE = (
    "CREATE TABLE IF NOT EXISTS checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',"
    " checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,"
    " PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id))",
    "CREATE TABLE IF NOT EXISTS writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id"
    " TEXT NOT NULL, task_id TEXT NOT NULL, task_path TEXT NOT NULL DEFAULT '', idx INTEGER NOT NULL, channel TEXT NOT"
    " NULL, type TEXT, value BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx))",
)
VERSION_IN_POSTGRES = "SELECT max(v) FROM checkpoint_migrations"


def newest_in_postgres() -> int:
    """Return the version of the tables that the installed `AsyncPostgresSaver` works on."""
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver  # of those who have PostgreSQL

    return len(AsyncPostgresSaver.MIGRATIONS) - 1


def upgrade_checkpoint_tables(connection: Connection) -> None:
    """Make the tables, or bring them to the version of the installed library, in the caller's transaction."""
    if connection.dialect.name == "sqlite":
        for statement in _IN_SQLITE:
            connection.exec_driver_sql(statement)
        return
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    there = inspect(connection).has_table("checkpoint_migrations")
    version = connection.execute(text(VERSION_IN_POSTGRES)).scalar() if there else None
    first = 0 if version is None else version + 1
    for number, statement in list(enumerate(AsyncPostgresSaver.MIGRATIONS))[first:]:
        # A concurrent index can't be made in a transaction, and here nothing runs beside it.
        connection.exec_driver_sql(statement.replace("CONCURRENTLY", ""))
        connection.exec_driver_sql(f"INSERT INTO checkpoint_migrations (v) VALUES ({number})")  # noqa: S608


def table_names(*, postgres: bool) -> tuple[str, ...]:
    """Return the tables that hold checkpoints by their `thread_id`, and last the one of what tasks wrote."""
    return (
        ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
        if postgres
        else ("checkpoints", "writes")
    )


class _OpenTransaction:
    """A connection of aiosqlite whose commit is left to whoever began its transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def commit(self) -> None:
        """Do nothing: what else the transaction writes is committed with this, or nothing is."""


async def library_saver(
    connection: AsyncConnection, serializer: SerializerProtocol | None = None
) -> BaseCheckpointSaver[Any]:
    """Return LangGraph's own saver, in the transaction of this connection; to delete it needs no serializer."""
    driver = (await connection.get_raw_connection()).driver_connection
    if connection.dialect.name == "postgresql":
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        return AsyncPostgresSaver(cast("Any", driver), serde=serializer)
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    saver = AsyncSqliteSaver(cast("Any", _OpenTransaction(driver)), serde=serializer)
    saver.is_setup = True  # `upgrade_checkpoint_tables` has made the tables
    return saver


async def delete_checkpoints(connection: AsyncConnection, case_ids: Any) -> None:
    """Delete the checkpoints of these cases, a list of ids or a query for them, in the caller's transaction."""
    ids = (
        case_ids
        if isinstance(case_ids, list)
        else (await connection.execute(case_ids)).scalars().all()
    )
    if ids:
        saver = await library_saver(connection)
        for each in ids:
            await saver.adelete_thread(each)
