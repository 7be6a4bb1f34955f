"""`tribunal experiment`: what is listed, shown and planned; that it asks before it spends; what is a gap."""

from __future__ import annotations

import json
import re
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.eval.experiments.commanded import arguments, called, cells, error, scripted, told
from tests.eval.experiments.small_sets import write_small
from tribunal.docket import session
from tribunal.docket.session import judge_post
from tribunal.eval.experiments import estimate
from tribunal.eval.protocols.protocol import load_protocols

PRICES = '["openai:m"]\ninput = 2.0\noutput = 8.0\n'


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("sets"))


@pytest.fixture(autouse=True)
def a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "scripted")


# --------------------------------------------------------------------------------------------------- listed and shown


def test_the_experiments_are_listed() -> None:
    said = called("experiment", "show").stdout
    for name, held in load_protocols().items():
        assert f"{name}: {held.paper}, {held.table}. {held.title}\n" in said
    assert "    data: sbic, ghc, 4chan; runs with one model of yours: 6\n" in said
    assert "    not at hand: 4chan: its authors give it on request\n" in said
    listed = json.loads(called("experiment", "show", "--json").stdout)
    assert [each["name"] for each in listed] == list(load_protocols())
    assert {each["name"]: each["runs"] for each in listed}["predict-table1"] == 35


def test_an_experiment_is_shown_with_the_papers_figures() -> None:
    said = called("experiment", "show", "arcade-table4").stdout
    for line in (
        "  fhm: split dev, 500 posts (ARCADE, section 5.2: all 500 posts of the dev split)",
        "  arcade: ARCADE; graph arcade",
        "where the paper is silent, ours:",
        "  - the baseline's temperature and the order of its answer: 0.8 and the label first, as in the published code "
        "(whose binary baseline gives no reason)",
    ):
        assert line.casefold() in said.casefold().splitlines()
    row = next(line for line in said.splitlines() if line.startswith("GPT-4o w/ Ours"))
    assert row.split()[-3:] == ["75.31", "81.40", "76.80"]
    shown = json.loads(called("experiment", "show", "arcade-table4", "--json").stdout)
    assert shown["protocol"]["conditions"]["arcade"]["settings"] == {"rounds": 2}
    assert any("75.31" in row["paper"] for row in shown["shape"]["rows"])
    assert "did you mean arcade-table4" in error("experiment", "show", "arcade-tabel4")


def test_an_experiment_is_shown_with_its_settings() -> None:
    said = called("experiment", "show", "arcade-table5").stdout
    for line in (
        "  fhm: split dev, 500 posts (ARCADE, section 5.2: all 500 posts of the dev split)",
        "  multiround: every post gets the deep dive; graph multiround",
        "    on fhm sets: scheme binary, rounds 2",
        "    sets: scheme fine, rounds 4 (on h-vli only)",
        "--paper-models sets: aux_model qwen:qwen3-vl-plus, judge_model qwen:qwen3-vl-plus",
    ):
        assert line in said.splitlines()
    said = called("experiment", "show", "antihate-figure3").stdout
    assert "50 sbic hate, 50 sbic not hate, 50 ghc implicit hate, 50 ghc not hate" in said
    assert "    sets: mode zero-shot, temperatures researcher 1.5" in said.splitlines()
    shown = json.loads(called("experiment", "show", "predict-table6", "--json").stdout)
    assert shown["protocol"]["repeats"] == 5


def test_a_plan_says_how_many_posts_find_a_difference(sets: Path) -> None:
    said = called(*arguments("plan", "arcade-table4", sets, "--detect", "5"))
    assert said.exit_code == 0, said.output
    assert "posts that both runs decide find a difference of 5 percentage points" in said.stdout
    assert "posts find it with a chance of" in said.stdout


# ------------------------------------------------------------------------------------------------------------ planned


