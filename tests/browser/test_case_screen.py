"""The page of a case in a real Chromium, by where things stand on it: what one decides by, and the decision, on the
first screen of a desk's window and of a telephone; the rest folded away; and the step table whole."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
from playwright.async_api import Browser, Locator, Page, expect

from tests.browser.conftest import IN_CHROMIUM
from tests.browser.test_desk_pages import NARROW, a_picture, browsing, is_sound, sign_in
from tests.service.at_desk import ALL, post
from tests.service.live import listening, sqlite

pytestmark = IN_CHROMIUM
DESK = {"width": 1280, "height": 800}
WEEDS = "Immigrants: the weeds in our garden."
MIDDLING = f"{WEEDS} {'So I say it to all of you. ' * 30}"[:600]
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
        assert (right <= page.viewport_size["width"], bottom <= page.viewport_size["height"]) == (
            True,
            True,
        ), text


async def is_scrolled(box: Locator) -> None:
    """A box is scrolled down, or comes to be."""
    while await box.evaluate("box => box.scrollTop") < 100:
        await asyncio.sleep(0.02)


def decision(page: Page) -> list[Locator]:
    """What one decides with: the first and the last category, the reason, the note and the button."""
    categories = page.locator(".categories label")
    return [
        categories.first, categories.last, page.locator("#canned"), page.locator("#note"),
        page.get_by_role("button", name="Decide"),
    ]  # fmt: skip


async def test_all_that_one_decides_by_is_on_one_screen(chromium: Browser, tmp_path: Path) -> None:
    async with (
        listening(sqlite(tmp_path), **ALL) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
        browsing(chromium, url, viewport=DESK) as page,
    ):
        await post(client, MIDDLING, post_id="one", language="en")
        await post(
            client,
            f"{WEEDS} {'And so on and on. ' * 300}",
            post_id="two",
            image=a_picture(),
            earlier=EARLIER,
        )
        await sign_in(page, "kim")
        await page.get_by_role("button", name="Take next case").click()
        await expect(page.locator("h1")).to_contain_text(WEEDS)
        exceptions = page.locator(".case-rule").get_by_text(
            "in order to condemn, mock, document or teach about it"
        )
        words, more = page.locator(".ex-post").first, page.get_by_text("Escalate, skip, ask")
        cue = page.locator(".debate tbody tr").first
        await is_in_window(page, words, cue, exceptions, more, *decision(page))
        assert await page.locator(".case-decide details[open]").count() == 0
        for fact in ("pressed", "conceded", "Metaphor", "Immigrants", "named"):
            assert fact in await cue.inner_text()
        # The mark leads to the row, and the row to the turns.
        await page.locator(".ex-post sup a").first.click()
        await is_in_window(page, cue)
        await cue.locator("a").click()
        assert await page.locator("#ex-cue-1").is_visible()
        await page.goto(page.url.partition("#")[0])
        # A key opens what is folded.
        await page.keyboard.press("e")
        assert await page.evaluate("document.activeElement.value") == "escalate"
        await page.goto(page.url)
        # Trial, cost and hashes are folded away, and there.
        assert await page.locator(".case-trial details[open]").count() == 0
        for title in ("Debate", "Cost", "Details", "Who decided"):
            assert (
                await page.locator(".case-trial summary", has_text=re.compile(f"^{title}$")).count()
                == 1
            )
        assert "tokens" not in await page.inner_text("main")
        await page.evaluate(
            "for (const each of document.querySelectorAll('details')) each.open = true"
        )
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
        await page.wait_for_url("**said=skip**")
        assert await page.get_by_role("status").is_visible()
        await is_in_window(page, *decision(page), page.locator("#verdict"))
        assert await page.get_by_role("link", name="full size").get_attribute("href")
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
        await expect(page.locator("h1")).to_contain_text(WEEDS)
        await is_in_window(page, page.locator(".case-words"), *decision(page)[:2])
        _, decide, _, _ = await edges(page.locator("#decide"))
        for after in ("#verdict", "#policy", "#trial"):
            assert (await edges(page.locator(after)))[1] > decide
        # The post is whole, in a box of its own that the keyboard scrolls.
        await page.locator(".case-words").focus()
        await page.keyboard.press("End")
        await is_scrolled(page.locator(".case-words"))
        assert (await page.locator(".case-words").inner_text()).count("And so on and on.") == 100
        await is_sound(page)


_BROKEN = """[...document.querySelectorAll('thead th, .chip')].filter(each => {
  const longest = each.textContent.split(/\\s+/).sort((a, b) => b.length - a.length)[0];
  const range = document.createRange(), text = each.firstChild;
  const at = text && text.nodeType === 3 ? text.data.indexOf(longest) : -1;
  if (at < 0) return false;
  range.setStart(text, at);
  range.setEnd(text, at + longest.length);
  return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1;
}).map(each => each.textContent)"""


async def test_a_row_of_the_queue_shows_the_post(chromium: Browser, tmp_path: Path) -> None:
    """Its words with the marked cues; no header or badge breaks inside a word; a column without a value is left out."""
    async with (
        listening(sqlite(tmp_path), **ALL) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
        browsing(chromium, url, viewport=DESK) as page,
    ):
        await post(client, MIDDLING, post_id="one", language="en")
        await sign_in(page, "kim")
        row = page.locator("tbody tr").first
        assert "So I say it to all of you." in await row.inner_text()
        assert await row.locator("mark").inner_text() == "Immigrants: the weeds"
        assert await row.locator(".post-id").inner_text() == "one"
        assert "Confidence" not in await page.locator("thead").inner_text()
        for width in (1280, 1024, 390):
            await page.set_viewport_size({"width": width, "height": 844})
            assert await page.evaluate(_BROKEN) == [], width
            await is_sound(page)
        # A case that is opened from a row is claimed first, and names no other key.
        await page.set_viewport_size({"width": 1280, "height": 800})
        await row.locator("a[data-row]").click()
        await page.wait_for_url("**/cases/**")
        await page.keyboard.press("t")
        assert await page.evaluate("document.activeElement.textContent") == "Claim and decide"
        assert await page.locator("kbd").all_inner_texts() == ["t", "Enter", "w", "?"]
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Decide")).to_be_visible()
        assert await page.evaluate(_BROKEN) == []
