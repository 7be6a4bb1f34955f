"""The call cache: answers on disk, so that a sweep over ten judges pays for one debate."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import time
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from tribunal.errors import BadInput


class Cached(NamedTuple):
    """A stored answer, what it cost when it was asked for, and how it was: at which rung of the ladder, at which
    temperature, and whether by a model that couldn't see the image."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    format: str = "json_schema"
    temperature: float | None = None
    blind: bool = False


_LOOK_UP = "SELECT text, prompt_tokens, completion_tokens, format, temperature, blind FROM answers WHERE key = ?"


class Cache:
    """A SQLite file of answers by key. Safe to share between processes, and between the calls of one.

    Raises:
        BadInput: the file can't be opened, or is something else.
    """

    def __init__(self, path: str) -> None:
        self._lock = Lock()
        try:
            file = Path(path).expanduser()
            file.parent.mkdir(parents=True, exist_ok=True)
            self._db = _opened(file)
        except (sqlite3.Error, OSError) as error:
            raise BadInput(
                f"cache: {path}: can't be used: {error}; give a file of its own, in a folder that can be written"
            ) from error

    async def get(self, key: str) -> Cached | None:
        """The answer under a key.

        Raises:
            OSError: the file can't be read any more.
        """
        return await asyncio.to_thread(self._get, key)

    async def put(self, key: str, answer: Cached) -> None:
        """Store an answer, in the place of one that is there.

        Raises:
            OSError: the disk is full or gone.
        """
        await asyncio.to_thread(self._put, key, answer)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _get(self, key: str) -> Cached | None:
        try:
            with self._lock:
                row = self._db.execute(_LOOK_UP, (key,)).fetchone()
        except sqlite3.Error as error:
            raise OSError(f"cache: {error}") from error
        return Cached(*row)._replace(blind=bool(row[5])) if row else None

    def _put(self, key: str, answer: Cached) -> None:
        try:
            with self._lock:
                self._db.execute(
                    "INSERT OR REPLACE INTO answers (key, text, prompt_tokens, completion_tokens, format, temperature,"
                    " blind) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (key, *answer),
                )
        except sqlite3.Error as error:
            raise OSError(f"cache: {error}") from error


def _opened(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, timeout=30, check_same_thread=False, isolation_level=None)
    try:
        in_wal_mode(database)
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute(
            "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, text TEXT NOT NULL, prompt_tokens INTEGER"
            " NOT NULL, completion_tokens INTEGER NOT NULL, format TEXT NOT NULL, temperature REAL, blind INTEGER"
            " NOT NULL, stored TEXT DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID"
        )
        database.execute(_LOOK_UP, ("",))  # a table of another make is found now, not in the middle of a case
    except sqlite3.Error:
        database.close()
        raise
    return database


def in_wal_mode(database: sqlite3.Connection) -> None:
    """The one step that doesn't wait its turn when several open a new file at once."""
    for left in reversed(range(100)):
        try:
            database.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if not left or "locked" not in str(error):
                raise
            time.sleep(0.02)
        else:
            return


def cache_key(**depends_on: Any) -> str:
    """A key that names all that the answer depends on."""
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
