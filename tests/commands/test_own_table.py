"""A table of one's own: its file is planned and run as a paper's is, and the table of a folder is exported."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests import PROJECT
from tests.court import court_script, part
from tests.doubles import Reply, Request
from tests.eval.experiments.commanded import called, cells, error, scripted
from tests.eval.experiments.played import played
from tests.result_lines import answers, line, write_run
from tribunal.eval.datasets import Dataset, DatasetSpec, Sample, binary_label
from tribunal.eval.experiments.cell_measures import compare_conditions
from tribunal.eval.experiments.experiment import Experiment, RunKey, find_experiment
from tribunal.eval.experiments.rendering import export_table
from tribunal.eval.experiments.table import ExperimentTable, build_table
from tribunal.eval.experiments.table_check import check_table
from tribunal.eval.measures.columns import read_columns
from tribunal.eval.measures.comparison import compare_runs
from tribunal.eval.protocols.protocol import load_protocols

EXAMPLE = PROJECT / "examples" / "my_table.toml"
with (EXAMPLE.with_suffix(".csv")).open(encoding="utf-8", newline="") as posts:
    REMOVED = [row["post"] for row in csv.DictReader(posts) if row["moderator"] == "removed"]
TABLE = """
title = "Ours"
[datasets.forum]
dataset = "table"
data = "posts.csv"
[conditions]
one = { graph = "baseline", settings = { scheme = "binary" } }
court = { graph = "arcade", settings = { rounds = 2, scheme = "binary" } }
[shape]
stub = ["System"]
columns = [{ heads = ["Acc & F1", "Acc"], measure = "accuracy" }, { heads = ["Acc & F1", "F1"], measure = "f1" }]
rows = [
  { labels = ["One_100% {x}"], condition = "one", paper = "77.0 | 99.9" },
  { labels = ["Court ✓"], condition = "court" },
]
"""


def own_table(text: str = TABLE) -> str:
    Path("mine").mkdir(exist_ok=True)
    Path("mine/posts.csv").write_text("text,label\nWeeds.,hate\nRoses.,not\n", "utf-8")
    Path("mine/ours.toml").write_text(text, "utf-8")
    return "mine/ours.toml"


def judged(request: Request) -> Reply:
    """Right on every post, but that a single call takes the first post of the example for harmless."""
    hateful = int(any(post in request.text for post in REMOVED))
    alone = hateful * (REMOVED[0] not in request.text)
    marks = f"[[says={hateful}]] [[alone={alone}]] [[cue={'implied' if hateful else 'none'}]]"
    return played(replace(request, messages=[*request.messages, ("user", marks)]))


@pytest.mark.long
def test_the_example_is_run_and_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "scripted")
    with scripted(judged):
        done = called(
            "experiment", "run", str(EXAMPLE), "--model", "openai:m", "--out", "runs", "--yes"
        )
    assert done.exit_code == 0, done.output
    found = cells()
    assert found["One call", "Acc"]["measured"] == "91.7"
    assert (
        found["Court", "Acc"]["measured"]
        == found["Court with a glossary", "Acc"]["measured"]
        == "100.0"
    )
    said = called("experiment", "show", "runs", "--to", "markdown")
    assert said.stdout.strip() == Path("runs/table.md").read_text("utf-8").strip()
    line = next(
        line for line in said.stdout.splitlines() if line.startswith("| forum") and "court" in line
    )
    assert [cell.strip() for cell in line.split("|")][3:9] == [
        "one-call",
        "court",
        "accuracy",
        "91.7",
        "100.0",
        "+8.3 (-16.8 to 31.1)",
    ]
    # Partly finished: of a run that isn't there the cells are gaps, and nothing is tested.
    for each in Path("runs/my_table_court_forum_openai-m").iterdir():
        each.unlink()
    assert (
        called("experiment", "show", "runs", "--to", "csv", "--output", "mine.csv").exit_code == 0
    )
    with Path("mine.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["gap"] for row in rows if row["condition"] == "court"] == [
        "not run: my_table_court_forum_openai-m"
    ] * 3
    assert [(row["row"], row["n"]) for row in rows if row["kind"] == "paired test"] == [
        ("glossary less one-call", "12")
    ]


@pytest.mark.long
def test_a_grid_of_settings_shares_answered_calls() -> None:
    command = (
        "experiment",
        "run",
        str(PROJECT / "examples" / "my_grid.toml"),
        "--model",
        "openai:m",
        "--out",
        "runs",
    )
    with scripted(judged) as server:
        done = called(*command, "--yes", "--json")
        assert done.exit_code == 0, done.output
        asked = len(server.requests)
        heats = Counter(
            request.temperature for request in server.requests if part(request) == "judge"
        )
        assert called(*command, "--yes").exit_code == 0
        assert len(server.requests) == asked, "the same command asks nothing again"
    runs = json.loads(done.stdout)["runs"]
    assert len(runs) == 4
    assert sum(run["calls"] for run in runs) == asked
    assert runs[1]["calls"] < runs[0]["calls"], "the second judge pays for no debate"
    assert {0.2, 0.9} == set(heats)
    assert {column for row, column in cells() if row == "2"} >= {
        "Judge at 0.2 Acc",
        "Judge at 0.9 F1",
    }


@pytest.mark.long
def test_ten_judges_over_one_aux_model_pay_for_one_debate() -> None:
    judges = [f"openai:judge-{number}" for number in range(10)]
    text = TABLE.replace('[shape]\n', '[shape]\nseats = { arcade = "judge_model" }\n').replace(
        '{ labels = ["Court ✓"], condition = "court" }', '{ labels = ["{model}"], model = "x", condition = "court" }'
    ).replace('  { labels = ["One_100% {x}"], condition = "one", paper = "77.0 | 99.9" },\n', "")  # fmt: skip
    models = [word for judge in judges for word in ("--model", judge)]
    with scripted(court_script(explicit=True)) as server:
        done = called(
            "experiment",
            "run",
            own_table(text),
            *models,
            "--aux-model",
            "openai:aux",
            "--out",
            "runs",
            "--yes",
        )
        assert done.exit_code == 0, done.output
        asked = Counter(request.model for request in server.requests)
    assert asked == {"aux": 2 * 3, **{f"judge-{number}": 2 for number in range(10)}}


@pytest.mark.parametrize(
    ("part", "instead", "says"),
    [
        ('title = "Ours"', "", "experiment: mine/ours.toml: title: is missing"),
        (
            'title = "Ours"',
            "titel = 1",
            "titel: there is no such field; leave it out, or write it as it is called",
        ),
        ('title = "Ours"', "title = ", "mine/ours.toml: "),
        (
            'graph = "baseline"',
            'graph = "basline"',
            "conditions.one.graph: 'basline': there is none; did you mean base",
        ),
        (
            'graph = "baseline"',
            'graph = "mine.py:graph"',
            "conditions.one.graph: 'mine/mine.py:graph': there is no file",
        ),
        (
            "rounds = 2",
            "ronds = 2",
            "conditions.court.settings.ronds: there is no such setting; did you mean rounds?",
        ),
        ("rounds = 2", "rounds = -2", "conditions.court.settings.rounds: -2: "),
        (
            "rounds = 2",
            "tau = 0.1",
            "conditions.court.settings.tau: is no setting of arcade; leave it out",
        ),
        (
            'dataset = "table"',
            'dataset = "tabel"',
            "datasets.forum.dataset: 'tabel': there is none of that",
        ),
        ('"posts.csv"', '"post.csv"', "data: mine/post.csv: no such file"),
        (
            'measure = "f1"',
            'measure = "f2"',
            "shape.columns.1.measure: 'f2': is no measure; did you mean f1",
        ),
        (
            'measure = "f1"',
            'measure = "f1:Hrd"',
            "'f1:Hrd': f1 is not measured of 'Hrd'; give f1 or f1:Easy",
        ),
        (
            'condition = "court"',
            'condition = "curt"',
            "shape.rows.1.condition: 'curt': isn't declared in this file; did",
        ),
        (
            "77.0 | 99.9",
            "77.0",
            "has 1 figures of a paper, of 2 columns; give one for each, parted by |",
        ),
        ("77.0 | 99.9", "77.0 | x", "shape.rows.0.paper: 'x': is no figure; give a number"),
        (', condition = "court"', "", "shape.rows.1: Court ✓: fills no cell: name a condition"),
    ],
)
def test_a_wrong_file_is_one_line_with_the_way_out(part: str, instead: str, says: str) -> None:
    assert TABLE.count(part) == 1
    with scripted() as server:
        said = error(
            "experiment",
            "run",
            own_table(TABLE.replace(part, instead)),
            "--model",
            "openai:m",
            "--yes",
        )
        assert not server.requests
    assert says in said
    assert "Traceback" not in said
    assert not Path("runs").exists()


def test_the_papers_tables_are_of_the_same_form() -> None:
    for held in load_protocols().values():
        check_table(Experiment(held))
        copy = Path(f"{held.name}.toml")
        copy.write_text((PROJECT / "experiments" / copy.name).read_text("utf-8"), "utf-8")
        assert find_experiment(str(copy)).protocol == held.model_copy(update={"source": str(copy)})


def test_a_paired_test_counts_the_posts_that_made_its_difference() -> None:
    lines = [line(f"p{at}", at % 2, "refusal" if repeat == 0 and at > 3 else at % 2, repeat=repeat)
             for at in range(10) for repeat in (0, 1)]  # fmt: skip
    wrong = [line(f"p{at}", at % 2, 0) for at in range(10)]
    runs = {
        RunKey(name, "forum", "m"): read_columns(write_run(Path(name), held))
        for name, held in (("a", lines), ("b", wrong))
    }
    [accuracy, macro_f1] = compare_conditions(runs, ("accuracy", "macro_f1"))
    assert (accuracy.n, accuracy.difference, macro_f1.n) == (10, -0.5, 10)
    whole = compare_runs(*runs.values())
    assert whole is not None
    assert whole["differences"]["macro_f1"]["p"] == macro_f1.p
    assert whole["differences"]["macro_f1"]["interval"] == [macro_f1.low, macro_f1.high]


def _read_lines(dataset: Dataset) -> Iterator[Sample]:
    for row in dataset.rows():
        yield Sample(
            id=row.text("text"),
            text=row.text("text"),
            gold=binary_label(row.text("label") == "hate", "ours"),
        )


SET = DatasetSpec(
    name="ours", title="Ours", task="hate", obtain="us", licence="ours", splits={"all": (("*.csv",),)}, default="all",
    read=_read_lines,
)  # fmt: skip


def test_a_data_set_of_ones_own_is_read_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one's own reader, at another place than the file's, and as many posts as the file says."""
    monkeypatch.setenv("OPENAI_API_KEY", "scripted")
    mine = own_table(
        TABLE.replace(
            'dataset = "table"', 'dataset = "tests.commands.test_own_table:SET"\nsamples = 1'
        )
    )
    Path("other").mkdir()
    Path("other/posts.csv").write_text(
        "text,label\nWeeds.,hate\nRoses.,not\nTulips.,not\n", "utf-8"
    )
    for more, posts in (((), 1), (("--data", "other", "--samples", "3"), 3)):
        done = called("experiment", "plan", mine, "--model", "openai:m", "--json", *more)
        assert [(run["dataset"], run["posts"]) for run in json.loads(done.stdout)["runs"]] == [
            ("forum", posts)
        ] * 2
    shown = called("experiment", "show", mine).stdout
    assert "  forum: 1 post\n" in shown
    said = error("experiment", "show", "mine/nothing.toml")
    assert "mine/nothing.toml: can't be read: No such file or directory; give a TOML file" in said


