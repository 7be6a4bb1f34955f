"""Confidence against what was so, worked by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.result_lines import line, write_run
from tribunal.eval.measures.calibration import BINS, aurc, ece, reliability, risk_coverage
from tribunal.eval.measures.metrics import metrics


def test_ece_worked_by_hand() -> None:
    confidence = np.array([0.95, 0.95, 0.85, 0.6])
    right = np.array([True, False, True, True])
    # (0.9, 1]: 2 posts, half right, said 0.95. (0.8, 0.9]: said 0.85, right. (0.5, 0.6]: said 0.6, right.
    assert ece(confidence, right) == pytest.approx((2 * 0.45 + 1 * 0.15 + 1 * 0.4) / 4)
    assert [(each["from"], each["to"], each["n"]) for each in reliability(confidence, right)] == [
        (0.5, 0.6, 1), (0.8, 0.9, 1), (0.9, 1.0, 2),
    ]  # fmt: skip


def test_a_confidence_on_an_edge_lies_below_it() -> None:
    edges = np.arange(11) / 10
    bins = reliability(edges, np.ones(11, dtype=bool))
    assert [each["n"] for each in bins] == [2] + [1] * 9  # 0 and 0.1 share the first
    assert [each["to"] for each in bins[1:]] == edges[2:].tolist()


def test_risk_coverage_worked_by_hand() -> None:
    confidence = np.array([0.9, 0.8, 0.8, 0.5])
    right = np.array([True, True, False, False])
    assert risk_coverage(confidence, right) == [
        {"threshold": 0.9, "coverage": 0.25, "risk": 0.0},
        {"threshold": 0.8, "coverage": 0.75, "risk": pytest.approx(1 / 3)},
        {"threshold": 0.5, "coverage": 1.0, "risk": 0.5},
    ]
    # Of the tie at 0.8 half an error comes with the first: risks 0, 0.5/2, 1/3, 2/4.
    assert aurc(confidence, right) == pytest.approx((0 + 1 / 4 + 1 / 3 + 1 / 2) / 4)


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.9]), st.booleans()), min_size=1, max_size=8))
def test_ties_count_as_their_mean_over_all_orders(pairs: list[tuple[float, bool]]) -> None:
    random = np.random.default_rng(0)
    confidence = np.array([each for each, _ in pairs])
    right = np.array([each for _, each in pairs])
    areas = []
    for _ in range(400):
        order = np.lexsort((random.random(len(pairs)), -confidence))
        areas.append(float(((~right[order]).cumsum() / np.arange(1, len(pairs) + 1)).mean()))
    assert aurc(confidence, right) == pytest.approx(np.mean(areas), abs=0.06)


def test_only_labelled_verdicts_with_a_confidence_count(tmp_path: Path) -> None:
    lines = [
        line("a", 1, 1, confidence=0.9),
        line("b", 1, 0, confidence=0.7),
        line("c", 1, 1),
        line("d", None, 1, confidence=0.2),
        line("e", 1, "failure", confidence=0.1),
    ]
    found = metrics(write_run(tmp_path / "run", lines))["calibration"]
    assert (found["n"], found["bins"]) == (2, BINS)
    assert found["ece"] == pytest.approx((0.1 + 0.7) / 2)
    none = metrics(write_run(tmp_path / "none", [line("a", 1, 1)]))["calibration"]
    assert none == {"n": 0, "bins": BINS, "ece": None, "aurc": None, "reliability": [], "risk_coverage": []}


def test_a_long_curve_is_thinned_and_keeps_its_ends(tmp_path: Path) -> None:
    lines = [line(f"p{i}", 1, int(i % 7 > 0), confidence=(i + 1) / 1000) for i in range(1000)]
    curve = metrics(write_run(tmp_path / "run", lines))["calibration"]["risk_coverage"]
    assert len(curve) == 200
    assert (curve[0]["threshold"], curve[-1]["coverage"]) == (1.0, 1.0)
