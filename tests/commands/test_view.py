"""`tribunal view` as a process: its address, its end, and what it refuses."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.commands.test_judge import run
from tests.result_lines import answers, write_run


@pytest.mark.long
def test_it_says_its_address_serves_and_ends_quietly(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", answers("0011", "0110"))
    with subprocess.Popen(
        [sys.executable, "-m", "tribunal", "view", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            address = said.split()[1]
            assert address.startswith("http://127.0.0.1:")
            page = httpx.get(address, follow_redirects=True, trust_env=False, timeout=60)
            assert page.status_code == 200
            assert "4 samples" in page.text
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "host: 0.0.0.0: other machines may reach it, and there is no sign-in"),
        (["--host", "example.org"], "host: example.org: other machines may reach it"),
        (["--data", "a", "--data", "b"], "data: a and b: give one path, or SET=PATH for each set"),
        (["--data", "h-vli=nowhere"], "data: nowhere: no such file or folder; h-vli (test)"),
        (["--prices", "nowhere.toml"], "prices: nowhere.toml: No such file"),
        (["--port", "70000"], "70000"),
    ],
)
def test_what_is_refused_before_anything_is_served(tmp_path: Path, options: list[str], said: str) -> None:
    folder = write_run(tmp_path / "run", answers("01", "01"))
    done = run("view", str(folder), *options)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_folder_that_is_no_run_s(tmp_path: Path) -> None:
    done = run("view", str(tmp_path / "nowhere"))
    assert done.exit_code == 2
    assert "nowhere: not the folder of a run" in done.stderr
