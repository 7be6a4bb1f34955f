"""A replica is killed in the middle of a batch: nothing of it is lost, and nothing is decided twice."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter

import pytest

from tests.court import PATIENCE, court_script
from tests.openai_server import OpenAIServer
from tests.service.batched import ended, posts, sent, table
from tests.service.command import started
from tests.service.conftest import serving

ROWS, DECIDED = 12, 5


@pytest.mark.long
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
async def test_another_replica_goes_on_with_the_rows(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OpenAIServer(court_script(), latency=0.05) as server:
        monkeypatch.setenv("TRIBUNAL_MODEL", "openai:scripted")
        async with started(
            database, "--in-flight", "2", TRIBUNAL_MODEL="openai:scripted"
        ) as service:
            path = (await sent(service.client, posts(ROWS))).headers["location"]
            async with asyncio.timeout(PATIENCE):
                while (await service.client.get(path)).json()["rows"]["done"] < DECIDED:
                    await asyncio.sleep(0.01)
            service.signal(signal.SIGKILL)
            await service.process.wait()
        async with serving(database) as client:
            before = {
                row["input"]["id"]: row
                for row in await table(client, path.split("/")[-1], "jsonl", partial=True)
            }
            made = await ended(client, path)
            after = await table(client, made["id"], "jsonl")
        assert (made["status"], made["outcomes"]) == ("done", {"verdict": ROWS})
        assert [row["input"]["id"] for row in after] == [f"p{number}" for number in range(ROWS)]
        words = [line for request in server.requests for line in request.text.splitlines()]
        asked = Counter(line for line in words if "morning, number" in line)
        assert len(asked) == ROWS
        again = sum(asked.values()) - ROWS
        assert again <= 2, "only what was in flight was asked about again"
        decided = [row for row in before.values() if row["outcome"]]
        assert len(decided) >= DECIDED
        assert all(
            row == next(each for each in after if each["case"] == row["case"]) for row in decided
        )
