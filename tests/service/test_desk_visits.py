"""Who comes in to the desk, and who doesn't: keys, roles, a proxy's header, other sites' forms, sessions that end."""

from __future__ import annotations

import re
import time
from pathlib import Path

import httpx
import pytest
from fastapi.routing import iter_route_contexts
from sqlalchemy import update

from tests.service.at_desk import ALL, HERE, Somebody, post, signed_in, somebody
from tests.service.conftest import check_refusal, get_json, opened, serving
from tests.service.live import key_of, listening
from tests.service.live import sqlite as made
from tribunal.errors import BadInput
from tribunal.service.desk.sessions import MOST_TRIES
from tribunal.service.replica import keys
from tribunal.service.replica.options import options_from
from tribunal.store.tables import desk_sessions

HATEFUL = "Immigrants: the weeds in our garden."


async def test_each_role_sees_and_does_what_is_its_own(database: str) -> None:
    made: dict[str, str] = {scope: await key_of(database, scope) for scope in keys.SCOPES}
    async with serving(database, settings={"review": True, "review_rule": ["hateful"]}) as client:
        app = client.app  # type: ignore[attr-defined]
        case = await post(client, HATEFUL, made["judge"], post_id="p-1")
        as_judge = {"X-API-Key": made["judge"]}
        sure = await client.post(
            "/v1/judge?wait=60", json={"text": "Good morning!"}, headers=as_judge
        )
        assert sure.json()["outcome"] == "verdict"
        at = f"/desk/cases/{case['id']}"
        for scope, role in (
            ("review", "reviewer"),
            ("lead", "lead"),
            ("admin", "lead"),
            ("audit", "auditor"),
        ):
            one = somebody(app)
            page = await one.sign_in(made[scope])
            assert (page.heading, f", {role} Sign out" in page.words) == ("Queue", True)
            decides = role != "auditor"
            assert ("Take next case" in page.words) is decides
            page = await one.get(at)
            assert (page.status, "note" in page.buttons()) == (200, decides)
            assert "in our garden" in page.words
            other = await one.get(f"/desk/cases/{sure.headers['tribunal-case']}")
            assert (other.status == 200) is (role != "reviewer"), role
            token = await csrf(one)
            sent = await one.client.post(
                at, data={"csrf": token, "action": "claim"}, headers={"Origin": HERE}
            )
            assert sent.status_code == (303 if decides else 403)
            if decides:
                await one.get(at)
                await one.send("release")
        judge = somebody(app)
        refused = await judge.sign_in(made["judge"])
        assert (refused.status, "has the scopes judge. The desk needs" in refused.wrong) == (
            403,
            True,
        )
        assert (await judge.get("/desk/queue")).heading == "Sign in"


async def test_nothing_of_the_desk_is_open_but_its_door(database: str) -> None:
    key = await key_of(database, "review", "judge")
    async with serving(database, **ALL) as client:
        app = client.app  # type: ignore[attr-defined]
        case = await post(client, "a post", key)
        auditor = await signed_in(app, await key_of(database, "audit"))
        token = await csrf(auditor)
        contexts = [
            each for each in iter_route_contexts(app.routes) if str(each.path).startswith("/desk")
        ]
        assert len(contexts) > 10
        nobody, anyone = somebody(app).client, auditor.client
        for each in contexts:
            path, methods = re.sub(r"{\w+}", case["id"], str(each.path)), set(each.methods or ())
            if path == "/desk/sign-in" or "assets" in path or "{rest" in path:
                continue
            for method in methods - {"GET", "HEAD"}:
                got = await nobody.request(method, path, data={"a": "b"}, headers={"Origin": HERE})
                assert got.status_code == 401, (method, path)
                got = await anyone.request(
                    method, path, data={"csrf": token}, headers={"Origin": "null"}
                )
                assert got.status_code == 403, (method, path)
                # An auditor only reads; how their own pages look is theirs.
                if path not in {"/desk/sign-out", "/desk/blur"}:
                    got = await anyone.request(
                        method, path, data={"csrf": token}, headers={"Origin": HERE}
                    )
                    assert got.status_code == 403, (method, path)
            if "GET" in methods:
                got = await nobody.get(path)
                assert (got.status_code, "/desk/sign-in" in got.headers["location"]) == (
                    303,
                    True,
                ), path


async def csrf(one: Somebody) -> str:
    page = await one.get("/desk/help")
    return str(page.tree.xpath("//*[@name='csrf']/@value")[0])


