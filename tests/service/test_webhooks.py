"""Webhooks: every case that ends is told of, signed, until it is taken; each message under one id."""

from __future__ import annotations

import asyncio
import base64
import logging
import signal
from typing import Any

import httpx
import pytest
from aiohttp import web
from typer.testing import CliRunner

from tests.service.batched import ended, posts, sent
from tests.service.command import started
from tests.service.conftest import check_refusal, get_json, serving
from tests.service.receiving import Receiver, receiving
from tribunal import ajudge
from tribunal.commands import app
from tribunal.docket import case_store, leases
from tribunal.docket.outbox import Outbox
from tribunal.service.replica import webhooks as endpoints
from tribunal.service.replica.options import RETRIES
from tribunal.service.replica.webhooks import DeliveryAnswer, DueMessage, WebhookSender
from tribunal.store.engine import Store
from tribunal.store.group_commit import GroupCommit

POST = {"text": "Good morning, dear neighbours!", "graph": "baseline", "post_id": "p-1"}
WORDS = ("post_id", "explanation", "record")
AT_ONCE = {"webhook_http": True, "webhook_retries": (0.0, 0.0)}  # three attempts, without a pause


async def added(client: httpx.AsyncClient, receiver: Receiver, **asked: Any) -> dict[str, Any]:
    got = await client.post("/v1/webhooks", json={"url": receiver.url, **asked})
    assert got.status_code == 201, got.text
    return dict(got.json())


async def judged(client: httpx.AsyncClient, **asked: Any) -> str:
    got = await client.post("/v1/judge?wait=60", json={**POST, **asked})
    assert got.status_code == 200, got.text
    return got.headers["tribunal-case"]


async def message(client: httpx.AsyncClient, status: str) -> dict[str, Any]:
    """The one message there is, once it has this status."""
    for _ in range(600):
        [found] = await get_json(client, "/v1/webhooks/deliveries", "deliveries")
        if found["status"] == status:
            return dict(found)
        await asyncio.sleep(0.05)
    raise AssertionError(f"it never was {status}: {found}")


async def test_every_case_that_ends_is_told_of(database: str) -> None:
    options = {**AT_ONCE, "public_url": "https://court.example/"}
    async with (
        receiving() as all_of_it,
        receiving() as some,
        serving(database, **options) as client,
    ):
        record_hook = await added(client, all_of_it, with_record=True)
        hook = await added(client, some, events=["case.decided"])
        case_id = await judged(client)
        await asyncio.gather(some.wait(1), all_of_it.wait(1))
        told = some.read(0, hook["secret"])
        case = await get_json(client, f"/v1/cases/{case_id}")
        assert told["type"] == "case.decided"
        names = (
            "post_id",
            "graph",
            "outcome",
            "category",
            "hateful",
            "confidence",
            "uncertain",
            "explanation",
        )
        assert {name: told["data"][name] for name in names} == {
            name: case["record"][name] for name in names
        }
        assert [told["data"][each] for each in ("id", "decided_by", "record")] == [
            case_id,
            "models",
            None,
        ]
        assert told["data"]["link"] == f"https://court.example/v1/cases/{case_id}"
        assert POST["text"] not in some.came[0].body.decode()
        assert all_of_it.read(0, record_hook["secret"])["data"] == {
            **told["data"],
            "record": case["record"],
        }

        await judged(client, keep=False)  # no words of it
        await asyncio.gather(some.wait(2), all_of_it.wait(2))
        told = all_of_it.read(1, record_hook["secret"])["data"]
        assert (told["outcome"], told["hateful"]) == ("verdict", False)
        assert [told[name] for name in WORDS] == [None, None, None]

        cut = base64.b64encode(
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\b\0\0\0\b"
        ).decode()  # a header, and no pixels
        got = await client.post(
            "/v1/judge?wait=60", json={**POST, "text": "", "image": f"data:image/png;base64,{cut}"}
        )
        assert got.status_code == 400
        await all_of_it.wait(3)
        told = all_of_it.read(2, record_hook["secret"])
        assert (told["type"], told["data"]["outcome"], told["data"]["post_id"]) == (
            "case.cancelled",
            None,
            "p-1",
        )
        assert len(some.came) == 2


