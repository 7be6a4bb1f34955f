"""The default embedding, `tfidf`: the character n-grams of texts, weighed by TF-IDF and made dense by a truncated SVD.

An n-gram that stands c times in a text, and in d of n texts, weighs (1 + ln c) * (1 + ln((1+n)/(1+d))). So an n-gram
that is rare in a set counts for more. The SVD of such rows is latent semantic analysis (Deerwester et al., 1990). It is
fitted to each set, from an even sample of its texts, and needs no model and no network. What was fitted lies in a file
of plain numbers, which is mapped into memory and not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tribunal.core.text import normalize_text
from tribunal.models.embeddings import TFIDF, Use, Vectors
from tribunal.models.embeddings.vectors import normalize_rows
from tribunal.process.files import open_regular, write_atomically

DIMENSION = 384
MOST_NGRAMS = 16_384
SAMPLE = (
    4_000  # texts that it is fitted to; more of them take longer, and find no better neighbours
)
_LONGEST = 3
_MOST_TIMES = 255
# of the randomised SVD: how many directions it looks at beyond those kept, and how often
_SPARE = 32
_ROUNDS = 1
_ROUNDING = 1e-6  # squares of singular values below this share of the largest may be rounding
_DAMPED = np.concatenate([[0], 1 + np.log(np.arange(1, _MOST_TIMES + 1))]).astype(np.float32)
# A code point takes 21 bits, so that three of them fit into 64. Each is counted up by one: no n-gram begins with a 0.
_BITS = np.uint64(21)
_BLANK = np.uint64(ord(" ") + 1)


class NgramCounts(NamedTuple):
    """Counts of n-grams in texts; the entries are sorted by text, and then by n-gram.

    Attributes:
        gram: the n-gram of each entry, as a number that spells it.
        times: its count in the text, at most 255.
        start: where the entries of each text begin, and at last where they all end; one longer than the texts.
    """

    gram: npt.NDArray[np.uint64]
    times: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]


def count_ngrams(texts: Sequence[str]) -> NgramCounts:
    """Count the n-grams of texts, one to three characters long, a blank before and after each text.

    N-grams of three don't reach over a blank, which would cost room and finds no better neighbours.
    """
    encoded = [
        np.frombuffer(f" {words} ".encode("utf-32-le", "surrogatepass") if words else b"", "<u4")
        for words in map(normalize_text, texts)
    ]
    points = np.concatenate([np.zeros(0, "<u4"), *encoded]).astype(np.uint64) + np.uint64(1)
    text_of = np.repeat(np.arange(len(texts)), [len(each) for each in encoded])
    grams = np.zeros(len(points), np.uint64)
    spelled = []
    stands_in = []
    for n in range(1, _LONGEST + 1):
        # The n-gram that begins at each place: the (n-1)-gram there, and the n-th character.
        grams = (grams[: max(len(points) - n + 1, 0)] << _BITS) | points[n - 1 :]
        whole = text_of[: len(grams)] == text_of[n - 1 :]
        if n == _LONGEST:
            whole &= points[1:-1] != _BLANK
        spelled.append(grams[whole])
        stands_in.append(text_of[: len(grams)][whole])
    gram, number = np.unique(np.concatenate(spelled), return_inverse=True)
    entry, times = np.unique(
        np.concatenate(stands_in) * max(len(gram), 1) + number, return_counts=True
    )
    text, number = np.divmod(entry, max(len(gram), 1))
    start = np.searchsorted(text, np.arange(len(texts) + 1))
    return NgramCounts(gram[number], np.minimum(times, _MOST_TIMES).astype(np.uint8), start)


class NgramEmbedder:
    """Embeds texts by their n-grams, as it was fitted to one set. It is an `Embedder`.

    A query's vector is as long as the share of the query that the set knows: 1 at most. Its product with a passage's
    vector is then small where the two have little in common.

    Args:
        gram: the numbers of the n-grams that count, ascending. The first one is 0, which no n-gram has: it stands for
            every other n-gram.
        rarity: how much each weighs.
        shares: the share of each in each direction, (n-grams, dimension). The first row is all zeros.
    """

    name = TFIDF
    at_once = 1024

    def __init__(self, gram: npt.NDArray[np.uint64], rarity: Vectors, shares: Vectors) -> None:
        """Embed with fitted weights."""
        self.dimension = shares.shape[1]
        self.gram = gram
        self.rarity = rarity
        self.shares = shares

    async def embed(self, texts: Sequence[str], use: Use) -> Vectors:
        """Embed texts as `Embedder.embed` does; a query's vector may be shorter than one."""
        rows = await asyncio.to_thread(
            lambda: _weigh_texts(self.gram, self.rarity, texts).multiply(self.shares)
        )
        return normalize_rows(rows) if use == "passage" else rows