async def test_what_escalates_is_the_leads(database: str) -> None:
    made = {scope: await key_of(database, scope) for scope in ("judge", "review", "lead")}
    async with serving(database, **ALL) as client:
        app = client.app  # type: ignore[attr-defined]
        case = await post(client, "a post", made["judge"])
        kim, lead = somebody(app), somebody(app)
        await kim.sign_in(made["review"], "kim")
        await kim.send(at="/next")
        refused = await kim.send("escalate", question="kept, too")
        assert (refused.status, refused.wrong, refused.value("question")) == (
            400,
            "Not escalated yet: write a note that tells the leads why.",
            "kept, too",
        )
        await kim.send("escalate", note="it may be about a court case")
        assert kim.page.heading == "Queue"
        seen = await kim.get(f"/desk/cases/{case['id']}")
        assert "This case was escalated: only a lead can decide it." in seen.words
        by_api = await client.post(
            f"/v1/cases/{case['id']}/decision",
            json={"action": "accept"},
            headers={"X-API-Key": made["review"]},
        )
        check_refusal(by_api, 409, "waits for a lead")
        assert (
            await kim.send("accept")
        ).wrong == "Was escalated and waits for a lead; nothing was changed."
        await lead.sign_in(made["lead"], "mia")
        await lead.send(at="/next")
        assert lead.case == case["id"]
        assert "it may be about a court case" in lead.page.words
        assert "kim (a) escalated it" in lead.page.words
        await lead.send("accept")
        record = await get_json(
            client, f"/v1/cases/{case['id']}", "record", headers={"X-API-Key": made["lead"]}
        )
        assert (record["outcome"], record["review"]["reviewer"]) == ("verdict", "mia (a)")


async def test_a_session_ends(database: str) -> None:
    key = await key_of(database, "review")
    async with serving(database, **ALL) as client, opened(database) as store:
        app = client.app  # type: ignore[attr-defined]
        kim = await signed_in(app, key)
        [cookie] = [each for each in kim.client.cookies.jar if each.name == "tribunal-desk"]
        assert key not in str(cookie.value)
        kept = {"Cookie": f"tribunal-desk={cookie.value}"}
        await kim.send(at="sign-out")
        assert kim.page.heading == "Sign in"
        again = await client.get("/desk/queue", headers=kept)
        assert (again.status_code, again.headers["location"]) == (
            303,
            "/desk/sign-in?next=%2Fqueue",
        )
        for column, ago in (("seen", 61 * 60), ("created", 13 * 3600)):
            await kim.sign_in(key)
            async with store.transaction() as connection:
                await connection.execute(
                    update(desk_sessions).values(**{column: time.time() - ago})
                )
            assert (await kim.get("/desk/queue")).heading == "Sign in", column
        await kim.sign_in(key)
        await kim.get("/desk/help")
        await keys.revoke_key(store, key.split("_")[1])
        assert (await kim.get("/desk/queue")).heading == "Sign in"


async def test_what_was_typed_is_shown_when_a_session_has_ended(database: str) -> None:
    key = await key_of(database, "review", "judge")
    async with serving(database, **ALL) as client, opened(database) as store:
        case = await post(client, "a post", key)
        kim = await signed_in(client.app, key)  # type: ignore[attr-defined]
        await kim.send(at="/next")
        await keys.revoke_key(store, key.split("_")[1])
        page = await kim.send("change", category="NotHate", note="my long <b>reasons</b>")
        assert (page.status, page.heading) == (401, "Please sign in")
        assert "my long <b>reasons</b>" in page.words
        row = await client.app.state.replica.case_store.case(case["id"])  # type: ignore[attr-defined]
        assert row["question"] is not None


async def test_a_form_of_elsewhere_does_nothing(database: str) -> None:
    async with serving(database, **ALL) as client:
        case = await post(client, "a post")
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        token, at = await csrf(kim), f"/desk/cases/{case['id']}"
        for headers, form in (
            ({"Origin": "https://evil.example"}, {"csrf": token}),
            ({"Origin": "http://127.0.0.1:9999"}, {"csrf": token}),
            ({"Origin": "null"}, {"csrf": token}),
            ({}, {"csrf": token}),
            ({"Origin": HERE}, {"csrf": token[:-1] + ("0" if token[-1] != "0" else "1")}),
            ({"Origin": HERE}, {}),
        ):
            sent = await kim.client.post(at, data={**form, "action": "claim"}, headers=headers)
            assert sent.status_code == 403, (headers, form)
        as_json = await kim.client.post(at, json={"csrf": token}, headers={"Origin": HERE})
        assert as_json.status_code == 415
        read = await kim.client.get("/desk/queue", headers={"Origin": "http://127.0.0.1:9999"})
        assert read.status_code == 403
        assert "access-control-allow-origin" not in read.headers
        rebound = await kim.client.get("/desk/queue", headers={"Host": "evil.example"})
        assert rebound.headers["location"].endswith("/desk/sign-in?next=%2Fqueue")
        assert await get_json(client, f"/v1/cases/{case['id']}", "claim") is None


