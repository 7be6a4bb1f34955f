"""`tribunal doctor`: what it finds of keys, addresses and models."""

from __future__ import annotations

import json
import threading
from http.server import HTTPServer, SimpleHTTPRequestHandler

import pytest

from tests.commands.test_judge import run
from tests.court import court_script
from tests.doubles import ScriptedServer


def checks(**settings: str) -> dict[str, dict[str, str]]:
    done = run("doctor", "--json", **settings)
    assert "very-secret" not in done.stdout + done.stderr
    return {check["what"]: check for check in json.loads(done.stdout)["checks"]}


def test_what_is_missing_is_named_and_never_a_key() -> None:
    with ScriptedServer(court_script()) as server:
        found = checks(OPENAI_API_KEY="sk-very-secret", OPENAI_BASE_URL=f"{server.url}/v1")
    assert found["openai"]["state"] == "ok"
    assert "1 key" in found["openai"]["found"]
    assert "ANTHROPIC_API_KEY" in found["anthropic"]["found"]


@pytest.mark.parametrize(
    ("named", "setting", "path"),
    [("openai:scripted", "OPENAI_BASE_URL", "/v1"), ("ollama:scripted", "OLLAMA_HOST", ""),
     ("google_genai:scripted", "GOOGLE_GEMINI_BASE_URL", ""), ("anthropic:scripted", "ANTHROPIC_BASE_URL", "")],
)  # fmt: skip
def test_a_model_gets_a_tick_where_its_server_lists_it(named: str, setting: str, path: str) -> None:
    keys = {"GOOGLE_API_KEY": "very-secret-g", "ANTHROPIC_API_KEY": "very-secret-a"}
    with ScriptedServer(court_script()) as server:
        listed = checks(TRIBUNAL_MODEL=named, **{setting: f"{server.url}{path}"}, **keys)
        unlisted = checks(TRIBUNAL_MODEL=f"{named}-2", **{setting: f"{server.url}{path}"}, **keys)
    assert listed["model in force"] == {
        "what": "model in force", "state": "ok", "found": f"{named} (TRIBUNAL_MODEL)", "in_force": True,
    }  # fmt: skip
    assert unlisted["model in force"]["state"] == "missing"
    assert (
        "-2 (TRIBUNAL_MODEL); its server doesn't list it; it lists scripted"
        in unlisted["model in force"]["found"]
    )


def test_ollama_s_tags_and_dates_of_release_are_part_of_no_name() -> None:
    for listed, named in (
        ("llama3.2:latest", "openai:llama3.2"),
        ("claude-x-20260101", "openai:claude-x"),
    ):
        with ScriptedServer(court_script(), models=[listed]) as server:
            found = checks(TRIBUNAL_MODEL=named, OPENAI_BASE_URL=f"{server.url}/v1")
        assert found["model in force"]["state"] == "ok"


def test_a_server_that_is_down_is_no_tick_for_its_model_and_says_whose_address_it_was() -> None:
    found = checks(TRIBUNAL_MODEL="openai:x", OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    for what in ("openai", "model in force"):
        assert found[what]["state"] == "broken"
        assert "127.0.0.1 doesn't answer" in found[what]["found"]
        assert "(the address is that of OPENAI_BASE_URL)" in found[what]["found"]


def test_a_wrong_path_is_named_in_full() -> None:
    with HTTPServer(
        ("127.0.0.1", 0), SimpleHTTPRequestHandler
    ) as other:  # a folder without such a file
        serving = threading.Thread(target=other.serve_forever)
        serving.start()
        address = f"http://127.0.0.1:{other.server_port}/api/v1"
        found = checks(OPENAI_BASE_URL=address.replace("//", "//me:very-secret@"))
        other.shutdown()
        serving.join()
    assert found["openai"] == {
        "what": "openai", "state": "broken", "found": f"no key needed; 127.0.0.1 says 404 ({address}/models)",
        "in_force": False,
    }  # fmt: skip


def test_an_address_that_is_none() -> None:
    found = checks(TRIBUNAL_MODEL="openai:x", OPENAI_BASE_URL="127.0.0.1:8080/v1")
    for what in ("openai", "model in force"):
        assert found[what]["state"] == "broken"
        assert found[what]["found"].startswith(
            "OPENAI_BASE_URL: '127.0.0.1:8080/v1': not an http(s) address"
        )
    judged = run("judge", "hi", "--model", "openai:x", OPENAI_BASE_URL="127.0.0.1:8080/v1")
    assert judged.exit_code == 2
    assert "OPENAI_BASE_URL" in judged.stderr
