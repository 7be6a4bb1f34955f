"""The measures of a table's cells, and the tests between its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from tribunal.core.text import suggest_name
from tribunal.eval.experiments.experiment import RunKey
from tribunal.eval.measures.clusters import clusters_of
from tribunal.eval.measures.columns import NO_LABEL, OUTCOMES, Bools, Floats, Ints, RunColumns
from tribunal.eval.measures.comparison import (
    TESTED,
    compare_accuracy,
    compare_macro_f1,
    correct_by_holm,
    pair_right_shares,
    same_data,
)
from tribunal.eval.measures.metrics import DIFFICULTIES, PATTERNS
from tribunal.eval.measures.rates import (
    ClusterKinds,
    Interval,
    as_pair,
    bca_intervals,
    divide,
    share_interval,
)
from tribunal.eval.measures.scores import MEASURES, confusion_tables
from tribunal.eval.protocols.protocol import NumberFormat
from tribunal.schema import JSON

_SAYS = {"hate": 1, "not_hate": 0}
_SCORES = ("precision", "recall", "f1")
# Measures by name, and what may follow a colon.
_AFTER_COLON = {**dict.fromkeys(MEASURES, DIFFICULTIES), "refusals": PATTERNS}
MEASURE_NAMES = (
    *MEASURES, *(f"{side}.{score}" for side in ("positive", "negative", "overall") for score in _SCORES),
    "overall.accuracy", "refusals", "refusal_rate", "stance:PERSPECTIVE", "sd", "kappa", "kappa_agents",
)  # fmt: skip


class CellMeasure(NamedTuple):
    """Hold a value (a fraction or a count), its 95 % interval if it has one, and the number of its posts.

    `value` is None where it isn't defined; `why` then says so in a few words.
    """

    value: float | None
    interval: tuple[float, float] | None = None
    n: int = 0
    why: str = ""


def find_measure_fault(name: str) -> str:
    """Return why `measure_cell` takes no measure of this name, with those that there are; empty if it takes it."""
    kind, colon, of = name.partition(":")
    if kind == "stance":
        return "" if of else "names no perspective; give stance:NAME, such as stance:kold"
    if kind not in MEASURE_NAMES:
        return f"is no measure; {suggest_name(name, MEASURE_NAMES) or 'there are ' + ', '.join(MEASURE_NAMES)}"
    known = _AFTER_COLON.get(kind, ())
    if colon and of not in known:
        return f"{kind} is not measured of {of!r}; give {' or '.join((kind, *(f'{kind}:{each}' for each in known)))}"
    return ""


def measure_cell(name: str, columns: RunColumns, metrics: JSON) -> CellMeasure:
    """Return one measure of a run.

    Args:
        name: one of the six of the headline (the mean of its value in each repeat); with `:Easy`, in that difficulty;
            `positive.f1` and the like, of hate, of non-hate (`negative`) or the mean of both (`overall`); `refusals`,
            a pass over the posts, with `:001` in that pattern; `refusal_rate`; `stance:ID`, how often a perspective is
            right on its own; `sd` of the accuracy, `kappa` over repeats, and `kappa_agents` over perspectives.
        columns: the run.
        metrics: its measures (`tribunal.eval.measures.metrics`).

    Raises:
        KeyError: there is no measure of that name.
    """
    kind, _, of = name.partition(":")
    side, _, score = kind.partition(".")
    decided = _count_posts(columns, columns.is_decided)
    repeats = metrics["over_repeats"]
    if kind in MEASURES and of:
        return _measure_difficulty(kind, of, columns, metrics)
    if kind in MEASURES:
        return _cell_measure(repeats[kind]["mean"], metrics["intervals"].get(kind), decided)
    if score:
        interval = _interval_of_side(side, score, columns, metrics)
        return _cell_measure(metrics["binary"][side][score], interval, decided)
    match kind:
        case "refusals":
            group = metrics["by_pattern"][of] if of else metrics
            passes = max(1, len(np.unique(columns.repeat)))
            n = group["n"] // passes
            return _cell_measure(
                group["refusals"] / passes if n else None, None, n, f"no post is {of}"
            )
        case "refusal_rate":
            refused = columns.outcome == OUTCOMES.index("refusal")
            every = np.full(columns.row_count, True)
            return _measure_rate(columns, refused, every, "no post was decided")
        case "stance":
            taken = np.array(
                [_SAYS.get(dict(row).get(of, ""), NO_LABEL) for row in columns.stances]
            )
            right = np.equal(taken, columns.positive)
            rows = columns.is_labelled & (taken != NO_LABEL)
            return _measure_rate(columns, right, rows, f"the perspective {of} took no stance")
        case "sd":
            return _cell_measure(repeats["accuracy"]["std"], None, decided, "of one repeat")
        case "kappa":
            return _cell_measure(repeats["kappa"], None, decided, "of one repeat")
        case "kappa_agents":
            agents = metrics["over_agents"]
            return _cell_measure(agents["kappa"], None, agents["n"], "no post was judged by all")
    raise KeyError(name)


def _measure_rate(columns: RunColumns, hits: Bools, rows: Bools, why: str) -> CellMeasure:
    """Return the share of hits among these rows: the mean of every pass."""
    if not rows.any():
        return CellMeasure(None, why=why)
    passes = [
        float(hits[rows & (columns.repeat == each)].mean())
        for each in np.unique(columns.repeat[rows])
    ]
    found = share_interval(clusters_of(columns).of_post[columns.post[rows]], hits[rows])
    return CellMeasure(float(np.mean(passes)), as_pair(found), _count_posts(columns, rows))


def _interval_of_side(side: str, score: str, columns: RunColumns, metrics: JSON) -> Interval:
    """Return the interval of a measure of hate, of non-hate, or of the mean of both."""
    if columns.scheme == "binary" and side != "overall":
        found: JSON = (
            metrics["by_label"].get("1" if side == "positive" else "0", {}).get("intervals", {})
        )
        return found.get(score)
    if columns.scheme == "binary" and score == "f1":
        macro: Interval = metrics["intervals"]["macro_f1"]
        return macro
    sums = _cluster_sums(score, columns, clusters_of(columns).of_post)
    return (
        bca_intervals(ClusterKinds.from_values(sums[sums.any(axis=1)]), _overall_of_sums)[score]
        if side == "overall"
        else None
    )


def interval_of_difference(
    name: str, first: RunColumns, second: RunColumns
) -> tuple[float, float] | None:
    """Return the interval of a difference between two runs over the same posts.

    It draws clusters, each with the results of both.

    Args:
        name: `overall.f1` or `refusal_rate`; others have none.
        first: the run that is compared.
        second: the run that it is compared with; of its posts, those that `first` holds.
    """
    statistics: dict[str, Callable[[Floats], Floats]] = {
        "overall.f1": lambda sums: _overall_of_sums(sums)["f1"],
        "refusal_rate": lambda sums: divide(sums[..., 0], sums[..., 1]),
    }
    statistic = statistics.get(name)
    if statistic is None:
        return None
    of_post = clusters_of(first).of_post
    of_id = dict(zip(first.ids, of_post.tolist(), strict=True))
    of_other = np.array([of_id.get(each, NO_LABEL) for each in second.ids])
    one = _cluster_sums(name, first, of_post)
    other = _cluster_sums(name, second, of_other)
    width = one.shape[1]
    both = np.concatenate([one, np.pad(other, ((0, len(one) - len(other)), (0, 0)))], axis=1)

    def measure_sums(sums: Floats) -> dict[str, Floats]:
        """Return the first run's statistic less the second's."""
        return {name: statistic(sums[..., :width]) - statistic(sums[..., width:])}

    found = bca_intervals(ClusterKinds.from_values(both[both.any(axis=1)]), measure_sums)[name]
    return as_pair(found)


def _cluster_sums(name: str, columns: RunColumns, of_post: Ints) -> Ints:
    """Return what a measure is computed from, for each cluster.

    Of the refusal rate these are the refusals and the results; else the verdicts by gold (not, hate) and answer (not,
    hate).
    """
    of_row = of_post[columns.post]
    rows = np.flatnonzero(
        (of_row != NO_LABEL) & (columns.is_decided if name != "refusal_rate" else True)
    )
    cluster = of_row[rows]
    clusters = int(of_post.max(initial=NO_LABEL)) + 1
    if name == "refusal_rate":
        refused = columns.outcome[rows] == OUTCOMES.index("refusal")
        counts = [
            np.bincount(cluster, weights=each, minlength=clusters)
            for each in (refused, np.ones(len(rows)))
        ]
        return np.stack(counts, axis=1).astype(np.int64)
    tables = confusion_tables(
        cluster, columns.positive[rows], columns.hateful[rows], [0, 1], clusters
    )
    return tables[..., :2].reshape(clusters, 4)


def _overall_of_sums(sums: Floats) -> dict[str, Floats]:
    """Return the mean over both classes of precision, recall and F1, of sums as `_cluster_sums` gives them."""
    right = sums[..., [0, 3]]
    gold = sums[..., [0, 2]] + sums[..., [1, 3]]
    called = sums[..., [0, 1]] + sums[..., [2, 3]]
    shares = {
        "precision": divide(right, called),
        "recall": divide(right, gold),
        "f1": divide(2 * right, gold + called),
    }
    return {name: np.nan_to_num(each).mean(axis=-1) for name, each in shares.items()}


def _measure_difficulty(
    kind: str, difficulty: str, columns: RunColumns, metrics: JSON
) -> CellMeasure:
    group = metrics["by_difficulty"][difficulty]
    rows = np.zeros(columns.row_count, dtype=bool)
    rows[columns.groups["by_difficulty"].get(difficulty, [])] = True
    n = _count_posts(columns, rows & columns.is_decided)
    return _cell_measure(
        group[kind], group["intervals"][kind], n, f"no post is {difficulty}, or none was decided"
    )


def _cell_measure(value: float | None, ends: Interval, n: int, why: str = "") -> CellMeasure:
    if value is None:
        return CellMeasure(None, None, n, why or "not defined: no post was decided")
    return CellMeasure(value, as_pair(ends), n)


def _count_posts(columns: RunColumns, rows: Bools) -> int:
    return len(np.unique(columns.post[rows]))


# A number, in brackets or with what stands in brackets beside it: 75.31, (+8.3), 0.747 (±0.003), 22%.
_FIGURE = re.compile(r"\(?([-+]?\d+(?:\.(\d+))?)%?\)?(?: \(±?\d+(?:\.\d+)?\))?")


def compare_with_paper(
    form: NumberFormat, printed: str, value: float, interval: Sequence[float] | None
) -> JSON:
    """Return the fields of a cell that compare its value with what a paper prints; none if that is no number.

    `in_interval` says whether the interval holds the paper's figure, taken for any value that is printed so; None if
    there is no interval.
    """
    found = _FIGURE.fullmatch(printed)
    if found is None:
        return {}
    paper = float(found[1]) / _unit_of(form)
    rounding = 0.5 * 10.0 ** -len(found[2] or "") / _unit_of(form)
    return {
        "paper_value": paper,
        "difference": value - paper,
        "difference_printed": format_as_printed(form, value - paper, signed=True),
        "in_interval": interval and interval[0] - rounding <= paper <= interval[1] + rounding,
    }


def is_figure(printed: str) -> bool:
    """Return whether a paper's table prints a number here."""
    return _FIGURE.fullmatch(printed) is not None


