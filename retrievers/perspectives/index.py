"""A perspective's index: its texts, and what finds those nearest to a post.

What finds them is `Sparse` for the offline `tfidf`, and `Dense` for an embedding's vectors. Their files are mapped into
memory, not read: opening costs nothing that grows with the rows, and processes share pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tribunal.retrievers.perspectives.dense import Dense, map_dense
from tribunal.retrievers.perspectives.labelled_texts import LabelledText
from tribunal.retrievers.perspectives.manifest import Manifest, check, damaged
from tribunal.retrievers.perspectives.sparse import Sparse, map_sparse
from tribunal.retrievers.perspectives.texts_file import reader_of


@dataclass(frozen=True, slots=True)
class Index:
    """Texts, and what finds the nearest of them.

    Attributes:
        space: finds their numbers.
        text: the text of a number.
        manifest: what it was built from; None where it was made in memory.
    """

    space: Dense | Sparse
    text: Callable[[int], LabelledText]
    manifest: Manifest | None = None


@lru_cache(maxsize=64)
def mapped(folder: Path, stamp: int, manifest: Manifest) -> Index:
    """The files of an index, mapped. `stamp` is the manifest's time: an index built anew is opened anew.

    Raises:
        BadInput: a file is missing, was changed, or can't be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    check(folder, manifest)
    path = folder / manifest.index_file.name
    try:
        space = map_sparse(path) if manifest.index == "sparse" else map_dense(path)
        file = pq.ParquetFile(folder / manifest.rows_file.name, memory_map=True)
    except (RuntimeError, OSError, ValueError, KeyError, IndexError, pa.ArrowException) as error:
        raise damaged(manifest, "can't be read") from error
    if (len(space), space.dimension, file.metadata.num_rows) != (manifest.rows, manifest.dimension, manifest.rows):
        raise damaged(manifest, "is of another shape than its manifest says")
    return Index(space, reader_of(file), manifest)
