"""The evidence record: all that led to a verdict, so that another person can trace it again, and its replay.

One SQLite file holds many posts and may be shared by many processes. Three tables, for whoever reads them with other
means:

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
import os
import re
import sqlite3
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from pydantic import ValidationError

from tribunal.context import data_folder, environment
from tribunal.errors import BadInput, TribunalError
from tribunal.models.cache import in_wal_mode
from tribunal.models.diagnosis import scrub
from tribunal.models.providers import PROVIDERS
from tribunal.retrievers.web.search import EngineFault, Found, Hit
from tribunal.schema import JSON, Frozen

if TYPE_CHECKING:
    from tribunal.retrievers.web.fetch import FetchedPage
    from tribunal.retrievers.web.pages import Text

T = TypeVar("T")
Kind = Literal["search", "fetch", "reply", "decision"]

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
)
_RUN = "SELECT id, post_id, post_sha, started, settings FROM runs"


class ArchiveError(TribunalError):
    """The record could not be written: a full disk, a lost one, rights. The case may go on without it, and say so."""


class StoredPage(Frozen):
    """A page as it was fetched and read. `url` is as it was asked for; the hash is of the body's bytes."""

    id: str
    url: str
    final_url: str
    title: str
    language: str | None
    date: str | None
    text: str
    truncated: bool
    content_type: str
    status: int
    fetched_at: str
    body_sha: str

    @classmethod
    def of(cls, page: FetchedPage, text: Text) -> Self:
        """A page that was fetched, with what it says."""
        return cls(
            id=page_id(page.final_url, text.text),
            url=page.url,
            final_url=page.final_url,
            title=text.title,
            language=text.language,
            date=text.date,
            text=text.text,
            truncated=text.truncated,
            content_type=page.content_type,
            status=page.status,
            fetched_at=page.fetched_at.isoformat(timespec="seconds"),
            body_sha=hashlib.sha256(page.body).hexdigest(),
        )


class Run(Frozen):
    """One case in the record. `started` in UTC, ISO 8601; `post_sha` is the SHA-256 of the post's text."""

    id: str
    post_id: str
    post_sha: str
    started: str
    settings: JSON


class ArchiveEntry(Frozen):
    """One thing that happened in a run; the module's table says what stands where."""

    kind: Kind
    topic: str
    key: str
    body: JSON
    at: str


class Trail(Frozen):
    """A run and everything in it, in order; `pages` by their ids."""

    run: Run
    entries: tuple[ArchiveEntry, ...]
    pages: dict[str, StoredPage]

    def of(self, kind: Kind, topic: str = "") -> list[ArchiveEntry]:
        """The entries of a kind, in order; of a topic, where one is named."""
        return [each for each in self.entries if each.kind == kind and topic in ("", each.topic)]


class Overview(Frozen):
    """A run in short. `verdict` is the decision of that name, where there is one."""

    run: Run
    searches: int
    pages: int
    verdict: JSON | None


def page_id(final_url: str, text: str) -> str:
    """What a page is called: the same address with the same text is the same page."""
    return hashlib.sha256(f"{final_url}\n{text}".encode("utf-8", "replace")).hexdigest()[:16]


