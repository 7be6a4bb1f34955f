"""The nearest decided cases, beside a case at the desk: what was decided and why, and nothing that was erased."""

from __future__ import annotations

from tests.service.at_desk import ALL, count_rehearsed, post, signed_in
from tests.service.conftest import serving
from tribunal.docket.erasure import ErasureRequest, erase_words

WEEDS = "Immigrants: the weeds in our garden."


async def test_the_nearest_decided_cases_stand_beside_a_case(database: str) -> None:
    async with serving(database, **ALL) as client:
        app = client.app  # type: ignore[attr-defined]
        first = await post(client, f"{WEEDS} That is what he shouted.", post_id="p-1")
        kim = await signed_in(app)
        await kim.send(at="/next")
        assert kim.page.tree.xpath("//*[@id='nearest']") == [], "nothing is decided yet"
        decision = {
            "action": "change",
            "category": "NotHate",
            "note": "quotes it to condemn it",
            "reviewer": "lee",
        }
        await client.delete(f"/v1/cases/{first['id']}/claim?reviewer=kim")
        decided = await client.post(f"/v1/cases/{first['id']}/decision?wait=60", json=decision)
        assert decided.json()["category"] == "NotHate", decided.text
        await count_rehearsed(app)
        second = await post(client, WEEDS, post_id="p-2")
        page = await kim.get(f"/desk/cases/{second['id']}")
        [found] = page.tree.xpath("//section[@aria-labelledby='nearest']")
        words = " ".join(found.text_content().split())
        for said in (
            "NotHate",
            "against the model",
            "quotes it to condemn it",
            "That is what he shouted.",
        ):
            assert said in words
        assert found.xpath(".//a/@href") == [f"/desk/cases/{first['id']}"]

        # A post that has only letters in common with it has no nearest case.
        third = await post(client, "Good morning, everybody.", post_id="p-3")
        page = await kim.get(f"/desk/cases/{third['id']}")
        assert page.tree.xpath("//*[@id='nearest']") == []

        # The case itself is none of its own, and what was erased is shown nowhere.
        page = await kim.get(f"/desk/cases/{first['id']}")
        assert page.tree.xpath("//*[@id='nearest']") == []
        await erase_words(app.state.replica.store, ErasureRequest(case=first["id"]))
        page = await kim.get(f"/desk/cases/{second['id']}")
        assert "he shouted" not in page.words
        assert page.tree.xpath("//*[@id='nearest']") == []
