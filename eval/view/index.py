"""The index of a run: a small SQLite file beside its results, from which its samples are in memory at once.

It holds of every sample what it is filtered and sorted by, the byte at which its line begins, and its words as a
full-text index. It grows with results.jsonl: lines that came are added, and a file that was written anew is read anew.
Several processes may use it at once. Where the run's folder can't be written it lies in a folder that goes with the
process. Deleting it costs one reading of the run.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ValidationError

from tribunal.database import WAIT, connect
from tribunal.errors import BadInput
from tribunal.eval.runs.journal import RESULTS
from tribunal.eval.runs.prices import prices_of_run
from tribunal.eval.runs.results import read_run_file
from tribunal.eval.view.rows import FACETS, parse_line, sample_row
from tribunal.eval.view.samples import COLUMNS, SampleTable
from tribunal.files import bounded_lines, open_regular
from tribunal.text import parse_json

if TYPE_CHECKING:
    from tribunal.eval.runs.prices import Prices
    from tribunal.eval.view.samples import Places
    from tribunal.schema import JSON

FILE = ".view.sqlite"
_FORM = "2"  # of the tables; another one is read anew
_BATCH = 500  # lines that are written at once
_EDGE = 65536  # bytes at the beginning and the end of what was read, by which a file is known again
_COLUMNS = ("post", *COLUMNS, *(f"f_{name}" for name in FACETS))
_TABLES = {
    "samples": f"CREATE TABLE samples(row INTEGER PRIMARY KEY, {', '.join(_COLUMNS)}, UNIQUE(post, repeat))",
    "sets": "CREATE TABLE sets(code INTEGER PRIMARY KEY, held)",
    "about": "CREATE TABLE about(held)",
    # Without the words themselves: they stand in results.jsonl.
    "words": "CREATE VIRTUAL TABLE words USING "
    "fts5(said, content='', columnsize=0, tokenize='unicode61 remove_diacritics 2')",
}


class IndexState(BaseModel):
    """The progress of an index, and what its results are known again by."""

    form: str = _FORM
    prices: str = ""  # a hash of them
    begun: int = 0  # another one whenever the run was read anew
    samples: int = 0
    read: int = 0  # bytes
    torn: int = 0  # bytes of a last line that is being written, or that a crash left without its end
    skipped: int = 0  # lines that can't be read, or that repeat a sample
    folded: bool = False  # labels are compared as yes and no
    stamp: tuple[int, int, int] = (0, 0, 0)  # the file's inode, size and time of change
    edges: str = ""


class SampleIndex:
    """The index of one run. Every method may be called from any thread."""

    def __init__(self, folder: Path, prices: Prices | None = None) -> None:
        """Open what is read.

        Args:
            folder: the run's.
            prices: what calls cost; else those that the run's folder has.

        Raises:
            BadInput: the folder is no run's.
        """
        self.folder, self.prices = folder, prices or prices_of_run(folder)
        self.run: JSON = read_run_file(folder)
        self.path = folder / FILE
        self._results = folder / RESULTS
        self._prices = hashlib.sha256(self.prices.model_dump_json().encode()).hexdigest() if self.prices else ""
        self._lock = threading.Lock()
        self._table = SampleTable.empty()
        self._aside: TemporaryDirectory[str] | None = None
        self._worker: threading.Thread | None = None
        self._stopped = False
        self._open_index()

    def close(self) -> None:
        """Stop reading, and give up what lies beside."""
        self._stopped = True
        if self._worker is not None:
            self._worker.join(WAIT)
        if self._aside is not None:
            self._aside.cleanup()

    def load(self, terms: Sequence[str] = ()) -> tuple[SampleTable, list[Places]]:
        """Return the samples that are in the index, and for each search term the places of those that hold it."""
        with self._lock, closing(self._connect()) as connection:
            connection.execute("BEGIN")
            self._table = self._load_new_samples(connection)
            query = "SELECT rowid - 1 FROM words WHERE words MATCH ?"
            found = [
                np.array(connection.execute(query, (term,)).fetchall(), dtype=np.int64).reshape(-1) for term in terms
            ]
        return self._table, found

    def catch_up(self, seconds: float | None = None) -> bool:
        """Take in what results.jsonl holds by now, for so many seconds at most; return whether everything is in.

        Raises:
            BadInput: the index can't be written.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while self._take_lines():
            if self._stopped or (until is not None and time.monotonic() > until):
                return False
        return True

    def refresh(self, seconds: float) -> None:
        """Take in what came, for so many seconds at most; a thread does the rest.

        Raises:
            BadInput: as `catch_up`.
        """
        if self._worker is not None and self._worker.is_alive():
            return
        if not self.catch_up(seconds) and not self._stopped:
            self._worker = threading.Thread(target=self._catch_up_quietly, name="view-index", daemon=True)
            self._worker.start()

    def _catch_up_quietly(self) -> None:
        with suppress(BadInput):  # the next page tries again, and says it
            self.catch_up()

    def _load_new_samples(self, connection: sqlite3.Connection) -> SampleTable:
        """Return the table in memory with the samples that came since the last time."""
        state, held = _read_state(connection), self._table
        if state.begun != held.begun or len(held.posts) > state.samples:
            held = SampleTable.empty()
        query = f"SELECT {', '.join(_COLUMNS)} FROM samples WHERE row > ? ORDER BY row"  # noqa: S608
        new = connection.execute(query, (len(held.posts),)).fetchall()
        sets = [tuple(parse_json(each)) for (each,) in connection.execute("SELECT held FROM sets ORDER BY code")]
        size = self._results.stat().st_size if self._results.exists() else 0
        return held.with_samples(
            new,
            sets,
            begun=state.begun,
            folded=state.folded,
            skipped=state.skipped,
            read=state.read,
            size=state.read if size == state.read + state.torn else size,
        )

    # ------------------------------------------------------------------------------------------------------- opening

    def _open_index(self) -> None:
        if any(each.is_symlink() or (each.exists() and not each.is_file()) for each in self._database_files()):
            self._use_temporary_folder()  # a run of a stranger's could lead to any file of the reader's
        for attempt in range(2):
            try:
                with closing(self._connect()) as connection:
                    if connection.execute("SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchone():
                        raise sqlite3.DatabaseError("it holds what no index of ours does")
                    connection.execute("PRAGMA journal_mode=WAL")
                    connection.execute("BEGIN IMMEDIATE")
                    if _read_state(connection).form != _FORM:
                        _recreate_tables(connection)
                    connection.execute("COMMIT")
                return
            except (sqlite3.Error, OSError) as error:
                if attempt:
                    raise BadInput(f"view: {self.path}: can't be used: {error}; make room, or delete it") from error
                if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                    for each in self._database_files():  # damaged, or none of ours
                        with suppress(OSError):
                            each.unlink()
                    continue
                self._use_temporary_folder()

    def _database_files(self) -> list[Path]:
        return [Path(f"{self.path}{end}") for end in ("", "-wal", "-shm")]

    def _use_temporary_folder(self) -> None:
        """Take a folder that goes with the process."""
        self._aside = TemporaryDirectory(prefix="tribunal-view-", ignore_cleanup_errors=True)
        self.path = Path(self._aside.name) / FILE

    def _connect(self) -> sqlite3.Connection:
        if not self.path.exists():
            self.path.touch(0o600)  # words of posts are in it
        connection = connect(self.path, any_thread=True)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA temp_store=MEMORY")
        return connection

    # ------------------------------------------------------------------------------------------------------- reading

    def _take_lines(self) -> bool:
        """Take in some lines, whole or not at all; return whether there may be more."""
        try:
            with self._lock, open_regular(self._results) as file, closing(self._connect()) as connection:
                connection.execute("BEGIN IMMEDIATE")
                state = self._state_for_file(connection, file)
                if state is None:
                    return False
                file.seek(state.read)
                more = self._insert_lines(connection, file, state)
                state.edges = _hash_edges(file, state.read)
                connection.execute("DELETE FROM about")
                connection.execute("INSERT INTO about VALUES (?)", (state.model_dump_json(),))
                connection.execute("COMMIT")
                return more
        except FileNotFoundError:
            return False  # no result yet
        except (sqlite3.Error, OSError) as error:
            raise BadInput(f"view: {self.path}: {error}; make room, or delete it") from error

    def _state_for_file(self, connection: sqlite3.Connection, file: IO[bytes]) -> IndexState | None:
        """Return the state from which a file is read on, or None if all of it is in.

        It is the index's own state, if what was read still stands there.
        """
        state, found = _read_state(connection), os.fstat(file.fileno())
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        if state.prices == self._prices and state.stamp == stamp:
            return state if state.read + state.torn < found.st_size else None
        inode, size, _ = state.stamp
        rewritten = found.st_ino != inode or found.st_size < state.read or found.st_size == size
        if state.prices != self._prices or rewritten or _hash_edges(file, state.read) != state.edges:
            _recreate_tables(connection)
            state = IndexState(prices=self._prices, begun=time.time_ns())
        state.stamp, state.torn = stamp, 0
        return state

    def _insert_lines(self, connection: sqlite3.Connection, file: IO[bytes], state: IndexState) -> bool:
        """Write some lines into the tables and into `state`; return whether there may be more."""
        codes = {tuple(parse_json(held)): code for code, held in connection.execute("SELECT code, held FROM sets")}
        marks = ", ".join("?" * (len(_COLUMNS) + 1))
        for _ in range(_BATCH):
            line = next(bounded_lines(file), b"")
            if not line:
                return False
            try:
                row = sample_row(parse_line(line), self.prices) if line.strip() else None
            except ValueError:
                if not line.endswith(b"\n"):
                    state.torn = len(line)
                    return False
                state.skipped += 1
                row = None
            if row is not None:
                values = {**row._asdict(), "offset": state.read}
                for name in FACETS:
                    key = tuple(sorted(row.facets.get(name) or ()))
                    if key not in codes:
                        codes[key] = len(codes)
                        connection.execute("INSERT INTO sets VALUES (?, ?)", (codes[key], json.dumps(key)))
                    values[f"f_{name}"] = codes[key]
                put = (state.samples + 1, *(values[name] for name in _COLUMNS))
                try:
                    added = connection.execute(f"INSERT OR IGNORE INTO samples VALUES ({marks})", put).rowcount  # noqa: S608
                except OverflowError:  # a number that no table holds
                    added = 0
                if added:
                    state.samples, state.folded = state.samples + 1, state.folded or row.folded
                    connection.execute("INSERT INTO words(rowid, said) VALUES (?, ?)", (state.samples, row.words))
                else:
                    state.skipped += 1
            state.read += len(line)
        return True


def _read_state(connection: sqlite3.Connection) -> IndexState:
    """Return how far an index is; a state of no form where it isn't one of ours."""
    try:
        if connection.execute("SELECT 1 FROM pragma_table_info('about') WHERE name = 'held'").fetchone():
            (held,) = connection.execute("SELECT held FROM about").fetchone() or ("{}",)
            return IndexState.model_validate_json(held)
    except ValidationError:
        pass
    return IndexState(form="none")


def _recreate_tables(connection: sqlite3.Connection) -> None:
    for name, statement in _TABLES.items():
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(statement)


def _hash_edges(file: IO[bytes], end: int) -> str:
    """Return a hash of the first and the last bytes of what was read."""
    made = hashlib.sha256()
    for start in (0, max(0, end - _EDGE)):
        file.seek(start)
        made.update(file.read(min(_EDGE, end - start)))
    return made.hexdigest()
