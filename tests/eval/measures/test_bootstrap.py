"""Bootstrap intervals: those of drawing posts one by one, each with all its repeats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from tests.result_lines import answers, line, measure


def test_intervals_are_those_of_drawing_posts_one_by_one(tmp_path: Path) -> None:
    gold, given_ = "0" * 60 + "1" * 40, "0" * 50 + "1" * 8 + "RF" + "1" * 25 + "0" * 10 + "RRRFF"
    found = measure(tmp_path / "run", answers(gold, given_, scheme="binary", gold_scheme="binary"))
    truth = np.array([int(each) for each in gold])
    answer = np.array([-1 if each in "RF" else int(each) for each in given_])
    random = np.random.default_rng(7)
    drawn: dict[str, list[float]] = {"accuracy": [], "f1": [], "counted": []}
    for _ in range(2000):
        rows = random.integers(0, 100, 100)
        t, a = truth[rows], answer[rows]
        kept = a >= 0
        drawn["accuracy"].append(float((t == a)[kept].mean()))
        drawn["f1"].append(float(f1_score(t[kept], a[kept])))
        drawn["counted"].append(float((t == a).mean()))
    for values, interval in (
        (drawn["accuracy"], found["intervals"]["accuracy"]),
        (drawn["f1"], found["intervals"]["f1"]),
        (drawn["counted"], found["counting_errors"]["intervals"]["accuracy"]),
    ):
        assert interval == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=0.015)
    assert found["bootstrap"] == {"resamples": 2000, "level": 0.95, "seed": 0}


def test_repeats_of_a_post_are_drawn_together(tmp_path: Path) -> None:
    once = measure(tmp_path / "once", answers("01" * 25, "01" * 20 + "10" * 5))
    lines = [
        line(each["post_id"], each["gold"]["label"], each["label"], repeat=repeat)
        for repeat in range(4)
        for each in answers("01" * 25, "01" * 20 + "10" * 5)
    ]
    four = measure(tmp_path / "four", lines)
    assert four["accuracy"] == once["accuracy"] == 0.8
    # Four equal repeats tell nothing new: were they drawn apart, the interval would be half as wide.
    assert four["intervals"]["accuracy"] == pytest.approx(once["intervals"]["accuracy"], abs=0.03)


def test_the_order_of_finishing_changes_nothing(tmp_path: Path) -> None:
    lines = answers("0011223", "01R12F3")
    there, back = measure(tmp_path / "there", lines), measure(tmp_path / "back", lines[::-1])
    assert there == back