async def test_what_is_not_taken_is_sent_again_and_then_dead_and_can_be_replayed(
    database: str,
) -> None:
    async with receiving() as receiver, serving(database, **AT_ONCE) as client:
        receiver.answers = [500, 429, 503, 500, 204]
        hook = await added(client, receiver)
        await judged(client)
        dead = await message(client, "dead")
        assert (dead["attempts"], dead["answered"], dead["error"]) == (3, 503, "answered 503")
        assert (
            await get_json(client, "/v1/webhooks/deliveries?status=delivered", "deliveries") == []
        )
        assert len(await get_json(client, "/v1/webhooks/deliveries?status=dead", "deliveries")) == 1
        again = f"/v1/webhooks/deliveries/{dead['id']}/replay"
        assert (await client.post(again)).status_code == 202
        delivered = await message(client, "delivered")
        assert (delivered["id"], delivered["attempts"], delivered["answered"]) == (
            dead["id"],
            5,
            204,
        )
        assert {each.id for each in receiver.came} == {dead["id"]}
        assert len({each.body for each in receiver.came}) == 1
        assert [receiver.read(at, hook["secret"])["data"]["post_id"] for at in range(5)] == [
            "p-1"
        ] * 5
        assert (await client.post(again)).status_code == 404  # it is dead no more


async def test_whoever_answers_410_is_asked_no_more(database: str) -> None:
    async with receiving() as receiver, serving(database, **AT_ONCE) as client:
        receiver.answers = [410, 200]
        hook = await added(client, receiver)
        await judged(client)
        dead = await message(client, "dead")
        assert (dead["attempts"], dead["answered"]) == (1, 410)
        [listed] = await get_json(client, "/v1/webhooks", "webhooks")
        assert listed["disabled"] is not None
        await judged(client, text="Another one.")
        assert (await message(client, "dead"))["id"] == dead["id"]  # nothing was written for it
        again = f"/v1/webhooks/deliveries/{dead['id']}/replay"
        assert (await client.post(again)).status_code == 404
        enabled = (await client.post(f"/v1/webhooks/{hook['id']}/enable")).json()
        assert enabled["disabled"] is None
        assert (await client.post(again)).status_code == 202
        assert (await message(client, "delivered"))["attempts"] == 2


async def test_410_for_many_at_once(database: str) -> None:
    async with receiving() as receiver:
        store = await Store.open(database)
        hook_id, _ = await endpoints.add_webhook(store, receiver.url, http=True)
        for number in range(8):
            await a_decided_case(store, f"p-{number}")
        receiver.answers = [410]
        async with serving(database, **AT_ONCE) as client:
            while await get_json(client, "/v1/webhooks/deliveries?status=waiting", "deliveries"):
                await asyncio.sleep(0.05)
            dead = await get_json(
                client, f"/v1/webhooks/deliveries?status=dead&webhook={hook_id}&limit=5"
            )
            rest = await get_json(
                client, f"/v1/webhooks/deliveries?before={dead['next']}", "deliveries"
            )
            assert len({each["id"] for each in (*dead["deliveries"], *rest)}) == 8
            receiver.answers = [200]
            await endpoints.enable_webhook(store, hook_id)
            assert await Outbox(store).replay() == 8
            while (
                len(
                    await get_json(client, "/v1/webhooks/deliveries?status=delivered", "deliveries")
                )
                < 8
            ):
                await asyncio.sleep(0.05)
        await store.close()


async def a_decided_case(store: Store, post_id: str) -> str:
    """Its replica ended when it had written the outcome down."""
    record = await ajudge("Good morning!", graph="baseline", post_id=post_id)
    ended = case_store.CaseStore(store, "ended", 3.0)
    new = leases.NewCase(
        graph="baseline", post={"text": "Good morning!", "post_id": post_id}, settings={}
    )
    case_id, *_ = await ended.take_in(new, "", here=True, most_waiting=1)
    held = leases.Held(
        id=case_id, attempt=1, graph="baseline", post={}, settings={}, keep=True, key_id=None
    )
    assert await ended.finish(held, record)
    assert not await ended.finish(held, record)  # nor is it told twice
    return case_id


