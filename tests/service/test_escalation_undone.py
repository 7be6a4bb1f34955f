"""Escalations can be undone; a lead takes over an absent reviewer's case; messages name posts as the platform does."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from tests.court import court_script
from tests.doubles import Reply
from tests.openai_server import OpenAIServer
from tests.service.at_desk import ALL, post, signed_in
from tests.service.conftest import check_refusal, get_json, opened, serving
from tests.service.live import key_of
from tests.service.test_without_verdict import SETTINGS, SURE
from tribunal.docket.waiting_cases import list_notes
from tribunal.store.tables import cases

KEPT = {**ALL, "desk_undo": 600.0}


async def test_an_escalation_is_undone_before_anybody_is_told(database: str) -> None:
    async with serving(database, **KEPT) as client, opened(database) as store:
        hook = {"url": "https://example.org/hook", "events": ["case.escalated"]}
        assert (await client.post("/v1/webhooks", json=hook)).status_code == 201
        case = await post(client, "one", post_id="p-1")
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        await kim.send(at="/next")
        done = await kim.send("escalate", at="/cases/", note="too hard")
        assert "p-1" in done.said
        assert case["id"] not in done.said
        row = await store.fetch_row(select(cases).where(cases.c.id == case["id"]))
        assert row is not None
        assert row["escalated"] is not None
        undone = await kim.send("undo", at="/undo")
        assert "p-1" in undone.said
        row = await store.fetch_row(select(cases).where(cases.c.id == case["id"]))
        assert row is not None
        assert (row["escalated"], row["claimed_by"]) == (None, "kim (operator)")
        assert [(each["kind"], each["words"]) for each in await list_notes(store, case["id"])] == [
            ("note", "too hard")
        ]
        assert (await get_json(client, "/v1/webhooks/deliveries"))["deliveries"] == []


async def test_a_lead_takes_over_the_case_of_an_absent_reviewer(database: str) -> None:
    review, lead = [{"X-API-Key": await key_of(database, each)} for each in ("review", "lead")]
    admin = await key_of(database, "admin")
    async with serving(database, **ALL) as client:
        case = await post(client, "one", admin, post_id="p-1")
        at = f"/v1/cases/{case['id']}/claim"
        assert (await client.post(at, json={"reviewer": "kim"}, headers=review)).status_code == 200
        refused = await client.delete(f"{at}?reviewer=max", headers=review)
        check_refusal(refused, 409, "is reviewing this")
        released = await client.delete(at, headers=lead)
        assert released.status_code == 200, released.text
        assert (await client.post(at, json={"reviewer": "ada"}, headers=lead)).status_code == 200


async def test_a_decision_that_can_be_undone_is_nowhere_called_open(database: str) -> None:
    async with serving(database, **KEPT) as client:
        case = await post(client, "one", post_id="p-1")
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        await kim.send(at="/next")
        await kim.send("accept", at="/cases/")
        page = await kim.get(f"/desk/cases/{case['id']}")
        assert "Decided by kim" in page.words
        assert "not decided yet" not in page.words
        assert "needs review" not in page.words.lower()


async def test_each_case_left_out_has_its_reason(database: str) -> None:
    judge: list[Any] = [Reply({**SURE, "confidence": 0.4})] * 3 + [
        Reply({**SURE, "category": "Sexist"})
    ]
    script = court_script(explicit=True, judge=[*judge, Reply(refusal="no")])
    options: dict[str, Any] = {
        **KEPT,
        "settings": {**SETTINGS, "review": True, "review_rule": ["all"]},
    }
    async with OpenAIServer(script), serving(database, **options) as client:
        made = [
            await post(client, f"text {at}", post_id=f"p-{at}", graph="tribunal") for at in range(5)
        ]
        ids = [each["id"] for each in made]
        kim, lee = [await signed_in(client.app, named=each) for each in ("kim", "lee")]  # type: ignore[attr-defined]
        await kim.get("/desk/queue")
        await kim.send(at="/together", **{f"pick.{each}": "1" for each in ids})
        assert kim.case == ids[0]
        await lee.get(f"/desk/cases/{ids[1]}")
        await lee.send("claim", at="/cases/")
        await lee.get(f"/desk/cases/{ids[2]}")
        await lee.send("claim", at="/cases/")
        await lee.send("accept", at="/cases/")
        done = await kim.send("accept", at="/cases/")
        for name, why in (
            ("p-1", "somebody else has claimed it"), ("p-2", "it was decided already"),
            ("p-3", "another one"), ("p-4", "no verdict"),
        ):  # fmt: skip
            assert any(
                each.startswith(name) and why in each
                for each in done.said.split(": ", 1)[1].split("), ")
            ), done.said
        assert not any(each in done.said for each in ids)
