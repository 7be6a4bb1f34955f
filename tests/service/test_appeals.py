"""Appeals over HTTP: another person decides, the decision before stays to be read, and a new trial hears the appeal."""

from __future__ import annotations

import asyncio
import os
import signal
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.court import court_script, part
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.openai_server import OpenAIServer
from tests.service.command import started
from tests.service.conftest import check_refusal, get_json, opened, serving, write
from tests.service.live import key_of
from tests.service.receiving import receiving
from tests.service.test_checkpoints import COURT, UNSURE, written
from tests.service.test_decisions import ACCEPT, waiting
from tribunal.runner.case_worker import Worker
from tribunal.service.replica import webhooks as endpoints
from tribunal.store import audit as audit_log
from tribunal.store.tables import cases

APPEAL = {
    "appellant": "user-7",
    "reason": "It is a line of a song.",
    "context": "The refrain, word for word.",
}
SURE = {"category": "Religious", "explanation": "judge-words", "confidence": 0.9}
CLEAN = {"category": "NotHate", "explanation": "no longer", "confidence": 0.9}


async def accepted(client: httpx.AsyncClient, server: ScriptedServer) -> str:
    """The address of a case that kim has decided."""
    case = await waiting(client, server)
    at = f"/v1/cases/{case['id']}"
    done = await client.post(f"{at}/decision", json={**ACCEPT, "reviewer": "kim"})
    assert done.json()["outcome"] == "verdict", done.text
    return at


async def by_the_court(client: httpx.AsyncClient, server: ScriptedServer, **post: Any) -> str:
    """The address of a case that the court has decided alone."""
    os.environ["OPENAI_BASE_URL"] = (
        f"{server.url}/v1"  # taken away again before the next test (conftest)
    )
    got = await client.post(
        "/v1/judge?wait=60", json={"text": "post-words", "graph": "tribunal", **post}
    )
    assert (got.status_code, got.json()["outcome"]) == (200, "verdict"), got.text
    return f"/v1/cases/{got.headers['tribunal-case']}"


async def appealed(client: httpx.AsyncClient, at: str) -> str:
    """The address of an appeal against a case."""
    got = await client.post(f"{at}/appeal", json=APPEAL)
    assert got.status_code == 201, got.text
    return str(got.headers["location"])


async def tried(client: httpx.AsyncClient, at: str) -> dict[str, Any]:
    """An appeal, once its new trial has ended."""
    while (now := await get_json(client, at))["status"] == "trying":
        await asyncio.sleep(0.05)
    got: dict[str, Any] = now
    return got


async def test_another_person_reverses_and_both_views_stay(database: str) -> None:
    async with (
        ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server,
        serving(database, **COURT) as client,
    ):
        at = await accepted(client, server)
        before = await get_json(client, at, "record")
        where = await appealed(client, at)
        change = {"action": "change", "category": "NotHate", "note": "a song, quoted"}
        for name in ("kim", "Kim ", None):  # who decided it, and who can't be told from them
            refused = await client.post(f"{where}/decision", json={**change, "reviewer": name})
            assert refused.status_code == 409, refused.text
            assert "kim (operator)" in refused.json()["error"]["message"]
        done = (await client.post(f"{where}/decision", json={**change, "reviewer": "lee"})).json()
        assert (done["status"], done["result"], done["claimed_by"]) == ("decided", "reversed", None)
        assert (done["category_before"], done["category"], done["hateful"]) == (
            "Religious",
            "NotHate",
            False,
        )
        again = await client.post(f"{where}/decision", json={**change, "reviewer": "lee"})
        assert again.json() == done, "who says the same once more gets the same"
        case = await get_json(client, at)
        record = case["record"]
        assert (record["category"], record["hateful"], record["explanation"]) == (
            "NotHate",
            False,
            "a song, quoted",
        )
        assert record["review"] == before["review"], "the first decision stays"
        [told] = record["appeals"]
        assert (told["appellant"], told["reason"], told["context"]) == tuple(APPEAL.values())
        assert (told["before"]["category"], told["before"]["explanation"]) == (
            "Religious",
            before["explanation"],
        )
        assert (told["decided_by"], told["reviewer"], told["result"]) == (
            "kim (operator)",
            "lee (operator)",
            "reversed",
        )
        second = await appealed(client, at)
        for name in ("kim", "lee"):
            refused = await client.post(
                f"{second}/decision", json={"action": "uphold", "reviewer": name}
            )
            assert refused.status_code == 409, "nobody who has decided it decides it once more"
        upheld = (
            await client.post(f"{second}/decision", json={"action": "uphold", "reviewer": "ada"})
        ).json()
        assert (upheld["result"], upheld["category"]) == ("upheld", "NotHate")
        record = await get_json(client, at, "record")
        assert [each["result"] for each in record["appeals"]] == ["reversed", "upheld"]
        assert (record["probability"], record["probability_from"]) == (
            float(record["hateful"]),
            "person",
        )
    async with opened(database) as store:
        entries = await audit_log.page(store, subject=case["id"], limit=200)
        kinds = [entry["kind"] for entry in entries]
        assert kinds[-4:] == ["case.appealed", "appeal.decided", "case.appealed", "appeal.decided"]
        assert not any("song" in str(entry) for entry in entries)


