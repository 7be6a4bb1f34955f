"""What a `.env` file in the working folder, which may be anybody's, can and can't do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.commands.test_judge import run, run_alone
from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.doubles.web import Site, SitePage


def keys_sent(server: ScriptedServer) -> set[str]:
    return {request.headers.get("authorization", "") for request in server.requests}


@pytest.mark.long
def test_an_address_is_used_with_the_key_beside_it_and_said_aloud() -> None:
    with ScriptedServer(court_script(implicit=False)) as server:
        Path(".env").write_text(f"OPENAI_BASE_URL={server.url}/v1\nOPENAI_API_KEY=sk-of-the-file\n")
        done = run_alone("judge", "hi", "--json", "--model", "openai:any")
        assert done.returncode == 0, done.stderr
        assert keys_sent(server) == {"Bearer sk-of-the-file"}
        said = f"OPENAI_BASE_URL={server.url}/v1 is taken from .env, with the key that stands beside it\n"
        assert done.stderr.decode() == said
        assert json.loads(done.stdout)["outcome"] == "verdict"


@pytest.mark.parametrize(
    ("file", "outside"),
    [
        ("OPENAI_BASE_URL={url}", {"OPENAI_API_KEY": "sk-real"}),
        ("OPENAI_BASE_URL={url}\nOPENAI_API_KEY=sk-bait", {"OPENAI_API_KEY": "sk-real"}),
        ("OPENAI_BASE_URL={url}\nOPENAI_API_KEY=sk-bait", {"OPENAI_API_KEY_1": "sk-real"}),
        ("OPENAI_API_BASE={url}\nGOOGLE_API_KEY=sk-bait", {"OPENAI_API_KEY": "sk-real"}),
        ("OPENAI_BASE_URL={url}", {}),
    ],
    ids=["no key", "a key that isn't used", "one of several keys", "another's key", "no key at all"],
)
def test_an_address_never_takes_a_key_from_elsewhere(file: str, outside: dict[str, str]) -> None:
    with ScriptedServer(court_script(implicit=False)) as server:
        Path(".env").write_text(file.format(url=f"{server.url}/v1"))
        for command in (("judge", "hi"), ("judge", "hi", "--graph", "baseline")):
            done = run(*command, "--model", "openai:any", **outside)
            assert done.exit_code == 2, done.output
            assert (
                "stands in .env, and its key doesn't; set both in .env, or the address in the environment"
                in done.stderr
            )
        assert server.requests == []


def test_a_server_without_keys_is_not_chosen_by_a_file() -> None:
    with ScriptedServer(court_script(implicit=False)) as server:
        Path(".env").write_text(f"OLLAMA_HOST={server.url}\n")
        done = run("judge", "hi", "--model", "ollama:any")
        assert (done.exit_code, server.requests) == (2, [])
        assert "OLLAMA_HOST" in done.stderr


def test_no_key_of_the_environment_is_put_into_a_file_s_address() -> None:
    with ScriptedServer(court_script(implicit=False)) as server:
        Path(".env").write_text(f"OPENAI_API_KEY=any\nOPENAI_BASE_URL={server.url}/${{GOOGLE_API_KEY}}/v1\n")
        run("judge", "hi", "--model", "openai:any", "--set", "attempts=1", GOOGLE_API_KEY="sk-real")
        assert "sk-real" not in str([vars(request) for request in (*server.requests, *server.others)])


@pytest.mark.long
async def test_a_fetch_rule_without_a_key_is_ignored_and_said() -> None:
    async with Site({"/a.png": SitePage(b"x", "image/png")}) as site:
        Path(".env").write_text(f"TRIBUNAL_FETCH_ALLOW={site.host}\n")
        done = run_alone("judge", "hi", "--image", f"{site.url}/a.png")
        assert done.returncode == 2
        assert b"TRIBUNAL_FETCH_ALLOW is ignored: it stands in .env without a key" in done.stderr
        assert site.log == []


@pytest.mark.long
def test_a_rule_with_a_key_is_said() -> None:
    Path(".env").write_text("TRIBUNAL_FETCH_ALLOW=127.0.0.1:9\nOPENAI_API_KEY=any\n")
    done = run_alone("judge", "hi", "--image", "http://127.0.0.1:9/a.png")
    assert b"TRIBUNAL_FETCH_ALLOW=127.0.0.1:9 is taken from .env\n" in done.stderr


@pytest.mark.long
def test_a_file_can_t_name_code_to_run() -> None:
    Path("bait.py").write_text("from pathlib import Path\nPath('ran').touch()\nPROVIDER = 1\n")
    Path(".env").write_text("TRIBUNAL_MODEL=bait:PROVIDER:any\n")
    done = run_alone("judge", "hi")
    assert done.returncode == 2
    assert b"TRIBUNAL_MODEL: bait:PROVIDER:any: stands in .env, which may not name code to run" in done.stderr
    assert not Path("ran").exists()


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_in_its_place_holds_nobody_up() -> None:
    os.mkfifo(".env")
    done = run_alone("judge", "hi", "--json")
    assert done.returncode == 0
    assert b".env: is not read: is not a regular file" in done.stderr
