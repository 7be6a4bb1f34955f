"""Whether posts that say the same get the same verdict: worked by hand, in a run and between two, from the files up."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.result_lines import line, measure, write_run
from tribunal.commands import app
from tribunal.eval.datasets import Dataset, find_dataset
from tribunal.eval.measures.agreement import compare_consistency
from tribunal.eval.measures.columns import RunColumns, read_columns
from tribunal.schema import JSON

OUTCOMES = {"R": "refusal", "F": "failure"}


def lines(groups: dict[str, str], repeat: int = 0) -> list[JSON]:
    """Posts by group: a digit is a verdict's label, R and F have none."""
    return [
        line(f"{group}{place}", 1, OUTCOMES.get(answer) or int(answer), repeat=repeat, group=group)
        for group, answers in groups.items()
        for place, answer in enumerate(answers)
    ]


def test_a_case_worked_by_hand(tmp_path: Path) -> None:
    # a: all Racist. b: Racist, Sexist, NotHate. c: a refusal leaves one verdict. d: two verdicts beside a failure.
    # e: one post, which is no group. The last post declares none.
    groups = {"a": "111", "b": "120", "c": "0R", "d": "00F", "e": "1"}
    found = measure(tmp_path / "run", [*lines(groups), line("alone", 0, 0)])["consistency"]
    assert (found["groups"], found["posts"]) == (4, 3 + 3 + 2 + 3)
    told = found["yes_or_no"]  # a: yes yes yes; b: yes yes no; d: no no
    assert (told["groups"], told["one_verdict"]) == (3, pytest.approx(2 / 3))
    assert (told["pairs"], told["same"], told["flips"]) == (
        3 + 3 + 1,
        pytest.approx((3 + 1 + 1) / 7),
        1,
    )
    told = found["category"]  # b: 1 2 0: no pair agrees, and two posts differ from any third
    assert (told["groups"], told["one_verdict"]) == (3, pytest.approx(2 / 3))
    assert (told["pairs"], told["same"], told["flips"]) == (7, pytest.approx((3 + 0 + 1) / 7), 2)
    errors = found["counting_errors"]["yes_or_no"]  # c: no, none; d: no, no, none
    assert (errors["groups"], errors["one_verdict"]) == (4, pytest.approx(1 / 4))
    assert (errors["pairs"], errors["same"], errors["flips"]) == (
        3 + 3 + 1 + 3,
        pytest.approx((3 + 1 + 0 + 1) / 10),
        3,
    )


def test_intervals_draw_groups_and_not_posts(tmp_path: Path) -> None:
    # Ten groups, five of them of one verdict: drawing posts would make far narrower intervals of forty posts each.
    groups = {f"g{n}-": ("1" * 40 if n % 2 else "10" * 20) for n in range(10)}
    told = measure(tmp_path / "run", lines(groups))["consistency"]["yes_or_no"]
    assert (told["groups"], told["one_verdict"]) == (10, 0.5)
    low, high = told["intervals"]["one_verdict"]
    # Wilson's interval of 5 of 10.
    assert (low, high) == (pytest.approx(0.2366, abs=1e-4), pytest.approx(0.7634, abs=1e-4))


def test_each_repeat_counts_by_itself_and_no_group_is_no_measure(tmp_path: Path) -> None:
    told = measure(tmp_path / "run", [*lines({"a": "11"}), *lines({"a": "10"}, repeat=1)])[
        "consistency"
    ]["yes_or_no"]
    assert (told["groups"], told["one_verdict"], told["pairs"], told["flips"]) == (1, 0.5, 2, 1)
    none = measure(tmp_path / "other", [line("p", 1, 1)])["consistency"]
    assert (
        none["groups"],
        none["yes_or_no"]["one_verdict"],
        none["yes_or_no"]["intervals"]["same"],
    ) == (0, None, None)


def run(folder: Path, groups: dict[str, str]) -> RunColumns:
    return read_columns(write_run(folder, lines(groups)))


def test_two_runs_over_the_groups_that_both_decided(tmp_path: Path) -> None:
    # With precedents a and b become one verdict each, d is lost, c stays. In e only one post has a verdict in both.
    without = run(tmp_path / "without", {"a": "10", "b": "012", "c": "11", "d": "000", "e": "1R1"})
    with_them = run(tmp_path / "with", {"a": "11", "b": "222", "c": "22", "d": "010", "e": "R11"})
    found = compare_consistency(without, with_them)
    assert found is not None
    told = found["yes_or_no"]
    assert (told["groups"], told["first"], told["second"]) == (4, 0.5, 0.75)
    assert (told["only_first"], told["only_second"], told["difference"]) == (1, 2, 0.25)
    assert told["interval"][0] < 0.25 < told["interval"][1]
    assert compare_consistency(without, run(tmp_path / "other", {"x": "11"})) is None


@pytest.mark.long
def test_a_report_tells_of_it_and_so_does_the_terminal(tmp_path: Path) -> None:
    write_run(tmp_path / "without", lines({"a": "10", "b": "01"}))
    write_run(tmp_path / "with", lines({"a": "11", "b": "01"}))
    out = tmp_path / "out"
    done = CliRunner().invoke(
        app, ["report", str(tmp_path / "without"), str(tmp_path / "with"), "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    text = (out / "report.md").read_text("utf-8")
    assert "| without | with | hate or not | 2 | 0.0 | 50.0 | +50.0 |" in text
    assert "| hate or not | verdicts | 2 | 50.0 |" in text
    page = (out / "report.html").read_text("utf-8")
    assert "Consistency of runs against each other" in page
    said = CliRunner().invoke(app, ["report", str(tmp_path / "with"), "--tables"]).stdout
    assert "consistency: one verdict, hate or not, in 50.0% of 2 groups" in " ".join(said.split())
    assert "1 posts flip" in " ".join(said.split())


def test_a_data_set_declares_its_groups(tmp_path: Path) -> None:
    head = "functionality,case_id,test_case,label_gold,target_ident,direction,templ_id"
    rows = [
        head, "derog_neg_emote_h,1,They are weeds.,hateful,women,general,7",
        "derog_neg_emote_h,2,You are weeds.,hateful,Muslims,general,7",
    ]  # fmt: skip
    (tmp_path / "test_suite_cases.csv").write_text("\n".join(rows))
    assert [each.group for each in Dataset(find_dataset("hatecheck"), tmp_path)] == ["7", "7"]
    (tmp_path / "own.csv").write_text("text,paraphrase_of\none,first\nanother,first\nthird,\n")
    own = Dataset(find_dataset("table"), tmp_path / "own.csv", columns={"group": "paraphrase_of"})
    assert [(each.group, each.fields) for each in own] == [
        ("first", {"paraphrase_of": "first"}), ("first", {"paraphrase_of": "first"}), ("", {"paraphrase_of": ""}),
    ]  # fmt: skip
