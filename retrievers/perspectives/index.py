"""A perspective's FAISS index: its vectors, normalised, in a flat inner-product index that compares every one of them.

Up to `LARGEST_EXACT` numbers the vectors are kept whole (`exact`), above it at half precision (`half`), which halves
memory and time (200,000 rows of 384 numbers: 17 ms for 33) and finds the same neighbours but for near ties. Building
measures that and writes the recall into the manifest; below `LEAST_RECALL` the vectors are kept whole. An index of
cells, which compares only some of the vectors, would save little next to the seconds of a chat model, and cost more
recall.

The files are mapped into memory, not read: opening costs nothing that grows with the rows, and processes share pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tribunal.models.embeddings import Vectors
from tribunal.retrievers.perspectives.labelled_texts import LabelledText
from tribunal.retrievers.perspectives.manifest import Manifest, check, damaged
from tribunal.retrievers.perspectives.texts_file import reader_of
from tribunal.retrievers.perspectives.vector_file import VectorFile

Kind = Literal["exact", "half"]
LARGEST_EXACT = 32_000_000
LEAST_RECALL = 0.95
_PROBES = 200


@dataclass(frozen=True, slots=True)
class Index:
    """Vectors, and the texts they stand for.

    Attributes:
        vectors: FAISS's index of them.
        text: the text of a vector, by its number.
        manifest: what it was built from; None where it was made in memory.
    """

    vectors: Any
    text: Callable[[int], LabelledText]
    manifest: Manifest | None = None


def flat(vectors: Vectors, texts: Sequence[LabelledText]) -> Index:
    """An index of these texts, exact; `vectors` are theirs, (rows, dimension)."""
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return Index(index, texts.__getitem__)


@lru_cache(maxsize=64)
def mapped(folder: Path, stamp: int, manifest: Manifest) -> Index:
    """The files of an index, mapped. `stamp` is the manifest's time: an index built anew is opened anew.

    Raises:
        BadInput: a file is missing, was changed, or can't be read.
    """
    import faiss
    import pyarrow as pa
    import pyarrow.parquet as pq

    check(folder, manifest)
    try:
        vectors = faiss.read_index(str(folder / manifest.vectors_file.name), faiss.IO_FLAG_MMAP_IFC)
        file = pq.ParquetFile(folder / manifest.rows_file.name, memory_map=True)
    except (RuntimeError, OSError, pa.ArrowInvalid) as error:
        raise damaged(manifest, "can't be read") from error
    shape = vectors.ntotal, vectors.d, vectors.metric_type, file.metadata.num_rows
    if shape != (manifest.rows, manifest.dimension, faiss.METRIC_INNER_PRODUCT, manifest.rows):
        raise damaged(manifest, "is of another shape than its manifest says")
    return Index(vectors, reader_of(file), manifest)


def write_index(path: Path, vectors: VectorFile) -> tuple[Kind, float]:
    """Write FAISS's index of these vectors; gives its kind, and its recall of three neighbours."""
    import faiss

    kind: Kind = "half" if vectors.rows * vectors.dimension > LARGEST_EXACT else "exact"
    index = _filled(kind, vectors)
    recall = 1.0 if kind == "exact" else recall_at_3(index, vectors)
    if recall < LEAST_RECALL:
        kind, recall, index = "exact", 1.0, _filled("exact", vectors)
    faiss.write_index(index, str(path))
    return kind, recall


def _filled(kind: Kind, vectors: VectorFile) -> Any:
    """A FAISS index of these vectors, encoded into its own memory, so that it holds them once and not twice."""
    import faiss

    half = faiss.ScalarQuantizer.QT_fp16
    index: Any = (
        faiss.IndexFlatIP(vectors.dimension)
        if kind == "exact"
        else faiss.IndexScalarQuantizer(vectors.dimension, half, faiss.METRIC_INNER_PRODUCT)
    )
    size = index.sa_code_size()
    index.codes.resize(vectors.rows * size)
    index.ntotal = vectors.rows
    codes = faiss.rev_swig_ptr(index.codes.data(), vectors.rows * size).reshape(vectors.rows, size)
    for start, chunk in vectors.read():
        codes[start : start + len(chunk)] = index.sa_encode(chunk)
    return index


def recall_at_3(index: Any, vectors: VectorFile) -> float:
    """The share of its three nearest neighbours that the index finds for its own rows, itself left out.

    A neighbour counts as found when it is as near as the exact third; which of several equal ones it is, is no matter.
    """
    numbers = np.linspace(0, vectors.rows - 1, min(_PROBES, vectors.rows)).astype(np.int64)
    probes = vectors.some(numbers)
    best = np.full((len(probes), 4), -np.inf, np.float32)
    for _, chunk in vectors.read():
        best = np.partition(np.hstack([best, probes @ chunk.T]), -4, axis=1)[:, -4:]
    third = best.min(axis=1)
    _, hits = index.search(probes, 4)
    nearest = np.stack([row[row != number][:3] for row, number in zip(hits, numbers, strict=True)])
    similarity = np.einsum("pd,phd->ph", probes, vectors.some(nearest))
    return float((similarity >= third[:, np.newaxis] - 1e-6).mean())
