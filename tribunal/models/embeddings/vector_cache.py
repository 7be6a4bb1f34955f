"""Vectors by content, in a SQLite file that processes may share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tribunal.database import Database, DatabaseError
from tribunal.errors import BadInput
from tribunal.loops import PerLoop
from tribunal.models.embeddings.vectors import Vectors

_SCHEMA = ["CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"]
_LOOKED_UP_AT_ONCE = 500


class VectorCache:
    """The vectors of one space, which is an address and a model, beside those of others in the same file.

    Raises:
        BadInput: at any time, where the file can't be used.
    """

    def __init__(self, path: Path, space: str) -> None:
        """Name the file and the space."""
        self.path = path
        self._space = space

    async def get(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors of those texts that are there."""
        found: dict[str, Vectors] = {}
        if not texts:
            return found
        try:
            database = await _files.get(self.path)
            for start in range(0, len(texts), _LOOKED_UP_AT_ONCE):
                by_key = {self._row_key(text): text for text in texts[start : start + _LOOKED_UP_AT_ONCE]}
                marks = ",".join("?" * len(by_key))
                statement = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608 (marks alone)
                for key, vector in await database.rows(statement, *by_key):
                    found[by_key[key]] = np.frombuffer(vector, "<f4")
        except DatabaseError as error:
            raise self._unusable_error(error) from error
        return found

    async def put(self, texts: Sequence[str], rows: Vectors) -> None:
        """Keep a vector for each of these texts."""
        kept = [(self._row_key(text), row.astype("<f4").tobytes()) for text, row in zip(texts, rows, strict=True)]
        try:
            database = await _files.get(self.path)
            await database.write_many("INSERT OR IGNORE INTO vectors VALUES (?, ?)", kept)
        except DatabaseError as error:
            raise self._unusable_error(error) from error

    def _row_key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self._space}\n{text}".encode()).digest()

    def _unusable_error(self, error: DatabaseError) -> BadInput:
        return BadInput(
            f"embedding cache {self.path}: can't be used: {error.__cause__ or error}; delete it, or set TRIBUNAL_DATA "
            "to a folder that can be written"
        )


async def _open_database(path: Path) -> Database:
    return await Database.open(path, schema=_SCHEMA)


_files: PerLoop[Database] = PerLoop(_open_database, Database.close)
