"""The desk without a browser: what people see and do there, and what the API and the audit log say of it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from sqlalchemy import event, update
from sqlalchemy.engine import Engine

from tests.court import court_script
from tests.doubles import Fault, Reply, Request
from tests.openai_server import OpenAIServer
from tests.service.at_desk import ALL, Somebody, post, signed_in, somebody
from tests.service.conftest import get_json, opened, serving
from tribunal.prompts.policy import load_policy
from tribunal.service.replica import case_queries
from tribunal.store import audit as audit_log
from tribunal.store.engine import Store
from tribunal.store.tables import cases


async def told(database: str, subject: str) -> list[str]:
    """What people did with a case, by the audit log, and who."""
    store = await Store.open(database)
    try:
        rows = [audit_log.readable(row) for row in await audit_log.page(store, subject=subject)]
        return [
            f"{row['kind']} {(row['details'] or {}).get('reviewer', '')}".strip() for row in rows
        ]
    finally:
        await store.close()


async def test_a_case_is_claimed_decided_and_the_next_one_comes(database: str) -> None:
    async with serving(database, **ALL) as client:
        app = client.app  # type: ignore[attr-defined]
        first = await post(client, "one: a post", post_id="p-1")
        second = await post(client, "two: a post", post_id="p-2")
        kim, lee = somebody(app), somebody(app)
        assert (await kim.get("/desk")).heading == "Sign in"
        assert (await kim.sign_in(named="kim")).heading == "Queue"
        await lee.sign_in(named="lee")
        await kim.send(at="/next")
        assert (kim.case, kim.page.heading) == (first["id"], "one: a post")
        seen = await lee.get(f"/desk/cases/{first['id']}")
        assert "kim (operator) is reviewing this" in seen.words
        assert seen.buttons() == ["release", "note"]
        refused = await lee.send("accept", note="mine, too")
        assert (refused.status, refused.value("note")) == (409, "mine, too")
        done = await kim.send("accept", note="as I see it")
        assert (kim.case, done.heading) == (second["id"], "two: a post")
        record = await get_json(client, f"/v1/cases/{first['id']}", "record")
        assert (record["outcome"], record["review"]["reviewer"], record["review"]["note"]) == (
            "verdict", "kim (operator)", "as I see it",
        )  # fmt: skip
        empty = await kim.send("change")
        assert (empty.status, "category" in empty.wrong) == (400, True)
        done = await kim.send("change", category="Racist", note="a quotation")
        assert done.heading == "Queue"
        record = await get_json(client, f"/v1/cases/{second['id']}", "record")
        assert (record["category"], record["explanation"]) == ("Racist", "a quotation")
    assert await told(database, second["id"]) == [
        "case.taken_in", "case.pending", "case.claimed kim (operator)", "case.answered kim (operator)",
        "case.decided kim (operator)",
    ]  # fmt: skip


async def test_a_chosen_reason_is_recorded_as_the_moderator_reads_it(database: str) -> None:
    [clean, *_] = load_policy("h-vli").categories("fine")
    async with serving(database, **ALL) as client:
        case = await post(client, "ein Beitrag", language="de")
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        page = await kim.send(at="/next")
        [group] = page.tree.xpath("//select[@id='canned']/optgroup[@label='NotHate']")
        assert [(each.text, each.get("value")) for each in group] == [
            (each, each) for each in clean.reasons
        ]
        [racist] = page.tree.xpath("//select[@id='canned']/optgroup[@label='Racist']/option")
        assert racist.text[:12] == "An attack on", "its clause"
        await kim.send("change", category="Racist", canned=racist.get("value"))
        record = await get_json(client, f"/v1/cases/{case['id']}", "record")
        assert (record["category"], record["review"]["note"]) == ("Racist", racist.get("value"))


async def test_ask_skip_and_note(database: str) -> None:
    async with serving(database, **ALL) as client:
        app = client.app  # type: ignore[attr-defined]
        first = await post(client, "one", post_id="p-1")
        second = await post(client, "two", post_id="p-2")
        kim, lee = somebody(app), somebody(app)
        await kim.sign_in(named="kim")
        await kim.send(at="/next")
        kept = await kim.send(
            "note", note="  look at the thread\r\nfirst ", question="half a question"
        )
        assert "look at the thread first" in kept.words
        asked = await kim.send("ask", question="is it a quotation?", note="I am not sure")
        assert (kim.case, asked.said[:14]) == (second["id"], "p-1 runs again")
        await kim.send("skip")
        await tried_again(client, first["id"])
        await kim.get("/desk/queue")
        await kim.send(at="/next")
        assert kim.case == first["id"], "it came back, and the other one was skipped"
        assert "is it a quotation?" in kim.page.words
        await kim.send("release")
        await lee.sign_in(named="lee")
        await lee.send(at="/next")
        await lee.send("skip")
        assert lee.case == second["id"], "what one person skipped another is given"
    history = await told(database, first["id"])
    assert [each for each in history if "noted" in each] == ["case.noted kim (operator)"] * 2
    assert "case.skipped lee (operator)" in history


async def tried_again(client: httpx.AsyncClient, case_id: str) -> None:
    """Wait until a case waits again."""
    while (now := await get_json(client, f"/v1/cases/{case_id}"))["status"] != "done":
        await asyncio.sleep(0.02)
    assert now["record"]["outcome"] == "pending"


async def test_the_queue_is_filtered_sorted_and_counted(database: str) -> None:
    said = {"category": "Religious", "explanation": "judge-words"}
    courts = {
        "post 0": court_script(explicit=True, judge={**said, "confidence": 0.9}),
        "post 1": court_script(explicit=True, judge={**said, "confidence": 0.2}),
        "post 2": court_script(implicit=False),  # dismissed, without a confidence
    }

    def court(request: Request) -> Reply | Fault:
        return next(each for words, each in courts.items() if words in request.text)(request)

    settings = {"model": "openai:scripted", "review": True, "review_rule": ["all"]}
    async with (
        OpenAIServer(court),
        serving(database, settings=settings, graph="tribunal") as client,
    ):
        for number, language in enumerate(["en", "en", "ko"]):
            await post(client, f"post {number}", post_id=f"p-{number}", language=language)
        store = client.app.state.replica.store  # type: ignore[attr-defined]
        async with store.transaction() as connection:
            for number, age in enumerate([1, 30, 5]):
                change = update(cases).where(cases.c.post_id == f"p-{number}")
                await connection.execute(change.values(created=cases.c.created - 3600 * age))
        kim = await signed_in(client.app)  # type: ignore[attr-defined]

        async def order(query: str = "") -> list[str]:
            page = await kim.get(f"/desk/queue{query}")
            return [
                each.text_content() for each in page.tree.xpath("//*[contains(@class, 'post-id')]")
            ]

        assert await order() == ["p-1", "p-2", "p-0"]
        assert "3 cases to review: 3 unassigned" in kim.page.words
        assert await order("?sort=newest") == ["p-0", "p-2", "p-1"]
        assert await order("?sort=least+sure") == ["p-2", "p-1", "p-0"]
        assert await order("?language=ko") == ["p-2"]
        assert await order("?younger=24&surer=0.5") == ["p-0"]
        assert await order("?policy=h-vli&less_sure=0.5") == ["p-1"]
        reasons = kim.page.tree.xpath("//select[@name='reason']/option[@value!='']/@value")
        assert [await order(f"?reason={reason}") for reason in sorted(reasons)] == [
            ["p-2", "p-0"],
            ["p-1"],
        ]
        async with (
            store.transaction() as connection
        ):  # as the release before left a case that waits
            await connection.execute(
                update(cases).where(cases.c.post_id == "p-0").values(confidence=None)
            )
        assert await order("?sort=newest") == ["p-0", "p-2", "p-1"]
        assert "0.90" in kim.page.words, "its record has what its column lacks"
        await kim.get("/desk/queue?language=ko")
        await kim.send(at="/next")
        assert kim.page.heading == "post 2"
        assert await order("?held=free") == ["p-1", "p-0"]


async def test_the_queue_reads_no_case_that_it_does_not_show(sqlite: str) -> None:
    """All that is counted, filtered and sorted by stands in one index, so that 100,000 cases take no longer to load."""
    asked: list[str] = []

    def noted(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    wanted = case_queries.QueueFilter(
        reason="a", policy="b", language="c", older=1, surer=0.5, held="free", sort="least sure"
    )
    event.listen(Engine, "before_cursor_execute", noted)
    try:
        async with opened(sqlite) as store:
            await case_queries.count_queue(store, wanted, "kim")
            await case_queries.list_queue(store, wanted, "kim", 3)
            await case_queries.next_cases(store, wanted, "kim", leads=False)
            over_all = [
                each
                for each in asked
                if each.startswith("SELECT") and "waits_since IS NOT NULL" in each
            ]
            assert len(over_all) == 4
            async with store.reading() as connection:
                for each in over_all:
                    explained = await connection.exec_driver_sql(
                        f"EXPLAIN QUERY PLAN {each}", (0,) * each.count("?")
                    )
                    [of_cases] = [words for *_, words in explained.all() if " cases" in words]
                    assert "USING COVERING INDEX cases_that_wait" in of_cases
    finally:
        event.remove(Engine, "before_cursor_execute", noted)


async def test_a_break_is_suggested_after_hard_cases(sqlite: str) -> None:
    async with serving(sqlite, **ALL, desk_break=2) as client:
        for number in range(3):
            await post(
                client,
                "Immigrants: the weeds in our garden." + " Really." * number,
                post_id=f"p-{number}",
            )
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        await kim.send(at="/next")
        assert (await kim.send("accept")).heading.endswith("garden. Really.")
        assert (await kim.send("accept")).heading == "Time for a break"
        assert "2 hard cases in a row" in kim.page.words
        assert (await get_json(client, "/v1/cases?outcome=pending", "cases"))[0]["claim"] is None
        assert (await kim.send(at="/break")).heading.endswith("Really. Really.")
        assert (await kim.send("accept")).heading == "Queue"


async def test_a_break_counts_what_was_decided_and_not_what_the_model_said(sqlite: str) -> None:
    async with serving(sqlite, **ALL, desk_break=1) as client:
        for number in range(2):
            await post(
                client,
                "Immigrants: the weeds in our garden." + " Really." * number,
                post_id=f"p-{number}",
            )
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        await kim.send(at="/next")
        await kim.send("change", at="/cases/", category="NotHate", note="It speaks of plants.")
        assert kim.page.heading == "Immigrants: the weeds in our garden. Really."
        await kim.send("change", at="/cases/", category="Racist", note="It calls people weeds.")
        assert kim.page.heading == "Time for a break"


async def test_earlier_posts_of_a_thread_stand_above_the_reply(sqlite: str) -> None:
    async with serving(sqlite, **ALL) as client:
        case = await post(client, "the reply", earlier=["the first post", "the second post"])
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        words = (await kim.get(f"/desk/cases/{case['id']}")).words
        posts = words[words.index("Earlier posts of the conversation") :]
        assert (
            posts.index("the first post")
            < posts.index("the second post")
            < posts.index("the reply")
        )


async def test_a_claimed_case_is_unassigned_for_nobody(sqlite: str) -> None:
    async with serving(sqlite, **ALL) as client:
        for number in range(2):
            await post(client, "Good morning." * (number + 1))
        kim, lee = [await signed_in(client.app, named=name) for name in ("kim", "lee")]  # type: ignore[attr-defined]
        await kim.send(at="/next")
        for person in (kim, lee):
            assert "1 unassigned" in (await person.get("/desk/queue")).words
            assert (
                len((await person.get("/desk/queue?held=free")).tree.xpath("//a[@data-row]")) == 1
            )


@pytest.mark.long
async def test_search_finds_what_was_meant(database: str) -> None:
    async with serving(database, **ALL) as client:
        words = ["Grüße aus Köln", "100% of it", "100 of it", 'say "hi" \\ there', "혐오 표현"]
        posted = [
            (await post(client, each, post_id=f"p-{at}"))["id"] for at, each in enumerate(words)
        ]
        accept = {"action": "accept", "reviewer": "kim"}
        await client.post(f"/v1/cases/{posted[0]}/decision?wait=60", json=accept)
        lee = await signed_in(client.app, named="lee")  # type: ignore[attr-defined]
        for asked, found in (
            ({"text": "köln"}, ["p-0"]), ({"text": "100%"}, ["p-1"]), ({"text": '"hi" \\'}, ["p-3"]),
            ({"text": "혐오"}, ["p-4"]), ({"post_id": "p-2"}, ["p-2"]), ({"reviewer": "kim"}, ["p-0"]),
            ({"reviewer": "ki"}, []), ({"outcome": "verdict"}, ["p-0"]), ({"until": "2020-01-01"}, []),
        ):  # fmt: skip
            page = await lee.get("/desk/search", params=asked)
            assert [each.text_content() for each in page.tree.xpath("//a[@data-row]")] == found, (
                asked
            )
        assert (await lee.get("/desk/search?since=yesterday")).status == 400


@pytest.mark.long
async def test_twenty_reviewers_at_two_replicas(database: str) -> None:
    """Every case is decided once, by whoever had it before them, and nobody is sent away while one waits."""
    async with serving(database, **ALL) as one, serving(database, **ALL) as other:
        posted = [(await post(one, f"post {number}"))["id"] for number in range(12)]
        people = []
        for number in range(20):
            people.append(somebody((one, other)[number % 2].app))  # type: ignore[attr-defined]
            await people[-1].sign_in(named=f"r{number}")
        did: list[tuple[str, str]] = []

        async def works(number: int, person: Somebody) -> None:
            await person.send(at="/next")
            while person.page.heading.startswith("post "):
                case, before = person.case, person.page
                assert f"r{number} (operator)" in before.words
                await person.send("change", category="Racist", note=f"r{number} decided")
                assert not person.page.wrong, person.page.wrong
                did.append((case, f"r{number} decided"))

        await asyncio.gather(*(works(*each) for each in enumerate(people)))
        assert sorted(case for case, _ in did) == sorted(posted), "none twice, and none left"
        for case, words in did:
            record = await get_json(one, f"/v1/cases/{case}", "record")
            assert (record["outcome"], record["review"]["note"]) == ("verdict", words)
    for case in posted:
        assert [each.split()[0] for each in await told(database, case)].count("case.answered") == 1
    store = await Store.open(database)
    assert (await audit_log.verify(store)).fault is None
    await store.close()


@pytest.mark.long
async def test_two_press_the_same_button_at_once(database: str) -> None:
    """All twenty look at the one case, and say different things of it."""
    async with serving(database, **ALL) as one, serving(database, **ALL) as other:
        case = await post(one, "a post")
        people = []
        for number in range(20):
            person = somebody((one, other)[number % 2].app)  # type: ignore[attr-defined]
            await person.sign_in(named=f"r{number}")
            await person.get(f"/desk/cases/{case['id']}")
            people.append(person)
        claims = await asyncio.gather(*(person.send("claim") for person in people))
        has_it = [number for number, page in enumerate(claims) if page.status == 200]
        assert sorted(page.status for page in claims) == [200] + [409] * 19
        [number] = has_it
        assert all(
            f"R{number} (operator) is reviewing this" in page.wrong
            for page in claims
            if page.status == 409
        )
        words = [f"r{at}" for at in range(len(people))]
        changes = (
            each.send("change", category="Racist", note=note)
            for each, note in zip(people, words, strict=True)
        )
        sent = await asyncio.gather(*changes)
        assert [at for at, page in enumerate(sent) if not page.wrong] == [number]
        assert all(page.value("note") == words[at] for at, page in enumerate(sent) if at != number)
        record = await get_json(one, f"/v1/cases/{case['id']}", "record")
        assert record["review"]["note"] == f"r{number}"