# ------------------------------------------------------------------------------------------------------------ exported


@pytest.fixture
def table(tmp_path: Path) -> ExperimentTable:
    """Of 40 posts one call has 30 right and the court all."""
    held = find_experiment(own_table())
    gold = "01" * 20
    runs = {}
    for run in held.planned_runs(["forum"]):
        given = gold if run.condition == "court" else "01" * 15 + "10" * 5
        lines = answers(gold, given, scheme="binary", gold_scheme="binary")
        runs[run.name] = read_columns(write_run(tmp_path / run.name, lines, n=40))
    return build_table(held, runs)


def test_a_difference_is_told_from_noise_only_outside_the_interval(table: ExperimentTable) -> None:
    one, court = table.lines
    assert [(cell.difference_printed, cell.in_interval) for cell in one.cells] == [
        ("-2.0", True),
        ("-24.9", False),
    ]
    assert [cell.difference for cell in court.cells] == [None, None]
    markdown = export_table(table, "markdown")
    assert "-2.0 (in the interval)" in markdown
    assert "-24.9 (outside the interval)" in markdown
    [test] = table.tests
    assert (test.first, test.second, test.n, test.result) == ("one", "court", 40, "differ")
    assert test.difference == pytest.approx(0.25)
    # mid-p of ten pairs that all differ one way
    assert test.p == test.p_holm == pytest.approx(2 * (0.5**10) / 2)
    rows = list(csv.DictReader(export_table(table, "csv").splitlines()))
    assert [(row["kind"], row["condition"], row["paper_in_interval"]) for row in rows[:2]] == [
        ("cell", "one", "True"), ("cell", "one", "False"),
    ]  # fmt: skip


def test_latex_escapes_what_it_reads(table: ExperimentTable) -> None:
    text = export_table(table, "latex")
    assert r"{}One\_100\% \{x\} & {}paper & {}77.0 & {}99.9 \\" in text
    assert r" &  & \multicolumn{2}{c}{Acc \& F1} \\" in text
    assert r"\cmidrule(lr){3-4}" in text
    assert r"{}Court $\surd$" in text
    assert r"-24.9$^{\dagger}$" in text
    assert text.count("{") == text.count("}")
    assert "<%" not in text


def test_a_folder_of_no_experiment_is_named(tmp_path: Path) -> None:
    said = error("experiment", "show", str(tmp_path), "--to", "latex")
    assert "has no experiment.json; give the folder (--out) of `tribunal experiment run`" in said
    (tmp_path / "experiment.json").write_text('{"models": []}', "utf-8")
    assert "give the command that began the experiment again" in error(
        "experiment", "show", str(tmp_path), "--to=csv"
    )
