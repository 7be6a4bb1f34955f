"""Files of posts that are sent in, and the same rows with their outcomes sent out.

A file is held on the disk and looked through whole before any row is decided, then written down. It is read as
`tribunal batch` reads it, so a file that works there works here: a row that can't be judged is a failure among the
others, and a file that can't be read is refused whole.
"""

from __future__ import annotations

import asyncio
import csv
import io
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Literal, NamedTuple

from sqlalchemy.exc import IntegrityError

from tribunal.docket.decision_effects import load_author_hash
from tribunal.errors import BadInput, Problem
from tribunal.eval.datasets.post_table import PostTable
from tribunal.eval.runs.tables import OutcomeTable, OutputColumns
from tribunal.process.files import open_regular
from tribunal.retrievers.indexes.table_rows import EXTRA, Cells
from tribunal.schema import JSON
from tribunal.service.replica.batches import BatchStore, NewBatch
from tribunal.service.replica.options import ServiceOptions
from tribunal.settings.context import context_from, refuse_unused_settings
from tribunal.store.audit import OPERATOR, Who
from tribunal.store.engine import Store
from tribunal.trust import check_image, for_an_agent

MOST_COLUMNS = 1000
MOST_ROW = 8 * 1024**2  # bytes of a line
_MOST_HEADER = 1024**2
_AT_A_TIME = 8  # uploads
_CHUNK = 500  # rows that are written down together


class Upload(NamedTuple):
    """A file that was sent in: where it lies, what it was called, and the SHA-256 of its content."""

    path: Path
    name: str
    sha256: str


class Uploads:
    """Takes files in, a few at a time, and looks through one at a time."""

    def __init__(self, options: ServiceOptions, store: Store, batches: BatchStore) -> None:
        """Begin without an upload."""
        self._options = options
        self._store = store
        self._batches = batches
        self._places = asyncio.Semaphore(_AT_A_TIME)
        self._one = asyncio.Lock()

    @asynccontextmanager
    async def folder(self) -> AsyncIterator[Path]:
        """Open an empty folder for an upload, which is gone afterwards.

        Raises:
            Problem: too many rows wait, or too many uploads are under way.
        """
        if self._places.locked():
            raise Problem(
                "busy",
                f"{_AT_A_TIME} uploads are under way already; come back later",
                retry_after=10,
            )
        async with self._places:
            if await self._batches.count_waiting() >= self._options.batch_queue:
                most = self._options.batch_queue
                raise Problem(
                    "busy", f"{most} rows of batches wait already; come back later", retry_after=60
                )
            folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="tribunal-")
            try:
                yield Path(folder)
            finally:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def take_in(
        self, upload: Upload, wanted: JSON, key_id: str, idempotency_key: str | None, by: Who = OPERATOR,
        asked: JSON | None = None,
    ) -> str:  # fmt: skip
        """Look through a file and write its rows down; return the id of its batch.

        Args:
            upload: the file.
            wanted: what is to be done with its rows: graph, columns, keep, and settings, whole and checked.
            key_id: whose request it is.
            idempotency_key: the request's own name, under which it is done once.
            by: who asks, for the audit log.
            asked: `wanted` as the client sent it, to which the idempotency key belongs.

        Raises:
            BadInput: the file, a column or a setting is wrong; nothing of it is kept.
            Problem: it has too many rows, or the idempotency key belongs to another request.
        """
        refuse_unused_settings(wanted["graph"], context_from(wanted["settings"]))
        async with self._one:
            try:
                most = self._options.batch_rows
                posts, given = await asyncio.to_thread(
                    inspect_upload, upload.path, wanted["columns"], most
                )
                given = [name for name in given if name != posts.roles.get("author")]
                new = NewBatch(
                    **wanted,
                    file=upload.name,
                    sha256=upload.sha256,
                    given=given,
                    left_out=dict(posts.problems),
                )
                return await self._write_rows(posts, new, key_id, idempotency_key, by, asked)
            except BadInput as error:
                raise BadInput(str(error).replace(f"{upload.path.parent}/", "")) from None

    async def _write_rows(
        self,
        posts: PostTable,
        new: NewBatch,
        key_id: str,
        key: str | None,
        by: Who,
        asked: JSON | None,
    ) -> str:
        begun = await self._batches.begin(new, key_id)
        batch_id = ""
        author_hash = (
            await load_author_hash(self._store) if new.keep and "author" in posts.roles else None
        )
        rows = _batch_rows(posts, new.columns, author_hash)
        place = 0
        try:
            while chunk := await asyncio.to_thread(lambda: list(islice(rows, _CHUNK))):
                await self._batches.add_rows(begun, new, key_id, chunk, place)
                place += len(chunk)
            batch_id = await self._batches.commit(begun, new, key_id, place, key, by, asked)
        except (
            IntegrityError
        ) as error:  # this replica was thought dead meanwhile, and what it read was swept away
            raise Problem(
                "unavailable", "the upload was interrupted; send it again", retry_after=5
            ) from error
        finally:
            if batch_id != begun:  # it failed, or the same request has made one before
                await asyncio.shield(self._batches.delete(begun))
        return batch_id


