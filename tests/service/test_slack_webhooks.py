"""Webhooks in Slack's form, and the events that bring a person to a case: escalated, appealed, expiring, failed."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from sqlalchemy import update

from tests.court import court_script
from tests.doubles import Fault, ScriptedServer
from tests.service.at_desk import somebody
from tests.service.conftest import opened, serving
from tests.service.decided_here import UNSURE, contested, courtroom, judged
from tests.service.live import key_of
from tests.service.receiving import Receiver, receiving
from tests.service.test_webhooks import AT_ONCE
from tribunal.cases.holds import announce_expiring_cases
from tribunal.cases.outbox import Outbox
from tribunal.service.replica import webhooks as endpoints
from tribunal.store.tables import cases

HOSTILE = "quotes <!channel> & @channel [x](http://evil.example) *now*\n*Case:* forged"


def texts(receiver: Receiver) -> list[str]:
    return [json.loads(each.body)["text"] for each in receiver.came]


async def test_who_listens_in_slack_is_told_what_to_look_at_and_no_post_s_words(database: str) -> None:
    options = {**AT_ONCE, "public_url": "https://court.example"}
    post = "post-words <!here>" + "&" * 5000
    key = await key_of(database, "judge", "review", "lead", "admin")
    async with (
        receiving() as slack,
        receiving() as quoting,
        receiving() as plain,
        courtroom(database, **options) as (client, server),
    ):
        client.headers["X-API-Key"] = key
        asked: list[tuple[Receiver, dict[str, Any]]] = [
            (slack, {"form": "slack"}),
            (quoting, {"form": "slack", "with_record": True, "events": ["case.escalated"]}),
            (plain, {"events": ["case.escalated", "case.failed"]}),
        ]
        hooks = [(await client.post("/v1/webhooks", json={"url": to.url, **more})).json() for to, more in asked]
        assert [each["form"] for each in hooks] == ["slack", "slack", "plain"]
        assert hooks[0]["events"] == ["case.escalated", "case.appealed", "case.expiring", "case.failed"]
        case = await judged(client, text=post)
        kim = somebody(client.app)  # type: ignore[attr-defined]
        await kim.sign_in(await key_of(database, "review"), "kim")
        await kim.get(f"/desk/cases/{case}")
        await kim.send("escalate", note=HOSTILE)
        for each in (slack, quoting, plain):
            await each.wait(1)
        [told], [quoted] = texts(slack), texts(quoting)
        assert "*The models' category:* Religious" in told
        assert f"<https://court.example/desk/cases/{case}|Open at the desk>" in told
        assert "&lt;!channel&gt; &amp; @\u200bchannel [x]\u200b(http://evil.example) *now* *Case:* forged" in told
        assert "\n*Case:* forged" not in told
        assert all(word not in slack.came[0].body.decode() for word in ("post-words", "attacks a faith"))
        assert "*Post's text:* post-words &lt;!here&gt;&amp;" in quoted
        assert max(len(each["text"]["text"]) for each in json.loads(quoting.came[0].body)["blocks"]) <= 3000
        assert "<!" not in told + quoted
        data = plain.read(0, hooks[2]["secret"])["data"]
        assert (data["reason"], data["by"], data["record"]) == (HOSTILE, "kim (a)", None)

        server.script = court_script(judge={**UNSURE, "confidence": 0.9})
        await contested(client, None, text="another post")
        server.script = lambda request: Fault(400, "no such thing")
        await client.post("/v1/judge?wait=60", json={"text": "a third", "graph": "baseline"})
        await slack.wait(3)
        await plain.wait(2)
        _, appeal, failed = texts(slack)
        assert "*A decision was appealed*" in appeal
        assert "https://court.example/desk/appeals/appeal-" in appeal
        assert "*A case failed*" in failed
        assert "openai:scripted" in failed
        assert plain.read(1, hooks[2]["secret"])["type"] == "case.failed"
        tested = await client.post(f"/v1/webhooks/{hooks[0]['id']}/test")
        assert (tested.json()["delivered"], "*A test of this webhook*" in texts(slack)[-1]) == (True, True)


async def test_a_held_case_near_its_deadline_is_told_of_once(database: str) -> None:
    async with ScriptedServer(lambda request: Fault(503)) as server, opened(database) as store:
        settings = {"model": "openai:scripted", "attempts": 1}
        await endpoints.add_webhook(store, "https://hooks.example/T0", form="slack")
        async with serving(database, settings=settings) as client:
            os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
            at = (await client.post("/v1/judge", json={"text": "a post", "graph": "baseline"})).headers["location"]
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
