"""The events that bring a person to a case: escalated, appealed, expiring, failed."""

from __future__ import annotations

import os
import time

from sqlalchemy import update

from tests.court import court_script
from tests.doubles import Fault, ScriptedServer
from tests.service.at_desk import signed_in
from tests.service.conftest import opened, serving
from tests.service.decided_here import UNSURE, contested, courtroom, judged
from tests.service.live import key_of
from tests.service.receiving import receiving
from tests.service.test_webhooks import AT_ONCE
from tribunal.docket.holds import announce_expiring_cases
from tribunal.docket.outbox import Outbox
from tribunal.service.replica import webhooks as endpoints
from tribunal.store.tables import cases, webhooks

NOTE = "quotes <!channel> & @channel"
EVENTS = ["case.escalated", "case.appealed", "case.expiring", "case.failed"]


async def test_an_escalation_an_appeal_and_a_failure_are_reported(database: str) -> None:
    key = await key_of(database, "judge", "review", "lead", "admin")
    async with receiving() as receiver, courtroom(database, **AT_ONCE) as (client, server):
        client.headers["X-API-Key"] = key
        hook = (
            await client.post("/v1/webhooks", json={"url": receiver.url, "events": EVENTS})
        ).json()
        assert sorted(hook["events"]) == sorted(EVENTS)
        case = await judged(client, text="post-words")
        kim = await signed_in(client.app, await key_of(database, "review"), "kim")  # type: ignore[attr-defined]
        await kim.get(f"/desk/cases/{case}")
        await kim.send("escalate", note=NOTE)
        await receiver.wait(1)
        data = receiver.read(0, hook["secret"])["data"]
        assert (data["id"], data["reason"], data["by"], data["record"]) == (
            case,
            NOTE,
            "kim (a)",
            None,
        )
        assert b"post-words" not in receiver.came[0].body.replace(b"post-words, and", b"")

        server.script = court_script(judge={**UNSURE, "confidence": 0.9})
        await contested(client, None, text="another post")
        server.script = lambda request: Fault(400, "no such thing")
        await client.post("/v1/judge?wait=60", json={"text": "a third", "graph": "baseline"})
        await receiver.wait(3)
        appeal, failed = (receiver.read(place, hook["secret"]) for place in (1, 2))
        assert (appeal["type"], appeal["data"]["appeal"]["appellant"]) == (
            "case.appealed",
            "user-7",
        )
        assert (failed["type"], failed["data"]["outcome"]) == ("case.failed", "failure")


async def test_an_endpoint_of_a_dropped_form_is_sent_nothing(database: str) -> None:
    """An earlier version added endpoints in the forms of Slack and Coop."""
    async with opened(database) as store:
        added = [
            await endpoints.add_webhook(store, f"https://hooks.example/{number}")
            for number in range(3)
        ]
        ids = [webhook_id for webhook_id, _ in added]
        async with store.transaction() as connection:
            for webhook_id, column, value in (
                (ids[0], "form", "slack"),
                (ids[1], "coop", {"action": "remove"}),
            ):
                await connection.execute(
                    update(webhooks).where(webhooks.c.id == webhook_id).values({column: value})
                )
        listed = await endpoints.list_webhooks(store)
        assert [bool(row["events"]) for row in listed] == [False, False, True]
        async with serving(database, graph="baseline") as client:
            assert (
                await client.post("/v1/judge?wait=60", json={"text": "a post"})
            ).status_code == 200
            assert (await client.get("/v1/webhooks")).status_code == 200
        assert {message["webhook_id"] for message in await Outbox(store).list_messages()} == {
            ids[2]
        }


async def test_a_held_case_near_its_deadline_is_told_of_once(database: str) -> None:
    async with ScriptedServer(lambda request: Fault(503)) as server, opened(database) as store:
        settings = {"model": "openai:scripted", "attempts": 1}
        await endpoints.add_webhook(store, "https://hooks.example/T0", EVENTS)
        async with serving(database, settings=settings) as client:
            os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
            at = (
                await client.post("/v1/judge", json={"text": "a post", "graph": "baseline"})
            ).headers["location"]
            while (await client.get(at)).json()["held"] is None:
                pass
        outbox = Outbox(store)
        await announce_expiring_cases(store, outbox)
        assert await outbox.list_messages() == []
        async with store.transaction() as connection:
            await connection.execute(update(cases).values(deadline=time.time() + 300))
        for _ in range(2):
            await announce_expiring_cases(store, outbox)
        [message] = await outbox.list_messages()
        assert message["event"] == "case.expiring"
