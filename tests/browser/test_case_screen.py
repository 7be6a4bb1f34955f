"""The page of a case in a real Chromium, by where things stand on it: what one decides by, and the decision, on the
first screen of a desk's window and of a telephone; the rest folded away; and the step table whole."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
from playwright.async_api import Browser, Locator, Page

from tests.browser.conftest import IN_CHROMIUM
from tests.browser.test_desk_pages import NARROW, a_picture, browsing, is_at, is_sound, sign_in
from tests.service.at_desk import ALL, post
from tests.service.live import listening, sqlite

pytestmark = IN_CHROMIUM
DESK = {"width": 1280, "height": 800}
WEEDS = "Immigrants: the weeds in our garden."
EARLIER = ["What do you think of the new neighbours?", "I don't know them yet."]
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


async def edges(found: Locator) -> tuple[float, float, float, float]:
    """Where an element stands in the window: left, top, right, bottom."""
    box = await found.bounding_box()
    assert box is not None, "it isn't shown"
    return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]


async def is_in_window(page: Page, *found: Locator) -> None:
    """All of these can be seen without scrolling."""
    assert await page.evaluate("scrollY") == 0
    assert page.viewport_size
    for each in found:
        left, top, right, bottom = await edges(each)
        text = (await each.text_content() or "")[:40]
        assert left >= 0 <= top, text
        assert (right <= page.viewport_size["width"], bottom <= page.viewport_size["height"]) == (True, True), text


async def is_scrolled(box: Locator) -> None:
    """A box is scrolled down, or comes to be."""
    while await box.evaluate("box => box.scrollTop") < 100:
        await asyncio.sleep(0.02)


def decision(page: Page) -> list[Locator]:
    """What one decides with."""
    button = page.get_by_role
    return [
        button("button", name="Accept"), page.locator("#category"), page.locator("#note"),
        button("button", name="Change", exact=True), button("button", name="Escalate"),
    ]  # fmt: skip


async def test_all_that_one_decides_by_is_on_one_screen(chromium: Browser, tmp_path: Path) -> None:
    async with (
        listening(sqlite(tmp_path), **ALL) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
        browsing(chromium, url, viewport=DESK) as page,
    ):
        await post(client, WEEDS, post_id="one", language="en", earlier=EARLIER)
        await post(client, f"{WEEDS} {'And so on and on. ' * 300}", post_id="two", image=a_picture())
        await sign_in(page, "kim")
        await page.get_by_role("button", name="Take next case").click()
        await is_at(page, "Post one")
        exceptions = page.locator(".case-rule").get_by_text("in order to condemn, mock, document or teach about it")
        conversation = page.get_by_text(EARLIER[-1])
        asking = [page.locator("#question"), page.get_by_role("button", name="Skip")]
        words = page.locator(".ex-post").first
        await is_in_window(page, words, conversation, exceptions, *decision(page), *asking)
        # Trial, cost and hashes are folded away, and there.
        assert await page.locator(".case-trial details[open]").count() == 0
        for title in ("Debate", "Cost", "Details", "Who decided"):
            assert await page.locator(".case-trial summary", has_text=re.compile(f"^{title}$")).count() == 1
        assert "tokens" not in await page.inner_text("main")
        await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert "tokens" in await page.inner_text("main")
        assert _ISO.findall(await page.inner_text("main")) == []
        await is_sound(page)

        # What the step table comes to stands in sight, however many steps there are.
        table = page.locator(".ex-steps").first
        region, last = (
            await edges(page.locator(".ex-scroll").first),
            await edges(table.locator("tr").last.locator("td").last),
        )
        assert region[0] <= last[0] < last[2] <= region[2] <= DESK["width"]
        assert await table.locator("thead th").last.inner_text() == "Judge"

        # However long the post is, the decision stays beside it, with a line that says what was done before.
        await page.get_by_role("button", name="Skip").click()
        await is_at(page, "Post two")
        assert await page.get_by_role("status").is_visible()
        await is_in_window(page, *decision(page), *asking, exceptions)
        await page.mouse.wheel(0, 900)
        await is_scrolled(page.locator("html"))
        for each in decision(page):
            assert (await edges(each))[1] >= 0
            assert (await edges(each))[3] <= DESK["height"]


async def test_on_a_telephone_the_decision_comes_first(chromium: Browser, tmp_path: Path) -> None:
    async with (
        listening(sqlite(tmp_path), **ALL) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
        browsing(chromium, url, viewport=NARROW) as page,
    ):
        long = f"{WEEDS} {'And so on and on. ' * 100}"
        await post(client, long, post_id="one", earlier=EARLIER, image=a_picture())
        await sign_in(page, "kim")
        await page.get_by_role("button", name="Take next case").click()
        await is_at(page, "Post one")
        await is_in_window(page, page.locator(".case-words"), *decision(page))
        _, decide, _, _ = await edges(page.locator("#decide"))
        for after in ("#verdict", "#policy", "#trial"):
            assert (await edges(page.locator(after)))[1] > decide
        # The post is whole, in a box of its own that the keyboard scrolls.
        await page.locator(".case-words").focus()
        await page.keyboard.press("End")
        await is_scrolled(page.locator(".case-words"))
        assert (await page.locator(".case-words").inner_text()).count("And so on and on.") == 100
        await is_sound(page)