# Calls a post at least and at most, counted by hand of docs/concepts.
WAYS = {
    "arcade-table3/fine": (2, 2 + 2 * 3),
    "arcade-table3/baseline-binary": (1, 1),
    "arcade-table5/multiround": (1, 1 + 2 * 3),
    "arcade-table5/k1": (2, 2 + 2),
    "arcade-table5/k4": (2, 2 + 2 * 4),
    "predict-table1/base": (1, 1),
    "predict-table1/agent-c": (1, 1),
    "predict-table1/majority": (5, 5),
    "predict-table2/round-1": (5 + 2 + 1, 5 + 2 + 1),
    "predict-table2/rounds-1-2": (10, 10),
    "predict-table6/four": (9, 9),
    # Three turns of queries that find nothing, and a verdict; or in each turn five queries' hits are looked through,
    # six pages are read in eight windows and weighed, and between turns it is asked whether that is enough.
    "antihate-table4/full": (3 + 1, 3 * (1 + 5 + 6 * (8 + 1)) + 2 + 1),
    "antihate-table4/no-search": (3 + 1, 3 * (1 + 6 * (8 + 1)) + 2 + 1),
    "antihate-table4/no-knowledge": (1, 1),
    "antihate-table4/baseline": (1, 1),
    "mv-debate-table1/homogeneous": (4 + 1, 3 * (4 + 1 + 1 + 2 + 1) + 1),
    "mv-debate-table2/no-deep": (3 + 1, 3 * (3 + 1 + 1 + 1 + 1) + 1),
    "mv-debate-table3/no-reflection": (4 + 1, 3 * (4 + 1) + 1),
    "mv-debate-figure2/rounds-2": (4 + 1, 2 * 9 + 1),
}


