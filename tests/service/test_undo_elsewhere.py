"""Undo of an appeal's outcome and of a second opinion: as of a case, nobody is told before it takes effect."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
from sqlalchemy import Table, update

from tests.service.at_desk import ALL, post, signed_in
from tests.service.conftest import check_refusal, get_json, opened, serving
from tribunal.schema import JSON
from tribunal.store import audit as audit_log
from tribunal.store.engine import Store
from tribunal.store.tables import appeals, deliveries, second_opinions

KEPT = {**ALL, "desk_undo": 600.0, "second_opinions": 1.0}


async def decided_by_kim(client: httpx.AsyncClient) -> str:
    """The address of a case that kim has decided."""
    at = f"/v1/cases/{(await post(client, 'one: a post', post_id='p-1'))['id']}"
    said = {"action": "change", "category": "Racist", "note": "why", "reviewer": "kim"}
    assert (await client.post(f"{at}/decision?wait=60", json=said)).json()["category"] == "Racist"
    return at


async def in_effect(
    client: httpx.AsyncClient, store: Store, table: Table, at: str, status: str
) -> JSON:
    """What a decision came to, once its seconds are over."""
    async with store.transaction() as connection:
        await connection.execute(update(table).values(held_until=1.0))
    while (now := await get_json(client, at))["status"] != status:
        await asyncio.sleep(0.05)
    found: JSON = now
    return found


async def messages(store: Store) -> list[Any]:
    rows = await store.fetch_rows(deliveries.select().order_by(deliveries.c.id))
    return [json.loads(row["body"]) for row in rows]


async def test_an_appeal_s_outcome_is_told_to_nobody_before_it_can_be_undone_no_more(
    database: str,
) -> None:
    async with serving(database, **KEPT) as client, opened(database) as store:
        await client.post(
            "/v1/webhooks", json={"url": "https://example.org/hook", "events": ["appeal.decided"]}
        )
        at = await decided_by_kim(client)
        against = {"appellant": "user-7", "reason": "It is a song."}
        where = (await client.post(f"{at}/appeal", json=against)).headers["location"]
        lee = await signed_in(client.app, named="lee")  # type: ignore[attr-defined]
        ada = await signed_in(client.app, named="ada")  # type: ignore[attr-defined]
        here = f"/desk/appeals/{where.rpartition('/')[2]}"
        await lee.get(here)
        await lee.send(
            "change", at="/appeals/", category="NotHate", note="a misclick", clauses="1.2"
        )
        assert "Decided by lee (operator), and can still be undone" in (await ada.get(here)).words
        assert ada.page.buttons() == [], "it isn't theirs to undo or to decide"
        said = {"action": "uphold", "reviewer": "ada"}
        late = await client.post(f"{where}/decision", json=said)
        check_refusal(late, 409, "is being decided by lee (operator)")
        held = await get_json(client, where)
        assert (held["status"], held["result"], held["held_until"] is None) == (
            "waiting",
            None,
            False,
        )
        assert (await get_json(client, at, "record"))["category"] == "Racist"
        await lee.send("undo", at="/appeals/")
        assert await get_json(client, where, "held_until") is None
        await lee.send("change", at="/appeals/", category="NotHate", note="a song", clauses="1.2")
        assert await messages(store) == []
    async with (
        serving(database, **KEPT) as client,
        opened(database) as store,
    ):  # it survives a restart
        done = await in_effect(client, store, appeals, where, "decided")
        assert (done["result"], done["reviewer"], done["clauses"]) == (
            "reversed",
            "lee (operator)",
            ["1.2"],
        )
        record = await get_json(client, at, "record")
        assert (record["category"], record["clauses"], record["explanation"]) == (
            "NotHate",
            ["1.2"],
            "a song",
        )
        [told] = await messages(store)
        assert (told["data"]["clauses"], told["data"]["appeal"]["clauses"]) == (["1.2"], ["1.2"])
        entries = [
            audit_log.readable(row)
            for row in await audit_log.page(store, subject=at.rpartition("/")[2])
        ]
        kinds = [each["kind"] for each in entries if each["kind"].startswith("appeal.")]
        assert kinds == ["appeal.answered", "appeal.undone", "appeal.answered", "appeal.decided"]


async def test_a_second_opinion_and_what_a_lead_makes_of_it_can_be_undone(database: str) -> None:
    async with serving(database, **KEPT) as client, opened(database) as store:
        await client.post(
            "/v1/webhooks", json={"url": "https://example.org/hook", "events": ["case.reopened"]}
        )
        case = await decided_by_kim(client)
        [asked] = await get_json(client, "/v1/second-opinions", "second_opinions")
        where = f"/v1/second-opinions/{asked['id']}"
        wrong = await client.post(
            f"{where}/opinion", json={"category": "NotHate", "clauses": ["9"], "reviewer": "lee"}
        )
        check_refusal(wrong, 400, "clauses: '9': is none of the policy h-vli")
        lee = await signed_in(client.app, named="lee")  # type: ignore[attr-defined]
        page = await lee.get(f"/desk/second-opinions/{asked['id']}")
        for told in ("kim", case.rpartition("/")[2]):
            assert told not in page.response.text, "nothing of who decided it"
        page = await lee.send("give", at="second-opinions", category="Sexist", note="a misclick")
        assert ("You can undo this for" in page.words, await get_json(client, where, "status")) == (
            True,
            "waiting",
        )
        page = await lee.send("undo", at="second-opinions")
        await lee.send(
            "give", at="second-opinions", category="NotHate", note="a song", clauses="1.2"
        )
        done = await in_effect(client, store, second_opinions, where, "disagreed")
        assert (done["second_category"], done["clauses"], done["held_until"]) == (
            "NotHate",
            ["1.2"],
            None,
        )
        await lee.get(f"/desk/second-opinions/{asked['id']}")
        await lee.send("reopen", at="second-opinions", note="look again")
        assert (await get_json(client, where, "status"), await messages(store)) == ("disagreed", [])
        await lee.send("undo", at="second-opinions")
        await lee.send("reopen", at="second-opinions", note="look again")
        done = await in_effect(client, store, second_opinions, where, "settled")
        assert [each["type"] for each in await messages(store)] == ["case.reopened"]
        assert done["appeal_id"] is not None
