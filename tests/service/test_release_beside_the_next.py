"""A replica of the release before goes on beside one of this release, on tables brought up to date by this one."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests import PROJECT
from tests.service.batched import ended, posts, sent, table
from tests.service.command import started
from tests.service.conftest import POSTGRES, check_refusal, new_postgres_database
from tests.service.live import key_of
from tribunal.store.engine import upgrade

BEFORE = "c506773"  # the last commit whose tables were of version 0002
MODEL = ("--set", "model=rehearsal", "--log-level", "warning")


def code_of(commit: str, folder: Path) -> Path:
    """Where the code of a commit lies."""
    made = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=PROJECT, capture_output=True
    )
    if made.returncode:
        pytest.skip(f"the history of git doesn't reach back to {commit}")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.long
@pytest.mark.skipif(not os.environ.get(POSTGRES), reason=f"no PostgreSQL: {POSTGRES} names none")
async def test_both_decide_posts_and_see_each_other_s(tmp_path: Path) -> None:
    from tribunal.commands import app

    code = await asyncio.to_thread(code_of, BEFORE, tmp_path / "before")
    # the second: or else Python looks here first
    told = {
        "PYTHONPATH": str(code),
        "PYTHONSAFEPATH": "1",
    }
    with new_postgres_database(server := os.environ[POSTGRES]) as name:
        database = f"{server}/{name}"
        command = [sys.executable, "-m", "tribunal", "migrate", "--database", database]
        environment = {**os.environ, **told, "TRIBUNAL_DATA": str(tmp_path / "data")}
        made = await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, text=True
        )
        assert "version 0002" in made.stdout, made.stderr
        async with started(database, *MODEL, **told) as old:
            assert (
                await old.client.post("/v1/judge?wait=60", json={"text": "Good morning!"})
            ).status_code == 200
            await asyncio.to_thread(upgrade, database)
            headers = {
                "X-API-Key": await key_of(database, "judge", "review", "lead", "audit", "admin")
            }
            async with started(database, *MODEL) as new:
                for each in (old, new):
                    each.client.headers.update(headers)
                assert (await new.client.get("/readyz")).status_code == 200
                # That release asks for its own tables; later ones for what they need (test_upgrades.py).
                assert (await old.client.get("/readyz")).json()["trouble"] == "tables"
                for events in (["case.escalated"], ["case.decided", "case.escalated"]):
                    hook = {"url": "https://hooks.example/T0", "events": events}
                    assert (await new.client.post("/v1/webhooks", json=hook)).status_code == 201
                seen = await old.client.get("/v1/webhooks")
                assert (seen.status_code, [each["events"] for each in seen.json()["webhooks"]]) == (
                    200, [[], ["case.decided"]],
                ), seen.text  # fmt: skip
                asking = [
                    each.client.post("/v1/judge?wait=60", json={"text": f"Good morning, {number}!"})
                    for number in range(10)
                    for each in (old, new)
                ]
                for got in await asyncio.gather(*asking):
                    assert (got.status_code, got.json()["outcome"]) == (200, "verdict"), got.text
                asked = {
                    "text": "Immigrants: the weeds in our garden.",
                    "settings": {"review": True},
                }
                asked |= {"graph": "tribunal", "post_id": "p"}
                for one, other in ((old, new), (new, old)):
                    got = await one.client.post("/v1/judge?wait=60", json=asked)
                    assert (got.status_code, got.json()["outcome"]) == (200, "pending"), got.text
                    at = f"/v1/cases/{got.headers['tribunal-case']}/decision?wait=60"
                    accept = {"action": "accept", "reviewer": "kim"}
                    done = await other.client.post(at, json=accept)
                    if (
                        other is old
                    ):  # the policy has keys that it doesn't know; the case goes on waiting
                        check_refusal(done, 400, "no such key")
                        done = await new.client.post(at, json=accept)
                    assert (done.status_code, done.json()["outcome"]) == (200, "verdict"), done.text
                    batch = await sent(one.client, posts(5))
                    await ended(other.client, batch.headers["location"])
                    rows = await table(other.client, batch.json()["id"], "jsonl")
                    assert [row["outcome"] for row in rows] == ["verdict"] * 5
                answers = [await each.client.get("/v1/cases?limit=200") for each in (old, new)]
                assert [each.status_code for each in answers] == [200, 200], [
                    each.text[:300] for each in answers
                ]
                listed = [each.json()["cases"] for each in answers]
                assert [len(each) for each in listed] == [33, 33]
        verified = await asyncio.to_thread(
            CliRunner().invoke, app, ["audit", "verify", "--database", database]
        )
        assert verified.exit_code == 0, verified.output
