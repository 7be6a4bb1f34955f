"""Two runs over the same posts: McNemar's test against statsmodels, the rest against drawing and exchanging by hand."""

from __future__ import annotations

from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score
from statsmodels.stats.contingency_tables import mcnemar as by_statsmodels
from statsmodels.stats.multitest import multipletests

from tests.result_lines import answers, line, write_run
from tribunal.eval.measures.columns import RunColumns, read_columns
from tribunal.eval.measures.comparison import compare_all_pairs, compare_runs
from tribunal.eval.measures.rates import difference_interval, exchange_test


def run(folder: Path, gold: str, given: str, **other: Any) -> RunColumns:
    return read_columns(write_run(folder, answers(gold, given, **other)))


def test_few_discordant_posts_are_tested_exactly(tmp_path: Path) -> None:
    # Right in both 2, only in the first 6, only in the second 1, in neither 1.
    found = compare_runs(
        run(tmp_path / "a", "0" * 10, "0000000011"), run(tmp_path / "b", "0" * 10, "0011111101")
    )
    assert found is not None
    assert [
        found[name]
        for name in ("both_right", "only_first_right", "only_second_right", "both_wrong")
    ] == [
        2,
        6,
        1,
        1,
    ]
    assert (found["n"], found["exact"]) == (10, True)
    # The exact p less the chance of what was seen: mid-p.
    assert found["p"] == pytest.approx(
        by_statsmodels([[2, 6], [1, 1]], exact=True).pvalue - comb(7, 1) / 2**7
    )


def test_many_discordant_posts_are_nearly_chi_squared(tmp_path: Path) -> None:
    # 30 only in the first, 12 only in the second, 8 in both.
    first, second = "0" * 30 + "1" * 12 + "0" * 8, "1" * 30 + "0" * 12 + "0" * 8
    found = compare_runs(
        run(tmp_path / "a", "0" * 50, first), run(tmp_path / "b", "0" * 50, second)
    )
    assert found is not None
    table = [[8, 30], [12, 0]]
    middle = by_statsmodels(table, exact=True).pvalue - comb(42, 12) / 2**42
    assert found["p"] == pytest.approx(middle)
    assert found["p"] == pytest.approx(
        by_statsmodels(table, exact=False, correction=False).pvalue, abs=0.001
    )
    # So many that exchanges aren't counted any more.
    p, exact = exchange_test(np.repeat([1, -1], [8200, 8000]))
    assert not exact
    assert p == pytest.approx(
        by_statsmodels([[0, 8200], [8000, 0]], exact=False, correction=False).pvalue
    )
    assert exchange_test(np.repeat([1, -1], [4600, 4500]))[0] == pytest.approx(
        by_statsmodels([[0, 4600], [4500, 0]], exact=False, correction=False).pvalue, abs=0.001
    )


def test_only_posts_that_both_decided_count_and_beside_them_all(tmp_path: Path) -> None:
    found = compare_runs(
        run(tmp_path / "a", "00000", "00RF1"), run(tmp_path / "b", "00000", "0100P")
    )
    assert found is not None
    assert (found["n"], found["both_right"], found["only_first_right"]) == (2, 1, 1)
    errors = found["counting_errors"]
    assert (errors["n"], errors["only_second_right"], errors["both_wrong"]) == (5, 2, 1)


def test_equal_runs_and_empty_ones(tmp_path: Path) -> None:
    found = compare_runs(run(tmp_path / "a", "010", "010"), run(tmp_path / "b", "010", "010"))
    assert found is not None
    assert found["p"] == 1.0
    found = compare_runs(run(tmp_path / "c", "010", "RRR"), run(tmp_path / "d", "010", "010"))
    assert found is not None
    assert (found["n"], found["p"]) == (0, None)


def test_runs_over_other_data_are_not_compared(tmp_path: Path) -> None:
    first = run(tmp_path / "a", "010", "010")
    # another gold for one of the posts
    assert compare_runs(first, run(tmp_path / "b", "011", "010")) is None
    other_set = write_run(tmp_path / "c", answers("010", "010"), dataset="fhm")
    assert compare_runs(first, read_columns(other_set)) is None
    elsewhere = write_run(tmp_path / "d", [line("q", 0, 0)])
    assert compare_runs(first, read_columns(elsewhere)) is None


def test_a_fine_and_a_binary_run_are_compared_as_yes_or_no(tmp_path: Path) -> None:
    fine, binary = (
        run(tmp_path / "a", "0120", "0210"),
        run(tmp_path / "b", "0120", "0101", scheme="binary"),
    )
    found = compare_runs(fine, binary)
    assert found is not None
    assert (found["scheme"], found["both_right"], found["only_first_right"]) == ("binary", 2, 2)


@pytest.mark.long
def test_several_pairs_are_corrected_by_holm(tmp_path: Path) -> None:
    gold = "0" * 12
    runs = [
        run(tmp_path / name, gold, given)
        for name, given in (("a", "0" * 12), ("b", "0" * 6 + "1" * 6), ("c", "0" * 4 + "1" * 8))
    ]
    found = compare_all_pairs(runs)
    assert [(each["first"], each["second"]) for each in found] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]
    p = [each["p"] for each in found]
    assert p == pytest.approx([1 / 2**6, 1 / 2**8, 0.25])
    assert [each["p_holm"] for each in found] == pytest.approx([2 * p[0], 3 * p[1], p[2]])
    assert "p_holm" in found[0]["counting_errors"]
    tested = [each["differences"]["macro_f1"] for each in found]
    corrected = multipletests([each["p"] for each in tested], method="holm")[1]
    assert [each["p_holm"] for each in tested] == pytest.approx(corrected)


