"""The call cache: answers on disk, so that a sweep over ten judges pays for one debate."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple, Self

from tribunal.database import Database, DatabaseError
from tribunal.errors import BadInput
from tribunal.loops import PerLoop


class Cached(NamedTuple):
    """A stored answer, what it cost when it was asked for, and how it was: at which rung of the ladder, at which
    temperature, and whether by a model that couldn't see the image."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    format: str = "json_schema"
    temperature: float | None = None
    blind: bool = False


_SCHEMA = [
    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, text TEXT NOT NULL, prompt_tokens INTEGER"
    " NOT NULL, completion_tokens INTEGER NOT NULL, format TEXT NOT NULL, temperature REAL, blind INTEGER"
    " NOT NULL, stored TEXT DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID"
]
_LOOK_UP = "SELECT text, prompt_tokens, completion_tokens, format, temperature, blind FROM answers WHERE key = ?"
_PUT = (
    "INSERT OR REPLACE INTO answers (key, text, prompt_tokens, completion_tokens, format, temperature, blind)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


class Cache:
    """A SQLite file of answers by key. Safe to share between processes, and between the calls of one."""

    def __init__(self, database: Database) -> None:
        """Use `open`."""
        self.database = database

    @classmethod
    async def open(cls, path: str) -> Self:
        """Open a cache, and make it where it isn't there.

        Raises:
            BadInput: the file can't be opened, or is something else.
        """
        database = None
        try:
            database = await Database.open(await asyncio.to_thread(Path(path).expanduser), schema=_SCHEMA)
            await database.rows(_LOOK_UP, "")  # a table of another make is found now, not in the middle of a case
        except DatabaseError as error:
            if database:
                await database.close()
            why = error.__cause__ or error
            raise BadInput(
                f"cache: {path}: can't be used: {why}; give a file of its own, in a folder that can be written"
            ) from error
        return cls(database)

    async def get(self, key: str) -> Cached | None:
        """The answer under a key.

        Raises:
            OSError: the file can't be read any more.
        """
        try:
            rows = await self.database.rows(_LOOK_UP, key)
        except DatabaseError as error:
            raise OSError(f"cache: {error.__cause__ or error}") from error
        return Cached(*rows[0])._replace(blind=bool(rows[0]["blind"])) if rows else None

    async def put(self, key: str, answer: Cached) -> None:
        """Store an answer, in the place of one that is there.

        Raises:
            OSError: the disk is full or gone.
        """
        try:
            await self.database.write(_PUT, key, *answer)
        except DatabaseError as error:
            raise OSError(f"cache: {error.__cause__ or error}") from error

    async def close(self) -> None:
        """Close the file."""
        await self.database.close()


_caches: PerLoop[Cache] = PerLoop(Cache.open, Cache.close)


async def cache_here(path: str) -> Cache:
    """The running event loop's cache in this file, opened at its first use and closed with the loop.

    Raises:
        BadInput: as `Cache.open`.
    """
    return await _caches.here(path)


def cache_key(**depends_on: Any) -> str:
    """A key that names all that the answer depends on."""
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
