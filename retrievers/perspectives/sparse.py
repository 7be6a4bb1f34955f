"""The offline index: character n-grams weighed by TF-IDF, exact, and compared by cosine with no model, no network.

An n-gram that stands c times in a text, and in d of the index's n texts, weighs (1 + ln c) * (1 + ln((1+n)/(1+d))).
So what is rare in a set counts for more, which fixed vectors of hashed n-grams can't know.

The index is inverted: for each n-gram, the texts that it stands in. A search reads those of the post's own n-grams and
nothing else. The file is one Arrow record of plain numbers, which is mapped into memory and not read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tribunal.models.embeddings import Vectors
from tribunal.retrievers.perspectives.grams import MOST, Grams, counted

_AT_ONCE = 1024
_DAMPED = np.concatenate([[0], 1 + np.log(np.arange(1, MOST + 1))]).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Sparse:
    """Texts by their n-grams.

    Attributes:
        gram: the n-grams, ascending.
        start: where the entries of each begin, and at last where they all end.
        row: the text of each entry, ascending within an n-gram.
        times: how often the n-gram stands in that text.
        length: of each text's weights; 1 where it has none.
    """

    gram: npt.NDArray[np.uint64]
    start: npt.NDArray[np.int64]
    row: npt.NDArray[np.int32]
    times: npt.NDArray[np.uint8]
    length: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.length)

    @property
    def dimension(self) -> int:
        """How many n-grams there are."""
        return len(self.gram)

    def nearest(self, query: str, count: int) -> tuple[Vectors, npt.NDArray[np.int64]]:
        """The similarities and numbers of the texts nearest to this one, nearest first; of equal ones, in their order.

        `count` may not be more than there are texts.

        Raises:
            IndexError, ValueError: its numbers can't be right.
        """
        asked = counted([query])
        place = np.searchsorted(self.gram, asked.gram)
        known = place < self.dimension
        known[known] = self.gram[place[known]] == asked.gram[known]
        place = place[known]
        texts_with = np.zeros(len(known), np.int64)
        texts_with[known] = self.start[place + 1] - self.start[place]
        rarity = _rarity(texts_with, len(self))
        weight = _DAMPED[asked.times] * rarity
        similarity = np.zeros(len(self), np.float32)
        for gram, of_gram in zip(place.tolist(), (weight * rarity)[known].tolist(), strict=True):
            entries = slice(self.start[gram], self.start[gram + 1])
            of_times = _DAMPED * np.float32(of_gram)
            np.add.at(similarity, self.row[entries], of_times[self.times[entries]])  # half the time of `+=`
        similarity /= self.length * max(float(np.linalg.norm(weight)), 1e-9)
        least = np.partition(similarity, -count)[-count]
        near = np.flatnonzero(similarity >= least)
        near = near[np.argsort(-similarity[near], kind="stable")][:count]
        return np.minimum(similarity[near], 1), near


def weighed(texts: Sequence[str], progress: Callable[[int], None] = lambda done: None) -> Sparse:
    """The index of these texts; `progress` is told how many are done."""
    parts: list[Grams] = []
    for first in range(0, len(texts), _AT_ONCE):
        part = counted(texts[first : first + _AT_ONCE])
        parts.append(part._replace(text=part.text.astype(np.int16)))  # a quarter of the memory
        progress(min(first + _AT_ONCE, len(texts)))
    gram = np.unique(np.concatenate([np.zeros(0, np.uint64), *(part.gram for part in parts)]))
    places = [np.searchsorted(gram, part.gram) for part in parts]
    texts_with = np.zeros(len(gram), np.int64)
    for part, place in zip(parts, places, strict=True):
        texts_with[place] += np.diff(part.start)
    rarity, start = _rarity(texts_with, len(texts)), np.concatenate([[0], np.cumsum(texts_with)])
    row, times = np.empty(start[-1], np.int32), np.empty(start[-1], np.uint8)
    length, free = np.empty(len(texts), np.float32), start[:-1].copy()
    for number, place in enumerate(places):
        part, first = parts[number], number * _AT_ONCE
        entries = np.diff(part.start)
        at = np.arange(len(part.text)) + np.repeat(free[place] - part.start[:-1], entries)
        row[at], times[at] = part.text.astype(np.int32) + first, part.times
        free[place] += entries
        squares = (_DAMPED[part.times] * np.repeat(rarity[place], entries)) ** 2
        some = length[first : first + _AT_ONCE]
        some[:] = np.sqrt(np.bincount(part.text, squares, len(some)))
    length[length == 0] = 1
    return Sparse(gram, start, row, times, length)


def write_sparse(path: Path, index: Sparse) -> None:
    """Write an index.

    Raises:
        OSError: the file can't be written.
    """
    import pyarrow as pa

    names = [field.name for field in fields(Sparse)]
    columns = [_column(getattr(index, name)) for name in names]
    batch = pa.RecordBatch.from_arrays(columns, names)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def map_sparse(path: Path) -> Sparse:
    """The index in a file, mapped.

    Raises:
        OSError, ArrowInvalid, KeyError, ValueError: it is none.
    """
    import pyarrow as pa

    batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    found = Sparse(
        gram=_numbers(batch, "gram", "<u8"),
        start=_numbers(batch, "start", "<i8"),
        row=_numbers(batch, "row", "<i4"),
        times=_numbers(batch, "times", "u1"),
        length=_numbers(batch, "length", "<f4"),
    )
    if len(found.start) != len(found.gram) + 1 or len(found.row) != len(found.times):
        raise ValueError("its columns don't fit together")
    return found


def _rarity(texts_with: npt.NDArray[Any], texts: int) -> npt.NDArray[np.float32]:
    weight: npt.NDArray[np.float32] = (np.log((1 + texts) / (1 + texts_with)) + 1).astype(np.float32)
    return weight


def _column(numbers: npt.NDArray[Any]) -> Any:
    """A column of one row, which is the whole list. Made from buffers, for `pa.array` imports pandas where it is."""
    import pyarrow as pa

    kind = pa.from_numpy_dtype(numbers.dtype)
    values = pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])
    ends = pa.py_buffer(np.array([0, len(numbers)], "<i8"))
    return pa.Array.from_buffers(pa.large_list(kind), 1, [None, ends], children=[values])


def _numbers(batch: Any, name: str, dtype: str) -> npt.NDArray[Any]:
    import pyarrow as pa

    values = batch.column(name).values
    if values.type != pa.from_numpy_dtype(np.dtype(dtype)):
        raise ValueError(f"{name} holds {values.type}")
    return np.frombuffer(values.buffers()[1], dtype, len(values))