async def test_a_dead_replica_loses_no_message(database: str) -> None:
    """It ended between the outcome and the sending; and another one ended while it sent."""
    async with receiving() as receiver:
        store = await Store.open(database)
        _, secret = await endpoints.add_webhook(store, receiver.url, http=True)
        case_id, outbox = await a_decided_case(store, "p-2"), Outbox(store)
        [written] = await outbox.list_messages()
        taker = WebhookSender(store, outbox, GroupCommit(store), (), 0.2, (7, 30))
        [row] = await taker._take_up(written["webhook_id"], 4)
        assert await taker._take_up(written["webhook_id"], 4) == []  # one has it
        async with serving(database, webhook_timeout=5) as client:
            [came] = await receiver.wait(1)
            assert came.id == row["id"] == written["id"]
            assert receiver.read(0, secret)["data"]["id"] == case_id
            delivered = await message(client, "delivered")
            assert delivered["attempts"] == 2
            # What the one that was thought dead still says doesn't count.
            late = DueMessage(**row, url=receiver.url, secret=secret)
            await taker._write_answer(late, DeliveryAnswer(500, "answered 500"))
            assert (await message(client, "delivered")) == delivered
        await store.close()


@pytest.mark.slow  # four starts of the real command
async def test_a_message_survives_the_replica_that_was_sending_it(database: str) -> None:
    async with receiving() as receiver:
        store = await Store.open(database)
        _, secret = await endpoints.add_webhook(store, receiver.url, http=True)
        await store.close()
        receiver.answers = [silent, 200]
        options = "--takeover", "2", "--limit", "webhook_timeout=1"
        async with started(database, *options) as first:
            await judged(first.client)
            await receiver.wait(1)
            first.signal(signal.SIGKILL)
        async with started(database, *options) as second:
            one, two = await receiver.wait(2)
            assert (one.id, one.body) == (two.id, two.body)
            assert receiver.read(1, secret)["type"] == "case.decided"
            assert (await message(second.client, "delivered"))["attempts"] == 2
            assert secret[6:] not in first.stderr() + second.stderr()


async def test_two_replicas_send_a_message_once(database: str) -> None:
    async with (
        receiving() as receiver,
        serving(database, **AT_ONCE) as one,
        serving(database, **AT_ONCE) as two,
    ):
        await added(one, receiver)
        for at in range(6):
            await judged((one, two)[at % 2], post_id=f"p-{at}", text=f"Good morning, number {at}!")
        await receiver.wait(6)
        while await get_json(one, "/v1/webhooks/deliveries?status=waiting", "deliveries"):
            await asyncio.sleep(0.05)
        assert len(receiver.came) == len({each.id for each in receiver.came}) == 6


async def endless(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b"x" * 65_536)


