"""A table as it is written: Markdown that a viewer shows as a table, numbers for a spreadsheet, everything as JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.result_lines import answers, write_run
from tribunal.errors import BadInput
from tribunal.eval.experiments.experiment import ChosenModels, find_experiment
from tribunal.eval.experiments.rendering import write_table
from tribunal.eval.experiments.table import ExperimentTable, build_table
from tribunal.eval.measures.columns import read_columns

MODELS = ChosenModels(own=("openai:one|two",))


@pytest.fixture
def table(tmp_path: Path) -> ExperimentTable:
    """ARCADE's Table 4, with 30 of 40 right by ARCADE, of which one run is of fewer posts than the paper's."""
    held = find_experiment("arcade-table4", MODELS)
    gold, given = "01" * 20, "01" * 15 + "10" * 5
    departures = {"samples": {"paper": 500, "run": 40}}
    lines = answers(gold, given, scheme="binary", gold_scheme="binary")
    folder = write_run(tmp_path / "run", lines, n=40, protocol={"departures": departures})
    name = next(run.name for run in held.planned_runs(["fhm"]) if run.condition == "arcade")
    return build_table(held, {name: read_columns(folder)})


def test_markdown_is_the_table_with_the_papers_lines_and_ones_own(
    table: ExperimentTable, tmp_path: Path
) -> None:
    text = write_table(table, tmp_path / "out")[0].read_text("utf-8")
    shown = MarkdownIt("commonmark").enable("table").parse(text)
    cells = [token.content for token in shown if token.type == "inline"]
    assert cells[0] == "ARCADE, Table 4"
    assert "not the paper's run: samples is 40, in the paper 500" in cells
    at = cells.index("GPT-4o w/ Ours")
    assert cells[at : at + 6] == ["GPT-4o w/ Ours", "✗", "paper", "75.31", "81.40", "76.80"]
    at = next(
        place
        for place, cell in enumerate(cells)
        if cell.startswith("`your model") and "w/ Ours" in cell
    )
    assert cells[at + 2 : at + 4] == ["measured here", "75.00 (59.81 to 85.81; n 40)"]
    assert all(cell.startswith("75.0") for cell in cells[at + 3 : at + 6])
    # The baseline wasn't run: a letter in each of its cells, and the reason under the table.
    at = next(
        place
        for place, cell in enumerate(cells)
        if cell.startswith("`your model") and "w/ Ours" not in cell
    )
    letter = cells[at + 3]
    assert cells[at + 3 : at + 6] == [letter] * 3
    assert any(cell.startswith(f"{letter} ") and "not run" in cell for cell in cells)
    rows = [token for token in shown if token.type == "tr_open"]
    # 25 of the paper, 17 of which have a line that says why nothing can be measured, 3 of one's own, and two heads.
    assert len(rows) == 25 + 17 + 3 + 2 + 1
    # What the paper says and what its code does stand one under the other, and say which is which.
    own = [cell for cell in cells if cell.startswith("`your model") and "w/ Ours" in cell]
    assert [cell.partition("w/ Ours")[2] for cell in own] == ["`", ", turns not shown (its code)`"]


def test_numbers_stand_in_the_csv_as_they_were_measured(
    table: ExperimentTable, tmp_path: Path
) -> None:
    with write_table(table, tmp_path / "out")[2].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    own = [row for row in rows if "your model" in row["row"] and row["measured"]]
    assert [(row["column"], float(row["measured"]), row["paper"], row["n"]) for row in own] == [
        ("Acc", 0.75, "", "40"), ("Recall", 0.75, "", "40"), ("F1", 0.75, "", "40"),
    ]  # fmt: skip
    assert all(float(row["low"]) < 0.75 < float(row["high"]) for row in own)
    paper = {(row["row"], row["column"]): row["paper"] for row in rows}
    assert paper["GPT-5-mini w/ Ours / ✗", "Recall"] == "83.47"
    held = json.loads((tmp_path / "out" / "table.json").read_text("utf-8"))
    assert (held["name"], len(held["lines"]), held["heads"]) == (
        "arcade-table4",
        28,
        [["Acc"], ["Recall"], ["F1"]],
    )
    assert held["lines"][-2]["cells"][0]["value"] == 0.75


def test_a_folder_that_can_not_be_written_is_said(table: ExperimentTable, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(BadInput, match=r"taken: .*; give a folder that can be written"):
        write_table(table, tmp_path / "taken")
