"""Files of posts that are sent in: held on the disk, looked through whole before any row is decided, then written down.

They are read as `tribunal batch` reads them, so a file that works there works here. A wrong row refuses the whole file.
"""

from __future__ import annotations

import asyncio
import csv
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.exc import IntegrityError

from tribunal.context import context_from
from tribunal.errors import BadInput
from tribunal.eval.datasets import Dataset, Sample
from tribunal.eval.datasets.sampling import Plan, choose
from tribunal.eval.datasets.table import TABLE
from tribunal.eval.runs.tables import row_of
from tribunal.heeding import refuse_unheeded
from tribunal.parsed import from_json
from tribunal.schema import JSON
from tribunal.service.replica.batches import Batches, NewBatch, Row
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.replica.problems import Problem
from tribunal.store.audit import OPERATOR, Who
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


class Wanted(NamedTuple):
    """What is to be done with its rows; `settings` are whole and checked."""

    graph: str
    settings: JSON
    columns: dict[str, str]
    keep: bool


class Found(NamedTuple):
    """What is in a file: its posts, the names of its columns, and how many rows gave no post, by reason."""

    posts: Plan
    columns: list[str]
    left_out: dict[str, int]


class Uploads:
    """Takes files in, a few at a time, and looks through one at a time."""

    def __init__(self, options: ServiceOptions, batches: Batches) -> None:
        self._options, self._batches = options, batches
        self._under_way = 0
        self._one = asyncio.Lock()

    @asynccontextmanager
    async def folder(self) -> AsyncIterator[Path]:
        """An empty folder for an upload, which is gone afterwards.

        Raises:
            Problem: too many rows wait, or too many uploads are under way.
        """
        if self._under_way >= _AT_A_TIME:
            raise Problem("busy", f"{_AT_A_TIME} uploads are under way already; come back later", retry_after=10)
        self._under_way += 1
        try:
            if await self._batches.waiting() >= self._options.batch_queue:
                most = self._options.batch_queue
                raise Problem("busy", f"{most} rows of batches wait already; come back later", retry_after=60)
            folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="tribunal-"))
            try:
                yield folder
            finally:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        finally:
            self._under_way -= 1

    async def take_in(
        self, upload: Upload, wanted: Wanted, key_id: str, idempotency_key: str | None, by: Who = OPERATOR
    ) -> str:
        """Look through a file and write its rows down; gives the id of its batch.

        Raises:
            BadInput: a row, a column or a setting is wrong; nothing of it is kept.
            Problem: it has too many rows, or the idempotency key belongs to another request.
        """
        refuse_unheeded(wanted.graph, context_from(wanted.settings))
        async with self._one:
            try:
                most = self._options.batch_rows
                found = await asyncio.to_thread(looked_through, upload.path, wanted.columns, most)
                new = NewBatch(
                    file=upload.name, sha256=upload.sha256, given=found.columns, left_out=found.left_out,
                    **wanted._asdict(),
                )  # fmt: skip
                return await self._written(found.posts, new, key_id, idempotency_key, by)
            except BadInput as error:
                raise BadInput(str(error).replace(f"{upload.path.parent}/", "")) from None

    async def _written(self, plan: Plan, new: NewBatch, key_id: str, idempotency_key: str | None, by: Who) -> str:
        batch_id = await self._batches.begin(new, key_id)
        rows, place = _rows(plan), 0
        try:
            while chunk := await asyncio.to_thread(lambda: list(islice(rows, _CHUNK))):
                await self._batches.add(batch_id, new, key_id, chunk, place)
                place += len(chunk)
            return await self._batches.commit(batch_id, new, key_id, place, idempotency_key, by)
        except IntegrityError as error:  # this replica was thought dead meanwhile, and what it read was swept away
            raise Problem("unavailable", "the upload was interrupted; send it again", retry_after=5) from error
        except BaseException:
            await asyncio.shield(self._batches.delete(batch_id))
            raise


def looked_through(path: Path, columns: Mapping[str, str], most_rows: int) -> Found:
    """What is in a file, once every row was read and found right.

    Raises:
        BadInput: a row or a column is wrong, ids are not unique, or there is no post.
        Problem: there are too many rows, or a row is too long.
    """
    _check_rows(path)
    given: dict[str, None] = {}

    def read(dataset: Dataset) -> Iterator[Sample]:
        for number, sample in enumerate(TABLE.read(dataset), start=1):
            if number > most_rows:
                raise Problem("too_large", f"file: has more than {most_rows:,} rows (batch_rows); send it in parts")
            if sample.image and not sample.image.startswith(("data:", "https://", "http://")):
                _refuse_file(sample)
            given.update(dict.fromkeys(row_of(sample, columns)))
            _check_columns(len(given))
            yield sample

    dataset = Dataset(replace(TABLE, read=read), path, columns={**columns, "label": ""})
    return Found(choose(dataset), list(given), dict(dataset.skipped))


def _refuse_file(sample: Sample) -> None:
    try:
        with for_an_agent():
            check_image(sample.image or "")
    except BadInput as error:
        raise BadInput(f"post {sample.id}: {error}") from None


def _rows(plan: Plan) -> Iterator[Row]:
    for sample in plan:
        post = {
            "text": sample.text, "image": sample.image, "post_id": sample.id, "language": sample.language,
            "earlier": list(sample.earlier),
        }  # fmt: skip
        yield Row(post={name: value for name, value in post.items() if value}, fields=sample.fields)


# What the readers don't bound, since on the command line the file is the operator's own.


def _check_rows(path: Path) -> None:
    with path.open("rb") as file:
        first = file.read(64).lstrip()
        file.seek(0)
        if path.suffix == ".csv":
            _check_header(path)
        elif first.startswith(b"["):
            raise BadInput("file: is one JSON array; send JSON Lines, one object on each line")
        number = 0
        while line := file.readline(MOST_ROW + 1):
            number += 1
            if len(line) > MOST_ROW:
                most = MOST_ROW // 1024**2
                raise Problem("too_large", f"file: line {number}: is over {most} MB; send images by their address")
            if path.suffix == ".jsonl":
                _check_object(line)


def _check_object(line: bytes) -> None:
    try:
        held = from_json(line)
    except ValueError:
        return  # the reader says it better
    if isinstance(held, dict):
        _check_columns(len(held))


def _check_header(path: Path) -> None:
    with path.open(encoding="utf-8", errors="replace", newline="") as file:

        def lines() -> Iterator[str]:
            read = 0
            while line := file.readline(_MOST_HEADER):
                read += len(line)
                if read > _MOST_HEADER:
                    raise BadInput(f"file: line 1: the header is over {_MOST_HEADER // 1024**2} MB")
                yield line

        try:
            _check_columns(len(next(csv.reader(lines()), ())))
        except csv.Error:
            return  # the reader says it better


def _check_columns(count: int) -> None:
    if count > MOST_COLUMNS:
        raise BadInput(f"file: has more than {MOST_COLUMNS:,} columns; leave out those that you don't need")
