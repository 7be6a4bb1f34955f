"""The cells of each paper's tables against cases worked by hand, and what stands in a cell that can't be filled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.result_lines import answers, line, write_run
from tribunal.core.calls import REHEARSAL
from tribunal.eval.experiments.experiment import (
    ChosenModels,
    Experiment,
    PlannedRun,
    find_experiment,
)
from tribunal.eval.experiments.table import (
    ExperimentCell,
    ExperimentRow,
    ExperimentTable,
    build_table,
)
from tribunal.eval.measures.columns import RunColumns, read_columns
from tribunal.eval.protocols.protocol import load_protocols

YOURS = ChosenModels(own=("openai:one",))
Lines = list[dict[str, Any]]
FIVE = ("k-haters", "k-mhas", "kold", "kodoli", "unsmile")


def made(
    name: str, folder: Path, of: Callable[[PlannedRun], Lines | None], models: ChosenModels = YOURS
) -> ExperimentTable:
    """The table of runs with these lines, the same list for the same results; None is a run that isn't there."""
    held = find_experiment(name, models)
    wanted = {run.name: of(run) for run in held.planned_runs(held.dataset_names)}
    once = {
        id(lines): read(folder / name, lines) for name, lines in wanted.items() if lines is not None
    }
    return build_table(held, {name: once.get(id(lines)) for name, lines in wanted.items()})