def inspect_upload(
    path: Path, columns: Mapping[str, str], most_rows: int
) -> tuple[PostTable, list[str]]:
    """Return the posts of a file and the names of its columns, once every row was read.

    Raises:
        BadInput: the file can't be read, a column is wrong, or there is no row.
        Problem: there are too many rows, or a row is too long.
    """
    _check_lines(path)
    given: set[str] = set()
    count = 0

    def look(cells: Cells) -> None:
        nonlocal count
        count += 1
        if count > most_rows:
            raise Problem(
                "too_large",
                f"file: has more than {most_rows:,} rows (batch_rows); send it in parts",
            )
        given.update(cells)
        _check_columns(len(given - {EXTRA}))

    posts = _SentRows(path, columns)
    posts.plan(look)
    return posts, list(posts.column_names)


class _SentRows(PostTable):
    """The rows of a file that was sent in, whose images may be addresses, and no files of this machine."""

    def find_image(self, reference: str) -> tuple[str | None, str, str]:
        """Return the address of an image; or the reason that there is none, and in words."""
        try:
            with for_an_agent():
                check_image(reference)
        except BadInput as error:
            return None, "image of this machine", str(error)
        return reference, "", ""


# What a post calls what each role of a column is.
POST_BY_ROLE = {
    "id": "post_id",
    "text": "text",
    "image": "image",
    "language": "language",
    "earlier": "earlier",
}


def _batch_rows(
    posts: PostTable, columns: Mapping[str, str], author_hash: Callable[[str], str] | None
) -> Iterator[JSON]:
    """Give the rows of a file as they are written down: the post, as a graph takes it, and the other columns.

    In place of the author's id there is its hash, or nothing without an `author_hash`.
    """
    for sample in posts:
        post = {
            "text": sample.text, "image": sample.image, "post_id": sample.id, "language": sample.language,
            "earlier": list(sample.earlier), "problem": sample.problem,
        }  # fmt: skip
        # A cell that the post holds just as it was is not kept twice.
        kept = {columns.get(role) or role: post[name] for role, name in POST_BY_ROLE.items()}
        twice = {name for name, value in kept.items() if value and sample.cells.get(name) == value}
        twice |= {posts.roles.get("author", "")}
        fields = {name: cell for name, cell in sample.cells.items() if name not in twice}
        fields |= {name: None for name, value in kept.items() if value and name not in sample.cells}
        author_sha = author_hash(sample.author) if author_hash and sample.author else None
        yield {
            "post": {name: value for name, value in post.items() if value}, "fields": fields, "author_sha": author_sha
        }  # fmt: skip


# What the readers don't bound, since on the command line the file is the operator's own. What they say better
# themselves, such as where a line is no JSON, is left to them.