def of_templates(folder: Path, right: list[str]) -> RunColumns:
    """A template an entry, a post a letter: 1 is right."""
    lines = [
        line(
            f"{at}-{post}",
            1,
            int(each),
            fields={"template": f"t{at}"},
            scheme="binary",
            gold_scheme="binary",
        )
        for at, posts in enumerate(right)
        for post, each in enumerate(posts)
    ]
    return read_columns(write_run(folder, lines, dataset="hatecheck"))


def test_seven_posts_of_one_template_are_one_observation(tmp_path: Path) -> None:
    same = ["1111111", "0000000", "1101011"] * 4
    first, second = (
        of_templates(tmp_path / "a", ["1111111", *same]),
        of_templates(tmp_path / "b", ["0000000", *same]),
    )
    found = compare_runs(first, second)
    assert found is not None
    assert (found["only_first_right"], found["only_second_right"]) == (7, 0)
    assert found["clusters"] == {"by": "template", "n": 13, "largest": 7, "declared": True}
    assert found["p"] == found["differences"]["macro_f1"]["p"] == 1.0
    by_post = compare_runs(first, second, cluster="post")
    assert by_post is not None
    assert by_post["p"] == pytest.approx(1 / 2**7)
    low, high = found["differences"]["accuracy"]["interval"]
    assert low < 0 < high
    # Eight templates that all differ one way are another matter, whatever their sizes: 2 of 2**8 exchanges, mid-p.
    first, second = (
        of_templates(tmp_path / each, [each * size for size in range(1, 9)]) for each in "10"
    )
    found = compare_runs(first, second)
    assert found is not None
    assert found["p"] == pytest.approx(1 / 2**8)


def test_macro_f1_is_tested_as_by_exchanging_at_random(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    gold = random.integers(0, 3, 60)
    answers_of = [
        np.where(random.random(60) < share, gold, random.integers(0, 3, 60)) for share in (0.7, 0.5)
    ]
    first, second = (
        run(tmp_path / name, "".join(map(str, gold)), "".join(map(str, given)))
        for name, given in zip("ab", answers_of, strict=True)
    )
    found = compare_runs(first, second)
    assert found is not None

    def macro(gold: np.ndarray, given: np.ndarray) -> float:
        table = np.bincount(gold * 3 + given, minlength=9).reshape(3, 3)
        return float((2 * table.diagonal() / (table.sum(0) + table.sum(1))).mean())

    def gap(one: np.ndarray, other: np.ndarray) -> float:
        return macro(gold, other) - macro(gold, one)

    seen, reached = gap(*answers_of), 0
    drawn = []
    for _ in range(2000):
        exchanged = random.random(60) < 0.5
        reached += abs(
            gap(*(np.where(exchanged, *pair) for pair in (answers_of, answers_of[::-1])))
        ) >= abs(seen)
        rows = random.integers(0, 60, 60)
        ones = [macro(gold[rows], given[rows]) for given in answers_of]
        drawn.append(ones[1] - ones[0])
    measured = found["differences"]["macro_f1"]
    assert measured["second"] == pytest.approx(f1_score(gold, answers_of[1], average="macro"))
    assert measured["difference"] == pytest.approx(seen)
    assert measured["p"] == pytest.approx(reached / 2000, abs=0.015)
    assert measured["interval"] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.04)
    low, high = found["differences"]["weighted_f1"]["interval"]
    assert low < found["differences"]["weighted_f1"]["difference"] < high


def test_all_repeats_count_and_a_post_counts_once(tmp_path: Path) -> None:
    # Of ten posts the second run is right in one of three repeats, the first in all of its two.
    lines = [[line(f"p{at}", 1, 1, repeat=repeat) for at in range(10) for repeat in range(2)]]
    lines.append(
        [
            line(f"p{at}", 1, int(repeat == 0), repeat=repeat)
            for at in range(10)
            for repeat in range(3)
        ]
    )
    first, second = (
        read_columns(write_run(tmp_path / name, each))
        for name, each in zip("ab", lines, strict=True)
    )
    found = compare_runs(first, second)
    assert found is not None
    assert (found["n"], found["both_right"]) == (10, 10)  # the table is of the first repeats
    difference = found["differences"]["accuracy"]
    assert (difference["first"], difference["second"]) == (1.0, pytest.approx(1 / 3))
    assert difference["p"] == found["p"] == pytest.approx(1 / 2**10)


def test_the_interval_of_accuracys_difference_is_bonett_and_prices() -> None:
    # 6 posts only in the second, 1 only in the first, 13 in both or neither: (6 − 1) / 22 ± 1.96 √((9 / 22 − …) / 22).
    differences = np.repeat([1.0, -1.0, 0.0], [6, 1, 13])
    middle, often = 5 / 22, (7 + 1 + 1) / 22
    half = 1.959964 * ((often - middle**2) / 22) ** 0.5
    assert difference_interval(differences, np.ones(20)) == pytest.approx(
        [middle - half, middle + half]
    )
    low, high = difference_interval(np.zeros(4), np.ones(4)) or [0.0, 0.0]
    assert low == -high < -0.2  # four posts of which none differs prove no equality
