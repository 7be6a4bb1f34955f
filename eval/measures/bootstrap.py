"""Bootstrap percentile intervals of the measures, over posts.

A resample draws as many posts as there are, with replacement, each with all of its repeats, since repeats of one post
aren't independent of each other. Posts whose results are the same can't be told apart by any measure, so what is drawn
is how often each kind of post occurs: a multinomial, equal in distribution to drawing the posts one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tribunal.eval.measures.scores import MEASURES, occurring

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Columns, Floats, Ints
    from tribunal.schema import JSON

RESAMPLES, LEVEL, SEED = 2000, 0.95, 0
_AT_ONCE = 4_000_000  # numbers held at one time


def intervals(columns: Columns, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = SEED) -> JSON:
    """For each measure its lowest and highest value at this level, in the headline and counting errors.

    A resample in which a measure isn't defined is left out of that measure's interval; None where it never is.
    """
    if not columns.labelled.any():
        nothing = dict.fromkeys(MEASURES)
        return {**nothing, "counting_errors": dict(nothing)}
    of_two = columns.scheme == "binary"
    labels = [0, 1] if of_two else occurring(columns.truth[columns.labelled], columns.answer[columns.decided])
    kinds, counts = np.unique(_tables(columns, labels), axis=0, return_counts=True)
    random, posts = np.random.default_rng(seed), int(counts.sum())
    drawn: list[tuple[dict[str, Floats], dict[str, Floats]]] = []
    step = max(1, _AT_ONCE // len(kinds))
    for start in range(0, resamples, step):
        often = random.multinomial(posts, counts / posts, size=min(step, resamples - start))
        tables = (often @ kinds).reshape(len(often), len(labels), len(labels) + 1)
        drawn.append((measured(tables[..., :-1], labels, of_two), measured(tables, labels, of_two)))
    headline, counting = (
        {name: _between([part[i][name] for part in drawn], level) for name in MEASURES} for i in (0, 1)
    )
    return {**headline, "counting_errors": counting}


def measured(tables: Ints, labels: list[int], of_two: bool) -> dict[str, Floats]:
    """The measures of many confusion tables at once.

    Args:
        tables: (resamples, gold label, answer); a column beyond the labels holds those without a verdict, as errors.
        labels: what rows and columns stand for; those above 0 are positive.
        of_two: the labels are 0 and 1, so that an error on one side is an alarm on the other.

    Returns:
        One number a table and measure, nan where it isn't defined.
    """
    k = len(labels)
    positive = np.array([label > 0 for label in labels])
    answered = tables[..., :k]
    missing = tables[..., k] if tables.shape[-1] > k else np.zeros(tables.shape[:-1], dtype=tables.dtype)
    own = answered.diagonal(axis1=-2, axis2=-1)
    gold, called = answered.sum(axis=-1) + missing, answered.sum(axis=-2)
    if of_two:
        called = called + missing[..., ::-1]
    hits = answered[..., positive, :][..., positive].sum(axis=(-2, -1))
    yes = gold[..., positive].sum(axis=-1)
    alarms = answered[..., ~positive, :][..., positive].sum(axis=(-2, -1)) + missing[..., ~positive].sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        f1s = 2 * own / (gold + called)
        occur = (gold + called) > 0
        values = (
            own.sum(axis=-1) / gold.sum(axis=-1),
            np.where(occur, f1s, 0).sum(axis=-1) / occur.sum(axis=-1),
            np.where(occur, f1s * gold, 0).sum(axis=-1) / gold.sum(axis=-1),
            hits / (hits + alarms),
            hits / yes,
            2 * hits / (hits + alarms + yes),
        )
    return dict(zip(MEASURES, values, strict=True))


def _tables(columns: Columns, labels: list[int]) -> Ints:
    """For each labelled post its results as a flat confusion table."""
    rows = np.flatnonzero(columns.labelled)
    _, post = np.unique(columns.post[rows], return_inverse=True)
    width = len(labels) + 1
    place = np.searchsorted(labels, columns.truth[rows])
    answer = np.where(columns.decided[rows], np.searchsorted(labels, columns.answer[rows]), len(labels))
    tables = np.zeros((post.max() + 1, len(labels) * width), dtype=np.int64)
    np.add.at(tables, (post, place * width + answer), 1)
    return tables


def _between(parts: list[Floats], level: float) -> list[float] | None:
    values = np.concatenate(parts)
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    return [float(value) for value in np.quantile(values, [(1 - level) / 2, (1 + level) / 2])]
