"""Confidence against what was so, worked by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from tests.result_lines import line, write_run
from tribunal.eval.measures.calibration import (
    BINS,
    calibration_intervals,
    calibration_scores,
    reliability_bins,
    risk_coverage_curve,
)
from tribunal.eval.measures.metrics import measure_run


def test_ece_worked_by_hand() -> None:
    confidence = np.array([0.95, 0.95, 0.85, 0.6])
    right = np.array([True, False, True, True])
    # (0.9, 1]: 2 posts, half right, said 0.95. (0.8, 0.9]: said 0.85, right. (0.5, 0.6]: said 0.6, right.
    assert calibration_scores(confidence, right)["ece"] == pytest.approx(
        (2 * 0.45 + 1 * 0.15 + 1 * 0.4) / 4
    )
    assert [(each["from"], each["to"], each["n"]) for each in reliability_bins(confidence, right, np.arange(4))] == [
        (0.5, 0.6, 1), (0.8, 0.9, 1), (0.9, 1.0, 2),
    ]  # fmt: skip


def test_a_confidence_on_an_edge_lies_below_it() -> None:
    edges = np.arange(11) / 10
    bins = reliability_bins(edges, np.ones(11, dtype=bool), np.arange(11))
    assert all(each["interval"][0] < 1 == each["interval"][1] for each in bins)
    assert [each["n"] for each in bins] == [2] + [1] * 9  # 0 and 0.1 share the first
    assert [each["to"] for each in bins[1:]] == edges[2:].tolist()


def test_risk_coverage_worked_by_hand() -> None:
    confidence = np.array([0.9, 0.8, 0.8, 0.5])
    right = np.array([True, True, False, False])
    assert risk_coverage_curve(confidence, right) == [
        {"threshold": 0.9, "coverage": 0.25, "risk": 0.0},
        {"threshold": 0.8, "coverage": 0.75, "risk": pytest.approx(1 / 3)},
        {"threshold": 0.5, "coverage": 1.0, "risk": 0.5},
    ]
    # Of the tie at 0.8 half an error comes with the first: risks 0, 0.5/2, 1/3, 2/4.
    assert calibration_scores(confidence, right)["aurc"] == pytest.approx(
        (0 + 1 / 4 + 1 / 3 + 1 / 2) / 4
    )


def test_only_labelled_verdicts_with_a_confidence_count(tmp_path: Path) -> None:
    lines = [
        line("a", 1, 1, confidence=0.9),
        line("b", 1, 0, confidence=0.7),
        line("c", 1, 1),
        line("d", None, 1, confidence=0.2),
        line("e", 1, "failure", confidence=0.1),
    ]
    found = measure_run(write_run(tmp_path / "run", lines))["calibration"]
    assert (found["n"], found["bins"]) == (2, BINS)
    assert found["ece"] == pytest.approx((0.1 + 0.7) / 2)
    none = measure_run(write_run(tmp_path / "none", [line("a", 1, 1)]))["calibration"]
    spans = dict.fromkeys(("ece", "aurc", "brier", "auroc", "auroc_hate"))
    measures = dict.fromkeys(("ece", "ece_debiased", "aurc", "brier", "auroc", "auroc_hate"))
    nothing = {"coverage": None, "threshold": None, "interval": None}
    assert none == {
        "n": 0, "bins": BINS, **measures, "intervals": spans, "reliability": [], "risk_coverage": [],
        "coverage_at_risk": [{"risk": risk, **nothing} for risk in (0.01, 0.05, 0.1)],
        "notes": ["no verdict on a labelled post states a confidence, so calibration can't be measured"],
    }  # fmt: skip


def test_each_language_and_functionality_has_its_calibration_and_cost(tmp_path: Path) -> None:
    # In English one of twenty sure verdicts is wrong, and all of the others; in Korean nothing is wrong.
    kinds = (
        [("en", 0.9, at > 0) for at in range(20)]
        + [("en", 0.6, False)] * 20
        + [("ko", 0.8, True)] * 10
    )
    lines = [
        line(
            f"p{at}", 1, int(right), confidence=confidence, language=language, language_from="given",
            fields={"functionality": language.upper()}, seconds=float(at % 5), usage={"calls": 2 + at % 2},
        )
        for at, (language, confidence, right) in enumerate(kinds)
    ]  # fmt: skip
    found = measure_run(
        write_run(tmp_path / "run", [*lines, line("q", 1, 1, language="de", language_from="given")])
    )
    english, korean, german = (found["by_language"][name] for name in ("en", "ko", "de"))
    assert found["by_functionality"]["EN"]["calibration"] == english["calibration"]
    assert [each["coverage"] for each in english["calibration"]["coverage_at_risk"]] == [
        0.0,
        0.5,
        0.5,
    ]
    assert [each["threshold"] for each in english["calibration"]["coverage_at_risk"]] == [
        None,
        0.9,
        0.9,
    ]
    low, high = english["calibration"]["coverage_at_risk"][2]["interval"]
    assert 0 <= low <= 0.5 < high < 0.8
    assert english["calibration"]["brier"] == pytest.approx((19 * 0.01 + 0.81 + 20 * 0.36) / 40)
    assert english["cost"]["calls"]["mean"] == 2.5
    assert english["cost"]["calls"]["interval"] == pytest.approx([2.33, 2.66], abs=0.05)
    assert korean["calibration"]["auroc"] is None
    assert "every verdict that states a confidence is right" in korean["calibration"]["notes"][0]
    assert german["calibration"]["n"] == 0
    assert "no verdict on a labelled post states a confidence" in german["calibration"]["notes"][0]
    assert "NaN" not in json.dumps(found)


def test_brier_and_auroc_are_scikit_learns(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    posts = [
        (int(random.integers(0, 2)), int(random.integers(0, 2)), round(random.random(), 1))
        for _ in range(300)
    ]
    lines = [line(f"p{at}", *post[:2], confidence=post[2]) for at, post in enumerate(posts)]
    found = measure_run(write_run(tmp_path / "run", lines))["calibration"]
    gold, answer, confidence = (np.array(each) for each in zip(*posts, strict=True))
    right = gold == answer
    assert found["brier"] == pytest.approx(brier_score_loss(right, confidence))
    assert found["auroc"] == pytest.approx(roc_auc_score(right, confidence))
    assert found["auroc_hate"] == pytest.approx(
        roc_auc_score(gold, np.where(answer == 1, confidence, 1 - confidence))
    )
    drawn = []
    for _ in range(150):
        rows = random.integers(0, 300, 300)
        drawn.append(
            (
                brier_score_loss(right[rows], confidence[rows]),
                roc_auc_score(right[rows], confidence[rows]),
            )
        )
    for at, name in enumerate(("brier", "auroc")):
        expected = np.quantile([each[at] for each in drawn], [0.025, 0.975])
        assert found["intervals"][name] == pytest.approx(expected, abs=0.02)


def test_chance_adds_to_the_error_of_few_posts_and_is_taken_off() -> None:
    # Confidence that is right: the true error is 0, and of 50 posts the plain estimate is far from it.
    random = np.random.default_rng(4)
    plain, debiased, covered = [], [], 0
    for _ in range(50):
        confidence = random.choice([0.55, 0.65, 0.75, 0.85, 0.95], 50)
        right = random.random(50) < confidence
        plain.append(calibration_scores(confidence, right)["ece"] or 0.0)
        debiased.append(calibration_scores(confidence, right)["ece_debiased"] or 0.0)
        covered += (calibration_intervals(confidence, right, np.arange(50))["ece"] or [1.0])[
            0
        ] <= 0.01
    assert np.mean(plain) > 0.08
    assert np.mean(debiased) < 0.7 * np.mean(plain)
    assert covered >= 45
    # Of many posts both are the error that there is.
    confidence = np.full(100_000, 0.9)
    right = random.random(100_000) < 0.7
    assert calibration_scores(confidence, right)["ece_debiased"] == pytest.approx(
        calibration_scores(confidence, right)["ece"], abs=1e-6
    )
    assert calibration_scores(confidence, right)["ece"] == pytest.approx(0.2, abs=0.01)


@pytest.mark.long
def test_a_long_curve_is_thinned_and_keeps_its_ends(tmp_path: Path) -> None:
    lines = [line(f"p{i}", 1, int(i % 7 > 0), confidence=(i + 1) / 1000) for i in range(1000)]
    curve = measure_run(write_run(tmp_path / "run", lines))["calibration"]["risk_coverage"]
    assert len(curve) == 200
    assert (curve[0]["threshold"], curve[-1]["coverage"]) == (1.0, 1.0)