def test_a_plan_needs_no_key_and_no_index(sets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    plan = told("plan", "predict-table2", sets)
    assert plan["sum"]["runs"] == plan["sum"]["of"] == len(plan["runs"]) == 30
    assert all("OPENAI_API_KEY" in run["lacks"] and run["calls"] for run in plan["runs"])
    monkeypatch.setenv("OPENAI_API_KEY", "scripted")
    assert told("plan", "predict-table2", sets)["sum"]["calls"] == plan["sum"]["calls"]
    assert "perspectives build" in error(*arguments("run", "predict-table2", sets, "--yes"))
    assert not Path("runs").exists()


def test_predict_without_its_indexes_names_every_command(sets: Path) -> None:
    protocol = (
        "eval",
        "--protocol",
        "predict-table2",
        "--dataset",
        "kold",
        "--data",
        str(sets / "kold"),
    )
    for line in (
        arguments("run", "predict-table2", sets, "--yes"),
        [*protocol, "--out", "run", "--samples", "4"],
    ):
        stderr = error(*line)
        for name in ("k-haters", "k-mhas", "kold", "kodoli", "unsmile"):
            assert f"tribunal perspectives build {name} --data DIR" in stderr


def test_a_sum_says_of_how_many_runs_it_is(sets: Path) -> None:
    data = ("--data", f"sbic={sets / 'sbic'}")
    line = [
        each
        for each in arguments("plan", "antihate-table2", sets)
        if each not in ("--data", str(sets))
    ]
    done = called(*line, *data)
    assert done.exit_code == 0, done.output
    assert re.search(r"^2 of 6 runs ", done.stdout, re.MULTILINE), done.stdout
    total = json.loads(called(*line, *data, "--json").stdout)["sum"]
    assert (total["runs"], total["of"]) == (2, 6)


def test_a_plan_tries_few_posts(sets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many posts a run has: three on each of two ways."""
    tried = []

    async def count_post(**post: Any) -> Any:
        tried.append(post)
        return await judge_post(**post)

    monkeypatch.setattr(session, "judge_post", count_post)
    runs = told("plan", "arcade-table4", sets)["runs"]
    assert len(tried) == len(runs) * 2 * estimate.TRIED


def test_ones_own_model_is_compared_with_the_papers_row_of_it(sets: Path) -> None:
    with scripted():
        done = called(*arguments("run", "arcade-table4", sets, "--yes", "--model", "openai:gpt-4o"))
    assert done.exit_code == 0, done.output
    your_cells = {
        row: cell for (row, head), cell in cells().items() if head == "F1" and "your model" in row
    }
    papers = {row: cell["paper"] for row, cell in your_cells.items() if cell["paper"]}
    assert sorted(papers.values()) == ["74.76", "76.80"]  # GPT-4o alone, and with ARCADE
    assert all(your_cells[row]["difference_printed"] for row in papers)
    for row in papers:
        assert your_cells[row]["difference_printed"] in done.stdout
    assert "difference" in done.stdout


@pytest.mark.slow
def test_a_plan_counts_the_calls_of_every_graph(sets: Path) -> None:
    """Of one post, without what runs share; and no model, search or embedding server is asked."""
    names = dict.fromkeys(each.partition("/")[0] for each in WAYS)
    found: dict[str, set[tuple[int, int]]] = {}
    with scripted() as server:
        for name in names:
            more = ["--data", str(sets), "--samples", "2", "--repeats", "1"]
            one = {"predict": "unsmile", "antihate": "ghc", "arcade": "h-vli", "mv": "mmsd"}[
                name.partition("-")[0]
            ]
            more[1] = f"{one}={sets / one}"
            done = called("experiment", "plan", name, *more, "--model", "openai:m", "--json")
            assert done.exit_code == 0, done.output
            for run in json.loads(done.stdout)["runs"]:
                # Each range is in order, so the way with fewer calls to pay for may be the one that shares more.
                ways = (
                    zip(run["calls"], shared, strict=True)
                    for shared in permutations(run["shared_calls"])
                )
                counted = {(sum(least) // 2, sum(most) // 2) for least, most in ways}
                found.setdefault(run["protocol"], counted)
        assert not server.requests
    assert {name: found[name] for name in WAYS if WAYS[name] not in found[name]} == {}
    assert not Path("runs").exists()


def test_money_and_time_follow_from_the_prices_and_the_rate(sets: Path) -> None:
    Path("prices.toml").write_text(PRICES)
    more = ["--prices", "prices.toml", "--rate", "0.5"]
    plan = told(
        "plan", "arcade-table4", sets, "--model", "openai:m", "--model", "openai:other", *more
    )
    [mine, other] = [run for run in plan["runs"] if "_baseline_" in run["run"]]
    assert mine["seconds"] == [8, 8]  # four calls at one every two seconds
    assert 2.0 * mine["tokens"][0] / 1e6 < mine["money"][0] < 8.0 * mine["tokens"][0] / 1e6
    assert (mine["unpriced"], other["unpriced"], other["money"]) == (
        [],
        ["openai:other"],
        [0.0, 0.0],
    )
    said = called(*arguments("plan", "arcade-table4", sets, *more)).stdout
    assert "time: 0.5 calls a second" in said
    assert "estimated: the first posts of each run went through its graph offline" in said


def test_what_a_run_has_taken_takes_the_place_of_the_estimate(sets: Path) -> None:
    with scripted():
        assert (
            called(*arguments("run", "arcade-table4", sets, "--yes", "--out", "trial")).exit_code
            == 0
        )
        plan = told("plan", "arcade-table4", sets, "--samples", "8", "--measured-in", "trial")
    [court] = [run for run in plan["runs"] if "_arcade_" in run["run"]]
    taken = json.loads(Path("trial", court["run"], "metrics.json").read_bytes())["cost"]
    assert court["estimated"] == {"by": "measured", "posts": 4, "why": None}
    assert court["calls"] == [2 * taken["calls"]["total"]] * 2
    assert court["tokens"] == [2 * taken["tokens"]["total"]] * 2


# ---------------------------------------------------------------------------------------------------- asked beforehand


def test_it_asks_before_it_spends(sets: Path) -> None:
    line = arguments("run", "arcade-table4", sets)
    with scripted() as server:
        nobody = called(*line)
        assert (nobody.exit_code, nobody.stdout.strip()) == (2, "")
        assert "nobody answered; give --yes to spend without being asked" in nobody.stderr
        declined = called(*line, answer="n\n")
        assert declined.exit_code == 2
        assert "not begun, and nothing was spent" in declined.stderr
        assert not server.requests
        assert not Path("runs").exists()
        agreed = called(*line, answer="y\n")
        assert agreed.exit_code == 0, agreed.output
        assert server.requests
    # the plan stands before the question
    assert "arcade-table4_arcade_fhm_openai-m" in nobody.stderr


def test_the_rehearsal_costs_nothing_and_fills_no_cell(sets: Path) -> None:
    done = called(*arguments("run", "arcade-table4", sets, "--model", "rehearsal"))
    assert done.exit_code == 0, done.output
    assert "the rehearsal model answers: it costs nothing" in done.stderr
    assert "12 of 12 results are no moderation and no measure" in done.stderr
    assert {cell["gap"] for (row, _), cell in cells().items() if "your model" in row} == {
        "rehearsal model took part: says nothing"
    }


# --------------------------------------------------------------------------------------------------------------- gaps


@pytest.mark.long
def test_a_model_without_a_key_is_a_gap_and_not_an_error(sets: Path) -> None:
    """Of the paper's models, OpenAI's can be had here; Claude and Gemini have no key, and DeepSeek no provider."""
    with scripted() as server:
        line = arguments(
            "run", "antihate-table2", sets, "--paper-models", "--samples", "4", "--yes"
        )
        done = called(*line)
        assert done.exit_code == 0, done.output
        assert {request.model for request in server.requests} == {"gpt-4.1-nano"}
    found = cells()
    assert found["GHC GPT Baseline", "Overall F1(%)"]["measured"]
    gap = found["GHC Claude Baseline", "Overall F1(%)"]["gap"]
    assert "anthropic:claude-3-haiku-20240307: no key; set ANTHROPIC_API_KEY" in gap
    assert gap.removeprefix("model not at hand: ") in " ".join(done.stderr.split())
    assert found["GHC DeepSeek Baseline", "Overall F1(%)"]["gap"].startswith("model not at hand")


def test_where_nothing_can_be_run_the_reason_is_an_error(
    sets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    said = error(
        "experiment",
        "run",
        "arcade-table3",
        "--data",
        str(sets),
        "--paper-models",
        "--samples",
        "4",
        "--yes",
    )
    assert "no key; set" in said
    said = error("experiment", "plan", "antihate-table2", "--data", str(sets), "--set", "hits=0")
    assert "hits" in said
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            ("arcade-table3", "--data", "."),
            "data: .: has no test_set.json; h-vli (test) is read from",
        ),
        (
            ("antihate-table2", "--data", "."),
            "data: .: holds no folder called sbic or ghc or 4chan; give --data sbic=",
        ),
        (
            ("antihate-table2", "--data", "fhm=."),
            "data: fhm: antihate-table2 is of sbic, ghc, 4chan; give",
        ),
        (
            ("arcade-table4", "--data", "{sets}", "--set", "views=deep,surface"),
            "views: ['deep', 'surface']: is a setting of",
        ),
        (
            ("arcade-table4", "--data", "{sets}", "--samples", "900"),
            "samples: 900: is not within the paper's own 500",
        ),
        (
            ("arcade-table9", "--data", "{sets}"),
            "experiment: 'arcade-table9': there is none of that name",
        ),
    ],
)
def test_what_is_wrong_costs_no_call(line: tuple[str, ...], says: str, sets: Path) -> None:
    with scripted() as server:
        given = [each.format(sets=sets) for each in line]
        assert says in error(
            "experiment", "run", *given, "--model", "openai:m", "--yes", "--out", "runs"
        )
        assert not server.requests
    assert not Path("runs").exists()


# -------------------------------------------------------------------------------------------------------------- shared