def text_hash(text: str) -> str:
    """The hash by which a post's text is known in the record, which doesn't hold the text itself."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def default_path() -> Path:
    """Where the record is kept if no file is named. Reads a file: call it off the event loop."""
    return data_folder() / "evidence.sqlite"


class Record:
    """The evidence record in a SQLite file. Made by `open`; closed with `close`, or when it is dropped.

    All methods may be called at the same time, and from any event loop.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, thread: ThreadPoolExecutor, secrets: Iterable[str]) -> None:
        """Use `open`."""
        self.path = path
        self._db = db
        # One thread of its own: SQLite lets one write at a time anyhow, and the loop's pool stays free for others.
        self._thread = thread
        self._secrets = tuple(secrets)
        self._end = weakref.finalize(self, _close, db, thread)

    @classmethod
    async def open(cls, path: str | Path | None = None, *, existing: bool = False) -> Self:
        """Open a record, and make it if it isn't there.

        Args:
            path: its file; left out: `default_path`.
            existing: it must be there, and is only read.

        Raises:
            BadInput: the file can't be opened, isn't there, isn't a record, or is one of another version.
        """
        thread = ThreadPoolExecutor(1, thread_name_prefix="tribunal-record")

        def opened() -> tuple[Path, sqlite3.Connection, set[str]]:
            file = Path(path).expanduser() if path else default_path()
            return file, _opened(file, existing=existing), _secrets()

        try:
            file, db, secrets = await asyncio.get_running_loop().run_in_executor(thread, opened)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(file, db, thread, secrets)

    def close(self) -> None:
        """Write out what SQLite still holds beside the file. Nothing may be asked of the record afterwards."""
        self._end()
        self._thread.shutdown(wait=True)

    # Writing

    async def begin(self, post_id: str, text: str, settings: JSON) -> str:
        """Begin a case; gives its run's id.

        Raises:
            ArchiveError: it could not be written.
        """
        run = uuid.uuid4().hex[:12]
        row = (run, self._clean(post_id), text_hash(text), _now(), self._json(settings))
        await self._write("INSERT INTO runs (id, post_id, post_sha, started, settings) VALUES (?, ?, ?, ?, ?)", row)
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
        """Add a search: which engine answered (None: none did), its hits, and why those before it didn't.

        Raises:
            ArchiveError: it could not be written. So for all methods that add something.
        """
        body = {"turn": turn, "engine": engine, "hits": list(hits), "failures": list(failures)}
        await self._add(run, "search", "", query, body)

    async def add_page(self, page: StoredPage) -> str:
        """Add a page, unless it is held already; gives its id."""
        # Its text stays as it was fetched, so that passages are found in it again; only keys of ours have no place.
        values = page.model_dump()
        row = {
            name: _without(value, self._secrets) if isinstance(value, str) else value for name, value in values.items()
        }
        columns = ", ".join(row)
        places = ", ".join("?" * len(row))
        await self._write(f"INSERT OR IGNORE INTO pages ({columns}) VALUES ({places})", tuple(row.values()))  # noqa: S608
        return page.id

    async def add_fetch(self, run: str, turn: int, url: str, page: str | None, failure: str | None = None) -> None:
        """Add what a URL gave in this run: a page, by its id, or in words why none."""
        await self._add(run, "fetch", "", url, {"turn": turn, "page": page, "failure": failure})

    async def add_reply(self, run: str, phase: str, key: str, reply: JSON, calls: Sequence[JSON] = ()) -> None:
        """Add a model's reply: of which phase, which call of it (several may share a key), and what it took."""
        await self._add(run, "reply", phase, key, {"reply": reply, "calls": list(calls)})

    async def add_decision(self, run: str, kind: str, what: JSON) -> None:
        """Add a decision: relevance, page, evidence, judgement, sufficiency, verdict, …"""
        await self._add(run, "decision", kind, "", what)

    async def _add(self, run: str, kind: Kind, topic: str, key: str, body: JSON) -> None:
        row = (run, kind, topic, self._clean(key), self._json(body), _now())
        await self._write("INSERT INTO entries (run, kind, topic, key, body, at) VALUES (?, ?, ?, ?, ?, ?)", row)

    def _clean(self, text: str) -> str:
        return scrub(text, self._secrets)

    def _json(self, body: JSON) -> str:
        return json.dumps(_everywhere(body, self._clean), ensure_ascii=False, separators=(",", ":"), default=str)

    async def _write(self, statement: str, row: tuple[Any, ...]) -> None:
        try:
            await self._in_thread(lambda: self._db.execute(statement, row))
        except (sqlite3.Error, OSError) as error:
            raise ArchiveError(f"record {self.path}: can't be written: {error}") from error

    # Reading

    async def page(self, page: str) -> StoredPage | None:
        """A page by its id.

        Raises:
            BadInput: the file is damaged. So for all methods that read.
        """
        rows = await self._read("SELECT * FROM pages WHERE id = ?", page)
        return _page(rows[0]) if rows else None

    async def runs(self, post_id: str | None = None) -> list[Run]:
        """The runs, of a post or all, in the order in which they began."""
        where, asked = (" WHERE post_id = ?", [post_id]) if post_id is not None else ("", [])
        return [_run(row) for row in await self._read(f"{_RUN}{where} ORDER BY number", *asked)]

    async def latest(self, post_id: str | None = None) -> Run | None:
        """The run that began last, of a post or of all."""
        held = await self.runs(post_id)
        return held[-1] if held else None

    async def overviews(self) -> list[Overview]:
        """All runs in short, in the order in which they began."""
        rows = await self._read(
            "SELECT run, sum(kind = 'search') AS searches,"
            " sum(kind = 'fetch' AND json_extract(body, '$.page') IS NOT NULL) AS pages,"
            " max(CASE WHEN kind = 'decision' AND topic = 'verdict' THEN body END) AS verdict"
            " FROM entries GROUP BY run"
        )
        found = {row["run"]: row for row in rows}
        return [_overview(run, found.get(run.id)) for run in await self.runs()]

    async def chain(self, which: str) -> Trail:
        """Everything of a run, by its id or, for the latest run of a post, by the post's.

        Raises:
            BadInput: the record holds neither.
        """
        found = await self._read(f"{_RUN} WHERE id = ? OR post_id = ? ORDER BY id = ?, number", which, which, which)
        if not found:
            raise BadInput(
                f"record {self.path}: holds no run and no post {which!r}; `tribunal evidence list` names them"
            )
        run = _run(found[-1])
        entries = await self._read(
            "SELECT kind, topic, key, body, at FROM entries WHERE run = ? ORDER BY number", run.id
        )
        pages = await self._read(
            "SELECT * FROM pages WHERE id IN"
            " (SELECT json_extract(body, '$.page') FROM entries WHERE run = ? AND kind = 'fetch')",
            run.id,
        )
        try:
            return Trail(
                run=run,
                entries=tuple(ArchiveEntry(**{**dict(row), "body": json.loads(row["body"])}) for row in entries),
                pages={row["id"]: _page(row) for row in pages},
            )
        except ValueError as error:
            raise _damaged(self.path, error) from error

    async def _read(self, statement: str, *asked: Any) -> list[sqlite3.Row]:
        try:
            return await self._in_thread(lambda: self._db.execute(statement, asked).fetchall())
        except (sqlite3.Error, OSError) as error:
            raise _damaged(self.path, error) from error

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class Replay:
    """A recorded run, to be gone through again with no network. Everything in it is in memory.

    Attributes:
        name: what it is called as a search engine.
        run: the run.
        unknown_queries: those that were searched for and aren't in the record, in order.
    """

    name = "replay"

    def __init__(self, trail: Trail) -> None:
        self.run = trail.run
        self.unknown_queries: list[str] = []
        self._pages = trail.pages
        self._searches = {each.key: _found(each) for each in trail.of("search")}
        self._fetches = {each.key: each.body for each in trail.of("fetch")}
        self._read = [each.body for each in trail.of("decision", "page")]
        self._replies: dict[tuple[str, str], list[JSON]] = {}
        for each in trail.of("reply"):
            self._replies.setdefault((each.topic, each.key), []).append(each.body["reply"])
        self._told: Counter[tuple[str, str]] = Counter()

    @classmethod
    async def open(
        cls, path: str | Path | None = None, *, post_id: str | None = None, post_text: str = "", run: str | None = None
    ) -> Self:
        """The latest run of a post in a record: of those in which a model was asked, if there are any.

        Args:
            path: the record's file; left out: `default_path`.
            post_id: the post, by its id, which counts if no run has its text.
            post_text: the post, by its words.
            run: the run itself, by its id. With neither, the latest of all is taken.

        Raises:
            BadInput: there is no such file, or no such run in it.
        """
        record = await Record.open(path, existing=True)
        try:
            chosen = run or await _run_of(record, post_id, post_text)
            return cls(await record.chain(chosen))
        except (KeyError, TypeError, ValidationError) as error:
            raise _damaged(record.path, error) from error
        finally:
            record.close()

    def rewind(self) -> None:
        """Begin again: replies come in order from the first, and no query is unknown."""
        self._told.clear()
        self.unknown_queries.clear()

    async def search(self, query: str, k: int) -> Found:
        """The recorded hits for exactly this query, and who answered then. For one that isn't there: nothing."""
        held = self._searches.get(scrub(query, ()))
        if held is None:
            if query not in self.unknown_queries:
                self.unknown_queries.append(query)
            return Found(query=query, engine=self.name)
        return held.model_copy(update={"query": query, "hits": held.hits[:k]})

    async def fetch(self, url: str) -> StoredPage | str | None:
        """The page that this URL gave then, or in words why it gave none; None if it was never asked for."""
        held = self._fetches.get(scrub(url, ()))
        if held is None:
            return None
        if held["page"] is None:
            return str(held["failure"] or f"{url}: gave no page")
        page = self._pages.get(held["page"])
        return page.model_copy(update={"url": url}) if page else None

    async def fetched(self, turn: int) -> list[str]:
        """The URLs of a turn, in the order in which they were read (the `page` decisions), then those only fetched."""
        read = [str(each["url"]) for each in self._read if each.get("turn") == turn and "url" in each]
        asked = [url for url, each in self._fetches.items() if each["turn"] == turn]
        return list(dict.fromkeys([*read, *asked]))

    async def reply(self, phase: str, key: str) -> JSON | None:
        """The next recorded reply to this call, in the order in which they were given; None when there is none left."""
        call = phase, scrub(key, ())
        number = self._told[call]
        held = self._replies.get(call, [])
        if number >= len(held):
            return None
        self._told[call] += 1
        return held[number]


