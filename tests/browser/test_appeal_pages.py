"""Appeals, second opinions and the board in a real Chromium: nothing of a stranger's runs, all is seen on a telephone,
by day and by night, and axe finds nothing serious. With TRIBUNAL_UPDATE_DOCS=1 it takes the pictures of the docs."""

from __future__ import annotations

import random
import time
from pathlib import Path

import httpx
from playwright.async_api import Browser

from tests.browser.conftest import IN_CHROMIUM
from tests.browser.test_desk_pages import (
    AXE,
    NARROW,
    axe_finds,
    browsing,
    is_at,
    is_sound,
    pictured,
    sign_in,
)
from tests.browser.test_own_pages import HOSTILE
from tests.service.at_desk import ALL, post
from tests.service.conftest import get_json, opened
from tests.service.live import listening, sqlite
from tribunal.store.tables import cases, decisions, second_opinions

pytestmark = IN_CHROMIUM
DAY = 86_400


async def a_month(database: str) -> None:
    """What the board counts: a month of cases, some of which people decided, and second opinions of those."""
    chance, now = random.Random(7), time.time()
    async with opened(database) as store, store.transaction() as connection:
        for number in range(600):
            end = now - 45 * DAY * chance.random()
            outcome = chance.choices(("verdict", "pending", "refusal", "failure"), (90, 6, 2, 2))[0]
            later = now - end < 20 * DAY
            category = chance.choices(
                ("NotHate", "Racist", "Sexist", "Religious"), (70, 16 if later else 8, 8, 6)
            )[0]
            row = {
                "id": f"case-{number}",
                "created": end - chance.expovariate(0.2),
                "finished": end,
                "status": "done",
            }
            row |= {
                "attempt": 1,
                "graph": "tribunal",
                "settings": {},
                "outcome": outcome,
                "money": chance.random() / 50,
            }
            row |= {
                "category": category if outcome == "verdict" else None,
                "hateful": category != "NotHate",
            }
            await connection.execute(cases.insert().values(**row))
            if outcome != "verdict" or number % 6:
                continue
            who, same = (
                chance.choice(("kim (desk)", "lee (desk)", "ada (desk)")),
                chance.random() < 0.85,
            )
            told = {"case_id": row["id"], "number": 1, "at": end, "kind": "review", "reviewer": who}
            result = "accepted" if same else "changed"
            await connection.execute(
                decisions.insert().values(**told, result=result, category=category)
            )
            opinion = {
                "id": f"opinion-{number}",
                "case_id": row["id"],
                "created": end,
                "given": end + 60,
                "note": "",
            }
            opinion |= {
                "first": who,
                "second": "bo (desk)",
                "first_category": category,
                "status": "agreed",
            }
            said = category if same else "NotHate"
            await connection.execute(
                second_opinions.insert().values(**opinion, second_category=said)
            )


async def test_appeals_opinions_and_the_board(chromium: Browser, tmp_path: Path) -> None:
    database = sqlite(tmp_path)
    async with (
        listening(database, **ALL, second_opinions=1.0) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
        browsing(chromium, url, viewport=NARROW) as page,
    ):
        found = []
        for words, post_id in (
            ("Immigrants: the weeds in our garden.", "post-1"),
            (HOSTILE, HOSTILE[:190]),
        ):
            case = await post(client, words, post_id=post_id)
            done = await client.post(
                f"/v1/cases/{case['id']}/decision", json={"action": "accept", "reviewer": "kim"}
            )
            assert done.json()["outcome"] == "verdict", done.text
            found.append(case["id"])
        await a_month(database)
        said = {
            "reason": "It is a line of a song.",
            "context": "The refrain of an old garden song, word for word.",
        }
        first = await client.post(
            f"/v1/cases/{found[0]}/appeal", json={"appellant": "user-7f3a", **said}
        )
        strange = {"appellant": HOSTILE[:190], "reason": HOSTILE, "context": HOSTILE}
        second = await client.post(f"/v1/cases/{found[1]}/appeal", json=strange)
        assert (first.status_code, second.status_code) == (201, 201)
        opinions = await get_json(client, "/v1/second-opinions", "second_opinions")
        opinion = next(each["id"] for each in opinions if not each["id"][8:].isdecimal())
        await sign_in(page, "lee")
        for appeal in (first.json()["id"], second.json()["id"]):
            await page.goto(f"/desk/appeals/{appeal}")
            await page.evaluate(
                "for (const each of document.querySelectorAll('details')) each.open = true"
            )
            await is_sound(page)
        assert "<script>window.ran = 1</script>" in await page.inner_text("main")
        await page.goto(f"/desk/appeals/{first.json()['id']}")
        await pictured(page, "appeal")
        await page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        await page.get_by_role("button", name="Claim").click()
        await page.wait_for_url("**said=claim")
        await page.get_by_label("Note").fill(HOSTILE)
        await page.get_by_role("button", name="Order a new run").click()
        await page.wait_for_url("**said=retry")
        while await get_json(client, f"/v1/appeals/{first.json()['id']}", "status") == "trying":
            await page.wait_for_timeout(50)
        await page.goto(f"/desk/appeals/{first.json()['id']}")
        await page.get_by_label("Note").fill(HOSTILE)
        await page.get_by_role("button", name="Keep the decision").click()
        await page.wait_for_url("**said=uphold")
        await is_sound(page)
        paths = [
            "/appeals",
            "/appeals?of=decided",
            "/second-opinions",
            f"/second-opinions/{opinion}",
            "/board",
        ]
        paths += [
            f"/appeals/{first.json()['id']}",
            f"/cases/{found[1]}/reopen",
            "/board?since=2026-13-01",
        ]
        for path in paths:
            await page.goto(f"/desk{path}")
            await page.evaluate(
                "for (const each of document.querySelectorAll('details')) each.open = true"
            )
            await is_sound(page)
            if AXE:
                for scheme in ("light", "dark"):
                    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                    assert await axe_finds(page) == [], (path, scheme)
        await page.goto("/desk/board")
        await is_at(page, "Board")
        assert await page.locator("rect.verdict").count() > 20
        await pictured(page, "board", whole=True)
