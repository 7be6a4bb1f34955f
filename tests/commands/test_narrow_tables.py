"""Tables on a terminal of 80 columns: an id that the next command takes is never cut, the other columns give way."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner, Result

from tribunal.commands import app
from tribunal.process.terminal import print_table

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")


def read_lines(output: str) -> list[str]:
    return ESCAPES.sub("", output).splitlines()


@pytest.mark.usefixtures("narrow")
def test_the_ids_that_the_next_command_takes_are_whole() -> None:
    post = "Immigrants: the weeds in our garden."
    made = run(
        "judge", post, "--id", f"post-{'7' * 40}", "--review", "--set", "review_rule=all", "--json"
    )
    assert made.exit_code == 5, made.output
    thread = json.loads(made.stdout)["thread"]
    for command in (("review", "list"), ("cases", "list")):
        listed = run(*command)
        assert listed.exit_code == 0, listed.output
        lines = read_lines(listed.stdout)
        assert max(map(len, lines)) <= 80
        assert [line.split()[0] for line in lines if line.startswith("case-")] == [thread]
        assert "rehearsal" not in lines[0]
    shown = run("review", "show", thread)
    assert shown.exit_code == 0, shown.output


@pytest.mark.usefixtures("narrow")
def test_columns_give_way_empty_ones_first_and_it_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    heads = ("id", *(f"column-{number}" for number in range(9)))
    cells = ["x" * 30, "", *(f"words of {number}" for number in range(1, 9))]
    print_table(heads, [cells])
    told = capsys.readouterr()
    lines = read_lines(told.out)
    assert max(map(len, lines)) <= 80
    assert "x" * 30 in lines[1]
    assert "column-1" in " ".join(lines[0].split())
    assert "column-0" not in told.out
    assert "Not shown at this width: column-0" in told.err
    print_table(("post", "run"), [("p" * 90, "r" * 70)], whole="run")
    assert "r" * 70 in ESCAPES.sub("", capsys.readouterr().out)
