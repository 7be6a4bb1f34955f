"""Stages that were run against a server, and planned: a first look that decides every post, and a court."""

from __future__ import annotations

import asyncio
import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.court import court_script, part
from tests.doubles import Fault, Reply, Request
from tests.openai_server import OpenAIServer
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
            manner, words = (
                "unveiled" if at % 2 else "veiled",
                "vermin" if at % 4 == 0 else "neighbours",
            )
            writer.writerow(
                (
                    f"p{at}",
                    f"number {at * 7919}: {manner} words on {words} {hash_of(at)}",
                    int(at % 4 == 0),
                )
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
        answer = {
            "category": "NotHate",
            "explanation": "words",
            "confidence": 0.96 if plain else 0.55,
        }
        return Reply(answer, prompt_tokens=5)
    if told == "judge":
        return Reply(
            {"category": "Hateful", "explanation": "words", "confidence": 0.9}, prompt_tokens=1000
        )
    reply = court_script(explicit=hate, implicit=False)(request)
    assert isinstance(reply, Reply)
    return replace(reply, prompt_tokens=1000)


@pytest.mark.long
async def test_a_first_look_and_a_court_are_run_and_planned(tmp_path: Path) -> None:
    data = table(tmp_path / "posts.csv", POSTS)
    common = ("--dataset", "table", "--data", data, "--graph", "tribunal", "--model", "openai:scripted",
              "--scheme", "binary")  # fmt: skip
    look, court = tmp_path / "look", tmp_path / "court"
    async with OpenAIServer(judged) as server:
        await run(
            "eval",
            *common,
            "--set",
            "triage=openai:scripted",
            "--set",
            "triage_confidence=0",
            "--out",
            look,
        )
        assert len(server.requests) == POSTS
        await run("eval", *common, "--threshold", 0.5, "--out", court)
    held = json.loads(
        await run("cascade", "plan", look, court, "--one-threshold", "--agreement", 0.9, "--json")
    )
    first, second = held["plan"]["stages"]
    assert (first["run"], first["hateful"], first["harmless"]) == ("look", 0.95, 0.95)
    # What it dismisses states no confidence, and is decided all the same.
    assert (second["run"], second["without_confidence"]) == ("court", ["hateful", "harmless"])
    assert (held["plan"]["agreement"], held["plan"]["people"]) == (1, 0)
    assert held["plan"]["tokens"] < 0.8 * min(
        row["tokens"] for row in held["beside"] if row["name"] == "court for all"
    )
    assert held["clusters"]["n"] == POSTS
