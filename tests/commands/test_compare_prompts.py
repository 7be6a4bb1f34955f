"""`tribunal compare --prompts`: two prompt sets over the same posts, with a model over HTTP that heeds its prompts."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.court import argument, cue, part
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tribunal.commands import app
from tribunal.prompts.sets import shipped_prompts

STRICT, WIDE = "Be strict.", "Look twice."
POSTS = 12


def heeding(request: Request) -> Reply | Fault:
    """A judge who finds every hateful post if told to be strict, and no other; a gatekeeper who finds what is wide."""
    hateful = any(f"word-{number}." in request.text for number in range(1, POSTS, 2))
    answers: dict[str, Any] = {
        "gatekeeper": {"cues": [cue("scanned")] if WIDE in request.text else []},
        "indictment": {"cues": [cue("indicted")]},
        "investigation": {"cues": [cue("implied", "Metaphor")]},
        "prosecution": {"arguments": [argument("pressed", "press")]},
        "defence": {"arguments": [argument("refuted", "refute")]},
        "judge": {
            "category": "Hateful" if hateful and STRICT in request.text else "NotHate",
            "explanation": "words",
        },
    }
    return Reply(answers[part(request)], prompt_tokens=10, completion_tokens=5)


def write_set(folder: Path, **more: str) -> str:
    """A set with lines of its own at the end of some prompts of ours."""
    for name, line in more.items():
        file = folder / "arcade" / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{shipped_prompts().sources[f'arcade/{name}']}\n\n{line}\n", "utf-8")
    return str(folder)


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The shipped prompts beside a set with another judge and another gatekeeper, over posts in two languages."""
    rows = "".join(
        f"p{number},word-{number}.,{number % 2},{'en' if number < 4 else 'ko'},{number // 4},"
        f"{'test' if number >= 8 else 'train'}\n"
        for number in range(POSTS)
    )
    (tmp_path / "posts.csv").write_text(f"id,text,label,language,group,split\n{rows}")
    mine = write_set(tmp_path / "mine", judge=STRICT, gatekeeper=WIDE)
    return ["compare", "--prompts", "shipped", "--prompts", mine, "--on", str(tmp_path / "posts.csv"),
            "--out", str(tmp_path / "out"), "--graph", "arcade", "--model", "openai:scripted",
            "--set", "scheme=binary"]  # fmt: skip


async def run(server: ScriptedServer, *arguments: str) -> Result:
    """The command, which has an event loop of its own, beside the server's."""
    os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
    return await asyncio.to_thread(CliRunner().invoke, app, arguments)


def printed(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, (done.output, done.exception)
    held: dict[str, Any] = json.loads(done.stdout)
    return held


async def test_each_set_is_what_its_models_were_shown_and_both_are_compared_post_by_post(
    command: list[str], tmp_path: Path
) -> None:
    async with ScriptedServer(heeding) as server:
        found = printed(await run(server, *command, "--split", "train", "--yes", "--json"))
        judges = [request.text for request in server.requests if part(request) == "judge"]
    assert Counter(STRICT in words for words in judges) == {False: 8, True: 8}
    assert found["prompt_differences"] == {"mine": ["arcade/gatekeeper", "arcade/judge"]}
    shipped, mine = found["entries"]["shipped"], found["entries"]["mine"]
    assert (shipped["kind"], mine["prompts"]["name"], shipped["against_first"]) == (
        "prompts",
        "mine",
        None,
    )
    assert {name: row["posts"] for name, row in found["entries"].items()} == {
        "shipped": 8,
        "mine": 8,
    }
    test = mine["against_first"]["accuracy"]
    assert (test["both_right"], test["only_first_right"], test["only_second_right"]) == (4, 0, 4)
    # Four posts alone would be 2 × 0.5⁴ × ½; two groups of posts that belong together, 2 × 0.5² × ½.
    assert (test["p_independent"], test["p"], test["p_holm"]) == (0.0625, 0.25, 0.25)
    changes = [(each["post"], each["from"], each["to"], each["became"]) for each in mine["changes"]]
    assert changes == [(f"p{number}", "NotHate", "Hateful", "right") for number in (1, 3, 5, 7)]
    assert (shipped["calls"], mine["calls"]) == (8, 4)
    page = (tmp_path / "out" / "comparison.md").read_text("utf-8")
    assert "| p1 | 1 | NotHate | Hateful | right |" in page


@pytest.mark.long
async def test_the_plan_says_what_differs_and_answers_are_kept(command: list[str]) -> None:
    given = [*command, "--split", "train"]
    async with ScriptedServer(heeding) as server:
        asked = await run(server, *given)
        assert (asked.exit_code, server.requests) == (2, [])
        found = printed(await run(server, *given, "--yes", "--json"))
        paid = len(server.requests)
        again = printed(await run(server, *given, "--yes", "--json"))
        assert len(server.requests) == paid
    assert "mine differs in arcade/gatekeeper, arcade/judge" in asked.stderr
    assert again["entries"] == found["entries"]


@pytest.mark.long
async def test_a_test_split_is_looked_at_with_final_alone_and_each_look_is_counted(
    command: list[str], tmp_path: Path
) -> None:
    other = write_set(tmp_path / "other", judge="Be kind.")
    (tmp_path / "mine" / "set.toml").write_text('[tuned]\nfor = "another"', "utf-8")
    async with ScriptedServer(heeding) as server:
        refused = await run(server, *command, "--yes")
        assert refused.exit_code == 2
        assert "table: test is a test split" in refused.stderr
        assert not server.requests
        first = [*command, "--split", "test", "--final", "--yes", "--json"]
        second = [each.replace("/out", "/later").replace("/mine", "/other") for each in first]
        assert other in second
        once = await run(server, *first)
        assert (
            once.stderr.count(
                "prompts: mine: were tuned for another; asked with them: openai:scripted"
            )
            == 1
        )
        printed(await run(server, *first))  # goes on, and is no new look
        found = printed(await run(server, *second))
    assert "number 2 of 2" in found["final"]
    looks = [
        json.loads(line) for line in (tmp_path / "test_looks.jsonl").read_text("utf-8").splitlines()
    ]
    assert [(each["comparison"], each["split"]) for each in looks] == [
        ("out", "test"),
        ("later", "test"),
    ]
    held = json.loads((tmp_path / "out" / "shipped" / "run.json").read_bytes())
    assert held["final"]["look"] == 1
    CliRunner().invoke(app, ["report", str(tmp_path / "out" / "shipped")])
    report = (tmp_path / "out" / "shipped" / "report.md").read_text("utf-8")
    assert "A final look at the split test of table: number 1 of 2" in report


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("--split", "dev"), "no row of .*posts.csv is of it \\(there are test, train\\)"),
        (("--split", "train", "--set", "prompts=mine"), "leave it out of the shared settings"),
        (("--split", "train", "--prompts", "shipped"), "shipped: is the name of two entries"),
        (("--split", "train", "--columns", "split=part"), "there is no such column"),
    ],
)
async def test_what_is_wrong_is_said_before_any_call(
    command: list[str], change: tuple[str, ...], says: str
) -> None:
    async with ScriptedServer(heeding) as server:
        done = await run(server, *command, *change, "--yes")
        assert (done.exit_code, server.requests) == (2, [])
    assert re.search(says, done.stderr)
