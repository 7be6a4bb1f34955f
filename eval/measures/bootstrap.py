"""Bootstrap percentile intervals of the measures, over posts.

A resample draws as many posts as there are, with replacement, each with all of its repeats, since repeats of one post
aren't independent of each other. Posts whose results are the same can't be told apart by any measure, so what is drawn
is how often each kind of post occurs: a multinomial, equal in distribution to drawing the posts one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tribunal.eval.measures.confusion import MEASURES, measures_of, occurring, tabulate_each

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
    drawn: list[tuple[dict[str, Floats], ...]] = []
    step = max(1, _AT_ONCE // len(kinds))
    for start in range(0, resamples, step):
        often = random.multinomial(posts, counts / posts, size=min(step, resamples - start))
        tables = (often @ kinds).reshape(len(often), len(labels), len(labels) + 1)
        verdicts = tables.copy()
        verdicts[..., -1] = 0
        drawn.append(
            tuple(measures_of(each, labels, of_two=of_two, negative=columns.negative) for each in (verdicts, tables))
        )
    headline, counting = (
        {name: _between([part[i][name] for part in drawn], level) for name in MEASURES} for i in (0, 1)
    )
    return {**headline, "counting_errors": counting}


def _tables(columns: Columns, labels: list[int]) -> Ints:
    """For each labelled post its results as a flat confusion table."""
    rows = np.flatnonzero(columns.labelled)
    known, post = np.unique(columns.post[rows], return_inverse=True)
    tables = tabulate_each(post, columns.truth[rows], columns.answer[rows], labels, len(known))
    return tables.reshape(len(known), -1)


def _between(parts: list[Floats], level: float) -> list[float] | None:
    values = np.concatenate(parts)
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    return [float(value) for value in np.quantile(values, [(1 - level) / 2, (1 + level) / 2])]