async def _run_of(record: Record, post_id: str | None, post_text: str) -> str:
    held = await record.runs()
    if post_id is not None or post_text:
        same_text = [each for each in held if post_text and each.post_sha == text_hash(post_text)]
        held = same_text or [each for each in held if each.post_id == post_id]
    if not held:
        raise BadInput(
            f"record {record.path}: holds no run of this post; `tribunal evidence list --record {record.path}` names "
            "those that it holds"
        )
    asked = {row["run"] for row in await record._read("SELECT DISTINCT run FROM entries WHERE kind = 'reply'")}
    # A replay that was itself recorded asked no model, and can't be replayed; the run that it replayed can.
    return next((each.id for each in reversed(held) if each.id in asked), held[-1].id)


def _found(entry: ArchiveEntry) -> Found:
    body = entry.body
    return Found(
        query=entry.key,
        hits=tuple(Hit.model_validate(hit) for hit in body["hits"]),
        engine=body["engine"],
        failures=tuple(EngineFault.model_validate(each) for each in body["failures"]),
    )


def _run(row: sqlite3.Row) -> Run:
    return Run(**{**dict(row), "settings": json.loads(row["settings"])})


def _overview(run: Run, row: sqlite3.Row | None) -> Overview:
    if row is None:
        return Overview(run=run, searches=0, pages=0, verdict=None)
    verdict = json.loads(row["verdict"]) if row["verdict"] else None
    return Overview(run=run, searches=row["searches"], pages=row["pages"], verdict=verdict)


