"""The tables of LangGraph's checkpoints: as its own savers have them, so that these can read and write them."""

from __future__ import annotations

from collections.abc import Sequence

# As `AsyncSqliteSaver` has them.
IN_SQLITE = (
    "CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT"
    " NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,"
    " PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id))",
    "CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,"
    " task_id TEXT NOT NULL, task_path TEXT NOT NULL DEFAULT '', idx INTEGER NOT NULL, channel TEXT NOT NULL,"
    " type TEXT, value BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx))",
)
VERSION_IN_POSTGRES = "SELECT max(v) FROM checkpoint_migrations"


def newest_in_postgres() -> int:
    """The version of the tables that the installed `AsyncPostgresSaver` works on."""
    return len(_statements()) - 1


def missing_in_postgres(held: int | None) -> list[str]:
    """The statements that bring the tables from this version (None: they aren't there) to the newest."""
    first = 0 if held is None else held + 1
    found = []
    for version, statement in enumerate(_statements()):
        if version >= first:
            # A concurrent index can't be made in a transaction, and here nothing runs beside it.
            found.append(statement.replace("CONCURRENTLY", ""))
            found.append(f"INSERT INTO checkpoint_migrations (v) VALUES ({version})")  # noqa: S608
    return found


def _statements() -> Sequence[str]:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver  # of the service alone

    return AsyncPostgresSaver.MIGRATIONS


def names(*, postgres: bool) -> tuple[str, ...]:
    """The tables that hold checkpoints by their `thread_id`, and last the one of what tasks wrote."""
    return ("checkpoints", "checkpoint_blobs", "checkpoint_writes") if postgres else ("checkpoints", "writes")
