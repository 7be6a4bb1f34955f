"""`tribunal prompts compare`: two prompt sets over the same posts, with a model over HTTP that heeds its prompts."""

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
from tribunal.eval.prompt_sets.differences import exchange_prompt, list_exchangeable, write_prompt_set
from tribunal.prompts.sets import read_prompt_set, shipped_prompts

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
        "judge": {"category": "Hateful" if hateful and STRICT in request.text else "NotHate", "explanation": "words"},
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
    return ["prompts", "compare", "shipped", mine, "--data", str(tmp_path / "posts.csv"),
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
    assert [each["name"] for each in found["differences"]] == ["arcade/gatekeeper", "arcade/judge"]
    assert "+Be strict." in found["differences"][1]["lines"]
    overall = found["overall"]
    assert (overall["both_right"], overall["only_first_right"], overall["only_second_right"]) == (4, 0, 4)
    # Four posts alone would be 2 × 0.5⁴ × ½; two groups of posts that belong together, 2 × 0.5² × ½.
    assert (overall["p_independent"], overall["p"]) == (0.0625, 0.25)
    groups = found["groups"]
    assert groups.keys() == {"by_category", "by_language"}
    assert {name: (each["first"], each["second"]) for name, each in groups["by_category"].items()} == {
        "0": (1.0, 1.0),
        "1": (0.0, 1.0),
    }
    assert [groups["by_category"][name]["p_holm"] for name in "01"] == [1.0, 0.5]
    assert groups["by_language"]["ko"]["n"] == 4
    changes = [(each["post"], each["from"], each["to"], each["became"]) for each in found["changes"]]
    assert changes == [(f"p{number}", "NotHate", "Hateful", "right") for number in (1, 3, 5, 7)]
    assert (found["costs"]["A"]["calls"]["total"], found["costs"]["B"]["calls"]["total"]) == (64, 32)
    page = (tmp_path / "out" / "comparison.md").read_text("utf-8")
    assert "| category: 1 | 4 | 0.0 | 100.0 | +100.0 |" in page
    told = CliRunner().invoke(app, ["report", str(tmp_path / "out" / "B_mine"), "--tables"])
    assert "100.0%" in told.output, told.output


@pytest.mark.long
async def test_one_prompt_at_a_time_says_which_changed_which_verdict_and_pays_for_no_call_twice(
    command: list[str],
) -> None:
    given = [*command, "--split", "train", "--by-seat"]
    async with ScriptedServer(heeding) as server:
        asked = await run(server, *given)
        assert (asked.exit_code, server.requests) == (2, [])
        planned = [line.split() for line in asked.stderr.splitlines() if line.startswith(("A_", "B_"))]
        found = printed(await run(server, *given, "--yes", "--json"))
        paid = len(server.requests)
        again = printed(await run(server, *given, "--yes", "--json"))
        assert len(server.requests) == paid
    assert [(each[0], each[3]) for each in planned][2:] == [
        ("A_with_B_arcade-gatekeeper", "0–8"),
        ("A_with_B_arcade-judge", "0–8"),
    ]
    effects = {each["prompt"]: each for each in found["by_prompt"]}
    assert {name: (each["changed"], each["put_right"]) for name, each in effects.items()} == {
        "arcade/gatekeeper": (0, 0),
        "arcade/judge": (4, 4),
    }
    assert (effects["arcade/judge"]["accuracy"]["p"], effects["arcade/judge"]["accuracy"]["p_holm"]) == (0.25, 0.5)
    assert {tuple(each["changed_by"]) for each in found["changes"]} == {("arcade/judge",)}
    # A's judge over the trial of B's gatekeeper, B's judge over A's trial: else all answers are known.
    assert [each["calls"] for each in found["runs"]] == [64, 32, 8, 8]
    assert again["by_prompt"] == found["by_prompt"]


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
        assert once.stderr.count("prompts: mine: were tuned for another; asked with them: openai:scripted") == 1
        printed(await run(server, *first))  # goes on, and is no new look
        found = printed(await run(server, *second))
    assert "number 2 of 2" in found["final"]
    looks = [json.loads(line) for line in (tmp_path / "test_looks.jsonl").read_text("utf-8").splitlines()]
    assert [(each["comparison"], each["split"]) for each in looks] == [("out", "test"), ("later", "test")]
    held = json.loads((tmp_path / "out" / "A_tribunal" / "run.json").read_bytes())
    assert held["final"]["look"] == 1
    CliRunner().invoke(app, ["report", str(tmp_path / "out" / "A_tribunal")])
    report = (tmp_path / "out" / "A_tribunal" / "report.md").read_text("utf-8")
    said = "A final look at the split test of table: number 1 of 2"
    assert said in report


async def test_a_prompt_of_a_way_that_the_plan_did_not_try_is_named(command: list[str], tmp_path: Path) -> None:
    write_set(tmp_path / "mine", indictment="Press.")
    async with ScriptedServer(heeding) as server:
        planned = await run(server, *command, "--split", "train", "--by-seat")
        assert (planned.exit_code, server.requests) == (2, [])
    assert "0 calls on the ways that were tried: A_with_B_arcade-indictment; posts that go another" in planned.stderr


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("--split", "dev"), "no row of .*posts.csv is of it \\(there are test, train\\)"),
        (("--split", "train", "--prompts", "mine"), "A and B are the prompts that are compared; leave --prompts out"),
        (("--split", "train", "--columns", "split=part"), "there is no such column"),
    ],
)
async def test_what_is_wrong_is_said_before_any_call(command: list[str], change: tuple[str, ...], says: str) -> None:
    async with ScriptedServer(heeding) as server:
        done = await run(server, *command, *change, "--yes")
        assert (done.exit_code, server.requests) == (2, [])
    assert re.search(says, done.stderr)


def test_a_prompt_that_is_exchanged_brings_its_parts_and_how_its_answers_are_read(tmp_path: Path) -> None:
    theirs = Path(write_set(tmp_path / "theirs", judge='{% include "_tone" %}', gatekeeper=WIDE))
    (theirs / "_tone.md").write_text("Be calm.", "utf-8")
    (theirs / "set.toml").write_text('[tuned]\nfor = "other"\n[answers."arcade/judge"]\nfields = {category = "label"}')
    ours = Path(write_set(tmp_path / "ours", defence="Be short."))
    (ours / "set.toml").write_text('[tuned]\nfor = "some"')
    first, second = read_prompt_set(str(ours)), read_prompt_set(str(theirs))
    assert list_exchangeable(first, second) == ["arcade/defence", "arcade/gatekeeper", "arcade/judge"]
    write_prompt_set(tmp_path / "mixed", exchange_prompt(first, second, "arcade/judge", None))
    mixed = read_prompt_set(str(tmp_path / "mixed"))
    assert mixed.sources["_tone"] == "Be calm."
    assert [name for name in ("defence", "gatekeeper", "judge") if mixed.own.get(f"arcade/{name}")] == [
        "defence",
        "judge",
    ]
    assert mixed.file.tuned == first.file.tuned
    assert mixed.file.answers == second.file.answers
    write_prompt_set(tmp_path / "mixed", exchange_prompt(first, second, "arcade/defence", None))
    assert read_prompt_set(str(tmp_path / "mixed")).sources["arcade/defence"] == second.sources["arcade/defence"]
