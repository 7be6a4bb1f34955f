"""The command as a person or a script runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from tests import PROJECT
from tests.court import court_script
from tests.doubles import Fault, Reply, ScriptedServer

KEYS = {
    "outcome", "post_id", "graph", "scheme", "label", "category", "hateful", "explanation", "track", "rounds",
    "transcript", "cues", "calls", "usage", "policy", "warnings",
}  # fmt: skip
CALL_KEYS = {
    "role", "seat", "model", "temperature", "prompt_sha", "prompt_tokens", "completion_tokens", "seconds", "attempts",
    "cached",
}  # fmt: skip


def run(*arguments: str, given: str | bytes | None = None, **settings: str) -> Result:
    """The command, in this process; `given` is its standard input."""
    from tribunal.commands import app

    return CliRunner().invoke(app, list(arguments), input=given, env=settings)


def run_alone(*arguments: str, **settings: str) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, where a warning is an error."""
    command = [sys.executable, "-W", "error", "-c", "import tribunal; tribunal.main()", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), **settings}
    return subprocess.run(
        command, capture_output=True, env=environment, timeout=120, stdin=subprocess.DEVNULL
    )


@pytest.mark.long
def test_json_is_one_object_and_nothing_else() -> None:
    done = run_alone("judge", "Immigrants are vermin and should be deported.", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert done.stdout.count(b"\n") == 1
    assert record.keys() >= KEYS
    assert record["calls"][0].keys() >= CALL_KEYS
    assert (record["outcome"], record["track"]) == ("verdict", "fast_track")
    assert any("rehearsal" in warning for warning in record["warnings"])


def test_a_person_reads_the_debate_the_verdict_and_the_cost() -> None:
    done = run("judge", "Immigrants are vermin and should be deported.")
    shown = done.stdout
    assert done.exit_code == 0, done.stderr
    places = [
        shown.index(words)
        for words in ("Gatekeeper", "indictment", "defence", "HATE SPEECH", "rehearsal", "4 calls")
    ]
    assert places == sorted(places)


def test_a_debate_of_views_as_a_person_reads_it() -> None:
    done = run(
        "judge",
        "I love it when my train is delayed.",
        "--graph",
        "mv_debate",
        "--set",
        "task=sarcasm",
    )
    assert done.exit_code == 0, done.stderr
    heard = (
        "Surface Analyst, round 1: answer", "NO: ", "Modality Contrast, round 1: answer", "YES: ", "Suggestion: ",
        "Judge, round 1: scores", "Δ = 0.3, the second answers stand; best: surface", "round 2: all agree on YES",
        "SARCASTIC", "sarcastic (policy sarcasm)", "mv_debate, 2 rounds", "14 calls",
    )  # fmt: skip
    at = 0
    for words in heard:
        at = done.stdout.index(words, at)
    settings = (
        "--set",
        "reflection_mode=gated",
        "--set",
        "history=all",
        "--set",
        "views=surface,deep,contrast",
        "--rounds",
        "1",
    )
    record = json.loads(
        run(
            "judge",
            "hi",
            "--json",
            "--graph",
            "mv_debate",
            "--set",
            "tau=0.2",
            "--set",
            "top_k=1",
            *settings,
        ).stdout
    )
    assert list(record["debate"][0]["answers"]) == ["surface", "deep", "contrast"]


def test_text_from_standard_input() -> None:
    for arguments in (["judge", "--json"], ["judge", "-", "--json"]):
        record = json.loads(run(*arguments, given="Good morning.").stdout)
        assert (
            record["post_id"]
            == json.loads(run("judge", "Good morning.", "--json").stdout)["post_id"]
        )
    assert run("judge", given=b"\xff\xfe").exit_code == 2


def test_image_from_standard_input_and_as_data_uri(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    Image.new("RGB", (20, 10), "red").save(picture)
    raw = picture.read_bytes()
    by_path = run("judge", "hello", "--image", str(picture), "--json")
    by_stdin = run("judge", "hello", "--image", "-", "--json", given=raw)
    assert by_path.exit_code == by_stdin.exit_code == 0, by_stdin.stderr
    assert json.loads(by_path.stdout)["post_id"] == json.loads(by_stdin.stdout)["post_id"]
    assert any(
        "can't see the image" in warning for warning in json.loads(by_path.stdout)["warnings"]
    )


def test_exit_status_tells_the_outcome() -> None:
    with ScriptedServer(
        court_script(gatekeeper=Reply("I'm sorry, but I can't help with that."))
    ) as server:
        refused = run(
            "judge", "hi", "--json", "--model", "openai:m", OPENAI_BASE_URL=f"{server.url}/v1"
        )
    assert (refused.exit_code, json.loads(refused.stdout)["outcome"]) == (3, "refusal")
    with ScriptedServer(court_script(gatekeeper=Fault(401, "bad key"))) as server:
        failed = run(
            "judge", "hi", "--json", "--model", "openai:m", OPENAI_BASE_URL=f"{server.url}/v1"
        )
    assert (failed.exit_code, json.loads(failed.stdout)["outcome"]) == (4, "failure")
    record = json.loads(failed.stdout)
    assert (record["label"], record["category"], record["hateful"], record["track"]) == (
        None,
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["judge"], "text: there is neither"),
        (["judge", "hi", "--graph", "nope"], "graph: 'nope'"),
        (["judge", "hi", "--model", "nope"], "provider:model"),
        (["judge", "hi", "--model", "openai:gpt-5"], "OPENAI_API_KEY"),
        (["judge", "hi", "--seat", "bailiff=rehearsal"], "no seat 'bailiff'"),
        (["judge", "hi", "--rounds", "0"], "rounds: 0"),
        (["judge", "hi", "--image", "http://127.0.0.1/a.png"], "download it"),
        (["graphs", "nope"], "graph: 'nope'"),
    ],
)
def test_bad_input_is_one_line_with_a_way_out(arguments: list[str], says: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("tribunal: error: ")
    assert says in done.stderr


def test_trace_shows_prompts_on_standard_error_alone() -> None:
    done = run("judge", "Good morning.", "--json", "--trace")
    json.loads(done.stdout)
    assert "rapid scan" in done.stderr
    assert "<<<post" in done.stderr


def test_a_model_named_in_dotenv_is_used(tmp_path: Path) -> None:
    with ScriptedServer(court_script(implicit=False)) as server:
        Path(".env").write_text("TRIBUNAL_MODEL=openai:from-dotenv\nOPENAI_API_KEY=any\n")
        record = json.loads(run("judge", "hi", "--json", OPENAI_BASE_URL=f"{server.url}/v1").stdout)
    assert record["calls"][0]["model"] == "openai:from-dotenv"


def test_a_key_alone_spends_nothing() -> None:
    with ScriptedServer(court_script()) as server:
        record = json.loads(
            run(
                "judge",
                "hi",
                "--json",
                OPENAI_API_KEY="sk-unspent",
                OPENAI_BASE_URL=f"{server.url}/v1",
            ).stdout
        )
        assert server.requests == []
    assert {call["model"] for call in record["calls"]} == {"rehearsal:court"}


def test_graphs_and_policy() -> None:
    drawn = run("graphs", "arcade").stdout
    assert "graph TD;" in drawn
    assert "subgraph deep_dive" in drawn
    shipped = run("policy").stdout
    Path("mine.toml").write_text(shipped.replace('name = "h-vli"', 'name = "mine"', 1))
    record = json.loads(run("judge", "hi", "--json", "--policy", "mine.toml").stdout)
    assert record["policy"]["name"] == "mine"


def test_from_python() -> None:
    import tribunal

    record = tribunal.judge("Good morning.", rounds=1)
    assert (record.outcome, record.track) == ("verdict", "dismissed")
    with pytest.raises(tribunal.BadInput, match="rounds"):
        tribunal.judge("Good morning.", rounds=0)


def test_the_switches_of_the_hybrid_court() -> None:
    looked = run("judge", "Good morning, everybody.", "--set", "triage=rehearsal")
    assert looked.exit_code == 0, looked.stderr
    assert "Triage: NotHate, no confidence; not clear, so the debate follows" in looked.stdout
    assert "Nothing was brought against the post." in looked.stdout
    rested = run(
        "judge",
        "Immigrants: the weeds in our garden.",
        "--set",
        "judge_draws=5",
        "--threshold",
        "0.95",
    )
    shown = " ".join(rested.stdout.split())
    assert "no cue is in dispute: stopped after round 2 of 3" in shown
    assert "policy h-vli), uncertain" in shown
    assert "confidence" not in shown
    assert "3 of 3 votes" in shown
    argued = run(
        "judge", "Immigrants: the weeds in our garden.", "--set", "early_exit=false", "--json"
    )
    assert json.loads(argued.stdout)["rounds"] == 3


def test_what_several_seats_were_told_is_shown_once() -> None:
    gone = Fault(
        404, body={"error": {"message": "model `x` not found", "type": "not_found", "code": None}}
    )
    with ScriptedServer(lambda request: gone) as server:
        settings = {"OPENAI_BASE_URL": f"{server.url}/v1", "COLUMNS": "400"}
        done = run("judge", "hi", "--graph", "predict", "--model", "openai:x", **settings)
    assert done.exit_code == 4
    notes = [line for line in done.stdout.splitlines() if "failed and was left out" in line]
    assert len(notes) == 5
    assert notes[0].endswith(
        f"HTTP 404: model `x` not found (asked: {server.url}/v1/chat/completions)"
    )
    assert all(note.endswith("failed and was left out: the same") for note in notes[1:])
    assert '{"message"' not in done.stdout
