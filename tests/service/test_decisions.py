"""A case that waits for a person, over HTTP: claimed, decided once, and never lost with the replica it was said to."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import httpx
import pytest

from tests.court import court_script, part
from tests.doubles import ScriptedServer
from tests.openai_server import OpenAIServer
from tests.service.batched import ended, lines, sent, table
from tests.service.conftest import check_refusal, get_json, serving
from tests.service.test_checkpoints import COURT, UNSURE, left_behind
from tribunal.runner.case_worker import Worker

ACCEPT = {"action": "accept"}


async def waiting(
    client: httpx.AsyncClient, server: ScriptedServer, **settings: Any
) -> dict[str, Any]:
    """A case that waits for a person."""
    os.environ["OPENAI_BASE_URL"] = (
        f"{server.url}/v1"  # taken away again before the next test (conftest)
    )
    asked = {"text": "post-words", "graph": "tribunal", "settings": {"review": True, **settings}}
    got = await client.post("/v1/judge?wait=60", json=asked)
    assert (got.status_code, got.json()["outcome"]) == (200, "pending"), got.text
    case: dict[str, Any] = await get_json(client, f"/v1/cases/{got.headers['tribunal-case']}")
    return case


async def test_a_case_that_waits_is_shown_claimed_and_accepted(database: str) -> None:
    async with (
        ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server,
        serving(database, **COURT) as client,
    ):
        case = await waiting(client, server)
        assert (case["status"], case["record"]["review"]["reason"]) == (
            "done",
            "the verdict is uncertain",
        )
        assert "The court: Religious" in case["question"]["request"]["description"]
        at = f"/v1/cases/{case['id']}"
        claimed = await client.post(f"{at}/claim", json={"reviewer": "kim"})
        assert claimed.json()["claim"]["by"] == "kim (operator)"
        for path, asked in ((f"{at}/claim", {}), (f"{at}/decision", ACCEPT)):
            refused = await client.post(path, json={**asked, "reviewer": "lee"})
            assert refused.status_code == 409
            assert "kim (operator) is reviewing this" in refused.json()["error"]["message"]
        done = (await client.post(f"{at}/decision", json={**ACCEPT, "reviewer": "kim"})).json()
        assert (done["outcome"], done["category"], done["review"]["action"]) == (
            "verdict",
            "Religious",
            "accept",
        )
        after = await get_json(client, at)
        assert (after["status"], after["record"], after["question"], after["claim"]) == (
            "done",
            done,
            None,
            None,
        )
        assert len(server.requests) == 4, "a decision asks no model"
        assert await left_behind(database) == 0


async def test_a_wrong_answer_changes_nothing_and_a_right_one_does(database: str) -> None:
    async with (
        ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server,
        serving(database, **COURT) as client,
    ):
        case = await waiting(client, server)
        at = f"/v1/cases/{case['id']}/decision"
        for wrong, said in (
            ({"action": "change", "category": "Nonsense"}, "'Nonsense'"),
            ({"action": "change", "category": "99"}, "label: 99"),
            ({"action": "change"}, "category: None"),
            ({"action": "accept", "category": "NotHate"}, "category: 'NotHate'"),
            ({"action": "ask", "question": " "}, "question: ' '"),
            ({"action": "skip"}, "action"),
        ):
            refused = await client.post(at, json=wrong)
            assert refused.status_code == 400, wrong
            assert said in refused.json()["error"]["message"]
        assert await get_json(client, f"/v1/cases/{case['id']}") == case
        done = await client.post(
            at, json={"action": "change", "category": "NotHate", "note": "quoted to condemn it"}
        )
        record = done.json()
        assert (record["category"], record["hateful"], record["explanation"]) == (
            "NotHate",
            False,
            "quoted to condemn it",
        )
        assert record["review"]["court"]["category"] == "Religious"


async def test_a_question_brings_one_more_trial_and_the_case_comes_back(database: str) -> None:
    async with (
        ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server,
        serving(database, **COURT) as client,
    ):
        case = await waiting(client, server)
        at = f"/v1/cases/{case['id']}/decision"
        ask = {"action": "ask", "question": "is it a quotation?", "reviewer": "kim"}
        again = (await client.post(f"{at}?wait=30", json=ask)).json()
        assert (again["outcome"], len(again["trials"])) == ("pending", 1)
        assert [part(request) for request in server.requests[4:]] == [
            "indictment",
            "defence",
            "judge",
        ]
        assert all("is it a quotation?" in request.text for request in server.requests[4:])
        stale = await client.post(at, json={**ACCEPT, "answers": case["question"]["id"]})
        check_refusal(stale, 409, "tried again since")
        now = (await get_json(client, f"/v1/cases/{case['id']}", "question"))["id"]
        done = (await client.post(at, json={**ACCEPT, "answers": now})).json()
        assert (done["outcome"], done["review"]["action"], done["usage"]["calls"]) == (
            "verdict",
            "accept",
            7,
        )


async def test_two_reviewers_at_two_replicas_at_once(database: str) -> None:
    async with (
        ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server,
        serving(database, **COURT) as one,
        serving(database, **COURT) as other,
    ):
        case = await waiting(one, server)
        at = f"/v1/cases/{case['id']}/decision"
        answers = [
            client.post(at, json={"action": "change", "category": category, "reviewer": category})
            for client, category in (
                (one, "Sexist"),
                (other, "NotHate"),
                (one, "Racist"),
                (other, "Homophobic"),
            )
        ]
        got = await asyncio.gather(*answers)
        assert sorted(each.status_code for each in got) == [200, 409, 409, 409]
        [record] = [each.json() for each in got if each.status_code == 200]
        assert record["review"]["reviewer"] == f"{record['category']} (operator)"
        assert await get_json(other, f"/v1/cases/{case['id']}", "record") == record


async def test_a_decision_outlives_the_replica_that_it_was_said_to(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*_: object) -> None:
        raise RuntimeError("killed between the decision and what follows from it")

    async with ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server:
        async with serving(database, **COURT) as client:
            case = await waiting(client, server)
            with monkeypatch.context() as patched:
                patched.setattr(Worker, "begin", killed)
                sent = await client.post(
                    f"/v1/cases/{case['id']}/decision", json={**ACCEPT, "reviewer": "kim"}
                )
            assert sent.status_code == 500
            late = await client.post(f"/v1/cases/{case['id']}/decision", json=ACCEPT)
            check_refusal(late, 409, "is being decided by kim")
        async with serving(database, **COURT) as client:
            while (now := await get_json(client, f"/v1/cases/{case['id']}"))["status"] != "done":
                await asyncio.sleep(0.05)
            assert (now["record"]["outcome"], now["record"]["review"]["reviewer"]) == (
                "verdict",
                "kim (operator)",
            )
        assert len(server.requests) == 4


async def test_a_row_of_a_batch_waits_too_and_goes_with_its_batch(database: str) -> None:
    court = {"settings": {**COURT["settings"], "review": True}}
    async with (
        OpenAIServer(court_script(explicit=True, judge=UNSURE)),
        serving(database, **court) as client,
    ):
        got = await sent(
            client, lines({"id": "a", "text": "one"}, {"id": "b", "text": "two"}), graph="tribunal"
        )
        batch = await ended(client, f"/v1/batches/{got.json()['id']}")
        assert batch["outcomes"] == {"pending": 2}
        waits = await get_json(client, "/v1/cases?outcome=pending", "cases")
        [first] = [each for each in waits if each["record"]["post_id"] == "a"]
        done = await client.post(f"/v1/cases/{first['id']}/decision", json=ACCEPT)
        assert done.json()["outcome"] == "verdict"
        rows = await table(client, batch["id"], "csv")
        assert [(row["id"], row["outcome"]) for row in rows] == [("a", "verdict"), ("b", "pending")]
        assert await left_behind(database) > 0
        assert (await client.delete(f"/v1/batches/{batch['id']}")).status_code == 204
        assert await left_behind(database) == 0
