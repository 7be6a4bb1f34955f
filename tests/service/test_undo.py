"""Undo at the desk: a decision takes effect after some seconds, and until then whoever made it can take it back."""

from __future__ import annotations

import asyncio
from datetime import datetime

import httpx
import pytest
from sqlalchemy import update

from tests.service.at_desk import ALL, post, signed_in
from tests.service.conftest import check_refusal, get_json, opened, serving
from tests.service.decided_here import run
from tests.service.live import key_of
from tribunal.schema import JSON
from tribunal.store import audit as audit_log
from tribunal.store.tables import cases, deliveries

KEPT = {**ALL, "desk_undo": 600.0}


async def case_at(client: httpx.AsyncClient, case_id: str) -> JSON:
    got: JSON = await get_json(client, f"/v1/cases/{case_id}")
    return got


async def test_an_undone_decision_is_told_to_nobody_and_the_case_waits_for_the_same_person(
    database: str,
) -> None:
    async with (
        serving(database, **KEPT) as one,
        serving(database, **KEPT) as other,
        opened(database) as store,
    ):
        hook = {"url": "https://example.org/hook", "events": ["case.decided", "case.pending"]}
        assert (await one.post("/v1/webhooks", json=hook)).status_code == 201
        case = await post(one, "one: a post", post_id="p-1")
        kim = await signed_in(one.app)  # type: ignore[attr-defined]
        lee = await signed_in(other.app, named="lee")  # type: ignore[attr-defined]
        await kim.send(at="/next")
        done = await kim.send("change", at="/cases/", category="Racist", note="a misclick")
        assert ("p-1" in done.said, case["id"] in done.said, "Undo" in done.words) == (
            True,
            False,
            True,
        )
        held = await case_at(other, case["id"])
        assert (held["status"], held["record"]["outcome"]) == ("queued", "pending")
        await lee.get(f"/desk/cases/{case['id']}")
        refused = await lee.client.post(
            "/desk/undo",
            data={"csrf": csrf_of(lee.page), "cases": case["id"]},
            headers={"Origin": "http://127.0.0.1"},
        )
        check_refusal(refused, 409, "too late to undo")
        undone = await kim.send(at="/undo")
        assert (kim.case, undone.said) == (case["id"], "Undone. p-1 waits for you again.")
        assert (await case_at(other, case["id"]))["status"] == "done"
        told = await store.fetch_rows(
            deliveries.select().where(deliveries.c.event == "case.decided")
        )
        assert told == []
        rows = [audit_log.readable(row) for row in await audit_log.page(store, subject=case["id"])]
        assert [row["kind"] for row in rows][-3:] == [
            "case.claimed",
            "case.answered",
            "case.undone",
        ]
        await kim.send("accept", at="/cases/")
        await release(store, case["id"])
        record = await decided(other, case["id"])
        assert (record["review"]["action"], record["review"]["note"]) == ("accept", "")


async def test_a_decision_takes_effect_by_itself_and_survives_a_restart(database: str) -> None:
    async with serving(database, **KEPT) as client:
        case = await post(client, "one: a post", post_id="p-1")
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        await kim.send(at="/next")
        await kim.send("change", at="/cases/", category="Racist", note="a quotation")
        at = (await case_at(client, case["id"]))["held_until"] - KEPT["desk_undo"]
    async with serving(database, **KEPT) as client, opened(database) as store:
        assert (await case_at(client, case["id"]))["status"] == "queued"
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        page = await kim.get(f"/desk/cases/{case['id']}")
        assert "You can undo this for" in page.words
        told = await run("review", "decide", case["id"], "--accept", "--database", database)
        assert told.exit_code == 2
        assert "was decided by kim (operator) at the desk, takes effect at" in told.output
        await release(store, case["id"])
        record = await decided(client, case["id"])
        assert (record["category"], record["explanation"]) == ("Racist", "a quotation")
        assert abs(datetime.fromisoformat(record["review"]["at"]).timestamp() - at) < 2, (
            "when it was decided"
        )
        late = await kim.send(at="/undo")
        assert (late.status, "too late to undo" in late.words) == (409, True)


@pytest.mark.parametrize("action", ["accept", "ask"])
async def test_what_a_key_s_budget_had_reserved_is_given_back(sqlite: str, action: str) -> None:
    async with serving(sqlite, **KEPT) as client:
        key = await key_of(sqlite, "judge", daily_calls=100)
        reviewer = await key_of(sqlite, "review")
        case = await post(client, "one: a post", key)
        before = await get_json(client, "/v1/usage", headers={"X-API-Key": key})
        kim = await signed_in(client.app, reviewer, named="kim")  # type: ignore[attr-defined]
        await kim.send(at="/next")
        await kim.send(
            action, at="/cases/", question="is it a quotation?" if action == "ask" else ""
        )
        await kim.send(at="/undo")
        assert kim.case == case["id"]
        assert await get_json(client, "/v1/usage", headers={"X-API-Key": key}) == before


def csrf_of(page: object) -> str:
    [first, *_] = page.tree.xpath("//*[@name='csrf']")  # type: ignore[attr-defined]
    return str(first.get("value"))


async def release(store: object, case_id: str) -> None:
    """Let the seconds be over."""
    async with store.transaction() as connection:  # type: ignore[attr-defined]
        await connection.execute(update(cases).where(cases.c.id == case_id).values(held_until=1.0))


async def decided(client: httpx.AsyncClient, case_id: str) -> JSON:
    """The record of a case once it is decided."""
    while (now := await case_at(client, case_id))["status"] != "done":
        await asyncio.sleep(0.02)
    record: JSON = now["record"]
    return record