def _check_lines(path: Path) -> None:
    if path.suffix == ".csv":
        with (
            open_regular(path) as raw,
            io.TextIOWrapper(raw, "utf-8", "replace", newline="") as text,
            suppress(csv.Error),
        ):
            _check_columns(len(next(csv.reader(_lines_up_to_header_limit(text)), ())))
    with open_regular(path) as file:
        if path.suffix == ".jsonl" and file.read(64).lstrip().startswith(b"["):
            raise BadInput("file: is one JSON array; send JSON Lines, one object on each line")
        file.seek(0)
        number = 0
        while line := file.readline(MOST_ROW + 1):
            number += 1
            if len(line) > MOST_ROW:
                most = MOST_ROW // 1024**2
                raise Problem(
                    "too_large",
                    f"file: line {number}: is over {most} MB; send images by their address",
                )


def _lines_up_to_header_limit(file: IO[str]) -> Iterator[str]:
    """Yield a table's lines for a reader that stops after the header; raise BadInput once they are over the limit."""
    read = 0
    while line := file.readline(_MOST_HEADER):
        read += len(line)
        if read > _MOST_HEADER:
            raise BadInput(f"file: line 1: the header is over {_MOST_HEADER // 1024**2} MB")
        yield line


def _check_columns(count: int) -> None:
    if count > MOST_COLUMNS:
        raise BadInput(
            f"file: has more than {MOST_COLUMNS:,} columns; leave out columns that you don't need"
        )


Format = Literal["jsonl", "csv", "parquet"]
TYPES: dict[Format, str] = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
}
_PAGE = 100  # rows
_PIECE = 256 * 1024  # bytes
_Page = list[tuple[JSON, JSON]]


async def stream_results(batches: BatchStore, batch: JSON, form: Format) -> AsyncIterator[bytes]:
    """Give the table of a batch, in pieces. Rows that aren't decided have no outcome, and say why in `explanation`."""
    # Parquet tells at its end where everything lies, and its pages are packed together: it needs a file.
    with tempfile.TemporaryFile() if form == "parquet" else io.BytesIO() as file:
        table = OutcomeTable(form, OutputColumns(batch["given"]), file)
        async for page in _pages(batches, batch):
            await asyncio.to_thread(_add_page, table, page)
            if isinstance(file, io.BytesIO):
                yield _take_bytes(file)
        await asyncio.to_thread(table.close)
        if isinstance(file, io.BytesIO):
            yield _take_bytes(file)  # the header, where there is no row
            return
        file.seek(0)
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


async def _pages(batches: BatchStore, batch: JSON) -> AsyncIterator[_Page]:
    """Give the rows of a batch, a page at a time: of each its cells, and its record or why there is none."""
    after = -1
    while rows := await batches.list_rows(batch["id"], after, _PAGE):
        after = rows[-1]["place"]
        yield [(_cells_of_row(row, batch), _record_of_row(row)) for row in rows]


def _cells_of_row(row: JSON, batch: JSON) -> JSON:
    """Return a row's cells under the names and in the order of its file's columns: from the post and `fields`."""
    post = row["post"] or {}
    columns = batch["columns"]
    from_post = {
        columns.get(role) or role: post[name] for role, name in POST_BY_ROLE.items() if name in post
    }
    cells = {**from_post, **(row["fields"] or {})}
    return {name: cells[name] for name in batch["given"] if name in cells}


def _record_of_row(row: JSON) -> JSON:
    where = {"place": row["place"], "case": row["id"]}
    if row["status"] == "done":
        return {**where, **row["record"]}
    why = (
        "not decided yet"
        if row["status"] != "cancelled"
        else f"cancelled: {row['record']['cancelled']}"
    )
    return {**where, "outcome": None, "explanation": why}


def _add_page(table: OutcomeTable, page: _Page) -> None:
    for row, record in page:
        table.add_row(row, record)


def _take_bytes(file: io.BytesIO) -> bytes:
    """Return what was written since the last time."""
    held = file.getvalue()
    file.seek(0)
    file.truncate()
    return held
