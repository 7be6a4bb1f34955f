"""Texts as vectors, by the name of an embedding model.

`hashing` is the offline default: no model, no network, any script. Every other name is `provider:model` of an embedding
endpoint; `openai:NAME` with OPENAI_BASE_URL is any OpenAI-compatible server. The paper embeds with
`openai:text-embedding-ada-002` (section 4.1.2).

Endpoints are spoken to over plain HTTP, not through their client libraries: two small wire formats, of which we need
one call each, and replies have to be put in order by the index that they carry, which the libraries leave out.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tribunal.context import data_folder, environment
from tribunal.errors import BadInput, CallFailed
from tribunal.loops import PerLoop
from tribunal.models.diagnosis import Diagnosis, diagnose, scrub
from tribunal.models.keys import KeyPool
from tribunal.models.providers import PROVIDERS
from tribunal.text import without_hidden

if TYPE_CHECKING:
    import httpx

Vectors = npt.NDArray[np.float32]

HASHING = "hashing"
HASHING_DIMENSION = 384
_LONGEST_GRAM = 3
_HASHED_AT_ONCE = 1024

TIMEOUT = 120.0
ATTEMPTS = 8
AT_ONCE = 4
# A token is at least a byte, so these keep OpenAI's limits (8,191 tokens a text, 300,000 a request) without its tables.
LONGEST_TEXT_BYTES = 8_000
LARGEST_REQUEST_BYTES = 280_000


class Embedder(Protocol):
    """What turns texts into vectors."""

    @property
    def name(self) -> str:
        """What an index's manifest calls it; two embedders of one name give the same vectors."""

    @property
    def dimension(self) -> int | None:
        """The length of its vectors; None for an endpoint that hasn't answered yet."""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One row of unit length per text: (len(texts), dimension), float32. A text with nothing in it is all zeros.

        Raises:
            CallFailed: the endpoint could not be asked, or its answer is not vectors for these texts.
        """


def embedder(name: str) -> Embedder:
    """The embedder of this name.

    Raises:
        BadInput: there is none of that name, or its provider's key is not set.
    """
    if name == HASHING:
        return Hashing()
    provider, _, model = name.partition(":")
    if provider not in _WIRES or not model:
        raise BadInput(
            f"embedding: {name!r}: not an embedding; give {HASHING}, or provider:model, where provider is one of "
            f"{', '.join(_WIRES)} (a server of your own: openai:NAME and OPENAI_BASE_URL)"
        )
    held, known = environment(), PROVIDERS[provider]
    if known.keys_wanted(held) and not known.key_pool(held):
        raise BadInput(
            f"embedding: {name}: no key; set {' or '.join(known.keys)} in the environment or in .env "
            f"(from {known.where}), or use {HASHING}, which needs none"
        )
    url = (known.base_url(held) or GOOGLE_URL).rstrip("/") + _WIRES[provider].path
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise BadInput(f"{known.base_urls[0]}: {url!r}: not an http(s) address")
    return _endpoint(name, url, tuple(known.key_pool(held)), data_folder() / "embeddings.sqlite3")


def plain(text: str) -> str:
    """A text without what doesn't change its words: NFKC, case folded, no invisible marks, white space to one blank."""
    return " ".join(without_hidden(unicodedata.normalize("NFKC", text)).casefold().split())


class Hashing:
    """Character n-grams of one to three, hashed with a sign into a fixed number of places; counts weigh 1 + ln(count).

    On KODOLI and UnSmile three-grams and 384 places find neighbours as well as four-grams and 512 do, in less time.
    The vectors must never change under this name, or built indexes would silently go wrong; a test pins one.
    """

    name = HASHING
    dimension = HASHING_DIMENSION

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await asyncio.to_thread(self.vectors, texts)

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """The same, at once: (len(texts), 384), float32."""
        parts = [self._some(texts[start : start + _HASHED_AT_ONCE]) for start in range(0, len(texts), _HASHED_AT_ONCE)]
        return np.concatenate(parts) if parts else np.zeros((0, self.dimension), np.float32)

    def _some(self, texts: Sequence[str]) -> Vectors:
        encoded = [
            np.frombuffer(f" {words} ".encode("utf-32-le", "surrogatepass") if words else b"", "<u4")
            for words in map(plain, texts)
        ]
        points = np.concatenate(encoded).astype(np.uint64)
        text_of = np.repeat(np.arange(len(texts)), [len(each) for each in encoded])
        grams = np.zeros(len(points), np.uint64)
        weights = np.zeros(len(texts) * self.dimension)
        for n in range(1, _LONGEST_GRAM + 1):
            # The hash of the n-gram beginning at each place, from that of the (n-1)-gram there and the n-th character.
            grams = (grams[: max(len(points) - n + 1, 0)] ^ points[n - 1 :]) * np.uint64(0x9E3779B97F4A7C15)
            grams ^= grams >> np.uint64(29)
            first, last = text_of[: len(grams)], text_of[n - 1 :]
            whole = first == last
            gram, text = grams[whole], first[whole].astype(np.uint64)
            in_text = gram ^ (text * np.uint64(0xD6E8FEB86659FD93))
            _, at, count = np.unique(in_text, return_index=True, return_counts=True)
            gram, text = gram[at], text[at]
            place = text * np.uint64(self.dimension) + (gram >> np.uint64(20)) % np.uint64(self.dimension)
            sign = np.where(gram >> np.uint64(63), 1.0, -1.0)
            weights += np.bincount(place.astype(np.int64), sign * (1 + np.log(count)), len(weights))
        return _unit(weights.reshape(len(texts), self.dimension))


