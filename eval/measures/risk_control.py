"""Select the verdicts that can be accepted at a wanted agreement and confidence level: Learn then Test.

The hypothesis about a threshold is that more than the tolerated share of the verdicts at or above it are wrong; its
p-value is exact (binomial), for independent posts: one of each cluster. Thresholds form a grid that is fixed before any
post is seen, and are tested from the highest down, beginning at several of them. Each beginning has a fixed part of the
error, which goes on to the next threshold as long as one after another is rejected, and joins that of the next
beginning (the fallback procedure). Verdicts without a confidence are tested first, with one hypothesis. So the chance
that anything is accepted for which its hypothesis is true stays at the error. docs/measures.md names the papers.

Whoever tries one agreement after another until one succeeds finds a threshold by chance sooner or later. So tries on
the same results are counted in a file beside them, and each spends three quarters of what is left of 1 − level (a union
bound). A try that finds nothing tells only that, so that the next can't be fitted to it.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.measures.columns import Bools, Floats, Ints
from tribunal.eval.runs.ledger import count_entry
from tribunal.nodes.threshold import KINDS, Kind
from tribunal.schema import JSON

GRID: Floats = np.arange(100, -1, -1) / 100
# Where the sequence begins, and with which part of the error. Few posts reach the first two: they are for judges that
# are nearly always sure, in runs of thousands of posts.
STARTS = {0.98: 1 / 12, 0.95: 1 / 12, 0.9: 5 / 12, 0.7: 3 / 12, 0.5: 2 / 12}
_PARTS: Floats = np.array([STARTS.get(float(each), 0.0) for each in GRID])
# The part of the error that verdicts without a confidence are tested with first.
_BARE = 1 / 4


@dataclass(frozen=True)
class LabelledPosts:
    """Posts with a gold label, a row each.

    `confidence` is nan where none is stated. `decided` is false where nothing can be accepted: no verdict, or a tie.
    `hateful` is what the verdict says; `wrong` is a label other than the gold's; `wrong_side` hate for none, or none
    for hate.
    """

    confidence: Floats
    decided: Bools
    hateful: Bools
    wrong: Bools
    wrong_side: Bools

    def take_rows(self, rows: Bools | Ints) -> LabelledPosts:
        """Return these rows alone."""
        return LabelledPosts(*(getattr(self, each.name)[rows] for each in fields(self)))

    def __len__(self) -> int:
        """Return how many posts there are."""
        return len(self.confidence)


@dataclass(frozen=True)
class AgreementPromise:
    """The promise about the accepted verdicts.

    Attributes:
        agreement: at least this share agrees with the gold.
        level: how sure that is, over all fits on posts like these.
        missed_hate: of accepted verdicts of no hate, at most this share is of hate.
        false_alarms: of accepted verdicts of hate, at most this share is of none. Where one of the two is given, each
            verdict has its own threshold, and the agreement holds for each by itself.

    Raises:
        BadInput: one is no share.
    """

    agreement: float = 0.95
    level: float = 0.9
    missed_hate: float | None = None
    false_alarms: float | None = None

    def __post_init__(self) -> None:
        """Check that every value is a share."""
        for name, value in self.as_json().items():
            if not 0 < value < 1:
                raise BadInput(
                    f"{name}: {value} is not between 0 and 1; give a fraction, such as 0.9"
                )

    def as_json(self) -> JSON:
        """Return what is promised, by the names of the options."""
        names = ("agreement", "level", "missed_hate", "false_alarms")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def by_verdict(self) -> bool:
        """Return whether each verdict has its own threshold."""
        return self.missed_hate is not None or self.false_alarms is not None


class AcceptanceRule(NamedTuple):
    """A rule of acceptance: a threshold by verdict, and some verdicts that state no confidence.

    A threshold is None where no confidence is enough.
    """

    hateful: float | None
    harmless: float | None
    without_confidence: tuple[Kind, ...]

    def __bool__(self) -> bool:
        """Return whether any verdict is accepted."""
        return (
            self.hateful is not None or self.harmless is not None or bool(self.without_confidence)
        )

    def accepts(self, posts: LabelledPosts) -> Bools:
        """Return, for each post, whether its verdict is accepted."""
        high, low = (np.inf if least is None else least for least in (self.hateful, self.harmless))
        bare_high, bare_low = (kind in self.without_confidence for kind in KINDS)
        stated = ~np.isnan(posts.confidence)
        enough = np.where(stated, posts.confidence, -1.0) >= np.where(posts.hateful, high, low)
        return posts.decided & np.where(
            stated, enough, np.where(posts.hateful, bare_high, bare_low)
        )


def find_acceptance_rule(
    posts: LabelledPosts, promise: AgreementPromise, error: float
) -> AcceptanceRule:
    """Return the rule that accepts most, by posts that are independent of each other.

    Args:
        posts: of each cluster one.
        promise: what is promised.
        error: the chance of accepting anything for which the promise doesn't hold, at most.
    """
    if not promise.by_verdict:
        threshold, bare = _fit_group(
            posts.take_rows(posts.decided), {"wrong": 1 - promise.agreement}, error
        )
        return AcceptanceRule(threshold, threshold, KINDS if bare else ())
    groups = {
        kind: posts.take_rows(posts.decided & np.equal(posts.hateful, kind == "hateful"))
        for kind in KINDS
    }
    # how many each has is no label
    parts = max(1, sum(len(group) > 0 for group in groups.values()))
    own = {"harmless": promise.missed_hate, "hateful": promise.false_alarms}
    found: dict[Kind, tuple[float | None, bool]] = {}
    for kind, group in groups.items():
        bounds = {"wrong": 1 - promise.agreement, "wrong_side": own[kind]}
        held = {name: bound for name, bound in bounds.items() if bound is not None}
        found[kind] = _fit_group(group, held, error / parts)
    bare_kinds = tuple(kind for kind in KINDS if found[kind][1])
    return AcceptanceRule(found["hateful"][0], found["harmless"][0], bare_kinds)


def least_posts_needed(bound: float, error: float, errors: int = 0) -> int:
    """Return how many accepted posts it takes, `errors` of them wrong, to show that no more than `bound` are."""
    from scipy.stats import binom

    posts = range(errors + 1, 10**12)
    return posts[bisect_left(posts, True, key=lambda n: bool(binom.cdf(errors, n, bound) <= error))]


def split_error(bare: int, stated: int, bound: float, error: float) -> tuple[float, float]:
    """Split the error between verdicts without a confidence and the others, by how many there are."""
    if not stated:
        return error, 0.0
    # So few could show nothing, and take nothing.
    tested = bare and bare >= least_posts_needed(bound, error * _BARE)
    return (error * _BARE, error * (1 - _BARE)) if tested else (0.0, error)


def _fit_group(
    posts: LabelledPosts, bounds: Mapping[str, float], error: float
) -> tuple[float | None, bool]:
    """Return the lowest threshold of a group, and whether verdicts without a confidence are accepted.

    Args:
        posts: whose verdicts may be accepted.
        bounds: for each kind of error, the share that is tolerated.
        error: what may be spent.
    """
    stated = ~np.isnan(posts.confidence)
    confidence = posts.confidence[stated]
    many = int((~stated).sum())
    for_bare, for_grid = split_error(many, len(confidence), min(bounds.values()), error)
    reach = _count_reaching(confidence)
    # Each of several promises must be shown, so the largest p-value is theirs together.
    p_bare = 0.0
    p = np.zeros(len(GRID))
    for name, bound in bounds.items():
        wrong: Bools = getattr(posts, name)
        p_bare = max(p_bare, float(binomial_p_values(np.array(many), wrong[~stated].sum(), bound)))
        p = np.maximum(
            p, binomial_p_values(reach, _count_reaching(confidence[wrong[stated]]), bound)
        )
    bare = for_bare > 0 and p_bare <= for_bare
    shown = _fallback_test(p, _PARTS * (error if bare else for_grid))
    if not shown.any():
        return None, bare
    # Of thresholds that accept the same posts the highest: nothing is known of confidences below all of them.
    return float(GRID[shown & (reach == reach[shown].max())].max()), bare


def _fallback_test(p: Floats, errors: Floats) -> Bools:
    """Return which hypotheses of a sequence are rejected.

    Each adds its own error to what the rejected one before it had.
    """
    held = 0.0
    rejected = np.zeros(len(p), dtype=bool)
    for at in range(len(p)):
        held += errors[at]
        rejected[at] = held > 0 and p[at] <= held
        held *= rejected[at]
    return rejected


def _count_reaching(confidence: Floats) -> Ints:
    """Count the confidences that reach each threshold of the grid."""
    return len(confidence) - np.searchsorted(np.sort(confidence), GRID, side="left")


def binomial_p_values(n: Ints | Floats, wrong: Ints | Floats, bound: float) -> Floats:
    """Return the p-value that the error rate exceeds `bound`, given `wrong` errors in `n`; 1.0 for n = 0."""
    from scipy.stats import binom

    return np.where(n > 0, binom.cdf(wrong, np.maximum(n, 1), bound), 1.0)


FITS = "fits.jsonl"
_SPENT = 3 / 4


def error_of_attempt(attempt: int, level: float) -> float:
    """Return what a try may spend of 1 − level; the first is number 1."""
    return (1 - level) * _SPENT * (1 - _SPENT) ** (attempt - 1)


class CaseRange(NamedTuple):
    """The cases of a try. One on another graph, policy or time is no further try."""

    graph: str
    policy: str | None
    first: str
    last: str

    def overlaps(self, other: JSON | None) -> bool:
        """Return whether a try on these cases is also one on some of the others; None: on all that there are."""
        if other is None:
            return True
        same = (other["graph"], other["policy"]) == (self.graph, self.policy)
        return bool(same and other["first"] <= self.last and self.first <= other["last"])


def count_attempt(ledger: Path, asked: JSON, data: str, among: CaseRange | None = None) -> int:
    """Record this try and return its number, from 1.

    A try that was made before, on just these results, keeps its number.

    Args:
        ledger: the file of tries.
        asked: what is tried.
        data: a hash of the results.
        among: which cases they are, where the file is of tries on others, too.

    Raises:
        BadInput: the file can't be read or written, or another process is at it.
    """
    entry: JSON = {"asked": asked, "data": data}
    if among is not None:
        entry["among"] = among._asdict()
    return count_entry(
        ledger,
        entry,
        same=("asked", "data"),
        is_counted=lambda each: among is None or among.overlaps(each.get("among")),
        called="fit",
    )


def hash_rows(rows: Iterable[Any]) -> str:
    """Return a hash of results, whatever their order."""
    lines = sorted(json.dumps(row, ensure_ascii=False) for row in rows)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
