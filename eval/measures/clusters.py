"""The clusters of a run: posts that aren't independent of each other, and so count as one observation.

Intervals, tests and splits that take such posts for independent promise more than they hold: HateCheck's 3,728 posts
are 845 templates. A cluster is what the user names; else what the data set declares; else posts whose texts are nearly
the same; else a post.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tribunal.core.text import make_visible, suggest_name
from tribunal.core.text_similarity import ALIKE, CHANCE, SIZE, decode_signatures
from tribunal.errors import BadInput
from tribunal.eval.datasets import DATASETS
from tribunal.eval.measures.columns import Ints, RunColumns
from tribunal.runner.results import read_results
from tribunal.schema import JSON

GROUP = "group"
NEAR = "near-duplicates"
POST = "post"
_ROWS = 4  # bytes of a band: posts that are equal in one of the bands are compared


@dataclass(frozen=True)
class Clusters:
    """The clusters of a run's posts.

    Attributes:
        of_post: the cluster's number of each post, by the post's number in `Columns`; from 0, none left out.
        by: the field that tells them apart (`template`, `thread`, …), `near-duplicates`, or `post`.
        declared: the user or the data set named the field.
    """

    of_post: Ints
    by: str
    declared: bool

    @cached_property
    def cluster_count(self) -> int:
        """Return how many clusters there are."""
        return int(self.of_post.max()) + 1 if len(self.of_post) else 0

    @cached_property
    def cluster_sizes(self) -> Ints:
        """Return how many posts each cluster has."""
        return np.bincount(self.of_post, minlength=self.cluster_count)

    def as_json(self) -> JSON:
        """Return what metrics.json holds: `by`, `n`, `largest` (posts of the largest cluster), `declared`."""
        largest = int(self.cluster_sizes.max()) if self.cluster_count else 0
        return {
            "by": self.by,
            "n": self.cluster_count,
            "largest": largest,
            "declared": self.declared,
        }


def clusters_of(columns: RunColumns, field: str | None = None) -> Clusters:
    """Return the clusters of a run's posts.

    Args:
        columns: the run.
        field: a field of the data set, by whose values posts belong together; a post that has none is a cluster of
            its own. `near-duplicates` and `post` take these, whatever the data set declares. None takes the field that
            the data set declares; else near-duplicates, where results hold signatures of the texts; else the post.

    Raises:
        BadInput: no post has such a field, or near-duplicates are asked for and no result holds a signature.
    """
    spec = DATASETS.get(str(columns.run.get("dataset")))
    declared = columns.run.get("cluster") or (spec.cluster if spec else None)
    by = declared if field is None else field
    if field in (None, GROUP) and any(columns.groups_of_posts):
        return Clusters(_number_values(columns.groups_of_posts), by or GROUP, declared=True)
    if by and any(values := _field_values(columns, by)):
        return Clusters(_number_values(values), by, declared=True)
    if field in (None, NEAR) and any(columns.signatures):
        return Clusters(near_duplicates(columns.signatures), NEAR, declared=field is not None)
    if field is None or field == POST:
        return Clusters(np.arange(len(columns.ids)), POST, declared=field is not None)
    known = sorted({name for _, result in read_results(columns.folder) for name in result.fields})
    near = suggest_name(field, known)
    listed = ", ".join(map(make_visible, [*known, POST]))
    lacks = f"no post of {columns.folder} has such a field{near and f'; {near}'}"
    raise BadInput(f"cluster: {make_visible(field)}: {lacks} (there are {listed})")


def near_duplicates(written: Sequence[str]) -> Ints:
    """Return the cluster's number of each text.

    Texts that are nearly the same, directly or by way of others, share a cluster.

    Texts are compared that are equal in one of 24 bands of their signature (locality-sensitive hashing: Leskovec,
    Rajaraman and Ullman, "Mining of Massive Datasets", section 3.4), which finds 99.9 % of pairs at a likeness of 0.7.

    Args:
        written: signatures; an empty one is a cluster of its own.
    """
    held = np.flatnonzero([bool(each) for each in written])
    if not len(held):
        return np.arange(len(written))
    table = decode_signatures([written[at] for at in held.tolist()])
    found = np.unique(
        np.concatenate([_equal_band_pairs(table, band) for band in range(0, SIZE, _ROWS)])
    )
    one, other = np.divmod(found, len(table))
    equal = (table[one] == table[other]).mean(axis=1)
    near = (equal - CHANCE) / (1 - CHANCE) >= ALIKE
    if not near.any():
        return np.arange(len(written))
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = held[one[near]], held[other[near]]
    links = coo_array((np.ones(len(ends[0]), dtype=bool), ends), shape=(len(written),) * 2)
    # The same partition, numbered in the order in which it begins.
    _, first, inverse = np.unique(
        connected_components(links, directed=False)[1], return_index=True, return_inverse=True
    )
    return np.argsort(np.argsort(first))[inverse]


def _equal_band_pairs(table: npt.NDArray[np.uint8], band: int) -> Ints:
    """Return pairs of rows that are equal in a band, as one number a pair.

    Each row is paired with the first that is equal, and with the one before it.
    """
    keys = np.ascontiguousarray(table[:, band : band + _ROWS]).view(np.uint32).ravel()
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=keys[order[0]] ^ np.uint32(1)))
    firsts = np.repeat(order[starts], np.diff(starts, append=len(order)))
    beside_first = (firsts * len(table) + order)[firsts != order]
    beside_last = (order[:-1] * len(table) + order[1:])[np.diff(keys[order]) == 0]
    return np.concatenate([beside_first, beside_last])


def _field_values(columns: RunColumns, field: str) -> list[str | None]:
    """Return what each post has in a field, by the post's number; None where it has nothing there."""
    held: dict[str, str | None] = {}
    for _, result in read_results(columns.folder):
        value = result.fields.get(field)
        held[result.post_id] = None if value is None or value in ("", []) else repr(value)
    return [held.get(post) for post in columns.ids]


def _number_values(values: Sequence[Hashable]) -> Ints:
    """Return a number for each value that occurs; each empty one has its own."""
    numbers: dict[Hashable, int] = defaultdict(lambda: len(numbers))
    return np.array(
        [numbers[value if value else (at,)] for at, value in enumerate(values)], dtype=np.int64
    )