@pytest.mark.parametrize("graph", ["tribunal", "arcade"])
async def test_a_new_trial_hears_the_appeal_and_the_same_person_decides(
    database: str, graph: str
) -> None:
    judges = [SURE, {**CLEAN, "explanation": "a song, after all"}]
    async with (
        ScriptedServer(court_script(explicit=True, judge=judges)) as server,
        serving(database, **COURT) as client,
        receiving() as receiver,
    ):
        async with opened(database) as store:
            _, secret = await endpoints.add_webhook(store, receiver.url, http=True)
        at = await by_the_court(client, server, graph=graph)
        first = len(server.requests)
        where = await appealed(client, at)
        retry = {"action": "retry", "note": "the court didn't know the song", "reviewer": "kim"}
        ordered = (await client.post(f"{where}/decision", json=retry)).json()
        assert ordered["status"] == "trying"
        assert (await client.post(f"{where}/decision", json=retry)).json()["trial_id"] == ordered[
            "trial_id"
        ]
        now = await tried(client, where)
        assert await get_json(client, f"/v1/cases/{now['trial_id']}", "record") == now["trial"]
        assert (now["status"], now["trial"]["category"], now["trial"]["explanation"]) == (
            "tried", "NotHate", "a song, after all",
        )  # fmt: skip
        again = server.requests[first:]
        assert [part(request) for request in again] == [
            "gatekeeper",
            "indictment",
            "defence",
            "judge",
        ]
        for request in again:
            heard = part(request) != "gatekeeper"
            for words in (APPEAL["reason"], APPEAL["context"]):
                assert (words in request.text) is heard, part(request)
            assert APPEAL["appellant"] not in request.text
        case = await get_json(client, at)
        assert (case["record"]["category"], case["record"]["appeals"]) == ("Religious", []), (
            "in force till then"
        )
        uphold = {"action": "uphold", "note": "sung at people"}
        other = await client.post(f"{where}/decision", json={**uphold, "reviewer": "lee"})
        check_refusal(other, 409, "kim (operator)'s, who ordered")
        done = (await client.post(f"{where}/decision", json={**uphold, "reviewer": "kim"})).json()
        assert (done["result"], done["category"]) == ("upheld", "Religious")
        record = await get_json(client, at, "record")
        [told] = record["appeals"]
        assert (record["category"], told["decided_by"], told["note"]) == (
            "Religious",
            None,
            "sung at people",
        )
        assert (told["trial"]["outcome"]["category"], told["trial"]["reviewer"]) == (
            "NotHate",
            "kim (operator)",
        )
        messages = await receiver.wait(5)
        types = [receiver.read(at_, secret)["type"] for at_ in range(len(messages))]
        assert types == [
            "case.decided",
            "case.appealed",
            "appeal.trial",
            "appeal.tried",
            "appeal.decided",
        ]
        assert APPEAL["reason"] not in str([message.body for message in messages])


async def test_two_reviewers_at_two_replicas_at_once_on_an_appeal(database: str) -> None:
    async with (
        ScriptedServer(court_script(explicit=True, judge=SURE)) as server,
        serving(database, **COURT) as one,
        serving(database, **COURT) as other,
    ):
        at = await by_the_court(one, server)
        filed = await asyncio.gather(
            *(client.post(f"{at}/appeal", json=APPEAL) for client in (one, other, one))
        )
        assert sorted(each.status_code for each in filed) == [201, 409, 409], (
            "one open appeal a case"
        )
        [where] = [each.headers["location"] for each in filed if each.status_code == 201]
        said = [
            {"action": "change", "category": "NotHate", "note": "n", "reviewer": "a"},
            {"action": "uphold", "reviewer": "b"},
            {"action": "change", "category": "Sexist", "note": "n", "reviewer": "c"},
            {"action": "retry", "reviewer": "d"},
        ]
        got = await asyncio.gather(
            *(
                client.post(f"{where}/decision", json=each)
                for client, each in zip((one, other, one, other), said, strict=True)
            )
        )
        assert sorted(each.status_code for each in got) == [200, 409, 409, 409]
        now = await tried(other, where)
        [counted] = [each.json() for each in got if each.status_code == 200]
        assert now["reviewer"] == counted["reviewer"]
        record = await get_json(one, at, "record")
        assert len(record["appeals"]) == (0 if now["status"] == "tried" else 1)