def _unit(rows: npt.NDArray[Any]) -> Vectors:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(length == 0, 1, length)).astype(np.float32)


class Endpoint:
    """An embedding endpoint: batched within its limits, retried as its server says, cached by content.

    The cache is a SQLite file in the data folder, keyed by the endpoint, the model and the text, so that a killed build
    and a repeated evaluation pay for no text twice.
    """

    def __init__(self, name: str, url: str, keys: Sequence[str], cache: Path) -> None:
        self.name = name
        self.dimension: int | None = None
        provider, _, self._model = name.partition(":")
        self._wire = _WIRES[provider]
        self._url = url
        self._host = urlsplit(url).netloc
        self._way_out = f"check {' or '.join(PROVIDERS[provider].keys) or 'the server'}"
        self._keys = list(keys)
        self._pool = KeyPool(provider, self._keys)
        self._cache = _VectorCache(cache, f"{url}\n{self._model}")

    async def embed(self, texts: Sequence[str]) -> Vectors:
        inputs = [_cut(text) for text in texts]
        wanted = list(dict.fromkeys(text for text in inputs if text.strip()))
        found = await asyncio.to_thread(self._cache.get, wanted)
        turn = asyncio.Semaphore(AT_ONCE)

        async def ask(batch: list[str]) -> None:
            async with turn:
                rows = await self._ask(batch)
            found.update(zip(batch, rows, strict=True))
            # Stored as they come: what a killed build has paid for is not asked for again.
            await asyncio.to_thread(self._cache.put, batch, rows)

        try:
            async with asyncio.TaskGroup() as group:
                for batch in _batches([text for text in wanted if text not in found], self._wire.inputs):
                    group.create_task(ask(batch))
        except BaseExceptionGroup as failed:
            # The first says what there is to say; a group of the same error is no use to a reader.
            raise _first(failed) from None
        return self._rows(inputs, found)

    def _rows(self, inputs: list[str], found: dict[str, Vectors]) -> Vectors:
        dimensions = {len(row) for row in found.values()} | ({self.dimension} if self.dimension else set())
        if len(dimensions) > 1:
            raise CallFailed(
                f"embedding {self.name}: vectors of different lengths ({', '.join(map(str, sorted(dimensions)))}): "
                f"the model behind this name has changed; delete {self._cache.path} and build the indexes again",
                kind="bad_output",
                model=self.name,
            )
        self.dimension = dimensions.pop() if dimensions else None
        empty = np.zeros(self.dimension or 0, np.float32)
        rows = [found.get(text, empty) for text in inputs]
        return np.stack(rows) if rows else np.zeros((0, len(empty)), np.float32)

    async def _ask(self, batch: list[str]) -> Vectors:
        try:
            async for attempt in AsyncRetrying(
                stop=stop_after_attempt(ATTEMPTS),
                retry=retry_if_exception_type(_Passing),
                wait=_wait,
                reraise=True,
            ):
                with attempt:
                    return await self._ask_once(batch)
        except _Passing as error:
            raise self._failed(error.fault) from error
        raise AssertionError("unreachable: tenacity re-raises the last error")

    async def _ask_once(self, batch: list[str]) -> Vectors:
        import httpx

        number = await self._pool.take()
        try:
            response = await (await _clients.here()).post(
                self._url.format(model=self._model),
                json=self._wire.body(self._model, batch),
                headers=self._wire.headers(self._pool.keys[number]),
            )
            if response.is_error:
                raise _Status(response)
            return self._vectors(response.json(), len(batch))
        except (httpx.HTTPError, _Status) as error:
            fault = diagnose(error, secrets=self._keys)
        except (KeyError, TypeError, ValueError) as error:
            raise self._failed(Diagnosis("format", f"the answer is not {len(batch)} vectors ({error})")) from error
        if fault.kind in ("authentication", "quota"):
            why = f"{self._host} declined the key (HTTP {fault.status}); {self._way_out}"
            self._pool.retire(number, fault.kind, why)
            raise _Passing(fault)
        if fault.kind == "rate_limit":
            self._pool.rest(number, fault.retry_after if fault.retry_after is not None else 2.0)
            raise _Passing(fault)
        if fault.kind in ("timeout", "connection", "server"):
            raise _Passing(fault)
        raise self._failed(fault)

    def _vectors(self, reply: Any, wanted: int) -> Vectors:
        rows = np.array(self._wire.rows(reply), np.float32)
        if rows.ndim != 2 or len(rows) != wanted or not rows.shape[1]:
            raise ValueError(f"shape {rows.shape}")
        if not np.isfinite(rows).all():
            raise ValueError("a number that is not finite")
        return _unit(rows)

    def _failed(self, fault: Diagnosis) -> CallFailed:
        kind = "bad_output" if fault.kind == "format" else fault.kind
        said = scrub(fault.message, self._keys)
        status = f" (HTTP {fault.status})" if fault.status else ""
        return CallFailed(f"embedding {self.name}: {kind} at {self._host}{status}: {said}", kind=kind, model=self.name)


