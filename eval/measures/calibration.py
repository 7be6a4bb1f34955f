"""Measure whether confidence means what it says: calibration errors, Brier score, AUROC, and risk against coverage.

All of it is over labelled verdicts that state a confidence, and computed from counts by level of confidence, so that
all resamples are measured at once; tests hold Brier score and AUROC to scikit-learn's. docs/measures.md names the
papers.
"""

from __future__ import annotations

from math import pi

import numpy as np

from tribunal.eval.measures.clusters import Clusters
from tribunal.eval.measures.columns import Bools, Floats, Ints, RunColumns
from tribunal.eval.measures.rates import (
    LEVEL,
    ClusterKinds,
    Interval,
    Statistics,
    bca_intervals,
    divide,
    draw_resamples,
    number_or_none,
    share_interval,
)
from tribunal.schema import JSON

BINS = 10
POINTS = 200  # the most that the curve keeps
POINTS_OF_GROUP = 50  # the same of a group of posts
CELLS = 200  # levels of confidence that intervals tell apart, at most; a multiple of the bins
CELLS_OF_GROUP = 50  # the same of a group of posts
RISKS = (0.01, 0.05, 0.1)  # at which coverage is told


def measure_calibration(
    columns: RunColumns,
    clusters: Clusters,
    rows: Ints | None = None,
    *,
    points: int = POINTS,
    cells: int = CELLS,
) -> JSON:
    """Measure confidence; every value is None or empty where no verdict states one, and `notes` say why.

    `auroc` tells right verdicts from wrong ones by their confidence; `auroc_hate` tells posts that the gold calls hate
    from others by a score: the confidence of a verdict of hate, one less it of another.

    Args:
        columns: the run.
        clusters: its posts' clusters.
        rows: the results that count; None: all.
        points: the most that the risk–coverage curve keeps.
        cells: the most levels of confidence that intervals tell apart.
    """
    held = np.arange(columns.row_count) if rows is None else rows
    rows = held[columns.is_decided[held] & ~np.isnan(columns.confidence[held])]
    confidence = columns.confidence[rows]
    right = columns.is_right[rows]
    score = np.where(columns.hateful[rows] == 1, confidence, 1 - confidence)
    hate = columns.positive[rows] == 1
    of = clusters.of_post[columns.post[rows]]
    curve = risk_coverage_curve(confidence, right)
    kept = np.linspace(0, len(curve) - 1, min(len(curve), points)).round().astype(int)
    return {
        "n": len(rows),
        "bins": BINS,
        **calibration_scores(confidence, right),
        "auroc_hate": calibration_scores(score, hate)["auroc"],
        "intervals": {
            **calibration_intervals(confidence, right, of, cells),
            "auroc_hate": _auroc_interval(score, hate, of, cells),
        },
        "reliability": reliability_bins(confidence, right, of),
        "risk_coverage": [curve[place] for place in kept],
        "coverage_at_risk": coverage_at_risks(confidence, right, of, cells),
        "notes": _undefined_in_words(right, hate, of),
    }


def _undefined_in_words(right: Bools, hate: Bools, cluster: Ints) -> list[str]:
    """Say which measures of confidence aren't defined, and why."""
    if not len(right):
        return [
            "no verdict on a labelled post states a confidence, so calibration can't be measured"
        ]
    notes = []
    if right.all() or not right.any():
        every = "right" if right.all() else "wrong"
        notes.append(
            f"every verdict that states a confidence is {every}, so AUROC of right against wrong isn't defined"
        )
    if hate.all() or not hate.any():
        every = "hate" if hate.all() else "no hate"
        notes.append(
            f"the gold calls every one of these posts {every}, so AUROC of hate isn't defined"
        )
    if len(np.unique(cluster)) < 2:
        notes.append("these posts are one cluster, so no interval can be given")
    return notes


