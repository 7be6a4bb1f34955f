"""An outage of the model's server in the middle of a batch."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.court import court_script
from tests.doubles import Fault, Reply, Request
from tests.service.batched import ended, posts, sent, table
from tests.service.conftest import get_json
from tests.service.test_batch_turns import gated
from tribunal.runner import outages


class Down:
    """A model that answers so many requests, then none, until it is `up` again; and one post never."""

    def __init__(self, after: int, never: str = "\0") -> None:
        self.up, self.asked, self.never, self.refused = after > 100, 0, never, 0
        self.texts: Counter[str] = Counter()
        self._after, self._script = after, court_script()

    def __call__(self, request: Request) -> Reply | Fault:
        self.asked += 1
        if (self.asked > self._after and not self.up) or self.never in request.text:
            self.refused += 1
            return Fault(503)
        return self._script(request)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "PAUSES", (0.05, 0.1))


async def test_no_row_is_lost_to_an_outage(database: str) -> None:
    model = Down(after=5)
    async with gated(database, model, settings={"attempts": 1}, in_flight=4) as client:
        batch = (await sent(client, posts(12))).json()
        address = f"/v1/batches/{batch['id']}"
        while not (held := await get_json(client, address))["held"]:
            await asyncio.sleep(0.01)
        assert held["held"].startswith("no answer: ")
        assert "503" in held["held"]
        while model.refused < 8:  # one after the other
            await asyncio.sleep(0.01)
        shown = await get_json(client, address)
        assert (shown["finished"], shown["outcomes"].get("failure", 0)) == (None, 0)
        model.up = True
        await ended(client, address)
        rows = await table(client, batch["id"], "jsonl")
    assert [row["outcome"] for row in rows] == ["verdict"] * 12
    assert [row["post_id"] for row in rows] == [f"p{number}" for number in range(12)]


@pytest.mark.long
async def test_a_row_that_nobody_ever_answers_is_a_failure_of_its_own(database: str) -> None:
    model = Down(after=1000, never="number 3!")
    async with gated(database, model, settings={"attempts": 1}, in_flight=4) as client:
        batch = (await sent(client, posts(8))).json()
        await ended(client, f"/v1/batches/{batch['id']}")
        rows = await table(client, batch["id"], "jsonl")
    assert [row["outcome"] for row in rows] == ["verdict"] * 3 + ["failure"] + ["verdict"] * 4
    assert 3 <= model.refused <= 10


async def test_a_batch_that_is_cancelled_in_an_outage_comes_to_an_end(database: str) -> None:
    async with gated(database, Down(after=2), settings={"attempts": 1}, in_flight=4) as client:
        batch = (await sent(client, posts(6))).json()
        address = f"/v1/batches/{batch['id']}"
        while not await get_json(client, address, "held"):
            await asyncio.sleep(0.01)
        await client.post(f"{address}/cancel")
        assert (await ended(client, address))["status"] == "cancelled"