def fit_ngrams(texts: Sequence[str]) -> NgramEmbedder:
    """Fit the embedding to the texts of a set.

    The SVD is randomised (Halko, Martinsson and Tropp, 2011, algorithm 4.4), from a fixed draw: the same texts give the
    same vectors.
    """
    sample = [
        texts[place]
        for place in np.linspace(0, len(texts) - 1, min(len(texts), SAMPLE)).astype(np.int64)
    ]
    gram, texts_with = np.unique(count_ngrams(sample).gram, return_counts=True)
    frequent = np.sort(np.argsort(-texts_with, kind="stable")[:MOST_NGRAMS])
    gram = np.concatenate([np.zeros(1, np.uint64), gram[frequent]])
    texts_with = np.concatenate([np.zeros(1, np.int64), texts_with[frequent]])
    rarity = (1 + np.log((1 + len(sample)) / (1 + texts_with))).astype(np.float32)
    rows = _weigh_texts(gram, rarity, sample)
    rows.weight[rows.place == 0] = 0
    drawn = (
        np.random.default_rng(0).standard_normal((len(gram), DIMENSION + _SPARE)).astype(np.float32)
    )
    basis = rows.multiply(drawn)
    for _ in range(_ROUNDS):
        basis = rows.multiply(rows.multiply_transposed(np.linalg.qr(basis).Q, len(gram)))
    reduced = rows.multiply_transposed(np.linalg.qr(basis).Q, len(gram)).astype(np.float64)
    squares, vectors = np.linalg.eigh(reduced.T @ reduced)
    squares = squares[::-1][:DIMENSION]
    vectors = vectors[:, ::-1][:, :DIMENSION]
    significant = squares > max(squares.max(initial=0.0) * _ROUNDING, 1e-9)
    if not significant.any():  # no text has an n-gram
        return NgramEmbedder(gram, rarity, np.zeros((len(gram), 1), np.float32))
    shares: Vectors = (reduced @ vectors[:, significant] / np.sqrt(squares[significant])).astype(
        np.float32
    )
    return NgramEmbedder(gram, rarity, shares)


class _SparseRows(NamedTuple):
    """A sparse matrix of texts by n-grams. SciPy has one too, and is larger than everything else that this needs.

    Attributes:
        place: the n-gram of each entry; no text has one twice, but for 0.
        weight: its weight.
        start: where the entries of each text begin, and at last where they all end; one longer than the texts.
    """

    place: npt.NDArray[np.int64]
    weight: Vectors
    start: npt.NDArray[np.int64]

    def multiply(self, dense: Vectors) -> Vectors:
        """Return the product with a dense matrix: (texts, its columns)."""
        product = np.zeros((len(self.start) - 1, dense.shape[1]), np.float32)
        for row, first, last in zip(product, self.start[:-1], self.start[1:], strict=True):
            row[:] = self.weight[first:last] @ dense[self.place[first:last]]
        return product

    def multiply_transposed(self, dense: Vectors, ngrams: int) -> Vectors:
        """Return the product of the transposed matrix with a dense one: (n-grams, its columns)."""
        product = np.zeros((ngrams, dense.shape[1]), np.float32)
        for row, first, last in zip(dense, self.start[:-1], self.start[1:], strict=True):
            product[self.place[first:last]] += self.weight[first:last, np.newaxis] * row
        return product


def _weigh_texts(
    gram: npt.NDArray[np.uint64], rarity: Vectors, texts: Sequence[str]
) -> _SparseRows:
    """Return texts as rows of unit length."""
    counts = count_ngrams(texts)
    place = np.minimum(np.searchsorted(gram, counts.gram), len(gram) - 1)
    place[gram[place] != counts.gram] = 0
    weight = _DAMPED[counts.times] * rarity[place]
    squares = np.concatenate([[0.0], np.cumsum(weight.astype(np.float64) ** 2)])[counts.start]
    length = np.repeat(np.sqrt(np.diff(squares)), np.diff(counts.start))
    return _SparseRows(place, (weight / length).astype(np.float32), counts.start)


def write_ngrams(path: Path, embedder: NgramEmbedder) -> None:
    """Write the fitted weights; raise `OSError` on failure."""
    with write_atomically(path) as file:
        for numbers, form in (
            (embedder.gram, "<u8"),
            (embedder.rarity, "<f4"),
            (embedder.shares, "<f4"),
        ):
            file.write(np.ascontiguousarray(numbers, form).data)


def map_bytes(path: Path) -> npt.NDArray[np.uint8]:
    """Return the bytes of a regular file, mapped; raise `OSError` or `ValueError` if they can't be."""
    with open_regular(path) as file:
        return np.memmap(file, np.uint8, "r")  # noqa: TID251 (the one place)


def map_ngrams(path: Path, dimension: int) -> NgramEmbedder:
    """Return the fitted weights, mapped. The file doesn't describe its own form.

    Raises:
        OSError, ValueError: the file isn't of this dimension, or holds numbers that can't be right.
    """
    number, rest = divmod(path.stat().st_size, 12 + 4 * dimension)
    if rest or not 1 <= number <= MOST_NGRAMS + 1:
        raise ValueError("its size doesn't fit its shape")
    whole = map_bytes(path)
    gram = whole[: 8 * number].view("<u8")
    rarity = whole[8 * number : 12 * number].view("<f4")
    shares = whole[12 * number :].view("<f4").reshape(number, dimension)
    if (
        gram[0] != 0
        or (gram[1:] <= gram[:-1]).any()
        or not ((rarity > 0) & np.isfinite(rarity)).all()
    ):
        raise ValueError("it holds numbers that can't be right")
    return NgramEmbedder(gram, rarity, shares)
