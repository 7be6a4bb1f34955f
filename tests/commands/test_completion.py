"""Completion for shells, help in groups, and what was meant by a name that there is none of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests import PROJECT
from tribunal.commands import app


def offered(typed: str) -> list[str]:
    """What bash is offered for the last word of a command line."""
    asked = {
        "_TRIBUNAL_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    command = [
        sys.executable,
        "-W",
        "error",
        "-c",
        "import sys, tribunal; sys.argv[0] = 'tribunal'; tribunal.main()",
    ]
    environment = {**os.environ, **asked, "PYTHONPATH": str(PROJECT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment).stdout.split()


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("tribunal pro", {"prompts"}),
        ("tribunal judge --graph ar", {"arcade"}),
        ("tribunal eval --graph mul", {"multiround"}),
        ("tribunal batch --graph mul", {"multiround"}),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in [
                ("tribunal graphs sym", {"symmetric_debate"}),
                ("tribunal judge --policy h", {"h-vli"}),
                ("tribunal policy mis", {"misinformation"}),
                ("tribunal eval --protocol arcade-table4", {"arcade-table4"}),
                ("tribunal eval --dataset sbic+gh", {"sbic+ghc"}),
                ("tribunal experiment run arcade-table4", {"arcade-table4"}),
                ("tribunal compare --dataset sbic+gh", {"sbic+ghc"}),
                ("tribunal judge --perspectives example-h", {"example-harm"}),
                (
                    "tribunal judge --perspectives example-harm,example-d",
                    {"example-harm,example-dehumanisation"},
                ),
                ("tribunal judge --perspectives al", {"all"}),
                ("tribunal perspectives show example-h", {"example-harm"}),
            ]
        ),
    ],
)
def test_names_complete(typed: str, names: set[str]) -> None:
    assert set(offered(typed)) == names


def test_completion_stays_silent_where_names_cannot_be_read() -> None:
    data = Path(os.environ["TRIBUNAL_DATA"])
    data.mkdir(parents=True)
    (data / "perspectives").write_text("no folder")
    assert not any("rror" in word for word in offered("tribunal judge --perspectives zz"))


def test_completion_can_be_installed_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    # there may be no shell above these tests
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    said = CliRunner().invoke(app, ["--help"], prog_name="tribunal").stdout
    assert "--install-completion" in said
    script = CliRunner().invoke(app, ["--show-completion", "bash"], prog_name="tribunal").stdout
    assert "_TRIBUNAL_COMPLETE=complete_bash" in script


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["judge", "x", "--graph", "arcde"], "did you mean arcade?"),
        (["graphs", "mv-debate"], "did you mean mv_debate?"),
        (["judge", "x", "--policy", "h-vly"], "did you mean h-vli?"),
        (["policy", "sarcasmm"], "did you mean sarcasm?"),
        (["experiment", "show", "arcade-tabel4"], "did you mean arcade-table4"),
        (["jugde", "x"], "Did you mean 'judge'?"),
        (["perspectives", "shw"], "Did you mean 'show'?"),
    ],
)
def test_what_was_meant_is_named(typed: list[str], meant: str) -> None:
    done = CliRunner().invoke(app, typed)
    assert done.exit_code == 2
    assert meant in " ".join(done.stderr.split())
