"""What a `.env` file in the working folder, which may be anybody's, can and can't do."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests import PROJECT
from tests.commands.test_judge import run, run_alone
from tests.court import court_script
from tests.doubles import ScriptedServer


def keys_sent(server: ScriptedServer) -> set[str]:
    return {request.headers.get("authorization", "") for request in server.requests}


def trust_now() -> None:
    done = run("trust")
    assert done.exit_code == 0, done.output


@pytest.fixture
def own_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The platform's own data folder, with TRIBUNAL_DATA unset."""
    monkeypatch.setenv("TRIBUNAL_DATA", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "own"))
    return tmp_path / "own" / "tribunal"


OPENAI = ("judge", "hi", "--model", "openai:any")
# What a stranger's file says, the command that would heed it, and how that ends.
PLACES = {
    "a model's address": ("OPENAI_BASE_URL={url}/v1", OPENAI, 2),
    "an address beside its key": ("OPENAI_BASE_URL={url}/v1\nOPENAI_API_KEY=sk-bait", OPENAI, 2),
    "an address by its other name": ("OPENAI_API_BASE={url}/v1\nOPENAI_API_KEY=x", OPENAI, 2),
    "a server without keys": ("OLLAMA_HOST={url}", ("judge", "hi", "--model", "ollama:any"), 2),
    "a search": (
        "SEARXNG_URL={url}\nX_API_KEY=x", ("judge", "hi", "--graph", "antihate", "--set", "search=searxng"), 2,
    ),
    "a rule of fetching": (
        "TRIBUNAL_FETCH_ALLOW=127.0.0.1:{port}\nX_API_KEY=x", ("judge", "hi", "--image", "{url}/a.png"), 2,
    ),
    "hosts of images": ("TRIBUNAL_IMAGE_HOSTS=127.0.0.1\nX_API_KEY=x", ("judge", "hi", "--image", "{url}/a.png"), 2),
    "a data folder": ("TRIBUNAL_DATA=theirs\nX_API_KEY=x", ("judge", "hi", "--keep"), 0),
    "a database": ("TRIBUNAL_DATABASE=sqlite:///theirs/x.sqlite\nX_API_KEY=x", ("judge", "hi", "--keep"), 0),
    "what is kept": ("TRIBUNAL_KEEP=yes\nX_API_KEY=x", ("judge", "hi"), 0),
    "where posts are traced to": (
        "LANGSMITH_ENDPOINT={url}\nLANGSMITH_TRACING=true\nLANGSMITH_API_KEY=x", ("judge", "hi"), 0,
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.usefixtures("own_data")
@pytest.mark.parametrize(("file", "command", "status"), PLACES.values(), ids=list(PLACES))
def test_a_stranger_s_file_leads_nowhere_and_is_named_in_one_line(
    file: str, command: tuple[str, ...], status: int
) -> None:
    with ScriptedServer(court_script(implicit=False)) as server:
        filled = {"url": server.url, "port": server.url.rpartition(":")[2]}
        Path(".env").write_text(file.format(**filled))
        done = run_alone(
            *(each.format(**filled) for each in command), OPENAI_API_KEY="sk-real", LANGSMITH_TRACING="",
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        name = file.partition("=")[0]
        [line] = [each for each in done.stderr.decode().splitlines() if each.startswith(".env: ")]
        assert name in line
        assert "run `tribunal trust` here" in line
        assert (server.requests, server.others) == ([], [])
        assert not Path("theirs").exists()
        assert len(json.loads(run("cases", "list", "--json").stdout)) == ("--keep" in command)


@pytest.mark.long
def test_a_trusted_file_is_in_force_until_it_changes(own_data: Path) -> None:
    with ScriptedServer(court_script(implicit=False)) as server:
        file = (
            f"OPENAI_BASE_URL={server.url}/v1\nOPENAI_API_KEY=sk-of-the-file\nTRIBUNAL_DATA=moved\n"
        )
        Path(".env").write_text(file)
        trust_now()
        done = run_alone(*OPENAI, "--json", "--keep")
        assert done.returncode == 0, done.stderr
        assert keys_sent(server) == {"Bearer sk-of-the-file"}
        assert (
            done.stderr.decode() == ".env, which you trust, sets OPENAI_BASE_URL, TRIBUNAL_DATA\n"
        )
        assert json.loads(done.stdout)["outcome"] == "verdict"
        assert Path("moved/service.sqlite").exists()
        assert [each.name for each in own_data.iterdir()] == ["trusted.json"]
        asked = len(server.requests)
        Path(".env").write_text(f"{file}SEARXNG_URL={server.url}\n")
        again = run_alone(*OPENAI)
        assert again.returncode == 2
        assert b"stands in .env, which you haven't said that you trust" in again.stderr
        assert len(server.requests) == asked


def test_a_file_is_trusted_no_longer() -> None:
    with ScriptedServer(court_script(implicit=False)) as server:
        Path(".env").write_text(f"OPENAI_BASE_URL={server.url}/v1\nOPENAI_API_KEY=x\n")
        trust_now()
        assert run(*OPENAI).exit_code == 0
        assert "not trusted any more" in run("trust", "--remove").stdout
        assert run(*OPENAI).exit_code == 2
        assert "was not trusted" in run("trust", "--remove").stdout


def test_the_environment_says_it_for_containers_and_ci() -> None:
    with ScriptedServer(court_script(implicit=False)) as server:
        Path(".env").write_text(f"OPENAI_BASE_URL={server.url}/v1\nOPENAI_API_KEY=x\n")
        assert run(*OPENAI, TRIBUNAL_TRUST_DOTENV="1").exit_code == 0
        assert run(*OPENAI, TRIBUNAL_TRUST_DOTENV="0").exit_code == 2
        wrong = run(*OPENAI, TRIBUNAL_TRUST_DOTENV="perhaps")
        assert wrong.exit_code == 2
        assert "TRIBUNAL_TRUST_DOTENV: 'perhaps': is neither yes nor no" in wrong.stderr


def test_what_a_file_would_set_is_shown_without_secrets() -> None:
    Path(".env").write_text(
        "LANGSMITH_API_KEY=lsv2-hidden\nOPENAI_BASE_URL=http://kim:hidden@host/v1\nOTHER=1\n"
    )
    shown = run("trust").stdout
    assert "LANGSMITH_API_KEY=…" in shown
    assert "OPENAI_BASE_URL=http://…@host/v1" in shown
    assert "hidden" not in shown
    assert "OTHER" not in shown


def test_a_folder_without_a_file_has_nothing_to_trust() -> None:
    done = run("trust")
    assert done.exit_code == 2
    assert ".env: there is none in this folder that can be read" in done.stderr


@pytest.mark.usefixtures("own_data")
def test_the_list_of_trusted_files_lies_where_no_file_leads_it() -> None:
    theirs = Path("theirs").absolute()
    Path(".env").write_text(f"TRIBUNAL_DATA={theirs}\nOPENAI_BASE_URL=http://127.0.0.1:9\n")
    theirs.mkdir()
    digest = hashlib.sha256(Path(".env").read_bytes()).hexdigest()
    (theirs / "trusted.json").write_text(json.dumps({str(Path(".env").resolve()): f"{digest} yes"}))
    assert run(*OPENAI, OPENAI_API_KEY="x").exit_code == 2


@pytest.mark.parametrize("damaged", [b"{", b"[]", b'{"x": 3}', b"\xff\x00"])
def test_a_damaged_list_trusts_nothing(damaged: bytes) -> None:
    Path(".env").write_text("OPENAI_BASE_URL=http://127.0.0.1:9\nOPENAI_API_KEY=x\n")
    trust_now()
    (Path(os.environ["TRIBUNAL_DATA"]) / "trusted.json").write_bytes(damaged)
    done = run(*OPENAI)
    assert done.exit_code == 2
    assert "you haven't said that you trust" in done.stderr


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no terminals")
@pytest.mark.parametrize(("answer", "status"), [(b"y\n", 0), (b"n\n", 2)])
def test_a_terminal_is_asked_once(answer: bytes, status: int) -> None:
    with ScriptedServer(court_script(implicit=False)) as server:
        Path(".env").write_text(f"OPENAI_BASE_URL={server.url}/v1\nOPENAI_API_KEY=x\n")
        command = [sys.executable, "-m", "tribunal", *OPENAI, "--json"]
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        for typed in (answer, b""):
            ours, theirs = os.openpty()
            with subprocess.Popen(
                command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, env=environment
            ) as process:  # fmt: skip
                os.close(theirs)
                os.write(ours, typed)
                process.communicate(timeout=120)
            said = b""
            with suppress(OSError):  # the end of a terminal
                while piece := os.read(ours, 4096):
                    said += piece
            os.close(ours)
            assert process.returncode == status, said
            assert (b"Trust this file?" in said) == bool(typed)
            assert not typed or f"OPENAI_BASE_URL={server.url}/v1".encode() in said


def test_no_key_of_the_environment_is_put_into_a_file_s_address() -> None:
    with ScriptedServer(court_script(implicit=False)) as server:
        Path(".env").write_text(
            f"OPENAI_API_KEY=any\nOPENAI_BASE_URL={server.url}/${{GOOGLE_API_KEY}}/v1\n"
        )
        trust_now()
        run(*OPENAI, "--set", "attempts=1", GOOGLE_API_KEY="sk-real")
        assert server.requests or server.others
        assert "sk-real" not in str(
            [vars(request) for request in (*server.requests, *server.others)]
        )


@pytest.mark.long
def test_a_file_can_t_name_code_to_run() -> None:
    Path("bait.py").write_text("from pathlib import Path\nPath('ran').touch()\nPROVIDER = 1\n")
    Path(".env").write_text("TRIBUNAL_MODEL=bait:PROVIDER:any\n")
    done = run_alone("judge", "hi")
    assert done.returncode == 2
    assert (
        b"TRIBUNAL_MODEL: bait:PROVIDER:any: is set in .env, which may not name code to run"
        in done.stderr
    )
    assert not Path("ran").exists()


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_in_its_place_holds_nobody_up() -> None:
    os.mkfifo(".env")
    done = run_alone("judge", "hi", "--json")
    assert done.returncode == 0
    assert b".env: is not read: is not a regular file" in done.stderr
