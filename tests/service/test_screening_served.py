"""A screening classifier behind `tribunal serve`: who decides, its audit, and one switch for all replicas."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.commands.test_screening import changed, posts, run, table
from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.service.conftest import serving
from tests.service.fleet import fleet
from tribunal.schema import JSON


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a screening classifier of which half goes to its audit."""
    folder = tmp_path_factory.mktemp("served")
    decided = table(folder / "decided.csv", posts(700))
    done = run("screening", "fit", decided, "--out", folder / "model", "--audit", "0.5")
    assert done.exit_code == 0, done.output
    changed(folder / "model", at="2026-01-01T00:00:00+00:00")  # so that each time the same posts are audited
    return folder / "model"


@pytest.fixture
def model(fitted: Path, tmp_path: Path) -> Path:
    """A copy of it, whose audit is this test's own."""
    here = tmp_path / "model"
    here.mkdir()
    for file in fitted.iterdir():
        (here / file.name).write_bytes(file.read_bytes())
    return here


def shown(model: Path) -> JSON:
    """What `tribunal screening show` says."""
    held: JSON = json.loads(run("screening", "show", model, "--json").stdout)
    return held


async def judged(client: httpx.AsyncClient, name: str, words: str) -> dict[str, Any]:
    """The record of a post."""
    got = await client.post("/v1/judge?wait=30", json={"text": words, "post_id": name})
    assert got.status_code == 200, got.text
    record: dict[str, Any] = got.json()
    return record


def served(model: Path, server: ScriptedServer) -> tuple[tuple[str, ...], dict[str, str]]:
    """The options and the environment of a replica that an operator gives a screening classifier."""
    told = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k", "TRIBUNAL_MODEL": "openai:scripted"}
    return ("--set", f"triage=screening:{model}", "--set", "scheme=binary", "--log-level", "warning"), told


@pytest.mark.slow
@pytest.mark.long
async def test_replicas_share_what_a_first_look_decides_and_its_one_switch(model: Path, database: str) -> None:
    """The court dismisses every post; the screening classifier calls two in five hateful, which breaks its promise."""
    sha, rows, taken = shown(model)["sha"], posts(60, start=5_000), random.Random(4)
    async with ScriptedServer(court_script(implicit=False)) as server:
        options, told = served(model, server)
        async with fleet(database, 2, *options, **told) as replicas:
            clients = [each.client for each in replicas.replicas]
            records = [await judged(taken.choice(clients), name, words) for name, words, _ in rows]
            asked = len(server.requests)
            off = [any("is switched off, and every post" in each for each in record["warnings"]) for record in records]
            later = [await judged(client, "later", "the garden and the river") for client in clients]
    by_look = [record for record in records if record["track"] == "triage"]
    assert {record["first_look"] for record in records} == {sha}
    assert {len(record["calls"]) for record in by_look} == {0}
    assert all(record["hateful"] == (label == "hate")
               for record, (_, _, label) in zip(records, rows, strict=True) if record["track"] == "triage")  # fmt: skip
    assert asked == 2 * (len(rows) - len(by_look))
    at = off.index(True)
    assert len([record for record in records[:at] if record["track"] == "dismissed"]) > 4
    assert all(off[at:])
    assert all(record["track"] == "dismissed" for record in [*records[at:], *later])
    assert all("is switched off" in record["warnings"][0] for record in later)
    audit = shown(model)["audit_so_far"]
    dismissed = [record for record, (_, _, label) in zip(records[:at], rows, strict=False)
                 if record["track"] == "dismissed" and label == "hate"]  # fmt: skip
    # Whichever of the two tried them, one count has them all.
    told_why = re.match(r"of (\d+) audited posts that it called hateful, \1 are no hate by trials", audit["off"])
    assert told_why is not None
    assert 4 <= int(told_why[1]) <= len(dismissed)


async def test_a_client_names_no_first_look(model: Path, sqlite: str) -> None:
    async with serving(sqlite, settings={"model": "rehearsal"}) as client:
        for folder in (model, "/etc"):
            asked = {"text": "the garden", "settings": {"triage": f"screening:{folder}"}}
            got = await client.post("/v1/judge?wait=5", json=asked)
            assert (got.status_code, "may not set this" in got.json()["error"]["message"]) == (400, True), got.text
