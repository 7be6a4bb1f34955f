"""Stages that were run against a server, and planned: a screening classifier alone, and a court."""

from __future__ import annotations

import asyncio
import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.court import argument, court_script, cue, part
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tribunal.commands import app

POSTS = 56


async def run(*arguments: Any, ends: int = 0) -> str:
    result = await asyncio.to_thread(CliRunner().invoke, app, [str(each) for each in arguments])
    assert result.exit_code == ends, result.output
    return result.stdout


def table(path: Path, posts: int) -> Path:
    """Every fourth post is of hate; every second says something plain."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "text", "label"))
        for at in range(posts):
            manner, words = "unveiled" if at % 2 else "veiled", "vermin" if at % 4 == 0 else "neighbours"
            writer.writerow(
                (f"p{at}", f"number {at * 7919}: {manner} words on {words} {hash_of(at)}", int(at % 4 == 0))
            )
    return path


def hash_of(at: int) -> str:
    """Words that no other post has, so that posts aren't near-duplicates."""
    return " ".join(format(at * 2654435761 % 2**32, "x")[start:] for start in range(6))


def judged(request: Request) -> Reply | Fault:
    """A look that is sure of plain posts, and a court that is always right and dismisses what is harmless."""
    hate, told = "vermin" in request.text, part(request)
    if told == "triage":
        plain = "unveiled words" in request.text
        answer = {"category": "NotHate", "explanation": "words", "confidence": 0.96 if plain else 0.55}
        return Reply(answer, prompt_tokens=5)
    if told == "judge":
        return Reply({"category": "Hateful", "explanation": "words", "confidence": 0.9}, prompt_tokens=1000)
    reply = court_script(explicit=hate, implicit=False)(request)
    assert isinstance(reply, Reply)
    return replace(reply, prompt_tokens=1000)


@pytest.mark.long
async def test_a_first_look_and_a_court_are_run_and_planned(tmp_path: Path) -> None:
    data = table(tmp_path / "posts.csv", POSTS)
    common = ("--dataset", "table", "--data", data, "--graph", "tribunal", "--model", "openai:scripted",
              "--scheme", "binary")  # fmt: skip
    look, court = tmp_path / "look", tmp_path / "court"
    async with ScriptedServer(judged) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        await run("eval", *common, "--triage", "openai:scripted", "--triage-confidence", 0, "--out", look)
        assert len(server.requests) == POSTS
        await run("eval", *common, "--threshold", 0.5, "--out", court)
    held = json.loads(await run("cascade", "plan", look, court, "--one-threshold", "--agreement", 0.9, "--json"))
    first, second = held["plan"]["stages"]
    assert (first["run"], first["hateful"], first["harmless"]) == ("look", 0.95, 0.95)
    # What it dismisses states no confidence, and is decided all the same.
    assert (second["run"], second["without_confidence"]) == ("court", ["hateful", "harmless"])
    assert (held["plan"]["agreement"], held["plan"]["people"]) == (1, 0)
    assert held["plan"]["tokens"] < 0.8 * min(row["tokens"] for row in held["beside"] if row["name"] == "court for all")
    assert held["clusters"]["n"] == POSTS


@pytest.mark.long
async def test_what_an_early_exit_saved_is_told_by_run_and_by_switch(tmp_path: Path) -> None:
    data = table(tmp_path / "posts.csv", 6)
    conceded = {"arguments": [argument("so be it", "concede")]}
    script = court_script(
        defence=conceded, investigation={"cues": [cue("implied", "Metaphor")]},
        prosecution={"arguments": [argument("again", "press")]},
    )  # fmt: skip
    runs = [tmp_path / "whole", tmp_path / "short"]
    async with ScriptedServer(script) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        for folder, more in zip(runs, ((), ("--early-exit",)), strict=True):
            await run("eval", "--dataset", "table", "--data", data, "--graph", "arcade", "--model", "openai:scripted",
                      "--out", folder, *more)  # fmt: skip
    printed = await run("report", runs[1], "--tables")
    assert "saved by early_exit: at least 24 calls and about" in printed
    assert "saved by" not in await run("report", runs[0], "--tables")
    await run("report", *runs, "--out", tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    row = next(each for each in text.splitlines() if each.startswith("| `early_exit` |"))
    cells = [each.strip() for each in row.split("|")][1:]
    assert cells[:7] == ["`early_exit`", "whole", "default", "short", "true", "6", "4"]
    assert cells[15] == "+0.0"
