"""Who may do what: every route by every kind of key. The table in docs/service.md is made of the same list."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from tests.court import court_script
from tests.openai_server import OpenAIServer
from tests.service.batched import ended, posts, sent
from tests.service.conftest import opened, serving
from tests.service.live import sqlite, with_routes
from tests.service.test_checkpoints import COURT, UNSURE
from tests.service.test_hostile import BODIES, some
from tests.test_docs import DOCS, holds
from tribunal.service.replica import keys
from tribunal.service.replica import webhooks as endpoints
from tribunal.store.engine import Store
from tribunal.store.tables import deliveries

WHO = (
    "no key",
    "wrong",
    "revoked",
    "judge, its own",
    "judge, another's",
    "review",
    "lead",
    "audit",
    "admin",
)
YES = "yes"
OPEN = dict.fromkeys(WHO, YES)


def only(**may: str) -> dict[str, str]:
    """What each kind of key gets: 401 without one, 403 but for these."""
    named = {"own": "judge, its own", "others": "judge, another's"}
    return {
        **dict.fromkeys(WHO, "403"), **dict.fromkeys(WHO[:3], "401"), "admin": YES,
        "lead": may.get("review", "403"),  # who may do what a reviewer may
        **{named.get(each, each): got for each, got in may.items()},
    }  # fmt: skip


JUDGE = only(own=YES, others=YES)
CASE = only(own=YES, others="404", review=YES, audit=YES)  # the case waits for a person
BATCH = only(own=YES, others="404", review="404", audit=YES)
OWN_BATCH = only(own=YES, others="404")
REVIEW = only(review=YES)
LEAD = only(lead=YES)
APPEAL = only(own=YES, others="404", review=YES)
ROUTES: dict[tuple[str, str], dict[str, str]] = {
    ("POST", "/v1/judge"): JUDGE,
    ("POST", "/try"): JUDGE,
    ("GET", "/v1/cases"): only(review="403", audit=YES),
    ("GET", "/v1/cases?outcome=pending"): only(review=YES, audit=YES),
    ("GET", "/v1/cases/{case_id}"): CASE,
    ("GET", "/v1/cases/{case_id}/events"): CASE,
    ("GET", "/v1/cases/{case_id}/explanation"): CASE,
    ("GET", "/v1/cases/{case_id}/explanation?for=poster"): CASE,
    ("POST", "/v1/cases/{case_id}/claim"): REVIEW,
    ("DELETE", "/v1/cases/{case_id}/claim"): REVIEW,
    ("POST", "/v1/cases/{case_id}/decision"): REVIEW,
    ("POST", "/v1/cases/{case_id}/appeal"): APPEAL,
    ("GET", "/v1/cases/{case_id}/appeals"): CASE,
    ("POST", "/v1/cases/{case_id}/reopen"): LEAD,
    ("GET", "/v1/appeals"): only(review=YES, lead=YES, audit=YES),
    ("GET", "/v1/appeals/{appeal_id}"): CASE,
    ("POST", "/v1/appeals/{appeal_id}/claim"): REVIEW,
    ("DELETE", "/v1/appeals/{appeal_id}/claim"): REVIEW,
    ("POST", "/v1/appeals/{appeal_id}/decision"): REVIEW,
    ("GET", "/v1/second-opinions"): REVIEW,
    ("GET", "/v1/second-opinions?status=disagreed"): LEAD,
    ("GET", "/v1/second-opinions/{opinion_id}"): REVIEW,
    ("POST", "/v1/second-opinions/{opinion_id}/claim"): REVIEW,
    ("DELETE", "/v1/second-opinions/{opinion_id}/claim"): REVIEW,
    ("POST", "/v1/second-opinions/{opinion_id}/opinion"): REVIEW,
    ("POST", "/v1/second-opinions/{opinion_id}/settle"): LEAD,
    # it waits for a person: a conflict
    ("POST", "/v1/cases/{case_id}/retry"): only(own=YES, others="404", lead=YES),
    ("GET", "/v1/figures"): only(lead=YES, audit=YES),
    ("GET", "/v1/usage"): only(own=YES, others=YES, review=YES, lead=YES, audit=YES),
    ("POST", "/v1/batches"): JUDGE,
    ("GET", "/v1/batches"): only(own=YES, others=YES, review=YES, audit=YES),
    ("GET", "/v1/batches/{batch_id}"): BATCH,
    ("GET", "/v1/batches/{batch_id}/results"): BATCH,
    ("POST", "/v1/batches/{batch_id}/cancel"): OWN_BATCH,
    ("POST", "/v1/batches/{batch_id}/resume"): OWN_BATCH,
    ("DELETE", "/v1/batches/{batch_id}"): OWN_BATCH,
    ("GET", "/v1/webhooks"): only(),
    ("POST", "/v1/webhooks"): only(),
    ("DELETE", "/v1/webhooks/{webhook_id}"): only(),
    ("POST", "/v1/webhooks/{webhook_id}/enable"): only(),
    ("POST", "/v1/webhooks/{webhook_id}/test"): only(),
    ("GET", "/v1/webhooks/deliveries"): only(),
    ("POST", "/v1/webhooks/deliveries/{message_id}/replay"): only(),
    ("GET", "/v1/audit"): only(audit=YES),
    ("GET", "/v1/audit/head"): only(audit=YES),
    ("POST", "/v1alpha1/comments:analyze"): JUDGE,
    ("POST", "/v1alpha1/comments:suggestscore"): only(own="501", others="501", admin="501"),
    ("GET", "/$discovery/rest"): OPEN,
    ("POST", "/v1/moderations"): JUDGE,
    ("GET", "/v1/models"): JUDGE,
    ("GET", "/v1/models/{model}"): JUDGE,
    ("GET", "/metrics"): only(audit=YES),
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/try"): OPEN,
    ("GET", "/docs"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    (
        "DELETE",
        "/v1/cases/{case_id}/words",
    ): only(),  # last: afterwards nobody can do anything with the case
}


def test_every_route_stands_in_the_table() -> None:
    contexts = iter_route_contexts(with_routes(True).routes)
    served = {
        (method, each.path)
        for each in contexts
        for method in each.methods or ()
        if method != "HEAD"
    }
    # which test_desk_door.py holds
    served = {each for each in served if not str(each[1]).startswith("/desk")}
    assert served == {(method, path.partition("?")[0]) for method, path in ROUTES}


class Made:
    """What the routes are asked for, each of the key `judge, its own`; and the keys."""

    def __init__(self, client: httpx.AsyncClient, store: Store, made: dict[str, str]) -> None:
        self.client, self.store, self.keys, self.named = client, store, made, {"model": "tribunal"}

    def headers(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys[who]}"} if who in self.keys else {}

    async def case(self) -> None:
        """A case that waits for a person."""
        asked = {"text": "post-words", "graph": "tribunal", "settings": {"review": True}}
        got = await self.client.post(
            "/v1/judge?wait=60", json=asked, headers=self.headers("judge, its own")
        )
        assert got.json()["outcome"] == "pending", got.text
        self.named["case_id"] = got.headers["tribunal-case"]

    async def batch(self) -> None:
        """A batch that is at its end."""
        own = self.headers("judge, its own")
        got = await sent(self.client, posts(1), headers=own)
        await ended(self.client, got.headers["location"], headers=own)
        self.named["batch_id"] = got.json()["id"]

    async def appeal(self) -> None:
        """A decided case with an appeal, of which a second opinion is wanted."""
        own, asked = self.headers("judge, its own"), {"text": "post-words", "graph": "arcade"}
        got = await self.client.post("/v1/judge?wait=60", json=asked, headers=own)
        at, against = (
            f"/v1/cases/{got.headers['tribunal-case']}/appeal",
            {"appellant": "a", "reason": "b"},
        )
        self.named["appeal_id"] = (await self.client.post(at, json=against, headers=own)).json()[
            "id"
        ]
        wanted = await self.client.get("/v1/second-opinions", headers=self.headers("review"))
        self.named["opinion_id"] = wanted.json()["second_opinions"][0]["id"]

    async def webhook(self) -> None:
        """A webhook, and a dead message to it."""
        hook, _ = await endpoints.add_webhook(
            self.store, "http://127.0.0.1:9/a", ["case.cancelled"], http=True
        )
        row = {
            "id": f"msg-{hook}",
            "webhook_id": hook,
            "event": "case.cancelled",
            "body": "{}",
            "status": "dead",
        }
        async with self.store.transaction() as connection:
            now = {"created": time.time(), "due": time.time(), "finished": time.time()}
            await connection.execute(
                deliveries.insert().values(**row, **now, attempts=1, attempts_before=0)
            )
        self.named.update(webhook_id=hook, message_id=f"msg-{hook}")

    async def ask(self, method: str, path: str, who: str, *, refused: bool) -> httpx.Response:
        """A request as it should be; one that is to be refused has a body that is none, since nobody should read it."""
        body: dict[str, Any] = {}
        if refused:
            body = {"content": b"{", "headers": {"Content-Type": "text/plain"}}
        elif path == "/v1/batches" and method == "POST":
            body = {"content": posts(1), "headers": {"Content-Type": "application/x-ndjson"}}
        elif method == "POST":
            given = {"/try": {"text": "hi"}}.get(path) or BODIES.get(some(path), {})
            body = {"json": {"url": "https://127.0.0.1:9/a"} if path == "/v1/webhooks" else given}
        body["headers"] = {**body.get("headers", {}), **self.headers(who)}
        return await self.client.request(method, path.format(**self.named), **body)


@pytest.mark.long
async def test_each_key_opens_what_the_table_says(tmp_path: Path) -> None:
    database = sqlite(tmp_path)
    async with opened(database) as store:
        await _opened(store, database)


async def _opened(store: Store, database: str) -> None:
    made = {
        who: await keys.add_key(store, who, [who.partition(",")[0]], keys.KeyLimits())
        for who in WHO[3:]
    }
    made |= {
        "wrong": f"{made['admin']}x",
        "revoked": await keys.add_key(store, "a", ["admin"], keys.KeyLimits()),
    }
    await keys.revoke_key(store, made["revoked"].split("_")[1])
    clean = {"category": "NotHate", "explanation": "judge-words", "confidence": 0.9}
    script = court_script(explicit=True, judge=[UNSURE, clean])
    async with (
        OpenAIServer(script) as server,
        serving(
            database, settings=COURT["settings"] | {"policy": "h-vli"}, second_opinions_of_court=1.0
        ) as client,
    ):
        all_ = Made(client, store, made)
        for make in (all_.case, all_.batch, all_.webhook, all_.appeal):
            await make()
        asked = len(server.requests)
        for (method, path), wanted in ROUTES.items():
            for who, status in wanted.items():
                if status in ("401", "403"):
                    got = await all_.ask(method, path, who, refused=True)
                    assert got.status_code == int(status), (method, path, who, got.text)
        assert len(server.requests) == asked, "who is refused costs nothing"
        for (method, path), wanted in ROUTES.items():
            for who, status in wanted.items():
                if status in ("401", "403"):
                    continue
                if method == "DELETE" and "{batch_id}" in path:
                    await all_.batch()
                if "{webhook_id}" in path or "{message_id}" in path:
                    await all_.webhook()
                got = await all_.ask(method, path, who, refused=False)
                # Whoever comes second to a decision gets 409, and was let in.
                shown = YES if got.is_success or got.status_code == 409 else str(got.status_code)
                assert shown == status, (method, path, who, got.text)


async def test_a_key_in_the_address_opens_comments_analyze_alone(tmp_path: Path) -> None:
    database = sqlite(tmp_path)
    store = await Store.open(database)
    key = await keys.add_key(store, "a", ["admin"], keys.KeyLimits())
    judge, revoked = [await keys.add_key(store, "a", ["judge"], keys.KeyLimits()) for _ in range(2)]
    review = await keys.add_key(store, "a", ["review"], keys.KeyLimits())
    await keys.revoke_key(store, revoked.split("_")[1])
    await store.close()
    async with serving(database, graph="baseline") as client:
        for (method, path), wanted in ROUTES.items():
            if wanted is not OPEN and not path.startswith("/v1alpha1/"):
                got = await client.request(method, path, params={"key": key})
                assert got.status_code == 401, (method, path, got.text)
        path = "/v1alpha1/comments:analyze"
        for given, status in {
            judge: 200,
            key: 200,
            review: 403,
            revoked: 401,
            "": 401,
            f"{judge}x": 401,
        }.items():
            got = await client.post(path, params={"key": given}, json=BODIES[path])
            assert got.status_code == status, got.text


def test_the_docs_have_the_table() -> None:
    shown = ("no key", "judge, its own", "judge, another's", "review", "lead", "audit", "admin")
    alike: dict[tuple[str, ...], list[str]] = {}
    for (method, path), wanted in ROUTES.items():
        assert wanted["no key"] == wanted["wrong"] == wanted["revoked"]
        alike.setdefault(tuple(wanted[who] for who in shown), []).append(f"`{method} {path}`")
    lines = [
        "| routes | no, a wrong or a revoked key | " + " | ".join(shown[1:]) + " |",
        "|---" * 8 + "|",
    ]
    lines += [
        f"| {', '.join(routes)} | {' | '.join(answers)} |" for answers, routes in alike.items()
    ]
    holds(Path(DOCS, "service.md"), "authorisation", "\n".join(lines))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8080", 200),
        ("127.0.0.1", 200),
        ("[::1]:8080", 200),
        ("pointed-here.example:8080", 401),
        ("", 401),
    ],
)
async def test_without_any_key_a_site_whose_name_was_pointed_here_gets_nothing(
    host: str, status: int, tmp_path: Path
) -> None:
    async with serving(sqlite(tmp_path)) as client:
        got = await client.get("/v1/cases", headers={"Host": host})
        assert got.status_code == status
        if status == 401:
            assert (
                "by a name other than localhost, give a key: tribunal service keys add"
                in got.json()["error"]["message"]
            )
