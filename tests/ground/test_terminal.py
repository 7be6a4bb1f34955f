"""The one way to a terminal: nothing that a stranger wrote commands it, hides in it or breaks its lines."""

from __future__ import annotations

import ast
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from tests.court import court_script, cue
from tests.doubles import ScriptedServer
from tests.test_house import MODULES
from tribunal.process.screen import Screen
from tribunal.process.terminal import as_json, print_uncaught_error, say

OBEYED = "\x1b\x9b\x07\x08\r\x7f\x85\u200b\u200e\u202e\u2066\u2028\u2029\ufeff\U000e0041"
HOSTILE = f"it[bold]:smile:{OBEYED}\ntribunal: error: forged"
ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)
# Everything else prints by `tribunal.process.terminal`.
PRINTERS = {"process.terminal", "process.screen"}
BARE = {"print", "echo", "secho", "Console", "from_markup", "stdout", "stderr", "pprint"}


def run(*arguments: str, **settings: str) -> Result:
    from tribunal.commands import app

    return CliRunner().invoke(app, list(arguments), env=settings)


def shown_safely(output: str) -> bool:
    return not any(character in output for character in OBEYED)


@pytest.mark.long
def test_no_other_file_prints() -> None:
    for module, path in MODULES.items():
        if module in PRINTERS:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            named = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                named += [node.func.id]
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                named += (
                    [node.attr]
                    if node.value.id in ("sys", "typer", "click", "rich", "Text")
                    else []
                )
            assert not BARE & set(named), (
                f"{path}: {BARE & set(named)}: print by tribunal.process.terminal"
            )


@given(text=ANYTHING)
def test_a_text_is_one_line_of_what_can_be_seen(text: str) -> None:
    out, sys.stdout = sys.stdout, io.StringIO()
    try:
        say(text)
        told = sys.stdout.getvalue()
    finally:
        sys.stdout = out
    assert told.count("\n") == 1
    assert shown_safely(told)
    told.encode()


@given(text=ANYTHING)
def test_json_reads_back_as_the_same_and_commands_nothing(text: str) -> None:
    told = as_json({text: [text, 1]})
    assert json.loads(told) == {text: [text, 1]}
    assert shown_safely(told)
    told.encode()


def test_letters_and_emoji_stay_letters_in_json() -> None:
    assert as_json("그들은 ❤ naïve") == '"그들은 ❤ naïve"'


@given(text=ANYTHING)
def test_whatever_is_laid_out_is_made_visible(text: str) -> None:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    file = io.StringIO()
    screen = Screen(file=file, width=40, highlight=False, markup=False, emoji=False)
    table = Table(text, title=text)
    table.add_row(Text(text))
    for each in (text, Text(text), table, Panel(text, title=Text(text))):
        screen.print(each)
    assert shown_safely(file.getvalue())


def test_no_markup_comes_from_a_text() -> None:
    file = io.StringIO()
    Screen(file=file, force_terminal=True, highlight=False, markup=False, emoji=False).print(
        "[bold red]x[/] :smile:"
    )
    assert file.getvalue() == "[bold red]x[/] :smile:\n"


def test_an_error_that_nobody_caught_is_shown_too(capsys: pytest.CaptureFixture[str]) -> None:
    error = ValueError(HOSTILE)
    print_uncaught_error(ValueError, error, None)
    told = capsys.readouterr().err
    assert "ValueError: it[bold]" in told
    assert shown_safely(told)


WRONG = [
    ["judge", "x", "--graph", HOSTILE],
    ["judge", "x", "--graph", f"{HOSTILE}.py:graph"],
    ["judge", "x", "--model", HOSTILE],
    ["judge", "x", "--image", HOSTILE],
    ["judge", "x", "--policy", HOSTILE],
    ["judge", "x", "--prompts", HOSTILE],
    ["judge", "x", "--set", f"{HOSTILE}=1"],
    ["judge", "x", "--seat", f"{HOSTILE}=1"],
    ["judge", "x", f"--{HOSTILE}"],
    [HOSTILE],
    ["review", HOSTILE],
    ["review", "show", HOSTILE],
    ["report", HOSTILE, "--out", "out"],
    ["report", HOSTILE, "--tables"],
    ["fit", HOSTILE],
    ["fit", "x", "--level", HOSTILE],
    ["policy", HOSTILE],
    ["experiment", "show", HOSTILE],
    ["graphs", HOSTILE],
    ["compare", HOSTILE],
    ["batch", HOSTILE, "--out", "x.csv"],
    ["eval", "--data", HOSTILE, "--out", "out", "--dataset", HOSTILE],
    ["perspectives", "show", HOSTILE],
    ["evidence", "latest", "--archive", HOSTILE],
]


@pytest.mark.parametrize(
    "arguments", WRONG, ids=lambda it: " ".join(it).replace(HOSTILE, "HOSTILE")
)
def test_what_was_typed_wrongly_is_said_safely(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert shown_safely(done.output)
    assert "\ntribunal: error: forged" not in done.output


@pytest.mark.parametrize("how", [(), ("--json",), ("--trace",)])
def test_a_case_whose_every_word_is_hostile(how: tuple[str, ...]) -> None:
    said: Any = {
        "investigation": {
            "cues": [cue(HOSTILE, "Metaphor", target_group=HOSTILE, justification=HOSTILE)]
        },
        "judge": {"explanation": HOSTILE, "category": "Religious"},
    }
    with ScriptedServer(court_script(**said)) as server:
        done = run(
            "judge", f"a post {HOSTILE}", "--id", HOSTILE, "--graph", "arcade", "--model", "openai:scripted",
            "--set", "rounds=1", *how, OPENAI_BASE_URL=server.url, OPENAI_API_KEY="x",
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert shown_safely(done.output)
    if how == ("--json",):
        assert json.loads(done.stdout)["post_id"] == HOSTILE
    else:
        assert "\ntribunal: error: forged" not in done.stdout
        assert "[bold]:smile:" in done.stdout


def test_a_run_of_posts_with_hostile_ids_and_names(tmp_path: Path) -> None:
    posts = tmp_path / "in\x1b[31m\u202e.jsonl"
    posts.write_text(json.dumps({"id": HOSTILE, "text": f"=1+1 {HOSTILE}"}) + "\n", "utf-8")
    out = tmp_path / "out\x1b[31m\u202e.csv"
    for how in ([], ["--json"]):
        done = run(
            "batch",
            str(posts),
            "--out",
            str(out),
            "--graph",
            "baseline",
            "--columns",
            "id=id",
            *how,
        )
        assert done.exit_code == 0, done.output
        assert shown_safely(done.output)
