"""The examples of programs between this service and another one: Slack, ROOST Coop, Label Studio."""

from __future__ import annotations

import json
import runpy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests import PROJECT
from tests.court import court_script
from tests.doubles import Fault, ScriptedServer
from tests.service.conftest import check_refusal
from tests.service.decided_here import UNSURE, judged
from tests.service.live import deciding, key_of
from tests.service.receiving import receiving
from tests.service.test_label_studio import annotated
from tests.service.test_webhooks import AT_ONCE


@asynccontextmanager
async def bridge(name: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an example."""
    app = runpy.run_path(str(PROJECT / "examples" / "beside_another_queue" / f"{name}.py"))["app"]
    headers = {"Authorization": "Bearer s3cret"}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://bridge", headers=headers
    ) as client:
        yield client


@asynccontextmanager
async def waiting(
    database: str, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedServer]]:
    """A client of a service on loopback whose court is unsure of every post, and the model that plays it."""
    key = await key_of(database, "judge", "review", "audit", "admin")
    async with (
        ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server,
        deciding(server, database, **options) as url,
        httpx.AsyncClient(base_url=url, timeout=60, headers={"X-API-Key": key}) as client,
    ):
        monkeypatch.setenv("TRIBUNAL_URL", url)
        monkeypatch.setenv("TRIBUNAL_KEY", await key_of(database, "review"))
        yield client, server


async def review_of(client: httpx.AsyncClient, case_id: str) -> dict[str, Any]:
    while (case := (await client.get(f"/v1/cases/{case_id}")).json())["status"] != "done":
        pass
    return {"category": case["record"]["category"], **(case["record"]["review"] or {})}


async def test_slack_is_told_of_a_failure(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        receiving() as slack,
        receiving() as hook,
        waiting(sqlite, monkeypatch, **AT_ONCE) as (client, server),
        bridge("slack") as example,
    ):
        added = (
            await client.post("/v1/webhooks", json={"url": hook.url, "events": ["case.failed"]})
        ).json()
        monkeypatch.setenv("WEBHOOK_SECRET", added["secret"])
        monkeypatch.setenv("SLACK_URL", slack.url)
        server.script = lambda request: Fault(400, "no such thing")
        await client.post("/v1/judge?wait=60", json={"text": "post-words", "graph": "baseline"})
        [message] = await hook.wait(1)
        forged = await example.post(
            "/tribunal", content=message.body + b" ", headers=message.headers
        )
        assert (forged.status_code, slack.came) == (401, [])
        sent = await example.post("/tribunal", content=message.body, headers=message.headers)
        assert sent.status_code == 200, sent.text
        text = json.loads(slack.came[0].body)["text"]
        assert ("A case failed" in text, "/desk/cases/case-" in text, "post-words" in text) == (
            True,
            True,
            False,
        )


async def test_an_action_in_coop_is_the_moderator_s_decision(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COOP_SECRET", "s3cret")
    action = {
        "item": {"id": "p-1", "typeId": "comment"}, "action": {"id": "restore"}, "policies": [], "rules": [],
        "custom": {"category": "NotHate"}, "actorEmail": "kim@example.com", "actorNote": "a song",
    }  # fmt: skip
    async with waiting(sqlite, monkeypatch) as (client, _), bridge("coop") as example:
        case = await judged(client, post_id="p-1")
        foreign = await example.post(
            "/coop", json=action, headers={"Authorization": "Bearer other"}
        )
        assert foreign.status_code == 401
        assert (await example.post("/coop", json=action | {"actorEmail": None})).json().keys() == {
            "ignored"
        }
        unknown = await example.post("/coop", json=action | {"custom": {"category": "Spam"}})
        check_refusal(unknown, 400, "Spam")
        assert (await example.post("/coop", json=action)).json() == {"case": case}
        review = await review_of(client, case)
        assert (review["category"], review["reviewer"]) == ("NotHate", "kim@example.com (a)")
        assert (await example.post("/coop", json=action)).status_code == 409


async def test_an_annotation_in_label_studio_is_a_decision(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDIO_SECRET", "s3cret")
    async with waiting(sqlite, monkeypatch) as (client, _), bridge("label_studio") as example:
        case = await judged(client)
        task = annotated({"data": {"case": case}}, "Religious", note="a quotation")
        [annotation] = task.pop("annotations")
        event = {"action": "ANNOTATION_CREATED", "task": task, "annotation": annotation}
        skipped = await example.post(
            "/label-studio", json=event | {"annotation": annotation | {"was_cancelled": True}}
        )
        assert skipped.json().keys() == {"ignored"}
        assert (await example.post("/label-studio", json=event)).json() == {"case": case}
        review = await review_of(client, case)
        assert (review["category"], review["reviewer"]) == ("Religious", "Label Studio 1 (a)")
        assert (await example.post("/label-studio", json=event)).status_code == 409
