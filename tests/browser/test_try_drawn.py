"""`/try` in a real Chromium: a trial is drawn while it is told, by keyboard, stopped, and saved as one file.

With TRIBUNAL_UPDATE_DOCS=1 it takes the first picture of the README.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from PIL import Image
from playwright.async_api import Browser, Page, expect

from tests.browser.conftest import IN_CHROMIUM
from tests.browser.test_desk_pages import AXE, NARROW, SCHEMES, WIDE, axe_finds, browsing, is_sound
from tests.browser.test_own_pages import HOSTILE, opened
from tests.court import argument, court_script
from tests.doubles import Reply, ScriptedServer
from tests.service.live import deciding, key_of, listening, sqlite
from tests.test_docs import DOCS, UPDATE
from tribunal.core.calls import DEMO_NOTICE

WEEDS = "Immigrants: the weeds in our garden."
pytestmark = IN_CHROMIUM


async def take_picture(page: Page) -> None:
    """Take the README's picture, by day."""
    if UPDATE:
        await page.evaluate("scrollTo(0, 0)")
        small = Image.open(io.BytesIO(await page.screenshot())).convert(
            "P", palette=Image.Palette.ADAPTIVE, colors=64
        )
        small.save(DOCS / "pictures" / "try.png", optimize=True)


async def is_right(page: Page) -> None:
    """It can be read at both widths, and axe finds nothing serious where it is there."""
    for size in (NARROW, WIDE):
        await page.set_viewport_size(size)  # type: ignore[arg-type]
        await is_sound(page)
        for scheme in SCHEMES if AXE else ():
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert await axe_finds(page) == [], (size, scheme)
        await page.emulate_media(color_scheme="light")


@pytest.mark.long
async def test_a_trial_is_drawn_by_keyboard_and_saved(chromium: Browser, tmp_path: Path) -> None:
    async with listening(sqlite(tmp_path)) as url, browsing(chromium, url) as page:
        await page.goto("/try")
        await expect(page.get_by_text(DEMO_NOTICE)).to_be_visible()
        await is_right(page)
        await page.get_by_label("Text").focus()
        await page.keyboard.type(WEEDS)
        while await page.evaluate("document.activeElement.id") != "start":
            await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="HATE SPEECH")).to_be_focused(timeout=30_000)
        log = page.locator("#log")
        for part in (
            "Gatekeeper: rapid scan",
            "Round 1",
            "Prosecutor: investigation",
            "C1 refutes",
            "C1 presses",
        ):
            await expect(log).to_contain_text(part)
        await expect(log).to_contain_text("No cue is in dispute: stopped after round 2 of 3")
        await expect(page.locator("#post mark")).to_have_text(["Immigrants: the weeds1"])
        assert await page.locator("#calls").inner_text() == "6"
        await is_right(page)
        await take_picture(page)
        async with page.expect_download() as loading:
            await page.get_by_role("button", name="Save as an HTML page").press("Enter")
        download = await loading.value
        assert re.fullmatch(r"case-\w+\.html", download.suggested_filename)
        saved = tmp_path / "saved.html"
        await download.save_as(saved)
        async with opened(chromium, saved) as alone:
            assert await alone.locator("mark").first.inner_text() != ""
            assert "weeds" in await alone.inner_text("body")


@pytest.mark.long
async def test_agents_are_drawn_as_they_speak_and_stopped(
    chromium: Browser, tmp_path: Path
) -> None:
    """The page shows the first turn while the next agent is still asked; a stop ends the trial."""
    court = court_script(defence=Reply("", delay=60))
    async with (
        ScriptedServer(court) as server,
        deciding(server, sqlite(tmp_path)) as url,
        browsing(chromium, url) as page,
    ):
        await page.goto("/try")
        await page.get_by_label("Text").fill("a post with an implied-cue in it")
        await page.get_by_role("button", name="Try it").click()
        await expect(page.get_by_role("status").last).to_have_text(
            re.compile("Waiting for Defender"), timeout=30_000
        )
        await expect(page.locator("#log")).to_contain_text("Prosecutor: investigation")
        await expect(page.locator("#result")).to_be_hidden()
        await page.get_by_role("button", name="Stop").click()
        await expect(page.locator("#status")).to_have_text("Stopped. No further model is asked.")
        await expect(page.get_by_role("button", name="Try it")).to_be_focused()
        case = "fetch('/v1/cases').then(answer => answer.json()).then(told => told.cases[0].status)"
        await page.wait_for_function(f"async () => await {case} === 'cancelled'")


@pytest.mark.long
async def test_a_stranger_s_words_an_image_and_what_is_refused(
    chromium: Browser, tmp_path: Path
) -> None:
    database = sqlite(tmp_path)
    key = await key_of(database, "judge")
    picture = tmp_path / "post.png"
    raw = io.BytesIO()
    Image.new("RGB", (32, 20), "#d33").save(raw, "PNG")
    picture.write_bytes(raw.getvalue())
    markup = HOSTILE.partition("<a id=hidden>")[0]  # what repeats itself is taken for no answer
    defence = {"arguments": [argument(markup, "refute")]}
    court = court_script(defence=defence, judge={"category": "Religious", "explanation": markup})
    async with (
        ScriptedServer(court) as server,
        deciding(server, database) as url,
        browsing(chromium, url, viewport=NARROW) as page,
    ):
        await page.goto("/try")
        wrong = page.get_by_role("alert")
        await page.get_by_label("Text").fill(f"{HOSTILE[:80]} implied-cue")
        await page.get_by_role("button", name="Try it").click()
        await expect(wrong).to_contain_text("key")
        await expect(page.locator("#key")).to_be_focused()
        await page.locator("#key").fill(key)
        await page.get_by_label("Model").fill("openai:another")
        await page.keyboard.press("Enter")
        await expect(wrong).to_contain_text(
            "Model: 'openai:another': a client of this server may not set this"
        )
        await expect(wrong).to_contain_text("TRIBUNAL_ALLOW=model")
        await page.get_by_label("Model").fill("")
        await page.locator("#image").set_input_files(saved_note(tmp_path))
        await expect(wrong).to_contain_text("note.txt: is text/plain; choose a PNG, JPEG")
        await page.locator("#image").set_input_files(picture)
        await expect(page.get_by_alt_text("The image of the post")).to_be_visible()
        await page.get_by_role("button", name="Try it").click()
        await expect(page.locator("#result")).to_be_visible(timeout=30_000)
        assert "<script>window.ran = 1</script>" in await page.inner_text("#log")
        assert "<script>window.ran = 1</script>" in await page.inner_text("#post")
        assert (
            await page.locator(
                "main :is(#log, #post, #result) :is(script, img, iframe, svg)"
            ).count()
            == 0
        )
        await is_right(page)
        assert any(request.images for request in server.requests)


def saved_note(folder: Path) -> Path:
    """A file that is no image."""
    note = folder / "note.txt"
    note.write_text("hello", "utf-8")
    return note