def _page(row: sqlite3.Row) -> StoredPage:
    return StoredPage(**{**dict(row), "truncated": bool(row["truncated"])})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# Keys


_NAMES_A_SECRET = re.compile(r"_(?:KEYS?|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)


def _secrets() -> set[str]:
    """Every key that this program could know, long enough not to be an ordinary word."""
    held: Mapping[str, str] = {**environment(), **os.environ}
    known = {value for name, value in held.items() if _NAMES_A_SECRET.search(name)}
    for provider in PROVIDERS.values():
        known |= {key for key in provider.key_pool(held) if key}
    return {value for value in known if len(value) >= 8}


def _everywhere(value: Any, clean: Callable[[str], str]) -> Any:
    """The same JSON with every text in it cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {name: _everywhere(each, clean) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_everywhere(each, clean) for each in value]
    return value


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "[key]")
    return text.encode("utf-8", "replace").decode()  # half a surrogate pair can't be stored


# The file


_WAY_OUT = "name another file, or move this one away"


def _damaged(file: Path, error: Exception) -> BadInput:
    return BadInput(f"record {file}: is damaged: {error}; {_WAY_OUT}")


def _opened(file: Path, *, existing: bool) -> sqlite3.Connection:
    if existing and not file.is_file():
        raise BadInput(
            f"record {file}: there is no such file; judge a post with --record {file} first, or name another"
        )
    try:
        return _read_only(file) if existing else _writable(file)
    except (sqlite3.Error, OSError) as error:
        raise BadInput(f"record {file}: can't be opened as a record: {error}; {_WAY_OUT}") from error


def _writable(file: Path) -> sqlite3.Connection:
    file.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(file, timeout=30, check_same_thread=False, isolation_level=None)
    db.row_factory = sqlite3.Row
    try:
        # Looked at before anything is written: a foreign file must stay as it is.
        if not _is_record(file, db):
            _make(file, db)
        in_wal_mode(db)
        # What is committed outlives the process; a power cut may cost the last moments, and nothing else.
        db.execute("PRAGMA synchronous=NORMAL")
    except BaseException:
        db.close()
        raise
    return db


def _read_only(file: Path) -> sqlite3.Connection:
    # Readers need a little file beside it; where none can be made, on an archive, nobody is writing either.
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        db = sqlite3.connect(f"{file.resolve().as_uri()}?{mode}", uri=True, timeout=30, check_same_thread=False)
        db.row_factory = sqlite3.Row
        try:
            if not _is_record(file, db):
                raise BadInput(f"record {file}: is empty; {_WAY_OUT}")
        except sqlite3.OperationalError:
            db.close()
            if "immutable" in mode:
                raise
        except BaseException:
            db.close()
            raise
        else:
            return db
    raise AssertionError("unreachable: the second mode returns or raises")


def _is_record(file: Path, db: sqlite3.Connection) -> bool:
    """Whether it is a record of this version; False for an empty file.

    Raises:
        BadInput: it is something else.
    """
    made_by = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if made_by == _APPLICATION:
        if version != VERSION:
            age = "a newer" if version > VERSION else "an older"
            raise BadInput(
                f"record {file}: was written by {age} version (its format is {version}, this one's {VERSION}); "
                f"read it with that version, or {_WAY_OUT}"
            )
        return True
    if made_by or db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise BadInput(f"record {file}: is the SQLite file of another program; {_WAY_OUT}")
    return False


def _make(file: Path, db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        if not _is_record(file, db):  # another process may have been quicker
            for statement in _SCHEMA:
                db.execute(statement)
            db.execute(f"PRAGMA application_id={_APPLICATION}")
            db.execute(f"PRAGMA user_version={VERSION}")
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        raise


def _close(db: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
    # Behind what is still being written, and without waiting for it: this may run on that very thread.
    try:
        thread.submit(db.close)
    except RuntimeError:  # the program is ending, and its threads have ended before
        db.close()
    thread.shutdown(wait=False)