async def silent(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError("nobody waits so long")


@pytest.mark.long
async def test_hostile_answers(sqlite: str) -> None:
    async with receiving() as elsewhere, receiving() as receiver:

        async def redirect(request: web.Request) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": elsewhere.url})

        async def long_header(request: web.Request) -> web.StreamResponse:
            return web.Response(headers={"X-Long": "x" * 20_000})

        receiver.answers = [redirect, silent, long_header, endless]
        options = {**AT_ONCE, "webhook_retries": (0.0,) * 3, "webhook_timeout": 0.5}
        async with serving(sqlite, **options) as client:
            await added(client, receiver)
            await judged(client)
            # of the endless body not a byte is waited for
            delivered = await message(client, "delivered")
            assert (delivered["attempts"], delivered["answered"]) == (4, 200)
            assert elsewhere.came == []


async def test_of_the_rows_of_a_batch_that_is_not_kept_no_words_are_told(sqlite: str) -> None:
    async with receiving() as receiver, serving(sqlite, **AT_ONCE) as client:
        hook = await added(client, receiver, with_record=True)
        for keep in (False, True):
            got = await sent(client, posts(1), keep=keep)
            await ended(client, got.headers["location"])
        await receiver.wait(2)
        words = [
            [receiver.read(at, hook["secret"])["data"][name] for name in WORDS] for at in range(2)
        ]
        assert words[0] == [None, None, None]
        assert None not in words[1]


async def test_nobody_is_told_a_secret(sqlite: str, caplog: pytest.LogCaptureFixture) -> None:
    # as loud as the service can be; other libraries' lines: warnings
    caplog.set_level(logging.DEBUG, "tribunal")
    async with receiving() as receiver, serving(sqlite, **AT_ONCE) as client:
        receiver.answers = [500, 500, 410]
        hook = await added(client, receiver)
        await judged(client)
        await message(client, "dead")
        paths = ("/v1/webhooks", "/v1/webhooks/deliveries", "/openapi.json", "/v1/cases")
        said = [(await client.get(path)).text for path in paths]
        said += [
            (await client.post(f"/v1/webhooks/{hook['id']}/{what}")).text
            for what in ("test", "enable")
        ]
        said += [
            repr(
                DueMessage(
                    id="",
                    webhook_id="",
                    attempts=1,
                    attempts_before=0,
                    body="",
                    url="",
                    secret="whsec_AAAA",
                )
            )
        ]
    assert "answered 410; it is disabled" in caplog.text
    assert hook["secret"][6:] not in caplog.text + "".join(said)
    assert "of-its-own" not in caplog.text  # an address may hold a secret, too
    assert "whsec_A" not in said[-1]


@pytest.mark.parametrize(
    "url",
    ["http://example.com", "https://user:secret@example.com", "https://", "https://a.example/#b"],
)
async def test_an_endpoint_that_is_none(sqlite: str, url: str) -> None:
    async with serving(sqlite) as client:
        got = await client.post("/v1/webhooks", json={"url": url})
        check_refusal(got, 400, "url: ")
        assert "secret@" not in got.text
        assert await get_json(client, "/v1/webhooks", "webhooks") == []


def test_the_schedule_is_that_of_the_specification(caplog: pytest.LogCaptureFixture) -> None:
    sender = WebhookSender(None, Outbox(None), GroupCommit(None), RETRIES, 20.0, (7, 30))  # type: ignore[arg-type]

    def pause(attempts: int, answer: DeliveryAnswer) -> float | None:
        taken = DueMessage(
            id="",
            webhook_id="",
            attempts=attempts + 3,
            attempts_before=3,
            body="",
            url="",
            secret="",
        )
        return sender._next_pause(taken, answer)

    failed = DeliveryAnswer(500, "answered 500")
    pauses = [pause(attempts, failed) for attempts in range(1, 11)]
    for least, got in zip(RETRIES, pauses[:9], strict=True):
        assert got is not None
        assert least <= got <= least * 1.2
    assert pauses[9] is None
    assert sum(RETRIES) == 75 * 3600 + 35 * 60 + 5
    assert pause(1, DeliveryAnswer(503, "answered 503", retry_after=120.0)) == 120.0


async def test_what_an_endpoint_asks_to_wait(sqlite: str) -> None:
    async with receiving() as receiver, serving(sqlite, **AT_ONCE) as client:

        async def busy(request: web.Request) -> web.StreamResponse:
            return web.Response(status=503, headers={"Retry-After": "1800"})

        receiver.answers = [busy]
        await added(client, receiver)
        await judged(client)
        await receiver.wait(1)
        waiting = await message(client, "waiting")
        while waiting["answered"] is None:
            waiting = await message(client, "waiting")
        assert waiting["due"] >= waiting["created"] + 1800


async def test_old_messages_are_deleted(sqlite: str) -> None:
    async with receiving() as receiver:
        async with serving(sqlite, **AT_ONCE) as client:
            await added(client, receiver)
            await judged(client)
            await message(client, "delivered")
        async with serving(sqlite, webhook_days=0) as client:
            while await get_json(client, "/v1/webhooks/deliveries", "deliveries"):
                await asyncio.sleep(0.05)


async def test_the_operators_commands(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIBUNAL_DATABASE", sqlite)

    async def tribunal(*words: str, status: int = 0) -> str:
        ran = await asyncio.to_thread(CliRunner().invoke, app, ["service", "webhooks", *words])
        assert ran.exit_code == status, ran.output
        return ran.stdout

    async with receiving() as receiver:
        await tribunal("add", receiver.url, status=2)  # no TLS
        secret = (await tribunal("add", receiver.url, "--http", "--event", "case.decided")).strip()
        hook_id, url, *rest = (await tribunal("list")).split()
        assert (url, rest[0], rest[-1]) == (receiver.url, "case.decided", "active")
        assert f"{hook_id}: answered 200" in await tribunal("test", hook_id)
        assert receiver.read(0, secret)["type"] == "webhook.test"
        receiver.answers = [500]
        async with serving(sqlite, **AT_ONCE) as client:
            await judged(client)
            dead = await message(client, "dead")
            assert (await tribunal("list", "--failed")).split()[0] == dead["id"]
            receiver.answers = [200]
            assert "1 message will be sent again" in await tribunal("replay", "--all")
            await message(client, "delivered")
            assert await tribunal("list", "--failed") == ""
        assert f"{hook_id}: answered 200" in await tribunal("test", hook_id, "--enable")
        await tribunal("remove", hook_id)
        assert await tribunal("list") == ""
