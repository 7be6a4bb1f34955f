"""Every experiment end to end through the command: what it asks, what it plans, and the table that it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support, recall_score

from tests.eval.experiments.commanded import arguments, called, cells, scripted, told
from tests.eval.experiments.small_sets import (
    FIVE,
    H_VLI,
    POSTS,
    alone,
    category,
    difficulty,
    gold,
    says,
    stance,
    write_small,
)
from tribunal.eval.protocols.protocol import load_protocols

# The others are slow; a table of each paper is worked out below.
IN_CI = ("arcade-table8",)


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("sets"))


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_CI else pytest.mark.slow) for name in load_protocols()]
)
def test_an_experiment_end_to_end(name: str, sets: Path) -> None:
    """As many calls as were planned, no failure, no cell that lacks what is at hand; and nothing is asked again."""
    more = ["--repeats", "1"] if name.startswith("predict") else []
    with scripted() as server:
        plan = told("plan", name, sets, *more)
        assert not server.requests
        assert not plan["gaps"]
        ran = told("run", name, sets, "--yes", *more)
        asked = len(server.requests)
        by_run = {each["run"]: each for each in ran["runs"]}
        assert by_run.keys() == {each["run"] for each in plan["runs"]}
        for planned in plan["runs"]:
            run = by_run[planned["run"]]
            assert run["done"] == planned["left"] == run["total"]
            assert not run["outcomes"].get("failure")
            paid, shared = planned["calls"], planned["shared_calls"]
            made = run["calls"] + run["metrics"]["cost"]["from_cache"]["total"]
            assert run["calls"] <= paid[1], planned["run"]
            assert paid[0] + shared[0] <= made <= paid[1] + shared[1], planned["run"]
        assert sum(run["calls"] for run in by_run.values()) == asked
        assert asked <= plan["sum"]["calls"][1]
        told("run", name, sets, *more)  # nothing is left, so nobody is asked whether to spend
        assert len(server.requests) == asked
    lacking = {cell["gap"] for cell in cells().values() if cell["gap"]}
    known = {row.not_run for row in load_protocols()[name].shape.rows}
    assert {gap for gap in lacking - known if not gap.startswith(("model not at hand", "no post is"))} == set()
    assert any(cell["measured"] for cell in cells().values())
    for file in ("table.md", "table.html", "table.csv"):
        assert "your model" in Path("runs", file).read_text("utf-8") or not load_protocols()[name].shape.asks


# ------------------------------------------------------------------------------------------------- worked out by hand


def percent(value: float) -> str:
    return f"{100 * value:.2f}"


def arcade(number: int) -> int:
    """The category that the court comes to: without a cue none, else as the marks of the post say."""
    if number % 3 == 2:
        return 0
    return category(number) if says(number) == gold(number) else says(number)


@pytest.mark.long
def test_arcade_table_3_by_hand(sets: Path) -> None:
    """Twelve posts; a single call refuses the sixth, which is then left out."""
    with scripted():
        ran = told("run", "arcade-table3", sets, "--yes", "--samples", str(H_VLI))
    assert [run["done"] for run in ran["runs"]] == [H_VLI] * 6
    found = cells()
    posts = range(H_VLI)
    for row, numbers, answers in (
        ("your model (openai:m) ✗", [n for n in posts if n != 5], {n: alone(n) for n in posts}),
        ("your model (openai:m) w/ Ours ✗", list(posts), {n: arcade(n) for n in posts}),
    ):
        fine, binary = "Task 1: Fine-grained Hate Categorization", "Task 2: Binary Hate Detection"
        for task, folded in ((fine, False), (binary, True)):
            true = [gold(n) if folded else category(n) for n in numbers]
            said = [int(answers[n] > 0) if folded else answers[n] for n in numbers]
            for kind in ("Easy", "Normal", "Hard"):
                there = [at for at, n in enumerate(numbers) if difficulty(n) == kind]
                right = accuracy_score([true[at] for at in there], [said[at] for at in there])
                assert found[row, f"{task} {kind} Acc"]["measured"] == percent(right)
                assert found[row, f"{task} {kind} Acc"]["n"] == len(there)
            assert found[row, f"{task} Overall Acc"]["measured"] == percent(accuracy_score(true, said))
            if folded:
                assert found[row, f"{task} Overall Recall"]["measured"] == percent(recall_score(true, said))
                assert found[row, f"{task} Overall F1"]["measured"] == percent(f1_score(true, said))
            else:
                assert found[row, f"{task} Overall Mac-F1"]["measured"] == percent(
                    f1_score(true, said, average="macro")
                )
                assert found[row, f"{task} Overall W-F1"]["measured"] == percent(
                    f1_score(true, said, average="weighted")
                )


@pytest.mark.long
def test_predict_table_2_by_hand_with_three_sets_that_are_not_given(sets: Path) -> None:
    given = [f"--data=k-haters={sets / 'k-haters'}", f"--data=unsmile={sets / 'unsmile'}"]
    with scripted():
        line = ["experiment", "run", "predict-table2", *given, "--out", "runs", "--model", "openai:m", "--yes"]
        done = called(*line, "--samples", str(POSTS), "--repeats", "2")
    assert done.exit_code == 0, done.output
    found, posts = cells(), range(POSTS)

    def right(answers: Sequence[int]) -> str:
        return f"{accuracy_score([gold(n) for n in posts], answers):.3f} (±0.000)"  # both passes say the same

    majority = [int(sum(stance(n, each) for each in FIVE) > 2) for n in posts]
    for letter, dataset in (("A", "k-haters"), ("E", "unsmile")):
        for row, answers in (
            ("Non-Debate In-dataset", [stance(n, dataset) for n in posts]),
            ("Non-Debate Majority voting", majority),
            ("Debate Round 1", [says(n) for n in posts]),
            ("Debate Rounds 1 & 2", [says(n) for n in posts]),
        ):
            assert found[row, f"Evaluation Dataset {letter}"]["measured"] == right(answers)
    assert found["Debate Round 1", "Evaluation Dataset C"]["gap"] == "set not at hand: kold (--data kold=FOLDER)"
    assert "set not at hand: kold (--data kold=FOLDER)" in done.stderr


@pytest.mark.long
def test_antihate_table_2_by_hand(sets: Path) -> None:
    given = [f"--data=sbic={sets / 'sbic'}", f"--data=ghc={sets / 'ghc'}"]
    line = ["antihate-table2", *given, "--out", "runs", "--model", "openai:m", "--set", "search=searxng"]
    with scripted():
        done = called("experiment", "run", *line, "--yes", "--samples", str(POSTS))
    assert done.exit_code == 0, done.output
    found, posts = cells(), range(POSTS)
    true = [gold(n) for n in posts]
    for dataset in ("SBIC", "GHC"):
        overall = []
        for method, answers in (
            ("Baseline", [alone(n) for n in posts]),
            ("AntiHateAgent", [says(n) for n in posts]),
        ):
            row = f"{dataset} your model (openai:m) {method}"
            scores = precision_recall_fscore_support(true, answers, labels=[1, 0])[:3]
            for place, side in enumerate(("Hate Samples", "Non-Hate Samples")):
                for name, score in zip(("P(%)", "R(%)", "F1(%)"), scores, strict=True):
                    assert found[row, f"{side} {name}"]["measured"] == f"{100 * score[place]:.1f}"
            for name, score in zip(("P(%)", "R(%)", "F1(%)"), scores, strict=True):
                assert found[row, f"Overall {name}"]["measured"] == f"{100 * score.mean():.1f}"
            overall.append(float(scores[2].mean()))
        assert found[row, "Overall ΔF1(%)"]["measured"] == f"{100 * (overall[1] - overall[0]):+.1f}"


@pytest.mark.long
def test_mv_debate_table_1_by_hand(sets: Path) -> None:
    with scripted():
        told("run", "mv-debate-table1", sets, "--yes", "--samples", str(POSTS))
    found, posts = cells(), range(POSTS)
    true = [gold(n) for n in posts]
    for row, answers in (
        ("Single Model your model (openai:m)", [alone(n) for n in posts]),
        ("Ours (Homogeneous) your model (openai:m)", [says(n) for n in posts]),
    ):
        for column in ("MMSD", "HatefulMeMe", "GossipCop", "Avg"):  # the three sets have the same marks
            assert found[row, f"{column} Acc"]["measured"] == f"{100 * accuracy_score(true, answers):.1f}"
            assert found[row, f"{column} F1"]["measured"] == f"{100 * f1_score(true, answers):.1f}"
    assert found["Multi-Agent Debate (Heterogeneous) MAD", "MMSD Acc"]["gap"].startswith("model not at hand")


def test_the_table_is_printed_with_where_it_lies(sets: Path) -> None:
    with scripted():
        done = called(*arguments("run", "arcade-table4", sets, "--yes"))
    assert done.exit_code == 0, done.output
    assert "your model (openai:m) w/ Ours" in done.stdout
    assert "table.md, runs/table.html, runs/table.csv, runs/table.tex, runs/table.json; the runs: runs" in done.stdout
    assert "samples is 4, in the paper 500" in done.stderr
    assert "81.40" in done.stdout  # GPT-4o with ARCADE, in the paper
