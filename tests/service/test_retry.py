"""A case that failed, or was cancelled, is tried anew under its own id."""

from __future__ import annotations

import asyncio
from typing import Any

from typer.testing import CliRunner

from tests.court import court_script
from tests.doubles import Fault, Reply, Request
from tests.openai_server import OpenAIServer
from tests.service.batched import ended as batch_ended
from tests.service.batched import posts, sent
from tests.service.conftest import check_exit, check_refusal, opened, serving
from tests.service.live import key_of
from tests.service.receiving import receiving
from tests.service.test_service import ended
from tribunal.commands import app
from tribunal.review.audit import check_records
from tribunal.store.audit import page

POST = {"text": "Good morning!", "graph": "baseline"}
SETTINGS = {"model": "openai:scripted"}


class Muddled:
    """A model whose answers can't be read until it is `well`."""

    def __init__(self) -> None:
        self.well, self._script = False, court_script()

    def __call__(self, request: Request) -> Reply | Fault:
        return self._script(request) if self.well else Reply("no form")


async def test_a_failure_is_tried_anew_and_told_of(database: str) -> None:
    model = Muddled()
    async with (
        OpenAIServer(model),
        receiving() as receiver,
        serving(database, settings=SETTINGS, webhook_http=True) as client,
        opened(database) as store,
    ):
        await client.post("/v1/webhooks", json={"url": receiver.url, "events": ["case.decided"]})
        got = await client.post("/v1/judge?wait=60", json=POST)
        assert got.json()["outcome"] == "failure"
        at = f"/v1/cases/{got.headers['tribunal-case']}"
        model.well = True
        again = await client.post(f"{at}/retry")
        assert (again.status_code, again.json()["status"], again.json()["record"]) == (
            202,
            "queued",
            None,
        )
        assert (await ended(client, at))["record"]["outcome"] == "verdict"
        assert len(await receiver.wait(2)) == 2
        refused = await client.post(f"{at}/retry")
        check_refusal(refused, 409, "ended in a verdict")
        log = await page(store, subject=at.rpartition("/")[2], limit=100)
        assert [each["kind"] for each in log][-2:] == ["case.retried", "case.decided"]
        assert (await check_records(store)).faults == []


async def test_who_may_and_what_can_be_tried_anew(database: str) -> None:
    own, other, lead = [
        {"X-API-Key": await key_of(database, each)} for each in ("judge", "judge", "lead")
    ]
    admin = {"X-API-Key": await key_of(database, "admin")}
    model = Muddled()
    async with OpenAIServer(model), serving(database, settings=SETTINGS) as client:

        async def failed(**more: Any) -> str:
            got = await client.post("/v1/judge?wait=60", json={**POST, **more}, headers=own)
            return f"/v1/cases/{got.headers['tribunal-case']}"

        at, unkept, erased = await failed(), await failed(keep=False), await failed()
        await client.delete(f"{erased}/words", headers=admin)
        for address, words in ((unkept, "weren't kept"), (erased, "were erased")):
            got = await client.post(f"{address}/retry", headers=own)
            check_refusal(got, 409, words)
        assert (await client.post(f"{at}/retry", headers=other)).status_code == 404
        for who in (own, lead):
            assert (await client.post(f"{at}/retry", headers=who)).status_code == 202
            await ended(client, at, headers=own)
        assert (await client.post("/v1/cases/case-0/retry", headers=lead)).status_code == 404


async def test_a_row_of_a_batch_is_tried_anew_in_its_batch(database: str) -> None:
    model = Muddled()
    async with OpenAIServer(model), serving(database, settings=SETTINGS) as client:
        batch = (await sent(client, posts(2))).json()
        address = f"/v1/batches/{batch['id']}"
        assert (await batch_ended(client, address))["outcomes"] == {"failure": 2}
        model.well = True
        [row, _] = (await client.get("/v1/cases", params={"batch_id": batch["id"]})).json()["cases"]
        assert (await client.post(f"/v1/cases/{row['id']}/retry")).json()["status"] == "waiting"
        assert (await batch_ended(client, address))["outcomes"] == {"failure": 1, "verdict": 1}


async def test_the_terminal_tries_a_case_anew(database: str) -> None:
    model = Muddled()
    async with OpenAIServer(model), serving(database, settings=SETTINGS) as client:
        got = await client.post("/v1/judge?wait=60", json=POST)
        case, model.well = got.headers["tribunal-case"], True
        ran = await _run("cases", "retry", case, "--database", database)
        check_exit(ran, 0, "queued")
        assert (await ended(client, f"/v1/cases/{case}"))["record"]["outcome"] == "verdict"
        refused = await _run("cases", "retry", case, "--database", database)
        check_exit(refused, 2, "ended in a verdict")


async def _run(*arguments: str) -> Any:
    return await asyncio.to_thread(CliRunner().invoke, app, list(arguments))
