"""A case without a verdict is never at its end: it is retried, decided by category, reopened or appealed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import select

from tests.court import court_script
from tests.doubles import Reply
from tests.openai_server import OpenAIServer
from tests.service.at_desk import signed_in
from tests.service.conftest import check_refusal, opened, serving
from tests.service.decided_here import run
from tests.service.test_service import ended
from tribunal.review.audit import check_records
from tribunal.store import audit as audit_log
from tribunal.store.tables import cases

SETTINGS = {"model": "openai:scripted"}
SURE = {"category": "Religious", "explanation": "judge-words", "confidence": 0.9}
NO_VERDICT = {"refusal": Reply(refusal="no"), "failure": Reply("no JSON at all")}


def asked(**settings: Any) -> dict[str, Any]:
    return {"text": "post-words", "graph": "tribunal", "settings": settings}


@pytest.mark.parametrize("outcome", NO_VERDICT)
async def test_a_waiting_case_is_retried_and_decided_by_category(
    database: str, outcome: str
) -> None:
    script = court_script(explicit=True, judge=NO_VERDICT[outcome])
    async with (
        OpenAIServer(script),
        serving(database, settings=SETTINGS) as client,
        opened(database) as store,
    ):
        got = await client.post("/v1/judge?wait=60", json=asked(review=True))
        assert (got.json()["outcome"], got.json()["review"]["court"]["outcome"]) == (
            "pending",
            outcome,
        )
        at = f"/v1/cases/{got.headers['tribunal-case']}"
        check_refusal(
            await client.post(f"{at}/decision", json={"action": "accept"}), 400, "verdict"
        )
        again = await client.post(
            f"{at}/decision?wait=60", json={"action": "retry", "reviewer": "kim"}
        )
        assert (again.status_code, again.json()["outcome"]) == (200, "pending"), again.text
        assert len(again.json()["trials"]) == 1
        done = await client.post(
            f"{at}/decision?wait=60", json={"action": "change", "category": "Sexist"}
        )
        assert (done.json()["outcome"], done.json()["category"]) == ("verdict", "Sexist")
        log = await audit_log.page(store, subject=at.rpartition("/")[2], limit=100)
        said = [
            audit_log.readable(each)["details"] for each in log if each["kind"] == "case.answered"
        ]
        assert [each["action"] for each in said] == ["retry", "change"]


async def test_a_waiting_case_is_retried_at_the_terminal(database: str) -> None:
    script = court_script(explicit=True, judge=[NO_VERDICT["refusal"], Reply(SURE)])
    async with OpenAIServer(script), serving(database, settings=SETTINGS) as client:
        got = await client.post("/v1/judge?wait=60", json=asked(review=True))
        case = got.headers["tribunal-case"]
        both = await run("review", "decide", case, "--retry", "--accept", "--database", database)
        assert both.exit_code == 2
        done = await run(
            "review",
            "decide",
            case,
            "--retry",
            "--reviewer",
            "kim",
            "--json",
            "--database",
            database,
        )
        assert json.loads(done.stdout)["category"] == "Religious", done.output


@pytest.mark.parametrize("outcome", NO_VERDICT)
@pytest.mark.parametrize("way", ["reopen", "appeal"])
async def test_an_ended_case_is_decided_by_category(database: str, outcome: str, way: str) -> None:
    script = court_script(explicit=True, judge=NO_VERDICT[outcome])
    async with (
        OpenAIServer(script),
        serving(database, settings=SETTINGS) as client,
        opened(database) as store,
    ):
        got = await client.post("/v1/judge?wait=60", json=asked())
        assert got.json()["outcome"] == outcome
        at = f"/v1/cases/{got.headers['tribunal-case']}"
        why = {
            "reason": "nobody decided",
            **({"appellant": "user-7"} if way == "appeal" else {"lead": "ada"}),
        }
        made = await client.post(f"{at}/{way}", json=why)
        assert made.status_code == 201, made.text
        where = f"{made.headers['location']}/decision"
        upheld = await client.post(where, json={"action": "uphold", "reviewer": "kim"})
        check_refusal(upheld, 400, "no verdict")
        changed = {"action": "change", "category": "Sexist", "note": "kim-note", "reviewer": "kim"}
        done = await client.post(where, json=changed)
        assert (done.status_code, done.json()["result"]) == (200, "changed"), done.text
        case = (await client.get(at)).json()
        assert (case["record"]["outcome"], case["record"]["category"]) == ("verdict", "Sexist")
        assert case["record"]["appeals"][0]["before"]["outcome"] == outcome
        row = await store.fetch_row(select(cases).where(cases.c.id == at.rpartition("/")[2]))
        assert row is not None
        assert (row["outcome"], row["category"], row["hateful"]) == ("verdict", "Sexist", True)
        assert (await check_records(store)).faults == []


@pytest.mark.parametrize("outcome", NO_VERDICT)
async def test_a_lead_retries_an_ended_case_at_the_desk(database: str, outcome: str) -> None:
    script = court_script(explicit=True, judge=[NO_VERDICT[outcome]] * 3 + [Reply(SURE)])
    async with OpenAIServer(script), serving(database, settings=SETTINGS) as client:
        got = await client.post("/v1/judge?wait=60", json=asked())
        assert got.json()["outcome"] == outcome
        case = got.headers["tribunal-case"]
        lead = await signed_in(client.app)  # type: ignore[attr-defined]
        page = await lead.get(f"/desk/cases/{case}")
        assert page.tree.xpath("//a[contains(@href, '/reopen')]")
        await lead.send("retry", at=case)
        assert (await ended(client, f"/v1/cases/{case}"))["record"]["outcome"] in (
            "verdict",
            outcome,
        )
        assert "accept" not in lead.page.buttons()
