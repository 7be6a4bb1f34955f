"""The model verdict shown only after one's own decision, and what the board tells of the work at the desk."""

from __future__ import annotations

import re

from sqlalchemy import update

from tests.service.at_desk import ALL, Somebody, count_rehearsed, post, signed_in
from tests.service.conftest import check_refusal, get_json, opened, serving
from tests.service.live import key_of
from tribunal.store import audit as audit_log
from tribunal.store.tables import cases

BLIND = {**ALL, "desk_undo": 600.0, "desk_verdict": "after"}
HATE, FINE = "Immigrants: the weeds in our garden.", "Good morning, dear neighbours."


def bare(who: Somebody, case_id: str, text: str) -> str:
    """The page without what tells one post from another by itself."""
    html = who.page.response.text.replace(case_id, "CASE").replace(text, "TEXT")
    html = re.sub(r'(name="(?:csrf|answers)" value=")[^"]*', r"\1", html)
    return re.sub(r"p-\d|\d+ (?:s|min)\b|\d\d:\d\d", "", html)


async def test_no_page_tells_the_verdict_before_one_decides(database: str) -> None:
    async with serving(database, **BLIND) as client:
        hate = (await post(client, HATE, post_id="p-0"))["id"]
        fine = (await post(client, FINE, post_id="p-1"))["id"]
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        queue = await kim.get("/desk/queue?category=NotHate&sort=most+sure&surer=0.9")
        assert len(queue.tree.xpath("//a[@data-row]")) == 2, "a filter by the verdict would tell it"
        assert "Model's verdict" not in queue.words
        for category in ("NotHate", "Racist", "Religious"):
            found = await kim.get(f"/desk/search?category={category}")
            assert found.tree.xpath("//a[@data-row]") == []
        seen = []
        for case_id, text in ((hate, HATE), (fine, FINE)):
            await kim.get(f"/desk/cases/{case_id}")
            await kim.send("claim", at="/cases/")
            await kim.get(f"/desk/cases/{case_id}")
            seen.append(bare(kim, case_id, text))
            assert kim.page.buttons() == [
                "change",
                "escalate",
                "skip",
                "note",
                "claim",
                "release",
                "ask",
            ]
        assert seen[0] == seen[1], "two posts of opposite verdicts look the same"


async def test_blind_agreement_is_measured_and_what_was_undone_is_not(database: str) -> None:
    async with serving(database, **BLIND) as client, opened(database) as store:
        (await post(client, HATE, post_id="p-0"))["id"]
        fine = (await post(client, FINE, post_id="p-1"))["id"]
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        await kim.send(at="/next")
        await kim.send("change", at="/cases/", category="NotHate", note="It speaks of plants.")
        await kim.send("change", at="/cases/", category="NotHate", note="A greeting.")
        [entry] = [
            row
            for row in await audit_log.page(store, subject=fine)
            if row["kind"] == "case.answered"
        ]
        details = audit_log.readable(entry)["details"]
        assert (details["action"], details["blind"], details["court"]) == (
            "accept",
            True,
            "NotHate",
        )
        await count_rehearsed(client.app)  # type: ignore[attr-defined]
        figures = await get_json(client, "/v1/figures", "desk")
        assert (figures["blind"]["pairs"], figures["blind"]["raw"]) == (2, 0.5)
        assert (figures["all"]["cases"], figures["undone"]) == (2, 0)
        await post(client, "It rains.", post_id="p-2")
        await kim.send(at="/next")
        await kim.send("ask", at="/cases/", question="Who is meant?")
        asked = (await get_json(client, "/v1/figures", "desk"))["all"]
        assert asked["cases"] == 2, "a question to the model decides nothing"
        await kim.get(f"/desk/cases/{fine}")
        undone = await kim.send(at="/undo")
        assert "Not hate (model)" in undone.words, (
            "whoever has undone a decision has seen the verdict"
        )
        figures = await get_json(client, "/v1/figures", "desk")
        assert (figures["blind"]["pairs"], figures["undone"], figures["all"]["cases"]) == (1, 1, 1)


async def test_a_key_that_decides_is_told_no_verdict_before(database: str) -> None:
    async with serving(database, **BLIND) as client:
        judge, review = [
            {"X-API-Key": await key_of(database, scope)} for scope in ("judge", "review")
        ]
        asked = await client.post("/v1/judge?wait=60", json={"text": HATE}, headers=judge)
        at = f"/v1/cases/{asked.headers['tribunal-case']}"
        assert (await get_json(client, at, "record", headers=judge))["review"]["court"][
            "category"
        ], "it asked for it"
        seen = [
            await get_json(client, at, headers=review),
            (await get_json(client, "/v1/cases?outcome=pending", "cases", headers=review))[0],
            (await client.post(f"{at}/claim", json={}, headers=review)).json(),
        ]
        for case in seen:
            assert (case["record"], case["question"]["request"], case["post"]["text"]) == (
                None,
                {},
                HATE,
            )
        for path in (
            f"{at}/events",
            f"{at}/explanation",
            "/v1/cases?outcome=pending&category=Racist",
        ):
            told = await client.get(path, headers=review)
            check_refusal(told, 403, "shown after the decision")
        decision = {"action": "change", "category": "NotHate", "note": "plants"}
        done = await client.post(f"{at}/decision?wait=60", json=decision, headers=review)
        assert done.json()["review"]["court"]["category"], "now it is told"


async def test_one_text_is_one_line_whatever_the_models_said_of_it(database: str) -> None:
    async with serving(database, **BLIND) as client, opened(database) as store:
        cases_of_text = [
            (await post(client, HATE, post_id=f"p-{number}"))["id"] for number in range(2)
        ]
        async with store.transaction() as connection:  # as another model would have found
            other = (
                update(cases).where(cases.c.id == cases_of_text[1]).values(model_category="Sexist")
            )
            await connection.execute(other)
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        assert len((await kim.get("/desk/queue")).tree.xpath("//a[@data-row]")) == 1
    async with serving(database, **{**BLIND, "desk_verdict": "before"}) as client:
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        assert len((await kim.get("/desk/queue")).tree.xpath("//a[@data-row]")) == 2