@lru_cache(maxsize=32)
def _endpoint(name: str, url: str, keys: tuple[str, ...], cache: Path) -> Endpoint:
    """One endpoint in a process, so that a key that rests or was declined does so for all."""
    return Endpoint(name, url, keys, cache)


def _cut(text: str) -> str:
    data = text.encode("utf-8", "replace")
    return data[:LONGEST_TEXT_BYTES].decode("utf-8", "ignore")


def _batches(texts: Iterable[str], most: int) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if batch and (len(batch) == most or size + length > LARGEST_REQUEST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


@dataclass(frozen=True, slots=True)
class _Wire:
    """One provider's way of asking for vectors. `inputs`: how many texts one request may carry."""

    path: str
    inputs: int
    google: bool = False

    def body(self, model: str, texts: list[str]) -> dict[str, Any]:
        if not self.google:
            return {"model": model, "input": texts, "encoding_format": "float"}
        one = {"model": f"models/{model}", "taskType": "SEMANTIC_SIMILARITY"}
        return {"requests": [{**one, "content": {"parts": [{"text": text}]}} for text in texts]}

    def headers(self, key: str | None) -> dict[str, str]:
        if key is None:
            return {}
        return {"x-goog-api-key": key} if self.google else {"Authorization": f"Bearer {key}"}

    def rows(self, reply: Any) -> list[list[float]]:
        if self.google:
            return [each["values"] for each in reply["embeddings"]]
        numbered = [(each.get("index", place), each["embedding"]) for place, each in enumerate(reply["data"])]
        return [row for _, row in sorted(numbered, key=lambda pair: int(pair[0]))]


GOOGLE_URL = "https://generativelanguage.googleapis.com"
# OpenAI takes 2,048 texts a request and smaller servers fewer; a quarter of that costs no measurable time.
_WIRES = {
    "openai": _Wire("/embeddings", 512),
    "google_genai": _Wire("/v1beta/models/{model}:batchEmbedContents", 100, google=True),
    "qwen": _Wire("/embeddings", 10),
    "glm": _Wire("/embeddings", 64),
    "ollama": _Wire("/v1/embeddings", 128),
}


class _Passing(Exception):
    """A fault after which the request is worth another try."""

    def __init__(self, fault: Diagnosis) -> None:
        super().__init__(fault.message)
        self.fault = fault


class _Status(Exception):
    """An HTTP error, in the form in which `diagnose` reads one."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response.reason_phrase)
        self.status_code, self.response = response.status_code, response
        self.body = response.text[:2000]
        self.details = self.body


_backoff = wait_random_exponential(multiplier=0.5, max=20)


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    # A key that is told to wait is rested by its pool, so that another may go on at once.
    pooled = isinstance(error, _Passing) and error.fault.kind in ("rate_limit", "authentication", "quota")
    return 0.0 if pooled else _backoff(state)


async def _open_client() -> httpx.AsyncClient:
    import httpx

    return httpx.AsyncClient(timeout=TIMEOUT)


_clients: PerLoop[httpx.AsyncClient] = PerLoop(_open_client, lambda client: client.aclose())


class _VectorCache:
    """Vectors by content, in a SQLite file that processes may share."""

    def __init__(self, path: Path, space: str) -> None:
        self.path = path
        self._space = space

    def get(self, texts: Sequence[str]) -> dict[str, Vectors]:
        if not texts or not self.path.exists():
            return {}
        with self._open() as db:
            rows = (
                (text, db.execute("SELECT vector FROM vectors WHERE key = ?", (self._key(text),)).fetchone())
                for text in texts
            )
            return {text: np.frombuffer(row[0], "<f4") for text, row in rows if row}

    def put(self, texts: Sequence[str], rows: Vectors) -> None:
        with self._open() as db, db:
            db.executemany(
                "INSERT OR IGNORE INTO vectors VALUES (?, ?)",
                [(self._key(text), row.astype("<f4").tobytes()) for text, row in zip(texts, rows, strict=True)],
            )

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self._space}\n{text}".encode()).digest()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=30)) as db:
                db.execute("PRAGMA journal_mode=WAL")
                db.execute(
                    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
                )
                yield db
        except (sqlite3.Error, OSError) as error:
            raise BadInput(
                f"embedding cache {self.path}: can't be used: {error}; delete it, or set TRIBUNAL_DATA to a folder "
                "that can be written"
            ) from error
