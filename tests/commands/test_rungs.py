"""A run in which a server stops to take the schema, and one whose model gives no reasons: who is told, and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.openai_server import OpenAIServer

CHANGED = (
    "Conditions changed in this run: answers were asked for in more than one form: openai:scripted as classifier "
    "(4 json_object, 6 json_schema)"
)


def run(*arguments: str) -> Result:
    from tribunal.commands import app

    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def changing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    def script(request: Request) -> Reply | Fault:
        if server.served > 6 and request.format == "json_schema":
            return Fault(400, "response_format json_schema is not supported")
        return Reply({"category": "NotHate", "explanation": "words"})

    server = ScriptedServer(script)
    lines = "".join(f"{number},some words {number},0\n" for number in range(10))
    (tmp_path / "posts.csv").write_text(f"id,text,label\n{lines}")
    return server


SHARED = ("--graph", "baseline", "--model", "openai:scripted", "--concurrency", "1")


def test_a_run_says_at_which_rung_its_answers_were_asked_for(
    changing: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with changing as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        command = ("eval", "--dataset", "table", "--data", "posts.csv", "--out", "run", *SHARED)
        said = run(*command)
        assert said.exit_code == 0, said.output
    shares = {"json_object": {"calls": 4, "share": 0.4}, "json_schema": {"calls": 6, "share": 0.6}}
    measured = json.loads(run(*command, "--json").stdout)["metrics"]
    assert measured["rungs"]["models"] == {"openai:scripted": shares}
    assert measured["rungs"]["mixed"] == [
        {
            "model": "openai:scripted",
            "role": "classifier",
            "calls": {"json_object": 4, "json_schema": 6},
        }
    ]
    for shown in (said, run("report", "run", "--tables")):
        assert f"warning: {CHANGED}" in " ".join(shown.output.split())
    assert run("report", "run", "--out", "report").exit_code == 0
    [text], [page] = (list(Path().rglob(name)) for name in ("report.md", "report.html"))
    words = text.read_text("utf-8").replace("\\", "")
    for told in (words, page.read_text("utf-8")):
        assert CHANGED in told
        assert "Form of the answers" in told
    assert "json_object | 4 | 40.0 |" in words.replace("`", "")
    formats = [
        json.loads(line)["calls"][0]["format"]
        for line in Path("run/results.jsonl").read_text().splitlines()
    ]
    assert sorted(formats) == ["json_object"] * 4 + ["json_schema"] * 6


def test_a_run_in_one_form_warns_of_nothing(
    changing: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with changing as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        done = run(
            "batch", "posts.csv", "--out", "out.csv", *SHARED[:-2], "--concurrency", "6", "--json"
        )
        one = run("batch", "posts.csv", "--out", "more.csv", *SHARED, "--json")
    assert done.exit_code == one.exit_code == 0
    assert "Conditions changed" not in one.stderr
    assert set(json.loads(one.stdout)["rungs"]["models"]["openai:scripted"]) == {"json_object"}


def test_reasons_that_say_nothing_are_counted_by_seat_and_model(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        says_nothing = any(f"some words {number}" in request.text for number in (2, 5, 7))
        return Reply(
            {
                "category": "NotHate",
                "explanation": "1234567890" if says_nothing else "It greets everybody.",
            }
        )

    lines = "".join(f"{number},some words {number},0\n" for number in range(10))
    (tmp_path / "posts.csv").write_text(f"id,text,label\n{lines}")
    with OpenAIServer(script):
        said = run("eval", "--dataset", "table", "--data", "posts.csv", "--out", "run", *SHARED)
        batch = run("batch", "posts.csv", "--out", "out.csv", *SHARED, "--json")
    told = "their verdicts are uncertain: classifier 3 of 10 (openai:scripted)"
    counted = [{"seat": "classifier", "model": "openai:scripted", "empty": 3, "calls": 10}]
    assert told in " ".join(said.output.split())
    assert told in " ".join(run("report", "run", "--tables").output.split())
    assert told in " ".join(batch.stderr.split())
    assert json.loads(batch.stdout)["empty_reasons"] == counted
    measured = json.loads(run("report", "run", "--json").stdout)["runs"][0]["measured"]
    assert (measured["empty_reasons"], measured["uncertain"]) == (counted, 3)
    assert run("report", "run", "--out", "report").exit_code == 0
    assert all(
        told in next(Path().rglob(name)).read_text("utf-8").replace("\\", "")
        for name in ("report.md", "report.html")
    )
