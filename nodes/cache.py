"""The call cache: answers on disk, so that a sweep over ten judges pays for one debate."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from nodes.errors import BadInput


class Cached(NamedTuple):
    """A stored answer, and what it cost when it was asked for."""

    text: str
    prompt_tokens: int
    completion_tokens: int


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
            self._db = sqlite3.connect(file, timeout=30, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, text TEXT NOT NULL, prompt_tokens INTEGER"
                " NOT NULL, completion_tokens INTEGER NOT NULL, stored TEXT DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID"
            )
        except (sqlite3.Error, OSError) as error:
            raise BadInput(
                f"cache: {path}: can't be used: {error}; give a file of its own, in a folder that can be written"
            ) from error

    async def get(self, key: str) -> Cached | None:
        return await asyncio.to_thread(self._get, key)

    async def put(self, key: str, answer: Cached) -> None:
        """Store an answer; the first one under a key stays.

        Raises:
            OSError: the disk is full or gone.
        """
        await asyncio.to_thread(self._put, key, answer)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _get(self, key: str) -> Cached | None:
        with self._lock:
            row = self._db.execute(
                "SELECT text, prompt_tokens, completion_tokens FROM answers WHERE key = ?", (key,)
            ).fetchone()
        return Cached(*row) if row else None

    def _put(self, key: str, answer: Cached) -> None:
        try:
            with self._lock:
                self._db.execute(
                    "INSERT OR IGNORE INTO answers (key, text, prompt_tokens, completion_tokens) VALUES (?, ?, ?, ?)",
                    (key, *answer),
                )
        except sqlite3.Error as error:
            raise OSError(f"cache: {error}") from error


def cache_key(**depends_on: Any) -> str:
    """A key that names all that the answer depends on."""
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
