"""The desk in a real Chromium: by keyboard alone, without the script, on a telephone, by day and by night; nothing of a
stranger's runs, and axe finds nothing serious. With TRIBUNAL_UPDATE_DOCS=1 it takes the pictures of the docs.

axe-core is a package of npm's: TRIBUNAL_AXE names its file axe.min.js; without it that test skips.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image, ImageDraw
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import IN_CHROMIUM
from tests.browser.test_own_pages import CONTRAST, HOSTILE
from tests.service.at_desk import ALL, post
from tests.service.live import key_of, listening, sqlite
from tests.test_docs import DOCS, UPDATE
from tribunal.service.desk.visits import TABS

AXE = os.environ.get("TRIBUNAL_AXE")
SCHEMES: tuple[Any, ...] = ("light", "dark")
NARROW, WIDE = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
pytestmark = IN_CHROMIUM


@asynccontextmanager
async def browsing(chromium: Browser, url: str, **options: Any) -> AsyncIterator[Page]:
    """A browser of somebody's own at the desk. Nothing of a stranger's ran in it, and it asked nobody else."""
    context: BrowserContext = await chromium.new_context(
        base_url=url, **{"viewport": WIDE, **options}
    )
    page = await context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    context.on(
        "request",
        lambda asked: (
            None if asked.url.startswith((url, "data:")) else complaints.append(asked.url)
        ),
    )
    yield page
    ran = await page.evaluate("window.ran ?? null")
    await context.close()
    assert (ran, [each for each in complaints if "status of 4" not in each]) == (None, [])


async def sign_in(page: Page, named: str, key: str = "") -> None:
    await page.goto("/desk")
    if key:
        await page.get_by_label("Key", exact=True).fill(key)
    await page.get_by_label("Your name").fill(named)
    await page.get_by_role("button", name="I understand").click()
    await is_at(page, "Queue")


async def is_at(page: Page, heading: str) -> None:
    """The page of this heading is there, or comes."""
    await expect(page.locator("h1")).to_have_text(heading, timeout=30_000)
    await page.wait_for_load_state()


async def is_sound(page: Page) -> None:
    """It is no wider than the window, in enough contrast by day and by night."""
    wide, window = await page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
    assert wide <= window, page.url
    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        contrast, element = await page.evaluate(CONTRAST)
        assert contrast >= 4.5, (page.url, scheme, element)
    await page.emulate_media(color_scheme="light")


async def axe_finds(page: Page) -> list[tuple[str, list[str]]]:
    """What axe finds that is serious."""
    await page.evaluate(Path(AXE or "").read_text("utf-8"))
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (each["id"], [node["html"][:200] for node in each["nodes"]])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


async def pictured(page: Page, name: str, *, whole: bool = False) -> None:
    """Take the pictures of the docs: wide and narrow, light and dark; of what a window shows, or of the whole page."""
    if not UPDATE:
        return
    for size, viewport in (("wide", WIDE), ("narrow", NARROW)):
        await page.set_viewport_size(viewport)  # type: ignore[arg-type]
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            raw = await page.screenshot(full_page=whole)
            small = Image.open(io.BytesIO(raw)).convert(
                "P", palette=Image.Palette.ADAPTIVE, colors=64
            )
            small.save(DOCS / "pictures" / f"desk-{name}-{size}-{scheme}.png", optimize=True)
    await page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    await page.emulate_media(color_scheme="light")


def a_picture() -> str:
    """An image, as a data URI."""
    drawn = Image.new("RGB", (320, 200), "#d33")
    ImageDraw.Draw(drawn).ellipse((60, 40, 200, 160), fill="#ff4")
    held = io.BytesIO()
    drawn.save(held, "PNG")
    return f"data:image/png;base64,{base64.b64encode(held.getvalue()).decode()}"


async def test_by_keyboard_alone_and_two_at_once(chromium: Browser, tmp_path: Path) -> None:
    async with (
        listening(sqlite(tmp_path), **ALL) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
        browsing(chromium, url) as kim,
        browsing(chromium, url, viewport=NARROW) as lee,
    ):
        for number, words in enumerate(
            ("Immigrants: the weeds in our garden.", "Good morning!", "What a match!"), 1
        ):
            await post(client, words, post_id=f"post-{number}", language="en")
        await sign_in(kim, "kim")
        await sign_in(lee, "lee")
        await is_sound(lee)
        await pictured(kim, "queue")
        await kim.keyboard.press("n")
        assert await kim.evaluate("document.activeElement.textContent") == "Take next case"
        await kim.keyboard.press("Enter")
        await kim.wait_for_url("**/cases/**")
        await is_at(kim, "Immigrants: the weeds in our garden.")
        await pictured(kim, "case")
        await is_sound(kim)
        # The other one gets the next, and is told of the first who has it.
        await lee.get_by_role("button", name="Take next case").click()
        await is_at(lee, "Good morning!")
        await is_sound(lee)
        await lee.goto(kim.url)
        assert "kim (operator) is reviewing this" in await lee.inner_text("main")
        await is_sound(lee)
        # Letters lead somewhere, and decide nothing.
        await kim.keyboard.press("c")
        assert await kim.evaluate("document.activeElement.value") == "NotHate"
        await kim.keyboard.press("Space")
        assert await kim.locator("[name=category]:checked").get_attribute("value") == "NotHate"
        await kim.keyboard.press("w")
        await kim.keyboard.type("a quotation, see the title")
        await kim.keyboard.press("Tab")
        assert await kim.evaluate("document.activeElement.value") == "change"
        await kim.keyboard.press("Enter")
        await kim.wait_for_url("**said=change**")
        await is_at(kim, "What a match!")
        await kim.keyboard.press("a")
        await kim.keyboard.press("Enter")
        await kim.wait_for_url("**/queue**")
        await kim.keyboard.press("?")
        await kim.wait_for_url("**/help")
        await is_sound(kim)
        await kim.get_by_label("Turn these keys off").check()
        await kim.goto("/desk/queue")
        await kim.keyboard.press("n")
        assert await kim.evaluate("document.activeElement.tagName") == "BODY"
        await kim.goto("/desk/search?text=weeds")
        assert "a quotation" not in await kim.inner_text("main")
        assert await kim.locator("[data-row]").count() == 1
        await is_sound(kim)
        decided = (await client.get("/v1/cases?category=NotHate&outcome=verdict")).json()["cases"]
        assert "a quotation, see the title" in [each["record"]["explanation"] for each in decided]


async def test_rows_are_ticked_by_key_and_with_shift_and_texts_shown_by_key(
    chromium: Browser, tmp_path: Path
) -> None:
    async with (
        listening(sqlite(tmp_path), **ALL, desk_undo=600.0) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
        browsing(chromium, url) as kim,
    ):
        for number, text in enumerate(
            ("Good morning!", "I like tea.", "It rains here.", "See you at the lake.")
        ):
            await post(client, text, post_id=f"post-{number}", language="en")
        await sign_in(kim, "kim")
        await kim.keyboard.press("j")
        await kim.keyboard.press("x")
        boxes = kim.locator("input[form=together]")
        await boxes.nth(2).click(modifiers=["Shift"])
        assert [await boxes.nth(number).is_checked() for number in range(4)] == [
            True,
            True,
            True,
            False,
        ]
        await is_sound(kim)
        await kim.keyboard.press("g")
        await kim.keyboard.press("Enter")
        await is_at(kim, "Good morning!")
        here = kim.url
        await kim.locator(
            "summary", has_text="2 other posts: tick those that get the same decision (2 ticked)"
        ).click()
        await is_sound(kim)
        await kim.goto(f"{url}/desk/help")
        await kim.get_by_role("button", name="Blur texts").click()
        await kim.goto(here)
        blur = "getComputedStyle(document.querySelector('.case-words')).filter"
        assert await kim.evaluate(blur) == "blur(6px)"
        await kim.keyboard.press("b")
        assert await kim.evaluate(blur) == "none"


async def test_a_number_and_enter_decide_and_an_edited_note_stays(
    chromium: Browser, tmp_path: Path
) -> None:
    async with (
        listening(sqlite(tmp_path), **ALL, desk_undo=600.0) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
        browsing(chromium, url) as kim,
    ):
        for number in (1, 2):
            await post(client, f"Good morning {number}!", post_id=f"post-{number}", language="en")
        await sign_in(kim, "kim")
        await kim.keyboard.press("n")
        await kim.keyboard.press("Enter")
        await is_at(kim, "Good morning 1!")
        await kim.keyboard.press("2")
        assert await kim.locator("[name=category]:checked").get_attribute("value") == "Racist"
        assert await kim.input_value("#note") == ""
        assert await kim.locator("#canned optgroup").evaluate_all(
            "all => all.map(each => each.label)"
        ) == ["Racist"]
        assert await kim.input_value("#canned") == "", "no reason is chosen for them"
        await kim.keyboard.press("w")
        await kim.keyboard.press("End")
        await kim.keyboard.type(" (see the thread)")
        await kim.keyboard.press("Escape")
        await kim.keyboard.press("3")
        assert (await kim.input_value("#note")).endswith(" (see the thread)"), (
            "what was edited stays"
        )
        await kim.keyboard.press("Enter")
        await is_at(kim, "Good morning 2!")
        await expect(kim.get_by_role("status")).to_contain_text("to Sexist")
        await is_sound(kim)


async def test_nothing_of_a_stranger_s_runs(chromium: Browser, tmp_path: Path) -> None:
    async with (
        listening(sqlite(tmp_path), **ALL) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
        browsing(chromium, url, viewport=NARROW) as page,
    ):
        case = await post(
            client, HOSTILE, post_id=HOSTILE[:190], earlier=[HOSTILE], image=a_picture()
        )
        claim = await client.post(
            f"/v1/cases/{case['id']}/claim", json={"reviewer": HOSTILE[:190], "seconds": 0.001}
        )
        assert claim.status_code == 200
        asked = {"action": "ask", "question": HOSTILE, "reviewer": HOSTILE[:190]}
        again = await client.post(f"/v1/cases/{case['id']}/decision?wait=60", json=asked)
        assert again.json()["outcome"] == "pending", again.text
        await sign_in(page, HOSTILE[:100])
        assert "<script>" in await page.inner_text("body")
        await is_sound(page)
        await page.get_by_role("button", name="Take next case").click()
        await page.wait_for_url("**/cases/**")
        await page.locator("#note").fill(HOSTILE)
        await page.get_by_text("Escalate, skip, ask").click()
        await page.get_by_role("button", name="Save note").click()
        await page.wait_for_url("**said=note**")
        assert (await page.inner_text("main")).count("<script>window.ran = 1</script>") >= 3
        await page.evaluate(
            "for (const each of document.querySelectorAll('details')) each.open = true"
        )
        await is_sound(page)
        image = page.locator(".ex-image img")
        size = "image => image.decode().then(() => [image.naturalWidth, image.naturalHeight])"
        await image.scroll_into_view_if_needed()
        assert await image.evaluate(size) == [320, 200]
        filters = [await image.evaluate("image => getComputedStyle(image).filter")]
        for _ in range(2):
            await page.keyboard.press("i")
            filters.append(await image.evaluate("image => getComputedStyle(image).filter"))
        assert ("blur" in filters[0], "grayscale" in filters[0]) == (True, True)
        assert ("blur" in filters[1], "grayscale" in filters[1]) == (False, True)
        assert filters[2] == filters[0]
        await page.goto(
            f"/desk/search?text={'%3Cscript%3E'}&category=%22%3E%3Cimg+src=x+onerror=ran=1%3E"
        )
        await is_sound(page)
        assert (
            await page.evaluate(
                "document.querySelectorAll('iframe, base, script:not([src])').length"
            )
            == 0
        )


async def test_without_the_script(chromium: Browser, tmp_path: Path) -> None:
    database = sqlite(tmp_path)
    async with (
        listening(database, **ALL) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        await post(client, "one", post_id="one")
        await post(client, "two", post_id="two")
        key = await key_of(database, "review")
        context = await chromium.new_context(base_url=url, java_script_enabled=False)
        page = await context.new_page()
        await sign_in(page, "kim", key)
        await page.get_by_role("button", name="Take next case").click()
        await is_at(page, "one")
        await page.locator(".categories label", has_text="Sexist").click()
        await page.get_by_label("Note").fill("harmless")
        await page.get_by_role("button", name="Decide").click()
        await is_at(page, "two")
        await page.get_by_text("Escalate, skip, ask").click()
        await page.get_by_role("button", name="Skip").click()
        await is_at(page, "Queue")
        await page.get_by_role("button", name="Sign out").click()
        await is_at(page, "Sign in")
        await context.close()


@pytest.mark.skipif(
    AXE is None, reason="there is no axe-core here; name its axe.min.js with TRIBUNAL_AXE"
)
async def test_axe_finds_nothing_serious(chromium: Browser, tmp_path: Path) -> None:
    async with (
        listening(sqlite(tmp_path), **ALL) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
        browsing(chromium, url, viewport=NARROW) as page,
    ):
        case = await post(
            client, "Immigrants: the weeds in our garden.", post_id="one", image=a_picture()
        )
        await post(client, "Good morning!", post_id="two")
        await sign_in(page, "kim")
        await page.get_by_role("button", name="Take next case").click()
        await is_at(page, "Immigrants: the weeds in our garden.")
        claimed = page.url
        await page.get_by_role("button", name="Decide").click()
        await expect(page.get_by_role("alert")).to_contain_text("choose a category")
        assert await axe_finds(page) == []
        paths = [
            "/sign-in",
            *(tab.path for tab in TABS),
            "/help",
            "/break",
            "/nowhere",
            f"/cases/{case['id']}",
        ]
        paths += ["/queue?reason=none&sort=newest", "/search?text=weeds", "/queue?surer=7"]
        for path in [claimed, *(f"/desk{each}" for each in paths)]:
            for scheme in SCHEMES:
                await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                await page.goto(path)
                assert await axe_finds(page) == [], (path, scheme)
