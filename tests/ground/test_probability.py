"""One probability of hate: on the verdict's side of 0.5, growing with what speaks for hate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tribunal.nodes.threshold import ByVerdict, Threshold, estimate_probability

ABOUT: dict[str, Any] = {
    "threshold": 0.5, "agreement": 0.9, "level": 0.9, "coverage": 1.0, "n_fit": 100, "graph": "arcade",
    "scheme": "binary", "models": {}, "policy": None, "fitted_from": "a-run", "at": "2026-11-26T00:00:00+00:00",
}  # fmt: skip
FITTED = Threshold(
    **ABOUT,
    hate_by_confidence=((-0.9, 0.02), (-0.3, 0.6), (0.3, 0.61), (0.9, 0.93)),
    hate_without_confidence=ByVerdict(harmless=0.04),
)
EARLIER = Threshold(**ABOUT, calibration=((0.2, 0.4), (0.9, 0.7)))
FILES = pytest.mark.parametrize(
    "fitted", [None, FITTED, EARLIER], ids=["no file", "a file", "an earlier file"]
)
CONFIDENCE = st.one_of(st.none(), st.floats(0, 1))


@FILES
@given(hateful=st.booleans(), confidence=CONFIDENCE)
def test_it_lies_on_the_side_of_the_verdict(
    fitted: Threshold | None, hateful: bool, confidence: float | None
) -> None:
    probability, _ = estimate_probability(hateful, confidence, fitted)
    assert 0 <= probability <= 1
    assert (probability >= 0.5) == hateful


@FILES
def test_it_grows_with_what_speaks_for_hate(fitted: Threshold | None) -> None:
    sure = np.linspace(0, 1, 101)
    rising = [estimate_probability(False, each, fitted)[0] for each in reversed(sure)]
    rising += [estimate_probability(True, each, fitted)[0] for each in sure]
    assert rising == sorted(rising)


@pytest.mark.parametrize(
    ("hateful", "confidence", "fitted", "wanted"),
    [
        (False, 0.3, None, (0.35, "confidence")),
        (True, 0.3, None, (0.65, "confidence")),
        (True, 0.9, None, (0.95, "confidence")),
        (False, 0.0, None, (0.499999, "confidence")),
        (False, None, None, (0.0, "verdict")),
        (True, None, None, (1.0, "verdict")),
        (False, 0.9, FITTED, (0.02, "calibrated")),
        (False, 0.3, FITTED, (0.499999, "calibrated")),
        (True, 0.9, FITTED, (0.93, "calibrated")),
        (False, None, FITTED, (0.04, "calibrated")),
        (True, None, FITTED, (1.0, "verdict")),
        (True, 0.9, EARLIER, (0.7, "calibrated")),
        (False, 0.9, EARLIER, (0.3, "calibrated")),
    ],
)
def test_what_it_is(
    hateful: bool, confidence: float | None, fitted: Threshold | None, wanted: tuple[float, str]
) -> None:
    probability, source = estimate_probability(hateful, confidence, fitted)
    assert (round(probability, 9), source) == wanted


@pytest.mark.parametrize(
    "points", [((-1.1, 0.2),), ((0.2, 0.4), (0.1, 0.5)), ((0.1, 0.5), (0.2, 0.4)), ((0.1, 1.2),)]
)
def test_a_file_with_other_points_is_refused(points: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(ValidationError, match="hate_by_confidence"):
        Threshold(**ABOUT, hate_by_confidence=points)
