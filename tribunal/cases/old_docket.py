"""The docket of an earlier release, a file of its own, read: its cases go into the database, and the file goes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.environment import data_folder
from tribunal.errors import BadInput
from tribunal.schema import JSON
from tribunal.store.engine import Store
from tribunal.store.tables import cases
from tribunal.text import parse_json

_APPLICATION = 0x54524243  # "TRBC", in the file's header: told apart from any other SQLite file
_VERSION = 1
_TABLES = ("checkpoints", "writes")  # as LangGraph's own saver has them in SQLite, in both files

Checkpoints = dict[str, list[tuple[Any, ...]]]  # rows by their table


def find_old_docket() -> Path | None:
    """Return the file in which an earlier release kept its docket, if it is there. Call it off the event loop."""
    file = data_folder() / "cases.sqlite"
    return file if file.exists() else None


def read_old_docket(file: Path) -> list[tuple[JSON, Checkpoints]]:
    """Return each case of the file as a row of ours, with its checkpoints.

    Raises:
        BadInput: the file is damaged, none of ours, or of another version; in a line with the way out.
    """
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True)) as old:
            header = [old.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
            if header != [_APPLICATION, _VERSION]:
                raise ValueError("it is no docket of the release before this one")
            old.row_factory = sqlite3.Row
            rows = old.execute("SELECT * FROM cases WHERE status <> 'erased'").fetchall()
            return [(_case_row(dict(row)), _checkpoint_rows(old, row["thread"])) for row in rows]
    except (sqlite3.Error, OSError, ValueError, LookupError, TypeError) as error:
        raise BadInput(
            f"cases: {file}: the docket of an earlier release can't be taken over: {error}; put back a copy, or move "
            "it away, or set TRIBUNAL_DATA to another folder"
        ) from error


def _case_row(old: JSON) -> JSON:
    given: JSON = parse_json(old["given"])
    return {
        "id": old["thread"], "created": float(old["opened"]), "status": "running", "attempt": 1,
        "owner": "the docket of an earlier release", "graph": old["graph"], "settings": parse_json(old["settings"]),
        "via": "command", "post_id": old["post_id"], "post": {name: value for name, value in given.items() if value},
    }  # fmt: skip


def _checkpoint_rows(old: sqlite3.Connection, thread: str) -> Checkpoints:
    return {
        table: [tuple(row) for row in old.execute(f"SELECT * FROM {table} WHERE thread_id = ?", (thread,))]  # noqa: S608
        for table in _TABLES
    }


async def insert_old_case(store: Store, connection: AsyncConnection, row: JSON, checkpoints: Checkpoints) -> bool:
    """Write down a case of the old docket, in SQLite, as one that was cut off; return whether it wasn't there."""
    kept_before = cases.c.outcome == "pending", cases.c.question.is_(None)  # its record was kept, too
    changing = {name: row[name] for name in ("status", "owner", "attempt", "post", "settings", "graph")}
    changing |= {"finished": None, "erased": None, "words": cases.c.erased.is_(None)}
    written = store.insert(cases).values(**row)
    written = written.on_conflict_do_update(index_elements=["id"], set_=changing, where=kept_before[0] & kept_before[1])
    if not (await connection.execute(written)).rowcount:
        return False
    for table, rows in checkpoints.items():
        for each in rows:
            put = f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(each))})"  # noqa: S608
            await connection.exec_driver_sql(put, each)
    return True
