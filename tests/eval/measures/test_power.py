"""How many posts a difference needs: against published figures, and against runs that are simulated."""

from __future__ import annotations

import json
from math import asin, sin, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from tests.result_lines import line, write_run
from tribunal.commands import app
from tribunal.eval.measures.power import (
    PowerRequest,
    design_effect,
    plan_posts,
)
from tribunal.eval.measures.rates import exchange_test


def plan(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["experiment", "plan", *map(str, arguments)])


def test_posts_are_those_of_published_tables() -> None:
    def posts(difference: float, **given: Any) -> float:
        found: float = plan_posts(PowerRequest(difference, **given))["posts"]
        return found

    # Chow, Shao and Wang, "Sample Size Calculations in Clinical Research" (2003), example 6.4.3: 0.5 against 0.2.
    assert posts(0.3, discordant=0.7) == 59
    # Connor (1987), as powerandsamplesize.com computes it: 0.45 against 0.05, a power of 0.8.
    assert posts(0.4, discordant=0.5) == 23
    # Cohen, "Statistical Power Analysis" (1988), table 6.4.1, by arcsines: an h of 0.20 and of 0.50, a power of 0.8.
    for effect, expected in ((0.2, 392), (0.5, 63)):
        higher = sin(asin(sqrt(0.5)) + effect / 2) ** 2
        assert posts(higher - 0.5, accuracy=0.5, paired=False) == pytest.approx(expected, abs=1)
    requests: tuple[dict[str, Any], ...] = ({"discordant": 0.2}, {"accuracy": 0.8, "paired": False})
    for given in requests:
        needed = posts(0.05, power=0.9, **given)
        chances = plan_posts(PowerRequest(0.05, posts=[round(needed)], **given))["chances"]
        assert chances[0]["power"] == pytest.approx(0.9, abs=0.001)


@pytest.mark.long
@pytest.mark.parametrize(("correlation", "size"), [(0.0, 1), (0.4, 5)])
def test_so_many_simulated_posts_find_the_difference_as_often_as_was_asked(
    correlation: float, size: int
) -> None:
    random, request, discordant = np.random.default_rng(5), PowerRequest(0.05, discordant=0.2), 0.2
    posts = plan_posts(request)["independent_posts"] * (1 + (size - 1) * correlation)
    clusters = round(posts / size)
    shares = [(discordant - 0.05) / 2, 1 - discordant, (discordant + 0.05) / 2]
    found, seen = 0, []
    for _ in range(600):
        own = random.choice([-1, 0, 1], p=shares, size=(clusters, size))
        common = random.choice([-1, 0, 1], p=shares, size=(clusters, 1))
        differences = np.where(random.random((clusters, size)) < sqrt(correlation), common, own)
        found += exchange_test(differences.sum(axis=1))[0] < 0.05
        seen.append(
            design_effect(differences.ravel().astype(float), np.repeat(np.arange(clusters), size))
        )
    assert found / 600 == pytest.approx(0.8, abs=0.05)
    if size > 1:
        assert np.mean(seen) == pytest.approx(1 + (size - 1) * correlation, rel=0.05)


def test_figures_are_taken_from_runs_and_every_assumption_is_said(tmp_path: Path) -> None:
    def write(name: str, wrong: set[int]) -> Path:
        lines = [
            line(f"p{at}", at % 2, (at % 2) ^ (at in wrong), fields={"thread": str(at // 4)})
            for at in range(200)
        ]
        return write_run(tmp_path / name, lines)

    # Ten threads of four are right in one run alone, and five threads in the other: they move together.
    one, other = write("one", set(range(40))), write("other", set(range(40, 60)))
    said = plan("--detect", "2", "--run", one, "--run", other, "--cluster", "thread")
    assert said.exit_code == 0, said.output
    assert "2 percentage points of accuracy with a chance of 0.8" in said.stdout
    assert "only one of them is right on 30.0%: as in these runs" in said.stdout
    held = json.loads(plan("--detect", "2", "--run", one, "--run", other, "--cluster", "thread", "--posts", "200",
                           "--posts", "9999999", "--json").stdout)["detect"]  # fmt: skip
    assert held["design_effect"] == pytest.approx(4, abs=0.01)
    assert held["posts"] == pytest.approx(
        4 * plan_posts(PowerRequest(0.02, discordant=0.3))["independent_posts"], rel=0.01
    )
    assert [(each["posts"], each["power"] > 0.8) for each in held["chances"]] == [
        (200, False),
        (9999999, True),
    ]
    alone = json.loads(
        plan("--detect", "2", "--run", one, "--cluster", "post", "--unpaired", "--json").stdout
    )["detect"]
    assert (alone["accuracy"], alone["design_effect"]) == (0.8, 1)
    stated = json.loads(
        plan("--detect", "2", "--discordant", "0.3", "--design-effect", "4", "--json").stdout
    )["detect"]
    assert stated["posts"] == np.ceil(
        4 * plan_posts(PowerRequest(0.02, discordant=0.3))["independent_posts"]
    )
    # Half of the repeats of each post differ: a square of 1/4 each, of one run's favour or the other's.
    halves = [
        write_run(tmp_path / name, [
            line(f"p{at}", 0, int(repeat == 1 and at % 2 == odd), repeat=repeat)
            for at in range(40) for repeat in (0, 1)
        ])
        for odd, name in enumerate(("even", "odd"))
    ]  # fmt: skip
    repeated = json.loads(
        plan("--detect", "2", "--run", halves[0], "--run", halves[1], "--json").stdout
    )["detect"]
    assert repeated["discordant"] == 0.25
    same_ids = write_run(
        tmp_path / "same_ids", [line(f"p{at}", at % 2, 0) for at in range(200)], dataset="fhm"
    )
    undecided = write_run(tmp_path / "undecided", [line("q", 1, "refusal")])
    for arguments, names in (
        (("--detect", "2", "--run", one, "--run", same_ids), "run: the two runs share no decided post"),
        ((), "NAME: give an experiment"),
        (("--detect", "2", "--unpaired", "--discordant", "0.1"), "discordant: 0.1: is of runs over the same posts"),
        (("--detect", "2", "--power", "0.05"), "power: 0.05: give a number above 0.05"),
        (("--detect", "2", "--unpaired", "--run", one, "--run", undecided), "no labelled post has a verdict"),
        (("--detect", "2", "--run", one, "--run", one), "run: both runs are right on the same posts"),
        (("--detect", "0"), "detect: 0: give a number above 0 and below 100"),
        (("--detect", "40", "--unpaired"), "detect: 40: an accuracy of 80.0% can't rise by so much; give less"),
        (("--detect", "20", "--discordant", "0.1"), "discordant: 0.1: is less than the difference of 0.2"),
        (("--detect", "2", "--cluster", "thread"), "cluster: thread: is a field of a run's posts; give --run"),
    ):  # fmt: skip
        refused = plan(*arguments)
        assert refused.exit_code == 2
        assert names in refused.stderr
