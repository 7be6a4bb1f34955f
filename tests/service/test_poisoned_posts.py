"""Posts that a model's server never answers: they stop no other post, and a server that is away costs no attempt."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from sqlalchemy import select

from tests.doubles import Fault
from tests.openai_server import OpenAIServer
from tests.service.at_desk import signed_in
from tests.service.conftest import get_json, opened, serving
from tests.service.test_outage import SETTINGS, FlakyModel, decided, held, taken_in
from tribunal.runner import outages
from tribunal.store.tables import cases


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "PAUSES", (0.05, 0.1))


@pytest.mark.parametrize(
    ("fault", "in_flight"),
    [
        pytest.param(Fault(503), 1, id="503, one at a time"),
        pytest.param(Fault(503), 4, id="503"),
        pytest.param(Fault(hang=True), 4, id="hangs", marks=pytest.mark.long),
    ],
)
async def test_posts_that_are_never_answered_stop_no_other(
    database: str, in_flight: int, fault: Fault
) -> None:
    model = FlakyModel(after=0, fault=lambda: fault)
    model.up, model.never = True, "Mallory"
    settings = {**SETTINGS, "timeout": 5}
    async with (
        OpenAIServer(model),
        serving(database, settings=settings, in_flight=in_flight) as client,
    ):
        lost = [
            (
                await client.post(
                    "/v1/judge", json={"text": f"Good day, Mallory {each}", "graph": "baseline"}
                )
            ).headers
            for each in range(3)
        ]
        healthy = await decided(client, await taken_in(client, 9, graph="baseline"))
        addresses = [each["location"] for each in lost]
        while any([(await get_json(client, each))["status"] != "done" for each in addresses]):
            # posts keep coming
            healthy += await decided(client, await taken_in(client, 1, graph="baseline"))
        failures = await decided(client, addresses)
    assert {each["outcome"] for each in healthy} == {"verdict"}
    assert {each["fault"]["kind"] for each in failures} == {"timeout" if fault.hang else "server"}
    assert model.failed <= 3 * 4  # each until others were answered, then three times


async def test_rows_of_a_batch_that_are_never_answered_stop_no_other(database: str) -> None:
    model = FlakyModel(after=0)
    model.up, model.never = True, "Mallory"
    rows = [
        f'{{"id": "{each}", "text": "Good day, {"Mallory" if each < 3 else "Kim"} {each}"}}'
        for each in range(9)
    ]
    kind = {"Content-Type": "application/x-ndjson"}
    async with OpenAIServer(model), serving(database, settings=SETTINGS, in_flight=2) as client:
        sent = await client.post(
            "/v1/batches?graph=baseline", content="\n".join(rows), headers=kind
        )
        while (batch := await get_json(client, sent.headers["location"]))["finished"] is None:
            await asyncio.sleep(0.05)
    assert batch["outcomes"] == {"failure": 3, "verdict": 6}


async def test_a_server_that_is_not_there_costs_no_attempt_and_is_said_where_people_look(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
    async with serving(database, settings=SETTINGS) as client:
        [address] = await taken_in(client, 1)
        await held(client, address)
        before = await provider_state(client)
        while (now := await provider_state(client))["retry_at"] < before["retry_at"] + 0.3:
            await asyncio.sleep(0.02)
        person = await signed_in(client.app)  # type: ignore[attr-defined]
        queue = (await person.get("/desk/queue")).words
        async with opened(database) as store:
            attempts = await store.fetch_value(select(cases.c.attempt))
    assert attempts <= 2
    assert (now["kind"], now["waiting"]) == ("connection", 1)
    assert "1 post waits for the model (openai)" in queue


async def provider_state(client: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await get_json(client, "/readyz"))["providers"]["openai"]
    return found
