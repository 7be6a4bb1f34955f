"""Fleiss' kappa against a case worked by hand, and over results as runs write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as by_statsmodels
from statsmodels.stats.proportion import proportion_confint

from tests.result_lines import line, measure
from tribunal.eval.measures.agreement import measure_agreement
from tribunal.schema import JSON


def agreement(ratings: Sequence[Sequence[Any]]) -> JSON:
    """The agreement of these raters: for each subject the label that each gave, None where one gave none."""
    labels = sorted({label for row in ratings for label in row if label is not None}, key=str)
    counts = np.array(
        [[list(row).count(label) for label in labels] for row in ratings], dtype=np.int64
    )
    counts = counts.reshape(len(ratings), len(labels))
    complete = np.array([None not in row for row in ratings], dtype=bool)
    return measure_agreement(counts, complete, np.arange(len(ratings)))


def fleiss_kappa(ratings: Sequence[Sequence[Any]]) -> float | None:
    kappa: float | None = agreement(ratings)["kappa"]
    return kappa


def krippendorff_alpha(ratings: Sequence[Sequence[Any]]) -> float | None:
    alpha: float | None = agreement(ratings)["alpha"]
    return alpha


def test_kappa_is_statsmodels() -> None:
    ratings = np.random.default_rng(0).integers(0, 4, (50, 5))
    expected = by_statsmodels(aggregate_raters(ratings)[0], method="fleiss")
    assert fleiss_kappa(ratings.tolist()) == pytest.approx(expected)


# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011): four observers of twelve units, some left out, and
# two observers, who left none out.
FOUR = (
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)
TWO = ("a a b b d c c c e d d a", "b a b b b c c c e d d d")


@pytest.mark.parametrize(("observers", "alpha"), [(FOUR, 0.743), (TWO, 0.692)])
def test_alpha_of_the_published_examples(observers: tuple[str, ...], alpha: float) -> None:
    units = [
        [None if each == "." else each for each in unit]
        for unit in zip(*map(str.split, observers), strict=True)
    ]
    assert krippendorff_alpha(units) == pytest.approx(alpha, abs=0.0005)


def test_alpha_where_it_is_none() -> None:
    assert krippendorff_alpha([]) is None
    assert krippendorff_alpha([["a", None], [None, "b"]]) is None
    assert krippendorff_alpha([["a", "a"], ["a", "a"]]) is None  # nothing could have differed
    assert krippendorff_alpha([["a", "a"], ["b", "b"]]) == pytest.approx(1.0)


def test_repeats_that_some_posts_lack_are_in_alpha_and_not_in_kappa(tmp_path: Path) -> None:
    outcome: dict[str, tuple[int | str, ...]] = {
        "a": (1, 1, 0),
        "b": (0, 0, "refusal"),
        "c": (1, "failure", 0),
        "d": (0, 0, 0),
        "e": ("refusal", 1, 1),
    }
    lines = [
        line(post, 1, each, repeat=at)
        for post, given in outcome.items()
        for at, each in enumerate(given)
    ]
    found = measure(tmp_path / "run", lines)["over_repeats"]
    units = [
        [each if isinstance(each, int) else None for each in given] for given in outcome.values()
    ]
    assert found["alpha"] == pytest.approx(krippendorff_alpha(units))
    assert found["ratings"] == 12
    assert found["kappa"] == pytest.approx(fleiss_kappa([[1, 1, 0], [0, 0, 0]]))
    low, high = found["intervals"]["alpha"]
    assert low < found["alpha"] < high
    assert found["intervals"]["flip_rate"] == pytest.approx(
        proportion_confint(1, 2, method="wilson")
    )


@pytest.mark.parametrize("ratings", [[], [[]], [[1]]])
def test_what_has_no_kappa(ratings: list[list[int]]) -> None:
    assert fleiss_kappa(ratings) is None