def coverage_at_risks(confidence: Floats, right: Bools, cluster: Ints, cells: int) -> list[JSON]:
    """Return, for each of `RISKS`, the largest share of verdicts that a threshold accepts at no higher risk.

    A risk is the share of wrong verdicts among those accepted. `threshold` is None, and `coverage` 0, where no
    threshold has so low a risk. `interval` is of the coverage (BCa over clusters). The threshold is chosen on these
    posts themselves, so the coverage is optimistic; `tribunal fit` finds one that holds for others.
    """
    if not len(confidence):
        return [
            {"risk": risk, "coverage": None, "threshold": None, "interval": None} for risk in RISKS
        ]
    curve = risk_coverage_curve(confidence, right)
    _, kinds = count_by_confidence(confidence, right, cluster, cells)

    def widest_coverage(counts: Floats) -> dict[str, Floats]:
        """Return the coverage at each risk, of counts (…, 2 · levels) as `calibration_statistics` takes them."""
        lost = counts[..., ::2][..., ::-1].cumsum(axis=-1)
        accepted = lost + counts[..., 1::2][..., ::-1].cumsum(axis=-1)
        return {
            str(risk): np.where(lost <= risk * accepted + 1e-9, accepted, 0).max(axis=-1)
            / accepted[..., -1]
            for risk in RISKS
        }

    spans = bca_intervals(kinds, widest_coverage)
    found = []
    for risk in RISKS:
        within = [each for each in curve if each["risk"] <= risk]
        coverage = within[-1]["coverage"] if within else 0.0
        ends = spans[str(risk)]
        found.append(
            {
                "risk": risk,
                "coverage": coverage,
                "threshold": within[-1]["threshold"] if within else None,
                # Of very many confidences the interval is of groups of them.
                "interval": ends and [min(ends[0], coverage), max(ends[1], coverage)],
            }
        )
    return found


def reliability_bins(confidence: Floats, right: Bools, cluster: Ints) -> list[JSON]:
    """Return stated confidence, and accuracy with its interval, in bins of equal width.

    They are (0, 0.1], …; 0 is in the first.
    """
    within = _bin_numbers(confidence)
    bins = []
    for number in np.unique(within).tolist():
        here = within == number
        bins.append(
            {
                "from": round(number / BINS, 10),
                "to": round((number + 1) / BINS, 10),
                "n": int(here.sum()),
                "confidence": float(confidence[here].mean()),
                "accuracy": float(right[here].mean()),
                "interval": share_interval(cluster[here], right[here]),
            }
        )
    return bins


def calibration_scores(confidence: Floats, right: Bools) -> dict[str, float | None]:
    """Return the measures of confidence by name; None where one isn't defined.

    `ece` is the mean over bins of |accuracy − mean confidence|, each weighted by its share of the posts, and
    `ece_debiased` that less what chance adds to it. `aurc` is the area under the risk–coverage curve: the mean, over
    k = 1 … n, of the risk of the k most confident verdicts, the errors of a tie being spread evenly over it. `auroc` is
    the chance that a right one has a higher confidence than a wrong one, a tie counting half.
    """
    levels, level = np.unique(confidence, return_inverse=True)
    counts = np.bincount(2 * level + right, minlength=2 * len(levels)).astype(float)
    return {
        name: number_or_none(value)
        for name, value in calibration_statistics(levels)(counts).items()
    }


def calibration_intervals(
    confidence: Floats, right: Bools, cluster: Ints, cells: int = CELLS
) -> dict[str, Interval]:
    """Return the intervals of `ece`, `aurc`, `brier` and `auroc`, which draw clusters.

    The interval of `ece` is that of the true error, for both of its estimates, and lies around `ece_debiased`. It
    begins at 0 where chance alone could have made the error that was seen (consistency resampling: Bröcker and Smith,
    "Increasing the Reliability of Reliability Diagrams", 2007). Other intervals are BCa.
    """
    names = ("ece", "aurc", "brier", "auroc")
    if not len(confidence):
        return dict.fromkeys(names)
    levels, kinds = count_by_confidence(confidence, right, cluster, cells)
    statistics = calibration_statistics(levels)
    found = bca_intervals(kinds, statistics)
    found["ece"] = _ece_interval(kinds, levels, statistics)
    return {name: found[name] for name in names}


