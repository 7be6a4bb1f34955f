"""`/v1/cases/ID/explanation`: the forms, who may see it, and who pays for the words to the person who posted."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from sqlalchemy import select, update

from tests.cases.letters import CUE, FRENCH, POST, VERDICT, Page, is_explainer, told
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.openai_server import OpenAIServer
from tests.service.command import Service, started
from tests.service.conftest import check_refusal, get_json, opened, serving
from tribunal.errors import BadInput
from tribunal.explanations.notices import example_mapping
from tribunal.service.replica import keys
from tribunal.store.tables import cases, usage

COURT = {"model": "openai:scripted"}
ONE_GROUND = VERDICT | {"explanation": "C1 decides it."}
PRICES = '["openai:scripted"]\ninput = 1.0\noutput = 2.0\n'
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def test_a_case_is_explained_in_the_form_that_is_asked_for(
    database: str, tmp_path: Path
) -> None:
    prices, mapping = tmp_path / "prices.toml", tmp_path / "mapping.toml"
    prices.write_text(PRICES, "utf-8")
    mapping.write_text(example_mapping(), "utf-8")
    async with (
        OpenAIServer(told(FRENCH, judge=ONE_GROUND)) as server,
        serving(database, graph="arcade", settings=COURT, prices=prices, mapping=mapping) as client,
    ):
        got = await client.post("/v1/judge?wait=60", json={"text": POST})
        at = f"/v1/cases/{got.headers['tribunal-case']}/explanation"
        held = await get_json(client, at)
        assert (held["told_to"], held["case"], held["outcome"]) == (
            "auditor",
            got.headers["tribunal-case"],
            "verdict",
        )
        for asked, accept, kind in (
            ("", BROWSER, "text/html"), ("?format=html", "", "text/html"), ("", "text/markdown", "text/markdown"),
            ("?format=json", BROWSER, "application/json"), ("", "text/html;q=0.2, */*", "application/json"),
        ):  # fmt: skip
            shown = await client.get(f"{at}{asked}", headers={"Accept": accept})
            assert shown.headers["content-type"].startswith(kind), (asked, accept)
        page = await client.get(at, params={"format": "html"})
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "rats, all Muslims" in Page(page.text).text
        asked_for = len(server.requests)
        notice = await client.get(at, params={"for": "poster", "language": "de"})
        assert (notice.json()["told_to"], notice.headers["tribunal-explanation"]) == (
            "poster",
            "fixed",
        )
        assert len(server.requests) == asked_for, "the policy is translated, so no model is asked"
        plain = await get_json(client, at, params={"for": "poster", "language": "fr"})
        assert (plain["told_to"], plain["text"], plain["source"]) == (
            "poster",
            FRENCH["text"],
            "written",
        )
        assert [is_explainer(request) for request in server.requests[asked_for:]] == [True]
        wrong = await client.get(at, params={"language": "ko"})
        check_refusal(wrong, 400, "for=poster")


async def test_who_asks_for_the_words_pays_for_them(database: str) -> None:
    async with opened(database) as store:
        own = await keys.add_key(store, "a", ["judge"], keys.KeyLimits(daily_calls=5))
        other = await keys.add_key(store, "b", ["judge"], keys.KeyLimits())
        async with (
            OpenAIServer(told(FRENCH, judge=ONE_GROUND)),
            serving(database, graph="arcade", settings=COURT) as client,
        ):
            got = await client.post(
                "/v1/judge?wait=60", json={"text": POST}, headers={"X-API-Key": own}
            )
            at = f"/v1/cases/{got.headers['tribunal-case']}/explanation"
            assert (await client.get(at, headers={"X-API-Key": other})).status_code == 404
            for status in (
                200,
                429,
            ):  # four calls of the court and one of the explainer, and then they are spent
                asked = {"for": "poster", "language": "fr"}
                shown = await client.get(at, params=asked, headers={"X-API-Key": own})
                assert shown.status_code == status, shown.text
            assert (await client.get(at, headers={"X-API-Key": own})).status_code == 200, (
                "to look costs nothing"
            )
        async with store.transaction() as connection:
            spent = (
                await connection.execute(
                    select(usage.c.calls).where(usage.c.key_id == own.split("_")[1])
                )
            ).all()
        assert sum(calls for (calls,) in spent) == 5


@pytest.mark.long
async def test_a_letter_that_a_kill_breaks_off_counts_as_spent_in_full(database: str) -> None:
    async with opened(database) as store:
        key = {
            "X-API-Key": await keys.add_key(store, "a", ["judge"], keys.KeyLimits(daily_calls=9))
        }
    written = told(Fault(hang=True), FRENCH, judge=ONE_GROUND)
    async with ScriptedServer(written) as server:
        options = ("--graph", "arcade", "--takeover", "2")
        told_to = {
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_KEY": "",
            "TRIBUNAL_MODEL": "openai:scripted",
        }

        async def account(service: Service) -> tuple[int, int]:
            today = (await get_json(service.client, "/v1/usage", "days", headers=key))[0]
            return today["spent"]["calls"], today["reserved"]["calls"]

        async with started(database, *options, **told_to) as first:
            case = (
                await first.client.post("/v1/judge?wait=60", json={"text": POST}, headers=key)
            ).headers
            at = f"/v1/cases/{case['tribunal-case']}/explanation?for=poster&language=fr"
            assert await account(first) == (4, 0)
            asked = asyncio.create_task(first.client.get(at, headers=key))
            while not is_explainer(server.requests[-1]):
                await asyncio.sleep(0.05)
            async with started(database, *options, **told_to) as second:
                await asyncio.sleep(3)
                assert await account(second) == (4, 5), "its replica lives"
                first.signal(signal.SIGKILL)
                await asyncio.wait([asked])
                while (held := await account(second)) == (4, 5):
                    await asyncio.sleep(0.2)
                assert held == (9, 0)
                assert (await second.client.get(at, headers=key)).status_code == 429


async def test_a_case_that_is_not_over_is_a_conflict_and_one_whose_words_were_erased_has_none(
    sqlite: str,
) -> None:
    over, court = asyncio.Event(), told(judge=ONE_GROUND)

    async def slow(request: Request) -> Reply | Fault:
        await over.wait()
        answer: Reply | Fault = court(request)
        return answer

    async with OpenAIServer(slow), serving(sqlite, graph="arcade", settings=COURT) as client:
        case = (await client.post("/v1/judge", json={"text": POST})).json()["id"]
        at = f"/v1/cases/{case}/explanation"
        shown = await client.get(at)
        check_refusal(shown, 409, "has no outcome yet")
        over.set()
        while await get_json(client, f"/v1/cases/{case}", "status") != "done":
            await asyncio.sleep(0.01)
        assert (await client.delete(f"/v1/cases/{case}/words")).json()["erased"] == 1
        shown = await client.get(at)
        assert "rats" not in shown.text
        assert "The text of this case was erased" in shown.text


async def test_a_decision_that_states_no_reason_is_a_conflict_for_its_author_and_a_mapping_is_read_at_the_start(
    sqlite: str, tmp_path: Path
) -> None:
    async with (
        OpenAIServer(told(judge=ONE_GROUND, indictment={"cues": [CUE]})),
        serving(sqlite, graph="arcade", settings=COURT) as client,
    ):
        got = await client.post("/v1/judge?wait=60", json={"text": POST})
        case = got.headers["tribunal-case"]
        async with opened(sqlite) as store, store.transaction() as connection:
            record = (
                await connection.execute(select(cases.c.record).where(cases.c.id == case))
            ).scalar_one()
            emptied = {**record, "explanation": "", "cues": []}
            await connection.execute(update(cases).where(cases.c.id == case).values(record=emptied))
        shown = await client.get(f"/v1/cases/{case}/explanation", params={"for": "poster"})
        check_refusal(shown, 409, "a person should look")
    wrong = tmp_path / "mapping.toml"
    wrong.write_text('[all]\nautomated_detection = "Perhaps"\n', "utf-8")
    with pytest.raises(BadInput, match="automated_detection: 'Perhaps'"):
        async with serving(sqlite, mapping=wrong):
            pass
