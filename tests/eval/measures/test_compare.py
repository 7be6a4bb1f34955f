"""McNemar's test against its own arithmetic."""

from __future__ import annotations

from math import comb, erfc, sqrt
from pathlib import Path
from typing import Any

import pytest

from tests.result_lines import answers, line, write_run
from tribunal.eval.measures.columns import Columns, read_columns
from tribunal.eval.measures.compare import compare, compare_all


def run(folder: Path, gold: str, given: str, **other: Any) -> Columns:
    return read_columns(write_run(folder, answers(gold, given, **other)))


def test_few_discordant_posts_are_tested_exactly(tmp_path: Path) -> None:
    # Right in both 2, only in the first 6, only in the second 1, in neither 1.
    found = compare(run(tmp_path / "a", "0" * 10, "0000000011"), run(tmp_path / "b", "0" * 10, "0011111101"))
    assert found is not None
    assert [found[name] for name in ("both_right", "only_first_right", "only_second_right", "both_wrong")] == [
        2,
        6,
        1,
        1,
    ]
    assert (found["n"], found["exact"]) == (10, True)
    assert found["p"] == pytest.approx(2 * sum(comb(7, k) for k in (0, 1)) / 2**7)


def test_many_discordant_posts_are_tested_by_chi_squared(tmp_path: Path) -> None:
    # 30 only in the first, 12 only in the second, 8 in both.
    first, second = "0" * 30 + "1" * 12 + "0" * 8, "1" * 30 + "0" * 12 + "0" * 8
    found = compare(run(tmp_path / "a", "0" * 50, first), run(tmp_path / "b", "0" * 50, second))
    assert found is not None
    assert not found["exact"]
    statistic = (abs(30 - 12) - 1) ** 2 / 42
    assert found["p"] == pytest.approx(erfc(sqrt(statistic / 2)))


def test_only_posts_that_both_decided_count_and_beside_them_all(tmp_path: Path) -> None:
    found = compare(run(tmp_path / "a", "00000", "00RF1"), run(tmp_path / "b", "00000", "0100P"))
    assert found is not None
    assert (found["n"], found["both_right"], found["only_first_right"]) == (2, 1, 1)
    errors = found["counting_errors"]
    assert (errors["n"], errors["only_second_right"], errors["both_wrong"]) == (5, 2, 1)


def test_equal_runs_and_empty_ones(tmp_path: Path) -> None:
    found = compare(run(tmp_path / "a", "010", "010"), run(tmp_path / "b", "010", "010"))
    assert found is not None
    assert found["p"] == 1.0
    found = compare(run(tmp_path / "c", "010", "RRR"), run(tmp_path / "d", "010", "010"))
    assert found is not None
    assert (found["n"], found["p"]) == (0, None)


def test_runs_over_other_data_are_not_compared(tmp_path: Path) -> None:
    first = run(tmp_path / "a", "010", "010")
    assert compare(first, run(tmp_path / "b", "011", "010")) is None  # another gold for one of the posts
    other_set = write_run(tmp_path / "c", answers("010", "010"), dataset="fhm")
    assert compare(first, read_columns(other_set)) is None
    elsewhere = write_run(tmp_path / "d", [line("q", 0, 0)])
    assert compare(first, read_columns(elsewhere)) is None


def test_a_fine_and_a_binary_run_are_compared_as_yes_or_no(tmp_path: Path) -> None:
    fine, binary = run(tmp_path / "a", "0120", "0210"), run(tmp_path / "b", "0120", "0101", scheme="binary")
    found = compare(fine, binary)
    assert found is not None
    assert (found["scheme"], found["both_right"], found["only_first_right"]) == ("binary", 2, 2)


def test_the_first_repeat_stands_for_a_post(tmp_path: Path) -> None:
    lines = [line("a", 1, 1), line("a", 1, 0, repeat=1), line("b", 1, 1)]
    first = read_columns(write_run(tmp_path / "a", lines))
    found = compare(first, read_columns(write_run(tmp_path / "b", lines)))
    assert found is not None
    assert (found["n"], found["both_right"]) == (2, 2)


def test_several_pairs_are_corrected_by_holm(tmp_path: Path) -> None:
    gold = "0" * 12
    runs = [
        run(tmp_path / name, gold, given)
        for name, given in (("a", "0" * 12), ("b", "0" * 6 + "1" * 6), ("c", "0" * 4 + "1" * 8))
    ]
    found = compare_all(runs)
    assert [(each["first"], each["second"]) for each in found] == [("a", "b"), ("a", "c"), ("b", "c")]
    p = [each["p"] for each in found]
    assert p == pytest.approx([2 / 2**6, 2 / 2**8, 0.5])
    assert [each["p_holm"] for each in found] == pytest.approx([2 * p[0], 3 * p[1], p[2]])
    assert "p_holm" in found[0]["counting_errors"]
