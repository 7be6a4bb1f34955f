"""The archive: all that led to a verdict, so that another person can trace it again, or replay it.

One SQLite file holds many posts and may be shared by many processes. Its three tables, for whoever reads them
without us:

- `runs`: one a case: its post (id and the hash of its text), when it began, its settings;
- `pages`: what was read, once for all runs: the id is the beginning of a hash of the address and the text;
- `entries`: what happened in a run, in the order in which it did. `kind` is

  | kind | topic | key | body |
  |---|---|---|---|
  | `search` | | the query | turn, engine, hits, failures |
  | `fetch` | | the URL | turn, page (its id) or failure |
  | `reply` | the phase | which call of it | reply, calls |
  | `decision` | what is decided | | as it was given |

Each entry is committed when it is written, so a run that is killed has kept what was finished.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import unicodedata
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator

from tribunal.core.text import parse_json, scrub, scrub_json, wellformed
from tribunal.errors import BadInput, TribunalError
from tribunal.models.registry import known_secrets
from tribunal.process.database import Database, DatabaseError
from tribunal.schema import JSON, Frozen
from tribunal.settings.environment import data_folder

if TYPE_CHECKING:
    from tribunal.retrievers.web.fetch.fetcher import FetchedPage
    from tribunal.retrievers.web.page_reader import PageText

VERSION = 1
_APPLICATION = 0x54524245  # "TRBE", in the file's header: told apart from any other SQLite file
_SCHEMA = (
    "CREATE TABLE runs (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, post_id TEXT NOT NULL,"
    " post_sha TEXT NOT NULL, started TEXT NOT NULL, settings TEXT NOT NULL)",
    "CREATE INDEX runs_by_post ON runs (post_id)",
    "CREATE TABLE pages (id TEXT PRIMARY KEY, url TEXT NOT NULL, final_url TEXT NOT NULL, title TEXT NOT NULL,"
    " language TEXT, date TEXT, text TEXT NOT NULL, truncated INTEGER NOT NULL, content_type TEXT NOT NULL,"
    " status INTEGER NOT NULL, fetched_at TEXT NOT NULL, body_sha TEXT NOT NULL)",
    "CREATE TABLE entries (number INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, kind TEXT NOT NULL,"
    " topic TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL, at TEXT NOT NULL)",
    "CREATE INDEX entries_by_run ON entries (run)",
    f"PRAGMA application_id={_APPLICATION}",
    f"PRAGMA user_version={VERSION}",
)
_RUN = "SELECT id, post_id, post_sha, started, settings FROM runs"
_WAY_OUT = "name another file, or move this one away"


Kind = Literal["search", "fetch", "reply", "decision"]


def _parse_column(value: Any) -> Any:
    return parse_json(value) if isinstance(value, str) else value


JSONColumn = Annotated[JSON, BeforeValidator(_parse_column)]  # stands in the file as text
ComposedText = Annotated[str, AfterValidator(partial(unicodedata.normalize, "NFC"))]


class StoredPage(Frozen):
    """A page as it was fetched and read. `url` is as it was asked for; the hash is of the body's bytes."""

    id: str
    url: str
    final_url: str
    title: str
    language: str | None
    date: str | None
    text: ComposedText
    truncated: bool
    content_type: str
    status: int
    fetched_at: str
    body_sha: str

    @classmethod
    def from_fetch(cls, page: FetchedPage, text: PageText) -> Self:
        """Return a fetched page with its text."""
        return cls(
            id=page_id(page.final_url, text.text),
            url=page.url,
            final_url=page.final_url,
            content_type=page.content_type,
            status=page.status,
            fetched_at=page.fetched_at.isoformat(timespec="seconds"),
            body_sha=hashlib.sha256(page.body).hexdigest(),
            **asdict(text),
        )


def page_id(final_url: str, text: str) -> str:
    """Return a page's id: the same address with the same text is the same page."""
    return text_hash(f"{final_url}\n{text}")[:16]


def text_hash(text: str) -> str:
    """Return the hash by which an archive knows a post's text, which it doesn't hold."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class ArchivedRun(Frozen):
    """One case in an archive. `started` in UTC, ISO 8601; `post_sha` is the SHA-256 of the post's text."""

    id: str
    post_id: str
    post_sha: str
    started: str
    settings: JSONColumn


class ArchiveEntry(Frozen):
    """One event of a run; the table in `archive` describes the fields."""

    kind: Kind
    topic: str
    key: str
    body: JSONColumn
    at: str


class Trail(Frozen):
    """A run and everything in it, in order; `pages` by their ids."""

    run: ArchivedRun
    entries: tuple[ArchiveEntry, ...]
    pages: dict[str, StoredPage]

    def entries_of(self, kind: Kind, topic: str = "") -> list[ArchiveEntry]:
        """Return the entries of a kind, in order; of a topic, where one is named."""
        return [each for each in self.entries if each.kind == kind and topic in ("", each.topic)]


