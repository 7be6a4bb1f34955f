"""How many posts a difference needs: against published figures, and against runs that are simulated."""

from __future__ import annotations

import json
from math import asin, sin, sqrt
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from tests.result_lines import line, write_run
from tribunal.commands import app
from tribunal.eval.measures.power import (
    ClusterDesign,
    PowerRequest,
    intraclass_correlation,
    posts_for_paired_runs,
    posts_for_separate_runs,
)
from tribunal.eval.measures.rates import exchange_test


def plan(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


def test_posts_are_those_of_published_tables() -> None:
    # Chow, Shao and Wang, "Sample Size Calculations in Clinical Research" (2003), example 6.4.3: 0.5 against 0.2.
    assert np.ceil(posts_for_paired_runs(PowerRequest(0.3), discordant=0.7)) == 59
    # Connor (1987), as powerandsamplesize.com computes it: 0.45 against 0.05, a power of 0.8.
    assert np.ceil(posts_for_paired_runs(PowerRequest(0.4), discordant=0.5)) == 23
    # Cohen, "Statistical Power Analysis" (1988), table 6.4.1: an h of 0.20 and of 0.50, a power of 0.8.
    for effect, posts in ((0.2, 392), (0.5, 63)):
        higher = sin(asin(sqrt(0.5)) + effect / 2) ** 2
        assert round(posts_for_separate_runs(PowerRequest(higher - 0.5), accuracy=0.5)) == posts
    assert posts_for_separate_runs(PowerRequest(0.9, power=0.3), accuracy=0.05) == pytest.approx(0.83, abs=0.01)


@pytest.mark.long
@pytest.mark.parametrize(("correlation", "size"), [(0.0, 1), (0.4, 5)])
def test_so_many_simulated_posts_find_the_difference_as_often_as_was_asked(correlation: float, size: int) -> None:
    random, request, discordant = np.random.default_rng(5), PowerRequest(0.05), 0.2
    posts = posts_for_paired_runs(request, discordant) * ClusterDesign(correlation, size).design_effect
    clusters = round(posts / size)
    shares = [(discordant - 0.05) / 2, 1 - discordant, (discordant + 0.05) / 2]
    found, seen = 0, []
    for _ in range(600):
        own = random.choice([-1, 0, 1], p=shares, size=(clusters, size))
        common = random.choice([-1, 0, 1], p=shares, size=(clusters, 1))
        differences = np.where(random.random((clusters, size)) < sqrt(correlation), common, own)
        found += exchange_test(differences.sum(axis=1))[0] < 0.05
        seen.append(intraclass_correlation(differences.ravel().astype(float), np.repeat(np.arange(clusters), size)))
    assert found / 600 == pytest.approx(0.8, abs=0.05)
    if size > 1:
        assert np.mean([each for each in seen if each is not None]) == pytest.approx(correlation, abs=0.02)


def test_figures_are_taken_from_runs_and_every_assumption_is_said(tmp_path: Path) -> None:
    def write(name: str, wrong: set[int]) -> Path:
        lines = [line(f"p{at}", at % 2, (at % 2) ^ (at in wrong), fields={"thread": str(at // 4)}) for at in range(200)]
        return write_run(tmp_path / name, lines)

    # Ten threads of four are right in one run alone, and five threads in the other: they move together.
    one, other = write("one", set(range(40))), write("other", set(range(40, 60)))
    said = plan("--detect", "2", "--run", one, "--run", other, "--cluster", "thread")
    assert said.exit_code == 0, said.output
    assert "2 percentage points of accuracy with a chance of 0.8" in said.stdout
    assert "one run alone is right on 30.0% of posts: as in these runs, over 200 posts" in said.stdout
    assert "design effect of 4.00, for clusters of 4.0 posts with a correlation of 1.00: by thread" in said.stdout
    held = json.loads(plan("--detect", "2", "--run", one, "--run", other, "--cluster", "thread", "--json").stdout)
    assert held["posts"] == np.ceil(4 * posts_for_paired_runs(PowerRequest(0.02), 0.3))
    alone = json.loads(plan("--detect", "2", "--run", one, "--cluster", "post", "--unpaired", "--json").stdout)
    assert (alone["accuracy"], alone["design_effect"]) == (0.8, 1)
    macro = plan("--detect", "2", "--run", one, "--run", other, "--cluster", "thread", "--measure", "macro_f1")
    assert "by resampling these runs' 50 clusters by thread" in macro.stdout
    by_macro = int(macro.stdout.partition(" posts")[0].replace(",", ""))
    assert by_macro == pytest.approx(held["posts"], rel=0.2), "of two labels alike, both measures need about as many"
    # Each run alone: of posts that the other lacks, too, the variances add up.
    elsewhere = write_run(tmp_path / "elsewhere", [line(f"q{at}", at % 2, (at + (at < 40)) % 2) for at in range(200)],
                          dataset="fhm")  # fmt: skip
    spreads = [
        json.loads(plan("--detect", "2", "--measure", "macro_f1", "--unpaired", "--cluster", "post", "--json",
                        *(part for run in runs for part in ("--run", run))).stdout)["standard_error"]
        for runs in ([one], [elsewhere], [one, elsewhere])
    ]  # fmt: skip
    assert spreads[2] ** 2 == pytest.approx((spreads[0] ** 2 + spreads[1] ** 2) / 2)
    # Half of the repeats of each post differ: a square of 1/4 each, of one run's favour or the other's.
    halves = [
        write_run(tmp_path / name, [
            line(f"p{at}", 0, int(repeat == 1 and at % 2 == odd), repeat=repeat)
            for at in range(40) for repeat in (0, 1)
        ])
        for odd, name in enumerate(("even", "odd"))
    ]  # fmt: skip
    repeated = json.loads(plan("--detect", "2", "--run", halves[0], "--run", halves[1], "--json").stdout)
    assert repeated["discordant"] == 0.25
    assert "differ by a mean square of 0.25 a post: as in these runs, over 40 posts" in repeated["assumptions"][1]
    least = plan("--detect", "90", "--accuracy", "0.05", "--unpaired", "--power", "0.3", "--json")
    assert json.loads(least.stdout)["posts"] == 1
    same_ids = write_run(tmp_path / "same_ids", [line(f"p{at}", at % 2, 0) for at in range(200)], dataset="fhm")
    undecided = write_run(tmp_path / "undecided", [line("q", 1, "refusal")])
    for arguments, names in (
        (("--detect", "2", "--measure", "macro_f1", "--run", one, "--run", same_ids),
         "run: the two runs have no decided post in common"),
        (("--detect", "2", "--unpaired", "--run", one, "--run", undecided), "no labelled post has a verdict"),
        (("--detect", "2", "--run", one, "--run", one), "run: these runs are right and wrong on the same posts"),
        (("--detect", "0"), "detect: 0: give a number above 0 and below 100"),
        (("--detect", "40", "--unpaired"), "detect: 40: an accuracy of 80.0% can't rise by so much; give less"),
        (("--detect", "20", "--discordant", "0.1"), "discordant: 0.1: is less than the difference of 0.2"),
        (("--detect", "2", "--correlation", "0.3"), "correlation: 0.3: give --cluster-size, too"),
        (("--detect", "2", "--cluster", "thread"), "cluster: thread: is a field of a run's posts; give --run"),
        (("--detect", "2", "--measure", "macro_f1"), "measure: macro_f1: its spread is taken from runs; give two"),
        (("--detect", "2", "--run", one, "--run", write_run(tmp_path / "fhm", [line("q", 1, 1)], dataset="fhm")),
         "run: the two runs have no decided post in common; give two runs over one data set"),
    ):  # fmt: skip
        refused = plan(*arguments)
        assert refused.exit_code == 2
        assert names in refused.stderr