def _unit_of(form: NumberFormat) -> int:
    return 100 if form.startswith("00") else 1


def format_as_printed(form: NumberFormat, value: float, *, signed: bool = False) -> str:
    """Format a value as its paper prints such: as percentage or fraction of so many decimals, a count as it is."""
    sign = "+" if signed else ""
    decimals = len(form.rstrip("%").partition(".")[2])
    shown = f"{_unit_of(form) * value:{sign}.{decimals}f}"
    if form == "0" and value != round(value):
        shown = f"{value:{sign}.1f}"  # a mean over repeats
    if not float(shown):
        shown = shown.lstrip("+-")
    return shown + ("%" if form.endswith("%") else "")


ALPHA = 0.05


@dataclass(frozen=True)
class PairedTest:
    """Hold a paired test of two runs over the same posts.

    `first` and `second` are conditions, and `same` is the model of both; `by` model it is the other way round.
    `difference` is the second's value less the first's, with its 95 % interval from `low` to `high`,
    over `n` posts that both decided. `p_holm` is p corrected for all tests of this measure in the table.
    """

    dataset: str
    by: Literal["condition", "model"]
    same: str
    first: str
    second: str
    measure: str
    first_value: float | None
    second_value: float | None
    difference: float | None
    low: float | None
    high: float | None
    n: int
    p: float | None
    p_holm: float | None = None

    @property
    def result(self) -> str:
        """Return in words what the test shows, at 5 % after the correction."""
        if self.p_holm is None:
            return "not tested"
        return "differ" if self.p_holm < ALPHA else "not told apart"