class RunOverview(Frozen):
    """A run in short. `verdict` is the decision of that name, where there is one."""

    run: ArchivedRun
    searches: int = 0
    pages: int = 0
    verdict: Annotated[JSON | None, BeforeValidator(_parse_column)] = None


class ArchiveError(TribunalError):
    """The archive could not be written: a full disk, a lost one, rights. The case may go on without it, and say so."""


def default_archive_path() -> Path:
    """Return where the archive is kept if no file is named. Reads a file: call it off the event loop."""
    return data_folder() / "evidence.sqlite"


class Archive:
    """An open archive. Made by `open`, ended by `close`; all methods may be called at the same time."""

    def __init__(self, database: Database, secrets: Iterable[str]) -> None:
        """Use `open`."""
        self.path = database.path
        self._database = database
        self._secrets = sorted(secrets, key=len, reverse=True)  # one key may begin like another

    @classmethod
    async def open(cls, path: str | Path | None = None, *, existing: bool = False) -> Self:
        """Open an archive, and make it if it isn't there; an `existing` one must be there, and is only read.

        Raises:
            BadInput: the file can't be opened, isn't there, isn't an archive, or is one of another version.
        """
        file = await asyncio.to_thread(
            lambda: Path(path).expanduser() if path else default_archive_path()
        )
        if existing and not await asyncio.to_thread(file.is_file):
            raise BadInput(
                f"archive {file}: there is no such file; judge a post with --set archive={file} first, or name another"
            )
        try:
            database = await (
                _open_read_only(file)
                if existing
                else Database.open(file, prepare=partial(_prepare, file, create=True))
            )
        except DatabaseError as error:
            raise BadInput(
                f"archive {file}: can't be opened as an archive: {error.__cause__}; {_WAY_OUT}"
            ) from error
        return cls(database, await asyncio.to_thread(known_secrets))

    async def close(self) -> None:
        """Write out what SQLite still holds beside the file. Nothing may be asked of the archive afterwards."""
        await self._database.close()

    async def begin_run(self, post_id: str, text: str, settings: JSON) -> str:
        """Begin a case; gives its run's id.

        Raises:
            ArchiveError: it could not be written. So for all methods that add something.
        """
        run = uuid.uuid4().hex[:12]
        await self._write_row(
            "INSERT INTO runs (id, post_id, post_sha, started, settings) VALUES (?, ?, ?, ?, ?)",
            (
                run,
                scrub(post_id, self._secrets),
                text_hash(text),
                _utc_now(),
                self._as_clean_json(settings),
            ),
        )
        return run

    async def add_search(
        self,
        run: str,
        turn: int,
        query: str,
        engine: str | None,
        hits: Sequence[JSON],
        failures: Sequence[JSON] = (),
    ) -> None:
        """Add a search: which engine answered (None: none did), its hits, and why those before it didn't."""
        body = {"turn": turn, "engine": engine, "hits": list(hits), "failures": list(failures)}
        await self._add_entry(run, "search", "", query, body)

    async def add_page(self, page: StoredPage) -> str:
        """Add a page if it is new; returns its id."""
        # Its text stays as it was fetched, so that passages are found in it again; only keys of ours have no place.
        row = {name: self._strike_keys(value) for name, value in page.model_dump().items()}
        columns = ", ".join(row)
        places = ", ".join("?" * len(row))
        statement = f"INSERT OR IGNORE INTO pages ({columns}) VALUES ({places})"  # noqa: S608
        await self._write_row(statement, tuple(row.values()))
        return page.id

    async def add_fetch(
        self, run: str, turn: int, url: str, page: str | None, failure: str | None = None
    ) -> None:
        """Add what a URL gave in this run: a page, by its id, or in words why none."""
        await self._add_entry(
            run, "fetch", "", url, {"turn": turn, "page": page, "failure": failure}
        )

    async def add_reply(
        self, run: str, phase: str, key: str, reply: JSON, calls: Sequence[JSON] = ()
    ) -> None:
        """Add a model's reply: of which phase, which call of it (several may share a key), and what it took."""
        await self._add_entry(run, "reply", phase, key, {"reply": reply, "calls": list(calls)})

    async def add_decision(self, run: str, kind: str, what: JSON) -> None:
        """Add a decision: relevance, page, evidence, judgement, sufficiency, verdict and so on."""
        await self._add_entry(run, "decision", kind, "", what)

    async def _add_entry(self, run: str, kind: Kind, topic: str, key: str, body: JSON) -> None:
        row = (run, kind, topic, scrub(key, self._secrets), self._as_clean_json(body), _utc_now())
        await self._write_row(
            "INSERT INTO entries (run, kind, topic, key, body, at) VALUES (?, ?, ?, ?, ?, ?)", row
        )

    def _as_clean_json(self, body: JSON) -> str:
        return json.dumps(
            scrub_json(body, self._secrets), ensure_ascii=False, separators=(",", ":"), default=str
        )

    def _strike_keys(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        for secret in self._secrets:
            value = value.replace(secret, "[key]")
        return wellformed(value)

    async def _write_row(self, statement: str, row: tuple[Any, ...]) -> None:
        try:
            await self._database.write(statement, *row)
        except DatabaseError as error:
            raise ArchiveError(
                f"archive {self.path}: can't be written: {error.__cause__}"
            ) from error

    async def run_to_replay(self, post_text: str = "") -> str:
        """Return the id of the latest run of a post, or of all, in which a model was asked; if none was, the latest.

        A replay that was itself archived asked no model, and can't be replayed; the run that it replayed can.

        Raises:
            BadInput: the archive holds no run of it.
        """
        found = await self._read_rows(
            "SELECT id FROM runs WHERE ?1 IS NULL OR post_sha = ?1 ORDER BY"
            " EXISTS (SELECT 1 FROM entries WHERE run = runs.id AND kind = 'reply') DESC, number DESC LIMIT 1",
            text_hash(post_text) if post_text else None,
        )
        if not found:
            raise BadInput(
                f"archive {self.path}: holds no run of this post; `tribunal evidence --archive {self.path}` names "
                "those that it holds"
            )
        return str(found[0]["id"])

    async def list_overviews(self) -> list[RunOverview]:
        """Return all runs in short, in the order in which they began.

        Raises:
            BadInput: the file is damaged. So for all methods that read.
        """
        rows = await self._read_rows(
            "SELECT runs.id, post_id, post_sha, started, settings,"
            " count(CASE kind WHEN 'search' THEN 1 END) AS searches,"
            " count(CASE kind WHEN 'fetch' THEN json_extract(body, '$.page') END) AS pages,"
            " max(CASE WHEN kind = 'decision' AND topic = 'verdict' THEN body END) AS verdict"
            " FROM runs LEFT JOIN entries ON run = runs.id GROUP BY runs.number ORDER BY runs.number"
        )
        found = [dict(row) for row in rows]
        runs = [{name: each.pop(name) for name in ArchivedRun.model_fields} for each in found]
        return [
            RunOverview.model_validate({**each, "run": run})
            for each, run in zip(found, runs, strict=True)
        ]

    async def load_trail(self, which: str | None = None) -> Trail:
        """Return everything of a run: by its id; the latest run of a post, by the post's id; or the latest of all.

        Raises:
            BadInput: the archive holds no such run.
        """
        found = await self._read_rows(
            f"{_RUN} WHERE ?1 IS NULL OR id = ?1 OR post_id = ?1 ORDER BY id = ?1 DESC, number DESC LIMIT 1",
            which,
        )
        if not found:
            none = (
                "no run yet"
                if which is None
                else f"no run and no post {which!r}; `tribunal evidence` names them"
            )
            raise BadInput(f"archive {self.path}: holds {none}")
        run = found[0]["id"]
        entries = await self._read_rows(
            "SELECT kind, topic, key, body, at FROM entries WHERE run = ? ORDER BY number", run
        )
        pages = await self._read_rows(
            "SELECT * FROM pages WHERE id IN"
            " (SELECT json_extract(body, '$.page') FROM entries WHERE run = ? AND kind = 'fetch')",
            run,
        )
        try:
            return Trail.model_validate(
                {
                    "run": dict(found[0]),
                    "entries": [dict(row) for row in entries],
                    "pages": {row["id"]: dict(row) for row in pages},
                }
            )
        except ValueError as error:
            raise damaged_archive_error(self.path, error) from error

    async def _read_rows(self, statement: str, *asked: Any) -> list[sqlite3.Row]:
        try:
            return await self._database.rows(statement, *asked)
        except DatabaseError as error:
            raise damaged_archive_error(self.path, error.__cause__) from error


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def damaged_archive_error(file: Path, error: BaseException | None) -> BadInput:
    """Return the error that says that an archive can't be read."""
    return BadInput(f"archive {file}: is damaged: {error}; {_WAY_OUT}")


async def _open_read_only(file: Path) -> Database:
    prepare = partial(_prepare, file, create=False)
    try:
        return await Database.open(file, prepare=prepare, mode="mode=ro")
    except DatabaseError as error:
        if not isinstance(error.__cause__, sqlite3.OperationalError):
            raise
        # Readers need a little file beside it; where none can be made, in a locked folder, nobody is writing either.
        return await Database.open(file, prepare=prepare, mode="mode=ro&immutable=1")


def _prepare(file: Path, connection: sqlite3.Connection, *, create: bool) -> None:
    """Make an archive of an empty file, and refuse one that is something else, or of another version."""
    made_by = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if made_by == _APPLICATION and version == VERSION:
        return
    if made_by == _APPLICATION:
        age = "a newer" if version > VERSION else "an older"
        raise BadInput(
            f"archive {file}: was written by {age} version (its format is {version}, this one's {VERSION}); "
            f"read it with that version, or {_WAY_OUT}"
        )
    if made_by or not is_empty:
        raise BadInput(f"archive {file}: is the SQLite file of another program; {_WAY_OUT}")
    if not create:
        raise BadInput(f"archive {file}: is empty; {_WAY_OUT}")
    for statement in _SCHEMA:
        connection.execute(statement)
