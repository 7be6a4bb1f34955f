"""The rehearsal model is never taken for a moderator: every output that it had a part in says so."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import tribunal
from tests.commands.test_judge import run
from tests.court import court_script, decide
from tests.doubles import Fault, ScriptedServer
from tests.graphs.research_world import researcher
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS, graph

POST = "Good morning, everybody."
FOUND_NOTHING = "rules found nothing in the post"
SEARCH: dict[str, Any] = {"antihate": {"search": "none"}}


def words(shown: str) -> str:
    return " ".join(shown.replace("│", " ").split())


@pytest.mark.parametrize("name", GRAPHS)
async def test_every_graph_s_record_and_outcome_say_so_and_state_no_confidence(name: str) -> None:
    for text in (POST, "Immigrants are vermin and should be deported."):
        state = await graph(name).ainvoke(
            {"text": text}, context=tribunal.Context(**SEARCH.get(name, {}))
        )
        assert state["outcome"]["rehearsed"] is True
        assert state["outcome"]["confidence"] is None
        assert any("the rehearsal model took part" in warning for warning in state["warnings"])
        record = await tribunal.ajudge(text, graph=name, **SEARCH.get(name, {}))
        assert (record.rehearsed, record.confidence) == (True, None)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("tribunal", {"threshold": 0.1}), ("tribunal", {"judge_draws": 3}), ("arcade", {"threshold": 0.0}),
        ("predict", {"mode": "base"}), ("baseline", {"mode": "zero-shot"}), ("antihate", {"mode": "zero-shot"}),
        ("baseline", {"task": "sarcasm"}), ("mv_debate", {"task": "misinformation"}),
    ],
)  # fmt: skip
async def test_it_states_no_confidence_where_one_is_asked_for(
    name: str, settings: dict[str, Any]
) -> None:
    record = await tribunal.ajudge(
        "Immigrants are vermin and should be deported.", graph=name, **settings
    )
    assert record.confidence is None
    assert all(vote.confidence is None for vote in record.votes)
    assert record.uncertain is (name in ("tribunal", "arcade"))
    quiet = await tribunal.ajudge(POST, graph=name, **settings)
    assert FOUND_NOTHING in quiet.explanation


async def test_a_real_model_s_dismissal_stays_the_paper_s() -> None:
    async with ScriptedServer(court_script(implicit=False)) as server:
        record = await decide(server)
        assert (record.rehearsed, record.explanation.startswith("Summary dismissal")) == (
            False,
            True,
        )


async def test_a_seat_of_its_own_and_a_fallback_say_so() -> None:
    async with ScriptedServer(court_script(explicit=True)) as server:
        seated = await decide(server, seats={"defender": "rehearsal"})
        assert seated.rehearsed
        untouched = await decide(server, model="openai:scripted,rehearsal")
        assert not untouched.rehearsed
        assert not any("rehearsal" in warning for warning in untouched.warnings)
    async with ScriptedServer(court_script(explicit=True, judge=Fault(401, "no"))) as server:
        fallen = await decide(server, model="openai:scripted,rehearsal", threshold=0.5)
    assert (fallen.rehearsed, fallen.confidence, fallen.uncertain) == (True, None, True)
    assert any(
        "rehearsal:court answered in place of openai:scripted" in warning
        for warning in fallen.warnings
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"triage": "rehearsal"}, {"triage": "openai:scripted,rehearsal"},
        {"triage": "openai:scripted", "seats": {"triage": "rehearsal"}},
        {"triage": "tribunal.nodes.rehearsal:PROVIDER:court"},
        {"triage": "rehearsal", "model": "rehearsal", "judge_model": "openai:scripted"},
    ],
)  # fmt: skip
async def test_it_takes_no_first_look_where_a_real_model_sits(settings: dict[str, Any]) -> None:
    async with ScriptedServer(court_script()) as server:
        with pytest.raises(
            BadInput, match=r"triage: .* can't take the first look where a real model sits"
        ):
            await decide(server, graph="tribunal", **settings)
        assert server.requests == []


def test_by_its_place_it_is_known_by_its_name() -> None:
    done = run("judge", POST, "--model", "tribunal.nodes.rehearsal:PROVIDER:court", "--json")
    record = json.loads(done.stdout)
    assert (record["rehearsed"], {call["model"] for call in record["calls"]}) == (
        True,
        {"rehearsal:court"},
    )


def test_judge_says_so() -> None:
    shown = words(run("judge", "Immigrants are vermin.").stdout)
    assert "HATE SPEECH" in shown
    assert "Demo rules only: this is not a moderation decision." in shown
    assert json.loads(run("judge", POST, "--json").stdout)["rehearsed"] is True


def a_table(folder: Path) -> None:
    posts = {
        "p1": "Good morning.",
        "p2": "Immigrants are vermin.",
        "p3": "A good day to all.",
        "p4": "They are vermin.",
    }
    rows = "".join(f"{name},{text},{int('vermin' in text)}\n" for name, text in posts.items())
    (folder / "posts.csv").write_text(f"id,text,label\n{rows}")


def test_batch_says_so_in_a_column_and_on_standard_error(tmp_path: Path) -> None:
    a_table(tmp_path)
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        first = run("batch", "posts.csv", "--out", name, "--graph", "baseline")
        again = run("batch", "posts.csv", "--out", name, "--graph", "baseline", "--json")
        for done in (first, again):
            assert done.exit_code == 0, done.stderr
            assert (
                "4 of 4 results are no moderation and no measure: the rehearsal model took part"
                in done.stderr
            )
        assert "4 by the rehearsal's rules" in first.stdout
        assert json.loads(again.stdout)["rehearsed"] == 4
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [row["rehearsed"] for row in csv.DictReader(file)] == ["True"] * 4
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert all(json.loads(line)["rehearsed"] for line in lines)
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "out.parquet")["rehearsed"].to_pylist() == [True] * 4


@pytest.mark.long
def test_a_run_its_measures_its_report_and_a_fit_say_so(tmp_path: Path) -> None:
    a_table(tmp_path)
    ran = ["eval", "--dataset", "table", "--data", "posts.csv", "--graph", "baseline"]
    done = run(*ran, "--out", "run")
    assert "4 of 4 results are no moderation and no measure" in done.stderr
    assert "4 by the rehearsal's rules" in done.stdout
    again = json.loads(run(*ran, "--out", "run", "--json").stdout)
    assert (again["rehearsed"], again["metrics"]["rehearsed"]) == (4, 4)
    assert "the rehearsal model took part" in run("report", "run", "--tables").stdout
    assert run(*ran, "--out", "other").exit_code == 0
    reported = run("report", "run", "other", "--out", "report")
    assert reported.exit_code == 0, reported.stderr
    pages = list(tmp_path.rglob("report.md"))
    assert pages
    text = pages[0].read_text()
    assert "**run**, **other**: The rehearsal model took part in 4 of 4 results" in text
    assert "The rehearsal model took part in some of them" in text
    fitted = run("fit", "run")
    assert fitted.exit_code == 2
    assert "the rehearsal model took part in 4 of 4 results" in fitted.stderr
    assert not (tmp_path / "run" / "threshold.json").exists()


def test_a_comparison_says_so(tmp_path: Path) -> None:
    a_table(tmp_path)
    (tmp_path / "setups.toml").write_text(
        '[entries.one]\ngraph = "baseline"\n[entries.two]\ngraph = "arcade"\n'
    )
    command = ("compare", "setups.toml", "--on", "posts.csv", "--out", "runs")
    done = run(*command)
    assert "8 of 8 results are no moderation and no measure" in done.stderr
    assert "the rehearsal model took part" in done.stdout
    assert json.loads(run(*command, "--json").stdout)["rehearsed"] == 8


def test_review_says_so_in_the_list_and_the_case() -> None:
    done = run("judge", "Immigrants are vermin.", "--review", "--json")
    assert done.exit_code == 5, done.stderr  # it states no confidence, so a person has to decide
    thread = json.loads(done.stdout)["thread"]
    listed = run("review", "list")
    assert "no confidence is stated" in listed.stdout
    assert "(by the rehearsal's rules)" in listed.stdout
    assert json.loads(run("review", "list", "--json").stdout)[0]["court"].endswith(
        "(by the rehearsal's rules)"
    )
    shown = words(run("review", "show", thread).stdout)
    assert "Demo rules only" in shown
    assert json.loads(run("review", "show", thread, "--json").stdout)["rehearsed"] is True


async def test_a_replay_of_its_research_says_so_under_another_model(tmp_path: Path) -> None:
    await tribunal.ajudge(POST, graph="antihate", search="none", archive="a.sqlite")
    async with ScriptedServer(researcher()) as server:
        replayed = {"search": "replay:a.sqlite", "archive": "b.sqlite"}
        record = await decide(server, POST, graph="antihate", **replayed)
    assert {call.model for call in record.calls} == {"openai:scripted"}
    assert record.rehearsed


def test_evidence_says_so() -> None:
    assert (
        run(
            "judge",
            POST,
            "--graph",
            "antihate",
            "--set",
            "search=none",
            "--set",
            "archive=a.sqlite",
        ).exit_code
        == 0
    )
    shown = run("evidence", "latest", "--archive", "a.sqlite").stdout
    assert "the rehearsal model took part" in shown
    assert "Verdict: NON-HATE by the rehearsal's rules" in shown
    assert "by the rehearsal's rules" in run("evidence", "--archive", "a.sqlite").stdout
