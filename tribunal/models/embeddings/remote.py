"""Vectors from a provider's endpoint.

A model that tells queries and passages apart is told which: in the request's own field, where the provider has one, and
else before the text, where the model is known to want that.

It is spoken to over plain HTTP, not through client libraries: two small wire formats, of which we need one call each,
and answers have to be put in order by the index that they carry, which the libraries leave out.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from tribunal.core.text import scrub
from tribunal.errors import BadInput, CallFailed
from tribunal.models.embeddings.vectors import (
    LONGEST_TEXT_BYTES,
    Use,
    Vectors,
    cut_text,
    normalize_rows,
)
from tribunal.models.faults import Fault, read_fault
from tribunal.models.keys import KeyPool
from tribunal.models.providers import EmbeddingApi, ModelName, Provider
from tribunal.models.providers.http import post_json
from tribunal.process.database import Database, DatabaseError
from tribunal.process.loops import PerLoop
from tribunal.settings.environment import say_once

TIMEOUT = 120.0
ATTEMPTS = 8
AT_ONCE = 4
_USES: tuple[Use, ...] = ("query", "passage")
# A token is at least a byte, so this keeps OpenAI's limit of 300,000 tokens a request without its tables.
LARGEST_REQUEST_BYTES = 280_000
# Statuses that may mean that a request has too many texts, or too long ones; 500 only if it repeats (llama.cpp).
_TOO_LARGE = (400, 413, 422, 500)
SHORTEST_CUT_BYTES = 250  # every model takes so much
# The vectors that were paid for, in a file that processes may share.
_SCHEMA = [
    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
]
_LOOKED_UP_AT_ONCE = 500
# What stands before a query and before a passage, by the model's name; a server's own prefix, as in org/model, aside.
_PREFIXES: tuple[tuple[re.Pattern[str], dict[Use, str]], ...] = (
    (
        re.compile(r"(multilingual-)?e5-(small|base|large)(-v2)?"),
        {"query": "query: ", "passage": "passage: "},
    ),
    (
        re.compile(r"nomic-embed-text.*"),
        {"query": "search_query: ", "passage": "search_document: "},
    ),
)


class RemoteEmbedder:
    """An embedding endpoint: batched within its limits, retried as its server says, cached by content.

    A server's own limits are learnt from its refusals, whatever their words: a request is halved until it is taken, and
    a single text is cut. They are remembered for the server and model as long as the process runs.

    The cache is keyed by the address, the model and the text, so that a killed build and a repeated evaluation pay for
    no text twice.
    """

    def __init__(
        self,
        name: ModelName,
        provider: Provider,
        api: EmbeddingApi,
        url: str,
        keys: Sequence[str],
        cache: Path,
        account: Sequence[tuple[str, str]],
    ) -> None:
        """`account` is the headers that say whose account a request is for."""
        self.name = str(name)
        self.at_once = AT_ONCE * api.most_texts
        self.dimension: int | None = None
        self._model = name.model
        self._provider = provider
        self._api = api
        self._url = url
        self._host = urlsplit(url).netloc
        self._keys = list(keys)
        self._account = dict(account)
        self._pool = KeyPool(provider.name, self._keys)
        bare_name = name.model.rpartition("/")[2].partition(":")[0].lower()
        self._prefix = next(
            (prefixes for known, prefixes in _PREFIXES if known.fullmatch(bare_name)), {}
        )
        self._most_texts = api.most_texts
        self._longest_text = LONGEST_TEXT_BYTES
        space = f"{url}\n{name.model}"
        bodies = [api.body(name.model, ["x"], use) for use in _USES]
        # Where the request tells the uses apart, a text has a vector for each.
        self._caches = {
            use: VectorCache(cache, space if bodies[0] == bodies[1] else f"{space}\n{use}")
            for use in _USES
        }

    async def embed(self, texts: Sequence[str], use: Use) -> Vectors:
        """Embed texts; see `Embedder.embed`."""
        inputs = [
            cut_text(self._prefix.get(use, "") + text) if text.strip() else "" for text in texts
        ]
        wanted = list(dict.fromkeys(text for text in inputs if text))
        cache = self._caches[use]
        found = await cache.get(wanted)
        turn = asyncio.Semaphore(AT_ONCE)

        async def ask(batch: list[str]) -> None:
            async with turn:
                rows = await self._ask_batch(batch, use)
            found.update(zip(batch, rows, strict=True))
            # Stored as they come: what a killed build has paid for is not asked for again.
            await cache.put(batch, rows)

        try:
            async with asyncio.TaskGroup() as group:
                for batch in _split_batches(
                    [text for text in wanted if text not in found], self._api.most_texts
                ):
                    group.create_task(ask(batch))
        except BaseExceptionGroup as failed:
            # The first says what there is to say; a group of the same error is no use to a reader.
            raise failed.exceptions[0] from None
        return self._stack_rows(inputs, found, use)

    def _stack_rows(self, inputs: list[str], found: dict[str, Vectors], use: Use) -> Vectors:
        dimensions = {len(row) for row in found.values()} | (
            {self.dimension} if self.dimension else set()
        )
        if len(dimensions) > 1:
            raise CallFailed(
                f"embedding {self.name}: vectors of different lengths ({', '.join(map(str, sorted(dimensions)))}): "
                "the model behind this name has changed; "
                f"delete {self._caches[use].path} and build the indexes again",
                kind="bad_output",
                model=self.name,
            )
        self.dimension = dimensions.pop() if dimensions else None
        empty = np.zeros(self.dimension or 0, np.float32)
        rows = [found.get(text, empty) for text in inputs]
        return np.stack(rows) if rows else np.zeros((0, len(empty)), np.float32)

    async def _ask_batch(self, batch: list[str], use: Use) -> Vectors:
        """Return the vectors of a batch, of length 1, in as many requests as the server's limits take."""
        if len(batch) > (most := self._most_texts):
            return await self._ask_parts(
                [batch[at : at + most] for at in range(0, len(batch), most)], use
            )
        longest = self._longest_text
        reply = await self._request_vectors(batch, use, longest)
        if isinstance(reply, Fault):
            if reply.status not in _TOO_LARGE or reply.kind not in ("request", "too_long"):
                raise self._call_failed(reply)
            if len(batch) == 1:
                return await self._ask_shorter(batch, use, reply)
            half = (len(batch) + 1) // 2
            rows = await self._ask_parts([batch[:half], batch[half:]], use)
            # If a text had to be cut meanwhile, its length was the reason.
            if self._longest_text == longest and half < self._most_texts and reply.status != 500:
                self._most_texts = half
                say_once(
                    f"embedding {self.name}: {self._host} takes at most {half} texts per request"
                )
            return rows
        return self._read_rows(reply, len(batch))

    async def _ask_parts(self, parts: list[list[str]], use: Use) -> Vectors:
        return np.concatenate([await self._ask_batch(part, use) for part in parts])

    async def _ask_shorter(self, batch: list[str], use: Use, refusal: Fault) -> Vectors:
        """Return the vector of a text that is too long, cut by half until the server takes it."""
        length = len(batch[0].encode())
        longest = LONGEST_TEXT_BYTES
        while (longest := longest // 2) >= SHORTEST_CUT_BYTES:
            if longest >= min(length, self._longest_text):
                continue
            reply = await self._request_vectors(batch, use, longest)
            if not isinstance(reply, Fault):
                if refusal.status != 500:  # which may have passed by itself
                    self._longest_text = min(longest, self._longest_text)
                    say_once(
                        f"embedding {self.name}: {self._host} refuses long texts; they are cut to {longest:,} bytes"
                    )
                return self._read_rows(reply, 1)
            if reply.status not in _TOO_LARGE:
                raise self._call_failed(reply)
        raise self._call_failed(refusal)

    async def _request_vectors(self, batch: list[str], use: Use, longest: int) -> Any:
        """Return the answer for a batch, or what went wrong, tried up to ATTEMPTS times over the pool's keys."""
        texts = [cut_text(text, longest) for text in batch]
        failures = 0

        async def send(number: int) -> Any:
            nonlocal failures
            reply = await self._send_batch(texts, use, number)
            if isinstance(reply, Fault) and reply.status == 500:
                failures += 1
                if failures > 1 and (len(texts) > 1 or len(texts[0].encode()) > SHORTEST_CUT_BYTES):
                    return replace(reply, kind="request")
            return reply

        return await self._pool.send(send, ATTEMPTS)

    def _read_rows(self, reply: Any, count: int) -> Vectors:
        try:
            rows = np.array(self._api.rows(reply), np.float32)
            if rows.ndim != 2 or len(rows) != count or not rows.shape[1]:
                raise ValueError(f"shape {rows.shape}")
            if not np.isfinite(rows).all():
                raise ValueError("a number that is not finite")
        except (KeyError, TypeError, ValueError) as error:
            wrong = Fault("bad_output", f"the answer is not {count} vectors ({error})")
            raise self._call_failed(
                wrong
            ) from None  # numpy quotes what it can't read, a key perhaps
        return normalize_rows(rows)

    async def _send_batch(self, batch: list[str], use: Use, number: int) -> Any:
        """Return the answer, or what went wrong."""
        url = self._url.format(model=self._model)
        body = self._api.body(self._model, batch, use)
        headers = {**self._account, **self._provider.headers(self._pool.keys[number])}
        try:
            async with asyncio.timeout(TIMEOUT):
                return await post_json(url, body, headers)
        except Exception as error:  # noqa: BLE001 (the client has a tree of its own; `read_fault` tells it apart)
            fault = read_fault(error, secrets=self._keys)
        if fault.kind in ("authentication", "quota"):
            checked = " or ".join(self._provider.keys) or "the server"
            return replace(
                fault,
                message=f"{self._host} declined the key (HTTP {fault.status}); check {checked}",
            )
        return fault

    def _call_failed(self, fault: Fault) -> CallFailed:
        kind = fault.kind
        said = scrub(fault.message, self._keys)
        status = f" (HTTP {fault.status})" if fault.status else ""
        return CallFailed(
            f"embedding {self.name}: {kind} at {self._host}{status}: {said}",
            kind=kind,
            model=self.name,
        )


def _split_batches(texts: Iterable[str], most: int) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if batch and (len(batch) == most or size + length > LARGEST_REQUEST_BYTES):
            yield batch
            batch = []
            size = 0
        batch.append(text)
        size += length
    if batch:
        yield batch


class VectorCache:
    """The vectors of one space (an address and a model). The same file has the vectors of other spaces too.

    Raises:
        BadInput: at any time, where the file can't be used.
    """

    def __init__(self, path: Path, space: str) -> None:
        """Name the file and the space."""
        self.path = path
        self._space = space

    async def get(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the stored vectors of these texts."""
        found: dict[str, Vectors] = {}
        if not texts:
            return found
        with self._errors():
            database = await _files.get(self.path)
            for start in range(0, len(texts), _LOOKED_UP_AT_ONCE):
                by_key = {
                    self._row_key(text): text for text in texts[start : start + _LOOKED_UP_AT_ONCE]
                }
                marks = ",".join("?" * len(by_key))
                statement = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608 (marks alone)
                for key, vector in await database.rows(statement, *by_key):
                    found[by_key[key]] = np.frombuffer(vector, "<f4")
        return found

    async def put(self, texts: Sequence[str], rows: Vectors) -> None:
        """Keep a vector for each of these texts."""
        kept = [
            (self._row_key(text), row.astype("<f4").tobytes())
            for text, row in zip(texts, rows, strict=True)
        ]
        with self._errors():
            database = await _files.get(self.path)
            await database.write_many("INSERT OR IGNORE INTO vectors VALUES (?, ?)", kept)

    def _row_key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self._space}\n{text}".encode()).digest()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise `BadInput` in place of the database's errors."""
        try:
            yield
        except DatabaseError as error:
            raise BadInput(
                f"embedding cache {self.path}: can't be used: {error.__cause__ or error}; delete it, or set "
                "TRIBUNAL_DATA to a folder that can be written"
            ) from error


async def _open_database(path: Path) -> Database:
    return await Database.open(path, schema=_SCHEMA)


_files: PerLoop[Database] = PerLoop(_open_database, Database.close)