def read(folder: Path, lines: Lines, **run: Any) -> RunColumns:
    repeats = len({each["repeat"] for each in lines}) or 1
    return read_columns(
        write_run(folder, lines, **{"n": len(lines) // repeats, "repeats": repeats, **run})
    )


def row(table: ExperimentTable, *labels: str, kind: str = "") -> ExperimentRow:
    found = [each for each in table.lines if each.labels == labels and kind in ("", each.kind)]
    assert len(found) == 1, [each.labels for each in table.lines]
    return found[0]


def printed(found: ExperimentRow) -> list[str]:
    return [cell.measured for cell in found.cells]


def by(field: str, values: Mapping[str, str], scheme: str) -> Lines:
    """Posts p0, p1, …: for each value of a field their gold and answers, parted by a colon."""
    pairs = [(value, *said.split(":")) for value, said in values.items()]
    held = [
        {**each, "fields": {field: value}}
        for value, gold, given in pairs
        for each in answers(gold, given, scheme=scheme, gold_scheme=scheme)
    ]
    return [{**each, "post_id": f"p{place}"} for place, each in enumerate(held)]


# --------------------------------------------------------------------------------------------------------------- ARCADE


def test_arcade_counts_failures_as_wrong_and_leaves_out_refusals_with_ours_beside(
    tmp_path: Path,
) -> None:
    lines = answers("0011001100", "001100RRFF", scheme="binary", gold_scheme="binary")
    table = made("arcade-table4", tmp_path, lambda run: lines)
    cells = row(table, "your model (openai:one) w/ Ours", "✗").cells
    assert [(cell.measured, cell.left_out_printed, cell.n) for cell in cells] == [
        ("75.00", "100.00", 8),  # six right of eight
        ("100.00", "", 8),
        ("66.67", "100.00", 8),  # two of no hate, taken for hate
    ]
    assert any(
        "2 of 10 results are failures, which count as wrong" in each for each in table.warnings
    )
    assert not any("are left out" in each for each in table.warnings)
    # The papers whose evaluators don't, don't.
    other = made("predict-table1", tmp_path / "other", lambda run: lines)
    assert not any(cell.left_out_printed for line in other.lines for cell in line.cells)


def test_arcade_table_3_by_difficulty_and_over_all(tmp_path: Path) -> None:
    def of(run: PlannedRun) -> Lines:
        if run.condition == "fine":
            # Easy 3 of 4, Normal 1 of 2, Hard 0 of 1 that were decided.
            return by(
                "difficulty", {"Easy": "0012:0011", "Normal": "12:10", "Hard": "00:1R"}, "fine"
            )
        if run.condition == "binary":
            return by(
                "difficulty", {"Easy": "0011:0011", "Normal": "10:10", "Hard": "01:11"}, "binary"
            )
        return by("difficulty", {"Easy": "01:01", "Normal": "1:1", "Hard": "0:0"}, "binary")

    table = made("arcade-table3", tmp_path, of)
    ours = row(table, "your model (openai:one) w/ Ours", "✗")
    assert ours.kind == "measured"
    # Fine, of 7 decided: labels 0 (gold 3, answered 3, right 2), 1 (2, 4, 2), 2 (2, 0, 0).
    # F1: 4/6, 4/6, 0; weighted by gold: (3·4/6 + 2·4/6) / 7.
    assert printed(ours)[:6] == ["75.00", "50.00", "0.00", "57.14", "44.44", "47.62"]
    # Binary, 7 of 8; every hateful one is found; F1 = 2·4 / (4 + 5).
    assert printed(ours)[6:] == ["100.00", "100.00", "50.00", "87.50", "100.00", "88.89"]
    assert [cell.n for cell in ours.cells[:6]] == [4, 2, 1, 7, 7, 7]
    assert ours.cells[3].low is not None
    assert (
        ours.cells[3].span
        == f"{100 * ours.cells[3].low:.2f} to {100 * (ours.cells[3].high or 0):.2f}"
    )
    # The paper's rows keep its figures, and nothing is measured in them.
    gpt5 = row(table, "GPT-5 w/ Ours", "✗")
    assert gpt5.kind == "paper"
    assert [cell.paper for cell in gpt5.cells][:6] == [
        "90.88",
        "88.64",
        "65.54",
        "86.92",
        "81.73",
        "86.99",
    ]
    assert printed(gpt5) == [""] * 12
    bert = row(table, "BERT", "✓")
    [gap] = {cell.gap for cell in bert.cells}
    assert "trained" in gap
    assert "--predictions" in gap


def test_arcade_tables_7_and_8_count_refusals_of_the_same_runs(tmp_path: Path) -> None:
    def of(run: PlannedRun) -> Lines:
        assert run.protocol.startswith("arcade-table3/")
        if run.condition == "fine":
            return by("smi_pattern", {"000": "0000:0000", "111": "111:11R", "110": "0:R"}, "fine")
        return by("smi_pattern", {"000": "0000:000R", "111": "111:RRR", "110": "0:R"}, "fine")

    seven = made("arcade-table7", tmp_path, of)
    assert printed(row(seven, "your model (openai:one) w/ Ours"))[:2] == ["2", "25.00"]
    assert printed(row(seven, "your model (openai:one)")) == ["5", "62.50", "5", "62.50"]
    eight = made("arcade-table8", tmp_path, of)
    total = row(eight, "Total Count", "–")
    assert total.kind == "paper and measured"
    assert [(cell.paper, cell.measured) for cell in total.cells] == [
        ("261", "5"),
        ("77", "2"),
        ("-184", "-3"),
    ]
    rate = row(eight, "Refusal Rate", "–")
    assert [(cell.paper, cell.measured) for cell in rate.cells] == [
        ("22.16%", "62.50%"), ("6.54%", "25.00%"), ("-15.62%", "-37.50%"),
    ]  # fmt: skip
    low, high = rate.cells[2].low, rate.cells[2].high
    assert low is not None
    assert high is not None
    assert -1 <= low < -0.375 < high <= 0
    assert printed(row(eight, "Easy", "000")) == ["1", "0", "-1"]
    assert printed(row(eight, "Hard", "110")) == ["1", "1", "0"]
    assert {cell.gap for cell in row(eight, "Normal", "010").cells} == {"no post is 010"}


# -------------------------------------------------------------------------------------------------------------- PREDICT


def three_passes(given: Iterable[str], stances: str = "") -> Lines:
    """Four posts, of which the last two are hate, in three passes; each perspective but KOLD's is against the gold."""
    lines = []
    for repeat, answered in enumerate(given):
        for place, answer in enumerate(answered):
            hate = place > 1
            said = {each: hate if each == stances else not hate for each in FIVE} if stances else {}
            opinions = [
                {"id": each, "stance": "hate" if yes else "not_hate"} for each, yes in said.items()
            ]
            lines.append(
                line(
                    f"p{place}", int(hate), int(answer), repeat=repeat, scheme="binary", gold_scheme="binary",
                    opinions=opinions,
                )
            )  # fmt: skip
    return lines


def test_predict_tables_have_means_deviations_and_kappas_over_repeats(tmp_path: Path) -> None:
    passes = three_passes(["0011", "0001", "0001"], "kold")
    # 4, 3 and 3 of 4 right: mean 0.8333, deviation 0.1443. Kappa: P = (1 + 1 + 1/3 + 1) / 4, Pe = 1/9 + 4/9.
    table = made("predict-table2", tmp_path / "2", lambda _: passes)
    assert printed(row(table, "Debate", "Rounds 1 & 2")) == ["0.833 (±0.144)"] * 5
    assert row(table, "Debate", "Rounds 1 & 2").cells[0].paper == "0.794 (±0.003)"
    table = made("predict-table1", tmp_path / "1", lambda _: passes)
    assert printed(row(table, "Agent_Base")) == ["0.833 (0.625)"] * 5
    # Of the vote the agreement is that of the perspectives: one against four on every post: P = 0.6, Pe = 0.5.
    assert printed(row(table, "5-Agents majority vote")) == ["0.833 (0.200)"] * 5
    # Table 4 is of each perspective's own stance: KOLD's is always right, the others' never.
    table = made("predict-table4", tmp_path / "4", lambda _: passes)
    assert printed(row(table, "C", "✓", "✓")) == ["1.000"] * 5
    assert printed(row(table, "A", "✗", "✓")) == ["0.000"] * 5
    assert {cell.n for cell in row(table, "A", "✗", "✓").cells} == {4}
    alone = three_passes(["0011"])
    once = made("predict-table6", tmp_path / "6", lambda _: alone)
    assert printed(row(once, "4-Agents")) == ["1.000"] * 5


# -------------------------------------------------------------------------------------------------------- AntiHateAgent


def balanced(posts: int, recall: float, other: float) -> Lines:
    """So many posts, half of them hate, with the recalls of both classes."""
    half = posts // 2
    found, left = round(half * recall), round(half * other)
    gold = "1" * half + "0" * half
    return answers(
        gold,
        "1" * found + "0" * (half - found) + "0" * left + "1" * (half - left),
        scheme="binary",
        gold_scheme="binary",
    )


def test_antihate_table_2_prints_the_papers_own_row_of_its_own_counts(tmp_path: Path) -> None:
    """DeepSeek on SBIC: a set of 1,000 whose recalls are those of the table has all of its other figures too."""

    def of(run: PlannedRun) -> Lines | None:
        if run.dataset != "sbic":
            return None
        return (
            balanced(1000, 0.39, 0.992)
            if run.condition == "baseline"
            else balanced(1000, 0.61, 0.886)
        )

    table = made("antihate-table2", tmp_path, of)
    for method in ("Baseline", "AntiHateAgent"):
        paper = [cell.paper for cell in row(table, "SBIC", "DeepSeek", method).cells]
        own = printed(row(table, "SBIC", "your model (openai:one)", method))
        assert own[:9] == paper[:9]
    # The paper's difference is that of its rounded figures; its baseline has none.
    delta = row(table, "SBIC", "your model (openai:one)", "AntiHateAgent").cells[9]
    assert (delta.measured, row(table, "SBIC", "DeepSeek", "AntiHateAgent").cells[9].paper) == (
        "+8.3",
        "(+8.3)",
    )
    assert delta.low is not None
    assert 0.04 < delta.low < 0.083 < (delta.high or 0) < 0.13
    assert row(table, "SBIC", "your model (openai:one)", "Baseline").cells[9] == ExperimentCell()
    gap = {cell.gap for cell in row(table, "GHC", "your model (openai:one)", "AntiHateAgent").cells}
    assert gap == {"not run: antihate-table2_agent_ghc_openai-one"}
    # One's own row stands with those of its set.
    places = [each.labels[0] for each in table.lines]
    assert places == sorted(places, key=("SBIC", "GHC", "4chan").index)


def test_antihate_figure_3_is_a_series(tmp_path: Path) -> None:
    table = made(
        "antihate-figure3",
        tmp_path,
        lambda run: balanced(20, 0.5 if "t2" in run.condition else 1.0, 1.0),
    )
    assert printed(row(table, "AntiHateAgent", "1.5")) == ["100.0"] * 6
    # Half of the hate is found: P 100, R 50, F1 66.7; of the rest P 66.7, R 100, F1 80.
    assert printed(row(table, "Baseline", "2")) == ["100.0", "50.0", "66.7", "83.3", "75.0", "73.3"]
    assert {cell.paper for each in table.lines for cell in each.cells} == {""}
    assert (
        "the figure is drawn and its values are printed nowhere"
        in dict(table.notes)["Of the table"]
    )


# ------------------------------------------------------------------------------------------------------------ MV-Debate


def test_mv_debate_table_1_averages_the_sets(tmp_path: Path) -> None:
    recalls = {"mmsd": 1.0, "fhm": 0.8, "gossipcop": 0.6}
    table = made("mv-debate-table1", tmp_path, lambda run: balanced(20, recalls[run.dataset], 1.0))
    own = row(table, "Ours (Homogeneous)", "", "your model (openai:one)")
    # F1 = 2·recall / (1 + recall).
    assert printed(own) == ["100.0", "100.0", "90.0", "88.9", "80.0", "75.0", "90.0", "88.0"]
    assert own.cells[6].span == ""
    assert own.cells[6].n == 60
    closed = row(table, "Ours (Heterogeneous)", "", "Ours (Closed-source)")
    assert [cell.paper for cell in closed.cells] == [
        "92.3",
        "93.1",
        "80.8",
        "70.9",
        "81.7",
        "70.1",
        "84.9",
        "78.0",
    ]
    assert {cell.gap for cell in closed.cells} == {
        "model not at hand: this row is made by the paper's models (--paper-models)"
    }


def test_mv_debate_figure_2_has_what_the_text_prints(tmp_path: Path) -> None:
    # Three rounds are Table 1's: the other conditions end in how many there are.
    table = made(
        "mv-debate-figure2",
        tmp_path,
        lambda run: balanced(20, int(run.condition[-1].replace("s", "3")) / 5, 1.0),
    )
    own = {
        each.labels[0]: each.cells[0].measured for each in table.lines if each.kind == "measured"
    }
    assert own == {"1": "60.0", "2": "70.0", "3": "80.0", "4": "90.0"}
    paper = {each.labels[0]: each.cells[0].paper for each in table.lines if each.kind == "paper"}
    assert paper == {"1": "76.6", "2": "", "3": "", "4": "82.1"}


# ----------------------------------------------------------------------------------------------------------------- gaps


def test_a_cell_that_can_not_be_filled_says_why(tmp_path: Path) -> None:
    held = find_experiment("arcade-table4", YOURS)
    names = {run.protocol: run.name for run in held.planned_runs(["fhm"])}
    fair = balanced(10, 1.0, 1.0)

    def gap(lines: Lines, **run: Any) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        table = build_table(
            held, {names["arcade-table4/arcade"]: read(folder, lines, dataset="fhm", **run)}
        )
        return row(table, "your model (openai:one) w/ Ours", "✗").cells[0].gap

    assert gap(fair) == ""
    assert gap(fair, n=100) == "run unfinished: 10 of 100"
    assert (
        gap([{**fair[0], "calls": [{"model": REHEARSAL}]}, *fair[1:]])
        == "rehearsal model took part: says nothing"
    )
    blind = [{**each, "has_image": False} for each in fair]
    assert gap(blind) == "images not here: no post was shown to a model with its image"
    why = "set not at hand: fhm (--data fhm=FOLDER)"
    table = build_table(held, {}, {names["arcade-table4/arcade"]: why})
    assert row(table, "your model (openai:one) w/ Ours", "✗").cells[0].gap == why
    assert (
        row(table, "your model (openai:one)", "✗")
        .cells[0]
        .gap.startswith("not run: arcade-table4_baseline_fhm")
    )


@pytest.mark.parametrize(
    "held", [Experiment(each) for each in load_protocols().values()], ids=list(load_protocols())
)
def test_every_cell_of_every_table_can_be_measured(held: Experiment, tmp_path: Path) -> None:
    """One small run stands for all: each cell that a run is planned for has a figure in the form of the paper's."""
    fields = [
        {"difficulty": level, "smi_pattern": pattern}
        for level in ("Easy", "Normal", "Hard")
        for pattern in PATTERNS
    ]
    lines = [
        {
            **each,
            "fields": fields[place % len(fields)],
            "opinions": [{"id": one, "stance": "hate"} for one in FIVE],
        }
        for place, each in enumerate(balanced(48, 0.75, 0.5))
    ]
    passes = [{**each, "repeat": repeat} for repeat in (0, 1) for each in lines]
    columns = read(tmp_path / "run", passes)
    held = replace(
        held, models=ChosenModels(paper=True) if held.name != "antihate-table4" else YOURS
    )
    table = build_table(held, {run.name: columns for run in held.planned_runs(held.dataset_names)})
    for line_ in table.lines:
        for cell in line_.cells:
            if cell.gap:
                assert cell.gap.startswith(("trained", "taken", "no graph", "model not at hand"))
            elif cell.paper not in ("", "-", "0"):  # Table 7 has a rate of 0 without decimals
                assert decimals(cell.measured) == decimals(cell.paper), line_.labels


PATTERNS = ("000", "001", "010", "011", "100", "101", "110", "111")


def decimals(said: str) -> list[int]:
    """How many decimals each of the numbers in a cell has."""
    return [len(each.strip("()%±+-").partition(".")[2]) for each in said.split()]