def _auroc_interval(score: Floats, positive: Bools, cluster: Ints, cells: int) -> Interval:
    """Return the interval of the chance that a positive one has a higher score than another."""
    if not len(score):
        return None
    _, kinds = count_by_confidence(score, positive, cluster, cells)
    return bca_intervals(
        kinds, lambda counts: {"auroc": _auroc(counts[..., ::2], counts[..., 1::2])}
    )["auroc"]


def _auroc(wrong: Floats, right: Floats) -> Floats:
    """Return the chance that a right one stands higher than a wrong one, from counts by level, ascending."""
    below = wrong.cumsum(axis=-1) - wrong / 2
    return divide((right * below).sum(axis=-1), right.sum(axis=-1) * wrong.sum(axis=-1))


def calibration_statistics(levels: Floats) -> Statistics:
    """Return a function that measures counts by level of confidence.

    Args:
        levels: the confidences that occur, ascending.

    Returns:
        A function of counts (…, 2 · levels), the wrong and the right of each level beside each other, that gives by
        name `ece`, `ece_debiased`, `aurc`, `brier` and `auroc`; nan where one isn't defined.
    """
    bins = np.eye(BINS)[_bin_numbers(levels)]

    def measure_counts(counts: Floats) -> dict[str, Floats]:
        """Measure counts (…, 2 · levels)."""
        wrong = counts[..., ::2]
        right = counts[..., 1::2]
        of_level = wrong + right
        n = of_level.sum(axis=-1)
        gaps, error = _bin_gaps(counts, levels, bins)
        plain = np.abs(gaps).sum(axis=-1)
        found = {
            "ece": plain,
            "ece_debiased": np.maximum(
                0, 2 * plain - _mean_of_folded(np.abs(gaps), error).sum(axis=-1)
            ),
            "aurc": divide(_sum_of_risks(wrong[..., ::-1], of_level[..., ::-1]), n),
            "brier": divide((right * (1 - levels) ** 2 + wrong * levels**2).sum(axis=-1), n),
            "auroc": _auroc(wrong, right),
        }
        return {name: np.where(n > 0, values, np.nan) for name, values in found.items()}

    return measure_counts


def risk_coverage_curve(confidence: Floats, right: Bools) -> list[JSON]:
    """Return the share of wrong verdicts at or above each confidence that occurs, from the highest down.

    Verdicts of equal confidence are accepted together, since no threshold tells them apart.
    """
    levels, place = np.unique(-confidence, return_inverse=True)
    accepted = np.bincount(place, minlength=len(levels)).cumsum()
    wrong = np.bincount(place, weights=~right, minlength=len(levels)).cumsum()
    return [
        {
            "threshold": float(level),
            "coverage": float(taken / len(confidence)),
            "risk": float(lost / taken),
        }
        for level, taken, lost in zip(-levels, accepted, wrong, strict=True)
    ]


def _bin_gaps(counts: Floats, levels: Floats, bins: Floats) -> tuple[Floats, Floats]:
    """Return each bin's accuracy less its confidence, times its share of the verdicts, and the standard error of that.

    Both are 0 where a bin has no verdict.
    """
    right = counts[..., 1::2]
    of_level = counts[..., ::2] + right
    n = of_level.sum(axis=-1, keepdims=True)
    in_bin = of_level @ bins
    hits = right @ bins
    gaps = divide(hits - (of_level * levels) @ bins, n)
    error = divide(np.sqrt(divide(hits * (in_bin - hits), in_bin)), n)
    return np.nan_to_num(gaps), np.nan_to_num(error)


def _ece_interval(kinds: ClusterKinds, levels: Floats, statistics: Statistics) -> Interval:
    """Return the interval of the true error, from how far resamples' debiased errors lie from their mean.

    It begins at 0 where chance alone could have made the plain error: where that isn't above most of what the
    resamples' bins differ from the run's.
    """
    if kinds.cluster_count < 2:
        return None
    found = statistics(kinds.total_values)
    bins = np.eye(BINS)[_bin_numbers(levels)]
    gaps, _ = _bin_gaps(kinds.total_values, levels, bins)

    def debiased_and_chance(counts: Floats) -> dict[str, Floats]:
        """Return the debiased error, and by how much bins differ from the run's."""
        chance = np.abs(_bin_gaps(counts, levels, bins)[0] - gaps).sum(axis=-1)
        return {"debiased": statistics(counts)["ece_debiased"], "chance": chance}

    draws = draw_resamples(kinds, debiased_and_chance)
    if draws["chance"].max() == 0:
        return None
    high = (1 + LEVEL) / 2
    spread = draws["debiased"] - draws["debiased"].mean()
    ends = np.clip(found["ece_debiased"] + np.quantile(spread, [1 - high, high]), 0, 1)
    by_chance = found["ece"] <= np.quantile(draws["chance"], high)
    return [0.0 if by_chance else float(ends[0]), max(float(ends[1]), float(found["ece"]))]