def compare_conditions(
    runs: Mapping[RunKey, RunColumns], measures: Collection[str]
) -> tuple[PairedTest, ...]:
    """Test the runs of a table in pairs.

    Args:
        runs: those with a figure in the table.
        measures: which the table shows. Of those, accuracy and macro-F1 are tested; if it shows neither, accuracy.
    """
    tested = [name for name in TESTED if name in measures] or [TESTED[0]]
    pairs = list(_comparable_pairs(runs, "model")) or list(_comparable_pairs(runs, "condition"))
    tests = [each for pair in pairs for each in _test_pair(runs, *pair, tested)]
    for name in tested:
        correct_by_holm([each for each in tests if each["measure"] == name])
    return tuple(PairedTest(**each) for each in tests)


def _comparable_pairs(
    runs: Mapping[RunKey, RunColumns], same: Literal["model", "condition"]
) -> Iterator[tuple[RunKey, RunKey]]:
    """Yield the pairs of different runs over the same posts, in one scheme, of the same model or condition."""
    for first, second in combinations(runs, 2):
        one = runs[first]
        other = runs[second]
        alike = first.dataset == second.dataset and getattr(first, same) == getattr(second, same)
        if (
            alike
            and one.folder != other.folder
            and one.scheme == other.scheme
            and same_data(one, other)
        ):
            yield first, second


def _test_pair(
    runs: Mapping[RunKey, RunColumns], first: RunKey, second: RunKey, measures: Collection[str]
) -> Iterator[JSON]:
    one = runs[first]
    other = runs[second]
    clusters = clusters_of(one)
    shared = pair_right_shares(one, other, clusters)
    by = "model" if first.condition == second.condition else "condition"
    for name in measures:
        compare = compare_accuracy if name == "accuracy" else compare_macro_f1
        compared = compare(one, other, clusters)
        low, high = compared["interval"] or (None, None)
        yield {
            "dataset": first.dataset,
            "by": by,
            "same": first.condition if by == "model" else first.model,
            "first": getattr(first, by),
            "second": getattr(second, by),
            "measure": name,
            "first_value": compared["first"],
            "second_value": compared["second"],
            "difference": compared["difference"],
            "low": low,
            "high": high,
            "n": len(shared[1]) if shared else 0,
            "p": compared["p"],
        }