async def test_what_a_page_says_to_the_browser(database: str) -> None:
    async with serving(database, **ALL) as client:
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        for path in ("/desk/queue", "/desk/sign-in", "/desk/nowhere", "/desk/cases/%3Cscript%3E"):
            got = await kim.client.get(path)
            policy = got.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
            assert "unsafe" not in policy
            assert got.headers["x-frame-options"] == "DENY"
            assert got.headers["cache-control"] == "no-store"
            assert got.headers["referrer-policy"] == "same-origin"
            assert got.headers["content-type"] == "text/html; charset=utf-8"
        assert (await kim.client.put("/desk/queue")).status_code == 404
        style = (await kim.get("/desk/help")).tree.xpath("//link[@rel='stylesheet']/@href")[0]
        loaded = await kim.client.get(style)
        assert (loaded.status_code, "immutable" in loaded.headers["cache-control"]) == (200, True)
        assert "http" not in loaded.text.lower().replace("http://www.w3.org", "")
        away = await kim.client.get("/desk/sign-in?next=//evil.example/")
        assert 'value="/queue"' in away.text


async def test_keys_can_t_be_tried_on_and_on(database: str) -> None:
    key = await key_of(database, "review")
    async with serving(database, **ALL) as client:
        app = client.app  # type: ignore[attr-defined]
        thief = somebody(app, "192.0.2.7")
        wrong = f"{key[:-4]}AAAA"
        answers = [(await thief.sign_in(wrong)).status for _ in range(MOST_TRIES + 2)]
        assert answers == [401] * MOST_TRIES + [429] * 2
        assert "retry-after" in thief.page.response.headers
        late = await thief.sign_in(key)
        assert late.status == 429, "a right one is refused, too"
        assert (await somebody(app, "192.0.2.8").sign_in(key)).heading == "Queue"
        six = somebody(app, "2001:db8::1")
        for _ in range(MOST_TRIES):
            await six.sign_in(wrong)
        assert (await somebody(app, "2001:db8::2").sign_in(key)).status == 429, "the same network"


async def test_without_a_key_only_this_machine_comes_in(sqlite: str) -> None:
    async with serving(sqlite, **ALL) as client:
        far = somebody(client.app, "192.0.2.7")  # type: ignore[attr-defined]
        refused = await far.sign_in("x")
        assert (refused.status, "a key is needed" in refused.wrong) == (401, True)


async def test_a_trusted_proxy_says_who_it_is(tmp_path: Path) -> None:
    proxied = {
        "desk_user_header": "X-Forwarded-User",
        "desk_role_header": "X-Role",
        "desk_proxy": "127.0.0.1",
    }
    database = made(tmp_path)
    judge = await key_of(database, "judge")
    async with (
        listening(database, **ALL, **proxied) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        case = await post(client, "a post", judge)
        kim = {
            "X-Forwarded-User": "kim@example.com",
            "X-Role": "Reviewer",
            "X-Forwarded-For": "192.0.2.7",
        }
        asked = await client.get("/desk/sign-in", headers=kim)
        assert "as <strong>kim@example.com</strong>" in asked.text
        csrf = asked.text.split('name="csrf" value="')[1].split('"')[0]
        in_now = await client.post(
            "/desk/sign-in", data={"csrf": csrf}, headers={**kim, "Origin": url}
        )
        assert in_now.status_code == 303
        page = await client.get("/desk/queue", headers=kim)
        assert "kim@example.com" in page.text
        assert "reviewer</span>" in page.text
        for other in ({**kim, "X-Forwarded-User": "mallory"}, {}, {**kim, "X-Forwarded-User": ""}):
            assert (await client.get("/desk/queue", headers=other)).status_code == 303, other
        none = await client.get("/desk/queue", headers={**kim, "X-Role": "king"})
        check_refusal(none, 403, "names none of reviewer, lead, auditor")
        csrf = page.text.split('name="csrf" value="')[1].split('"')[0]
        claimed = await client.post(
            f"/desk/cases/{case['id']}",
            data={"csrf": csrf, "action": "claim"},
            headers={**kim, "Origin": url},
        )
        assert claimed.status_code == 303, claimed.text
        audit = await key_of(database, "audit")
        told = await get_json(
            client,
            f"/v1/audit?subject={case['id']}&kind=case.claimed",
            headers={"X-API-Key": audit},
        )
        assert [(each["who"], each["name"]) for each in told["entries"]] == [
            ("person", "kim@example.com")
        ]
    proxied["desk_proxy"] = "192.0.2.1,2001:db8::/32"
    async with (
        listening(database, **ALL, **proxied) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        # Whom a header calls the client is not who is at the other end.
        asked = await client.get("/desk/sign-in", headers={**kim, "X-Forwarded-For": "192.0.2.1"})
        assert "kim@example.com" not in asked.text
        assert "Key" in asked.text


async def test_a_header_without_its_proxy_is_refused(sqlite: str) -> None:
    with pytest.raises(BadInput, match="desk_user_header: X-Forwarded-User: anybody could send it"):
        async with serving(sqlite, desk_user_header="X-Forwarded-User"):
            pass
    with pytest.raises(BadInput, match="desk_user_header: 'X Forwarded'"):
        options_from({"TRIBUNAL_SERVE_DESK_USER_HEADER": "X Forwarded"})
