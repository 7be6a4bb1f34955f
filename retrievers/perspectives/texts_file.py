"""The Parquet file of an index's texts and labels, in small row groups: a hit is looked up without reading the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from tribunal.retrievers.perspectives.labelled_texts import LabelledText

_ROW_GROUP = 512


def write_texts(path: Path, texts: Sequence[str], hate: Sequence[bool]) -> None:
    """Write texts and their labels, in their order.

    Raises:
        OSError: the file can't be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("text", pa.string()), ("hate", pa.bool_())])
    with pq.ParquetWriter(path, schema, compression="zstd") as file:
        for start in range(0, len(texts), _ROW_GROUP):
            some = [text.encode() for text in texts[start : start + _ROW_GROUP]]
            ends = np.cumsum([0, *map(len, some)]).astype(np.int32)
            labels = np.packbits(hate[start : start + _ROW_GROUP], bitorder="little")
            # From buffers, because `pa.array` imports pandas where it is installed: half a second and 50 MB.
            columns = [
                pa.StringArray.from_buffers(len(some), pa.py_buffer(ends), pa.py_buffer(b"".join(some))),
                pa.Array.from_buffers(pa.bool_(), len(some), [None, pa.py_buffer(labels)]),
            ]
            file.write_table(pa.Table.from_arrays(columns, schema=schema))


def reader_of(file: Any) -> Callable[[int], LabelledText]:
    """What looks up a text by its number in an open Parquet file; from any thread."""
    turn = Lock()

    @lru_cache(maxsize=16)
    def group(number: int) -> Any:
        # One reader of a Parquet file is not for several threads.
        with turn:
            return file.read_row_group(number, columns=["text", "hate"], use_threads=False)

    def text(number: int) -> LabelledText:
        table, place = group(number // _ROW_GROUP), number % _ROW_GROUP
        return LabelledText(table["text"][place].as_py(), table["hate"][place].as_py())

    return text
