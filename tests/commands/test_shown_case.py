"""What a person reads of a case in a terminal or a pipe: each thing once, and in whatever letters there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text
from typer.testing import CliRunner, Result

from tests import PROJECT
from tests.court import court_script, cue
from tests.doubles import ScriptedServer
from tribunal.commands.show import mark_post
from tribunal.schema import Cue

IMPLICIT, EXPLICIT = (
    "Immigrants: the weeds in our garden.",
    "Immigrants are vermin and should be deported.",
)


def run(*arguments: str, **settings: str) -> Result:
    from tribunal.commands import app

    return CliRunner().invoke(app, list(arguments), env=settings)


def alone(*arguments: str, encoding: str) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, whose output takes only these letters."""
    command = [sys.executable, "-W", "error", "-c", "import tribunal; tribunal.main()", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONIOENCODING": encoding}
    return subprocess.run(command, capture_output=True, env=environment, stdin=subprocess.DEVNULL)


def a_cue(id: str, claim: str, justification: str = "a reason") -> Cue:
    return Cue(
        id=id,
        type="Direct",
        target_group="x",
        claim=claim,
        justification=justification,
        category="Hate",
    )


def test_the_post_stands_once_with_its_cues_numbered_before_they_are_argued() -> None:
    shown = run("judge", EXPLICIT).stdout
    assert shown.count("[C1 [C2 Immigrants are vermin] and should be deported].") == 1
    assert shown.index("\nPost\n") < shown.index("Prosecutor, round 1")
    assert "\nPost\n  Good morning.\nNOT HATE SPEECH\n" in run("judge", "Good morning.").stdout


@pytest.mark.parametrize(
    ("post", "cues", "shown"),
    [
        ("They are WEEDS, weeds.", [a_cue("C1", "weeds")], "They are [C1 WEEDS], [C1 weeds]."),
        ("We  are\nweeds", [a_cue("C1", "we are")], "[C1 We  are]\nweeds"),
        ("wetlands and we", [a_cue("C1", "he says “we”")], "wetlands and [C1 we]"),
        ("그들은 잡초다.", [a_cue("C1", "“잡초”")], "그들은 [C1 잡초]다."),
        ("no such words", [a_cue("C1", "something else", "nothing quoted")], "no such words"),
        ("only here", [a_cue("C1", "a thing", 'the word "here" says it')], "only [C1 here]"),
        ("a b c", [a_cue("C1", "a b"), a_cue("C2", "b c")], "[C1 a b][C2  c]"),
        ("same", [a_cue("C1", "same"), a_cue("C2", "same")], "[C1 C2 same]"),
    ],
)
def test_words_that_a_cue_quotes_are_marked(post: str, cues: list[Cue], shown: str) -> None:
    told = mark_post(post, cues)
    assert told.plain == shown
    quoted = [told.plain[span.start : span.end] for span in told.spans if span.style == "underline"]
    assert bool(quoted) == ("[" in shown)
    assert all("[" not in words for words in quoted)


def test_a_claim_is_quoted_once() -> None:
    shown = run("judge", IMPLICIT, COLUMNS="200").stdout
    debate = shown[: shown.index("HATE SPEECH")]
    assert debate.count("unwanted and to be rooted out: “") == 1
    assert "  C1 refutes: “weeds” has a harmless reading" in debate
    assert "  C1 concedes: (not answered)" in debate
    twice = run("judge", EXPLICIT, COLUMNS="200").stdout
    assert twice.count("is a call to shut people out") == 1
    assert "Prosecutor, round 1: indictment\n  C1, as above\n" in twice


def test_another_claim_under_the_same_number_is_quoted_too() -> None:
    other = {"cues": [cue("the other words", "Direct")]}
    with ScriptedServer(court_script(explicit=True, indictment=other)) as server:
        shown = run(
            "judge",
            "the other words",
            "--graph",
            "arcade",
            "--model",
            "openai:m",
            OPENAI_BASE_URL=f"{server.url}/v1",
        ).stdout
    assert "as above" not in shown
    assert "“the other words”" in shown
    assert "\nPost\n  [C1 the other words]\n" in shown


def test_what_was_saved_is_said_once() -> None:
    shown = run("judge", IMPLICIT, "--set", "judge_draws=5", COLUMNS="200").stdout
    assert shown.count("saved") == 1
    assert ", 4 calls saved\n" in shown
    assert "early exit" not in shown


PIPELINE = """
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from tribunal.pieces import Case, Context, PostInput, Ruling, checked, court_judge, deep_trial, evidence_from
from tribunal.pieces import piece, receive

FOUND = [Document(page_content="An old image. " * 60, metadata={"title": "My glossary", "url": "https://a.example/g"})]
builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)


@piece(needs=["post"], writes=[])
async def note(state: Case, runtime: Runtime[Context]) -> Case:
    runtime.stream_writer("halfway")
    runtime.stream_writer({"done": 1})
    return {}


builder.add_node("receive", receive)
builder.add_node("note", note)
builder.add_node("glossary", evidence_from(RunnableLambda(lambda words: FOUND), letter="G"))
builder.add_node("deep_dive", deep_trial)
builder.add_node("judge", court_judge)
builder.add_edge(START, "receive")
builder.add_edge("receive", "note")
builder.add_edge("note", "glossary")
builder.add_edge("glossary", "deep_dive")
builder.add_edge("deep_dive", "judge")
builder.add_edge("judge", END)
graph = checked(builder).compile(name="mine")
"""


def test_evidence_that_a_retriever_brought_is_listed() -> None:
    Path("mine.py").write_text(PIPELINE)
    done = run("judge", IMPLICIT, "--graph", "mine.py:graph", COLUMNS="120")
    assert done.exit_code == 0, done.output
    assert (
        "\nEvidence\n  G1 neutral: My glossary · https://a.example/g\n     “An old image. "
        in done.stdout
    )
    assert 10 < done.stdout.count("An old image.") < 20
    assert " …”\n" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [["judge", EXPLICIT], ["perspectives", "show"], ["judge", "x", "--graph", "predict"]],
)
def test_no_line_of_a_pipe_is_filled_up_with_blanks(arguments: list[str]) -> None:
    lines = run(*arguments).stdout.splitlines()
    assert len(lines) > 4
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.long
@pytest.mark.parametrize(
    "encoding",
    [
        "ascii",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("latin-1", "cp1252", "utf-8")),
    ],
)
def test_other_letters_degrade_and_never_fail(encoding: str) -> None:
    post = "Immigrants are vermin — 그들은 😀."
    done = alone("judge", post, "--graph", "arcade", encoding=encoding)
    assert done.returncode == 0, done.stderr
    told = done.stdout.decode(encoding)
    assert ("그들은" if encoding == "utf-8" else "\\uadf8\\ub4e4\\uc740 \\U0001f600") in told
    if encoding in ("ascii", "latin-1"):
        assert '"Immigrants are vermin"' in told
    as_json = alone("judge", post, "--json", "--id", post, "--graph", "arcade", encoding=encoding)
    assert as_json.returncode == 0, as_json.stderr
    record: dict[str, Any] = json.loads(as_json.stdout.decode(encoding))
    assert record["post_id"] == post
    for wrong in (
        ["judge", "x", "--graph", "그들"],
        ["judge", "x", "--trace", "--rounds", "0"],
        ["그들"],
    ):
        done = alone(*wrong, encoding=encoding)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"Traceback" not in done.stderr
    assert alone("judge", "--help", encoding=encoding).returncode == 0


def test_a_terminal_is_shown_a_box_and_underlined_cues(monkeypatch: pytest.MonkeyPatch) -> None:
    from tribunal.commands import show
    from tribunal.process.screen import Screen

    def watched_screen(**_: Any) -> Screen:
        return Screen(force_terminal=True, width=80, color_system="truecolor", highlight=False)

    monkeypatch.setattr(show, "screen", watched_screen)
    shown = run("judge", EXPLICIT, TERM="xterm").stdout
    assert "\x1b[4mImmigrants are vermin\x1b[0m" in shown
    assert "╭" in shown
    assert "HATE SPEECH" in Text.from_ansi(shown).plain


def test_a_reviewer_is_shown_the_post_once_and_what_the_court_says() -> None:
    left = run("judge", IMPLICIT, "--review", "--set", "review_rule=all", "--json")
    record = json.loads(left.stdout)
    assert left.exit_code == 5, left.output
    shown = run("review", "show", record["thread"], COLUMNS="200").stdout
    assert shown.count("Immigrants: the weeds] in our garden.") == 1
    # in the indictment, and in the court's reason
    assert shown.count("unwanted and to be rooted out: “") == 2
    assert "a person has to decide this case" in shown
    assert record["review"]["court"]["explanation"][:60] in shown
