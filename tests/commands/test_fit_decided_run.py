"""A threshold fitted on a run without labels, of which people have decided posts: what they decided is the label."""

from __future__ import annotations

import asyncio
import csv
import json
import random
from pathlib import Path

from tests.court import court_script
from tests.openai_server import OpenAIServer
from tests.service.decided_here import UNSURE, run

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def words(place: int) -> str:
    """A text like no other."""
    chosen = random.Random(place)
    return " ".join("".join(chosen.choices(LETTERS, k=6)) for _ in range(8))


async def test_what_people_decided_of_a_batch_are_its_labels(tmp_path: Path) -> None:
    posts, out, folder = tmp_path / "posts.csv", tmp_path / "out.csv", tmp_path / "out.csv.run"
    posts.write_text("id,text\n" + "".join(f"p{place},{words(place)}\n" for place in range(9)))
    async with OpenAIServer(court_script(explicit=True, judge={**UNSURE, "confidence": 0.95})):
        reviewed = ("--review", "--set", "review_rule=all", "--model", "openai:scripted")
        done = await run("batch", str(posts), "--out", str(out), *reviewed)
        assert done.exit_code == 0, done.output
        early = await run("fit", str(folder))
        assert early.exit_code == 2
        assert "0 labelled posts, and people have decided none of its posts" in early.output
        assert "--reviewed" in early.output
        rows = await asyncio.to_thread(lambda: list(csv.DictReader(out.read_text().splitlines())))
        for row in rows:
            decided = await run("review", "decide", row["case"], "--accept", "--reviewer", "kim")
            assert decided.exit_code == 0, decided.output
        fitted = await run("fit", str(folder), "--agreement", "0.6", "--level", "0.6")
    assert fitted.exit_code == 0, fitted.output
    held = json.loads((folder / "threshold.json").read_text())
    assert (held["n_fit"], held["agreement_seen"], held["graph"]) == (9, 1.0, "tribunal")
    assert held["threshold"] <= 0.95
    assert held["models"] == {"model": "openai:scripted"}
    assert "what people decided" in fitted.output