@pytest.mark.long
async def test_a_new_trial_outlives_the_replica_that_it_was_ordered_from(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise RuntimeError("killed between the order and the trial")

    async with ScriptedServer(court_script(explicit=True, judge=[SURE, CLEAN])) as server:
        async with serving(database, **COURT) as client:
            where = await appealed(client, await by_the_court(client, server))
            with monkeypatch.context() as patched:
                patched.setattr(Worker, "begin", killed)
                patched.setattr(client.app.state.replica.queued, "set", killed)  # type: ignore[attr-defined]
                got = await client.post(
                    f"{where}/decision", json={"action": "retry", "reviewer": "kim"}
                )
                assert got.status_code == 500
                assert await get_json(client, where, "status") == "trying"
        async with serving(database, **COURT) as client:
            now = await tried(client, where)
            assert (now["status"], now["reviewer"], now["trial"]["category"]) == (
                "tried",
                "kim (operator)",
                "NotHate",
            )
        assert len(server.requests) == 8


async def test_a_new_trial_that_comes_to_nothing_leaves_the_appeal_open(database: str) -> None:
    async with (
        ScriptedServer(court_script(explicit=True, judge=SURE)) as server,
        serving(database, **COURT) as client,
    ):
        at = await by_the_court(client, server)
        long = {**APPEAL, "context": "x" * 9_000}
        async with opened(database) as store, store.transaction() as connection:
            tight = {"model": "openai:scripted", "max_text": 1_000}
            await connection.execute(cases.update().values(settings=tight))
        where = (await client.post(f"{at}/appeal", json=long)).headers["location"]
        await client.post(f"{where}/decision", json={"action": "retry", "reviewer": "kim"})
        now = await tried(client, where)
        assert (now["status"], now["trial"], now["trial_id"]) == ("waiting", None, None)
        assert "over the 1000 that are taken" in now["trial_failed"]
        done = await client.post(f"{where}/decision", json={"action": "uphold", "reviewer": "lee"})
        assert done.json()["result"] == "upheld"


async def test_what_can_not_be_appealed(database: str) -> None:
    async with (
        ScriptedServer(court_script(explicit=True, judge=[UNSURE, SURE])) as server,
        serving(database, **COURT, appeal_days=1) as client,
    ):
        waits = await waiting(client, server)
        got = await client.post(f"/v1/cases/{waits['id']}/appeal", json=APPEAL)
        check_refusal(got, 409, "isn't decided yet")
        at = await by_the_court(client, server)
        await write(database, cases.update().values(finished=cases.c.finished - 2 * 86_400))
        late = await client.post(f"{at}/appeal", json=APPEAL)
        check_refusal(late, 409, "was decided 2 days ago, over 1")
        reopened = await client.post(f"{at}/reopen", json={"reason": "misread", "lead": "ada"})
        assert (reopened.status_code, reopened.json()["kind"]) == (201, "reopened"), (
            "a lead may at any time"
        )
        where = reopened.headers["location"]
        for wrong, says in (
            ({"action": "change", "category": "Nonsense", "note": "n"}, "'Nonsense'"),
            (
                {"action": "change", "category": "Religious", "note": "n"},
                "is what was decided already",
            ),
        ):
            refused = await client.post(f"{where}/decision", json={**wrong, "reviewer": "kim"})
            check_refusal(refused, 400, says)
        done = await client.post(
            f"{where}/decision", json={"action": "change", "category": "2", "note": "n"}
        )
        assert done.json()["result"] == "changed", done.text
        unkept = await client.post(
            "/v1/judge?wait=60", json={"text": "post-words", "graph": "arcade", "keep": False}
        )
        refused = await client.post(
            f"/v1/cases/{unkept.headers['tribunal-case']}/appeal", json=APPEAL
        )
        check_refusal(refused, 409, "weren't kept")
        once = {"Idempotency-Key": "one"}
        made = [await client.post(f"{at}/appeal", json=APPEAL, headers=once) for _ in range(2)]
        assert [each.status_code for each in made] == [201, 200], (
            "in time again, from the last decision on"
        )
        assert made[0].json()["id"] == made[1].json()["id"]


async def test_the_policy_of_the_decision_outlives_its_file(database: str, tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_bytes(files("tribunal.prompts").joinpath("policies/h-vli.toml").read_bytes())
    ours = {"settings": {**COURT["settings"], "policy": str(file)}}
    async with (
        ScriptedServer(court_script(explicit=True, judge=[SURE, CLEAN])) as server,
        serving(database, **ours) as client,
    ):
        at = await by_the_court(client, server)
        sha = (await get_json(client, at, "record"))["policy"]["sha"]
        where = await appealed(client, at)
        file.write_text(file.read_text().replace('name = "NotHate"', 'name = "Clean"'))
        await client.post(f"{where}/decision", json={"action": "retry", "reviewer": "kim"})
        now = await tried(client, where)
        assert (now["status"], now["trial"]["policy"]["sha"], now["trial"]["category"]) == (
            "tried",
            sha,
            "NotHate",
        )
        file.unlink()
        change = {"action": "change", "category": "NotHate", "note": "a song", "reviewer": "kim"}
        done = await client.post(f"{where}/decision", json=change)
        assert done.json()["result"] == "reversed", done.text
        assert (await get_json(client, at, "record"))["policy"]["sha"] == sha


async def test_who_sees_what(database: str) -> None:
    """What the table of test_authorisation.py doesn't say: a case of the court alone, and a new trial."""
    judge, review, audit = [
        {"X-API-Key": await key_of(database, scope)} for scope in ("judge", "review", "audit")
    ]
    async with (
        ScriptedServer(court_script(explicit=True, judge=[SURE, CLEAN])) as server,
        serving(database, **COURT) as client,
    ):
        client.headers.update(judge)
        at = await by_the_court(client, server)
        assert (await client.get(at, headers=review)).status_code == 404, (
            "no person has to do with it"
        )
        where = await appealed(client, at)
        assert (await client.get(at, headers=review)).status_code == 200, (
            "whoever decides the appeal sees the case"
        )
        ordered = await client.post(f"{where}/decision", json={"action": "retry"}, headers=review)
        assert (await tried(client, where))["trial"] is None, "a new trial is nobody's decision"
        trial = f"/v1/cases/{ordered.json()['trial_id']}"
        seen = [
            (await client.get(trial, headers=each)).status_code for each in (judge, review, audit)
        ]
        assert seen == [404, 200, 200]
        assert (
            await client.post(f"{trial}/appeal", json=APPEAL, headers=review)
        ).status_code == 404


@pytest.mark.slow
async def test_a_new_trial_goes_on_where_a_killed_process_left_it(database: str) -> None:
    reached, played = asyncio.Event(), court_script(explicit=True, judge=[SURE, CLEAN])
    hold = asyncio.Event()

    async def script(request: Request) -> Reply | Fault:
        if part(request) == "judge" and APPEAL["reason"] in request.text and not reached.is_set():
            reached.set()
            await hold.wait()
        return played(request)

    told = {"TRIBUNAL_MODEL": "openai:scripted"}
    async with OpenAIServer(script) as server:
        async with started(database, "--takeover", "1", **told) as killed:
            where = await appealed(killed.client, await by_the_court(killed.client, server))
            ordered = await killed.client.post(
                f"{where}/decision", json={"action": "retry", "reviewer": "kim"}
            )
            assert ordered.json()["status"] == "trying"
            await reached.wait()
            await written(database, ordered.json()["trial_id"], 3)
            killed.signal(signal.SIGKILL)
            await killed.process.wait()
        hold.set()
        async with started(database, "--takeover", "1", **told) as other:
            now = await tried(other.client, where)
            assert (now["status"], now["reviewer"], now["trial"]["category"]) == (
                "tried",
                "kim (operator)",
                "NotHate",
            )
            done = await other.client.post(
                f"{where}/decision", json={"action": "uphold", "reviewer": "kim"}
            )
            assert done.json()["result"] == "upheld"
    asked = [part(request) for request in server.requests if APPEAL["reason"] in request.text]
    assert asked == ["indictment", "defence", "judge", "judge"], (
        "what was answered isn't paid again"
    )
