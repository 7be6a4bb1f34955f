"""The measures against scikit-learn, which has arithmetic of its own: the same numbers, to the last bit."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    cohen_kappa_score,
    f1_score,
    matthews_corrcoef,
    precision_recall_fscore_support,
    precision_score,
    recall_score,
)

from tests.result_lines import line, write_run
from tribunal.eval.measures.metrics import measure_run
from tribunal.eval.measures.scores import MEASURES, measures_of_tables
from tribunal.schema import JSON

NONE = {-1: "refusal", -2: "failure", -3: "pending"}
PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 5)), min_size=1, max_size=40)
SCHEMES = st.sampled_from(["fine", "binary"])
EDGES: list[list[tuple[int, int]]] = [
    [(0, 0)],  # nothing is positive, nor called so
    [(1, 1)],  # nothing is negative
    [(1, 0), (2, 0)],  # nothing was called positive
    [(0, 1), (0, 2)],  # nothing called positive is
    [(0, -1), (1, -2), (2, -3)],  # no verdict at all
    [(0, 5), (5, 0)],  # labels that occur on one side alone
]


def on_the_edges(test: Any) -> Any:
    for pairs in EDGES:
        for scheme in ("fine", "binary"):
            test = example(pairs=pairs, scheme=scheme)(test)
    return test


def of(pairs: list[tuple[int, int]], scheme: str) -> JSON:
    top = 1 if scheme == "binary" else 5
    lines = [
        line(
            f"p{i}",
            min(gold, top),
            NONE.get(answer) or min(answer, top),
            scheme=scheme,
            gold_scheme=scheme,
        )
        for i, (gold, answer) in enumerate(pairs)
    ]
    with tempfile.TemporaryDirectory() as folder:
        return measure_run(write_run(Path(folder), lines))


def both(pairs: list[tuple[int, int]], scheme: str, found: JSON) -> list[tuple[Any, Any, JSON]]:
    """Gold and answers as scikit-learn takes them, and what was measured: the headline, and counting errors."""
    top = 1 if scheme == "binary" else 5
    truth = np.array([min(gold, top) for gold, _ in pairs])
    answer = np.array([min(answer, top) for _, answer in pairs])
    decided = answer >= 0
    wrong = 1 - truth if scheme == "binary" else np.full(len(truth), -1)
    return [
        (truth[decided], answer[decided], found),
        (truth, np.where(decided, answer, wrong), found["counting_errors"]),
    ]


def or_none(value: Any) -> float | None:
    return None if math.isnan(value) else float(value)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@on_the_edges
@given(pairs=PAIRS, scheme=SCHEMES)
def test_the_measures(pairs: list[tuple[int, int]], scheme: str) -> None:
    for truth, answer, measured in both(pairs, scheme, of(pairs, scheme)):
        if not len(truth):
            assert all(measured[name] is None for name in MEASURES)
            continue
        labels = sorted({*truth.tolist(), *answer.tolist()} - {-1})
        assert measured["accuracy"] == accuracy_score(truth, answer)
        for average in ("macro", "weighted"):
            expected = f1_score(truth, answer, labels=labels, average=average, zero_division=0)
            assert measured[f"{average}_f1"] == expected
        yes = truth > 0
        said_yes = np.where(answer >= 0, answer > 0, ~yes)
        for name, judge in (
            ("precision", precision_score),
            ("recall", recall_score),
            ("f1", f1_score),
        ):
            assert measured[name] == or_none(judge(yes, said_yes, zero_division=np.nan))
        several = len({*truth.tolist(), *answer.tolist()}) > 1
        varies = min(len(set(each.tolist())) for each in (truth, answer)) > 1
        kappa = cohen_kappa_score(truth, answer) if several else None
        correlation = matthews_corrcoef(truth, answer) if varies else None
        assert measured["cohen_kappa"] == pytest.approx(kappa, abs=1e-12)
        assert measured["mcc"] == pytest.approx(correlation, abs=1e-12)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@on_the_edges
@given(pairs=PAIRS, scheme=SCHEMES)
def test_each_label_and_both_sides(pairs: list[tuple[int, int]], scheme: str) -> None:
    found = of(pairs, scheme)
    truth, answer, _ = both(pairs, scheme, found)[0]
    names = ("precision", "recall", "f1")
    for label, measured in found["by_label"].items():
        if not len(truth):
            assert all(measured[name] is None for name in names)
            continue
        expected = precision_recall_fscore_support(
            truth, answer, labels=[int(label)], average=None, zero_division=np.nan
        )
        assert [measured[name] for name in names] == [or_none(values[0]) for values in expected[:3]]
    for truth, answer, measured in both(pairs, scheme, found["binary"]):
        if not len(truth):
            assert measured["overall"] == {"accuracy": None, **dict.fromkeys(names)}
            continue
        yes = (truth > 0).astype(int)
        said_yes = np.where(answer >= 0, answer > 0, 1 - yes)
        for side, label in (("positive", 1), ("negative", 0)):
            expected = precision_recall_fscore_support(
                yes, said_yes, labels=[label], average=None, zero_division=np.nan
            )
            assert [measured[side][name] for name in names] == [
                or_none(values[0]) for values in expected[:3]
            ]
        labels = sorted({*yes.tolist(), *said_yes.tolist()})
        expected = precision_recall_fscore_support(
            yes, said_yes, labels=labels, average="macro", zero_division=0
        )
        assert [measured["overall"][name] for name in names] == list(expected[:3])
        assert measured["overall"]["accuracy"] == accuracy_score(yes, said_yes)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(tables=st.lists(PAIRS, min_size=1, max_size=5), scheme=SCHEMES)
def test_many_tables_at_once_are_measured_as_each_alone(
    tables: list[list[tuple[int, int]]], scheme: str
) -> None:
    """The bootstrap measures resamples together, over labels that some of them lack."""
    top = 1 if scheme == "binary" else 5
    counted = np.zeros((len(tables), top + 1, top + 2), dtype=np.int64)
    for place, pairs in enumerate(tables):
        for gold, answer in pairs:
            counted[place, min(gold, top), min(answer, top) if answer >= 0 else top + 1] += 1
    together = measures_of_tables(counted, range(top + 1), of_two=scheme == "binary")
    for place, pairs in enumerate(tables):
        alone = of(pairs, scheme)["counting_errors"]
        assert {name: or_none(values[place]) for name, values in together.items()} == {
            name: alone[name] if alone[name] is None else pytest.approx(alone[name], abs=1e-12)
            for name in MEASURES
        }


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(PAIRS, SCHEMES, st.data())
def test_an_outage_cannot_flatter(
    pairs: list[tuple[int, int]], scheme: str, data: st.DataObject
) -> None:
    """Whatever verdicts an outage takes away, right or wrong ones, no measure that counts errors rises for it: none of
    two labels, and of several none that asks whether an answer is right, or yes or no. (A wrong answer that is taken
    away is one false alarm less for the label it fell on, so the F1 of several labels may rise.)"""
    struck = data.draw(st.sets(st.integers(0, len(pairs) - 1)))
    outcome = data.draw(st.sampled_from([-1, -2, -3]))
    after = [(gold, outcome if i in struck else answer) for i, (gold, answer) in enumerate(pairs)]
    before, then = of(pairs, scheme)["counting_errors"], of(after, scheme)["counting_errors"]
    for name in ("accuracy", "precision", "recall", "f1"):
        assert (then[name] or 0) <= (before[name] or 0)
    if scheme == "binary":
        assert then["macro_f1"] <= before["macro_f1"] + 1e-12
        assert then["weighted_f1"] <= before["weighted_f1"] + 1e-12
