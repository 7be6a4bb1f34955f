"""The docket of an earlier release, a file of its own: its cases are copied into the database beside it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tribunal.database import check_sqlite_file, connect
from tribunal.store.table_versions import DatabaseDamaged

_HEADER = (0x54524243, 1)  # "TRBC", by which it is told apart from any other SQLite file, and its version
# Each as one that was cut off. A case whose record was kept, too, is there already.
_COPY_CASES = """
INSERT INTO cases (id, created, status, attempt, attempts_before, owner, graph, settings, keep, via, post_id, post)
SELECT thread, CAST(opened AS REAL), 'running', 1, 0, 'the docket of an earlier release', graph, json(settings), true,
    'command', post_id, json(given)
FROM old.cases WHERE status <> 'erased'
ON CONFLICT (id) DO UPDATE SET status = excluded.status, owner = excluded.owner, attempt = excluded.attempt,
    post = excluded.post, settings = excluded.settings, graph = excluded.graph, finished = NULL, erased = NULL,
    words = cases.erased IS NULL
WHERE cases.outcome = 'pending' AND cases.question IS NULL
RETURNING id
"""


def copy_old_cases(file: Path, database: Path) -> list[str]:
    """Copy the cases of the file into the database, with their checkpoints, and return the ids of those that are new.

    Raises:
        DatabaseDamaged: the file is damaged, none of ours, or of another version; in a line with the way out.
    """
    try:
        check_sqlite_file(file)
        with closing(connect(database, "mode=rw")) as connection:
            connection.execute("ATTACH ? AS old", (f"{file.absolute().as_uri()}?mode=rw",))
            header = (connection.execute(f"PRAGMA old.{name}") for name in ("application_id", "user_version"))
            if tuple(each.fetchone()[0] for each in header) != _HEADER:
                raise ValueError("it is no docket of the release before this one")
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                copied = connection.execute(_COPY_CASES).fetchall()
                for table in ("checkpoints", "writes"):  # as LangGraph's own saver has them, in both files
                    copy = f"INSERT OR REPLACE INTO {table} SELECT * FROM old.{table} WHERE thread_id = ?"  # noqa: S608
                    connection.executemany(copy, copied)
            return [thread for (thread,) in copied]
    except (sqlite3.Error, OSError, ValueError) as error:
        if not file.exists():
            return []  # another process has just brought them in
        raise DatabaseDamaged(
            f"cases: {file}: the docket of an earlier release can't be taken over: {error}; put back a copy, or move "
            "it away, or set TRIBUNAL_DATA to another folder"
        ) from error