def count_by_confidence(
    confidence: Floats, right: Bools, cluster: Ints, cells: int = CELLS
) -> tuple[Floats, ClusterKinds]:
    """Return the confidences that are told apart, and what each cluster adds to the counts of wrong and right ones."""
    levels, level = group_confidences(confidence, cells)
    return levels, ClusterKinds.from_cells(cluster, 2 * level + right, 2 * len(levels))


def group_confidences(confidence: Floats, cells: int = CELLS) -> tuple[Floats, Ints]:
    """Return the confidences that are told apart, ascending, and the number of each verdict's.

    Where there are many, those of a bin are put together in groups, each of which stands for its mean.
    """
    levels, level = np.unique(confidence, return_inverse=True)
    if len(levels) <= cells:
        return levels, level
    _, level = np.unique(np.maximum(np.ceil(confidence * cells), 1), return_inverse=True)
    return np.bincount(level, weights=confidence) / np.bincount(level), level


def _bin_numbers(confidence: Floats) -> Ints:
    return np.digitize(confidence, np.linspace(0, 1, BINS + 1)[1:-1], right=True)


def _mean_of_folded(mean: Floats, error: Floats) -> Floats:
    """Return the mean of |x| for a normal x (the folded normal distribution)."""
    from scipy.special import erf

    ratio = np.where(error > 0, divide(mean, error), np.inf)
    return np.where(
        error > 0,
        error * np.sqrt(2 / pi) * np.exp(-(ratio**2) / 2) + mean * erf(ratio / np.sqrt(2)),
        mean,
    )


def _sum_of_risks(wrong: Floats, of_level: Floats) -> Floats:
    """Sum the risk of the k most confident over k = 1 … n; levels run from the highest down.

    The sum of 1 / k over k = a + 1 … b is digamma(b + 1) − digamma(a + 1).
    """
    from scipy.special import digamma

    accepted = of_level.cumsum(axis=-1)
    lost = wrong.cumsum(axis=-1)
    before = accepted - of_level
    lost_before = lost - wrong
    rate = np.where(of_level > 0, wrong / np.maximum(of_level, 1e-300), 0)
    within = rate * of_level + (lost_before - rate * before) * (
        digamma(accepted + 1) - digamma(before + 1)
    )
    summed: Floats = within.sum(axis=-1)
    return summed


def calibration_map(confidence: Floats, right: Bools) -> tuple[tuple[float, float], ...]:
    """Return the points of a map from stated confidence to accuracy. It is linear between them and flat beyond them.

    Args:
        confidence: of each verdict, from 0 to 1; or what else grows with the share.
        right: whether it was.

    Returns:
        pairs of a confidence and a share, ascending in both. Of n verdicts no share is over (n + 1) / (n + 2), or under
        1 / (n + 2): so few are no proof of certainty. Empty for no verdict.
    """
    from scipy.optimize import isotonic_regression

    if not len(confidence):
        return ()
    stated, of = np.unique(confidence, return_inverse=True)
    many = np.bincount(of)
    shares = isotonic_regression(np.bincount(of, weights=right) / many, weights=many).x
    edge = 1 / (len(confidence) + 2)
    shares = np.clip(shares, edge, 1 - edge)
    # Of a run of equal shares its two ends say all.
    inner = np.zeros(len(stated), dtype=bool)
    inner[1:-1] = (shares[1:-1] == shares[:-2]) & (shares[1:-1] == shares[2:])
    return tuple(
        (float(at), round(float(share), 6))
        for at, share in zip(stated[~inner], shares[~inner], strict=True)
    )
