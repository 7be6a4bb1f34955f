"""A perspective's index: its texts, and what finds those nearest to a post.

Its files are mapped into memory, not read: opening costs nothing that grows with the rows, and processes share pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tribunal.retrievers.perspectives.labelled_texts import LabelledText
from tribunal.retrievers.perspectives.manifest import Manifest, check, damaged
from tribunal.retrievers.perspectives.ngrams import NgramEmbedder, map_ngrams
from tribunal.retrievers.perspectives.texts_file import reader_of
from tribunal.retrievers.perspectives.vector_index import VectorIndex, map_vectors


@dataclass(frozen=True, slots=True)
class Index:
    """Texts, and what finds the nearest of them.

    Attributes:
        vectors: finds their numbers.
        text: the text of a number.
        ngrams: makes the vectors of queries, where the embedding is `tfidf`; else None.
        manifest: what it was built from; None where it was made in memory.
    """

    vectors: VectorIndex
    text: Callable[[int], LabelledText]
    ngrams: NgramEmbedder | None = None
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
    try:
        vectors = map_vectors(folder / manifest.index_file.name, manifest.rows, manifest.dimension)
        ngrams = map_ngrams(folder / note.name, manifest.dimension) if (note := manifest.ngrams_file) else None
        file = pq.ParquetFile(folder / manifest.rows_file.name, memory_map=True)
    except (RuntimeError, OSError, ValueError, KeyError, IndexError, pa.ArrowException) as error:
        raise damaged(manifest, "can't be read") from error
    if file.metadata.num_rows != manifest.rows:
        raise damaged(manifest, "is of another shape than its manifest says")
    return Index(vectors, reader_of(file), ngrams, manifest)
