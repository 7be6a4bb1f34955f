"""`tribunal view` and samples.html in a real browser: at every width, by day and by night, by mouse and by keyboard."""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image
from playwright.async_api import Browser, Page, expect
from typer.testing import CliRunner

from tests.browser.conftest import IN_CHROMIUM
from tests.browser.test_own_pages import HOSTILE, is_read, opened
from tests.result_lines import line, write_run
from tribunal.commands import app

pytestmark = IN_CHROMIUM
WIDTHS = (390, 800, 1280)
ROWS = "tr[data-row]"


def runs_in(folder: Path) -> tuple[Path, Path, Path]:
    """Two runs over a data set with an image, and the data set; in one sample stand a stranger's words."""
    data = folder / "data"
    data.mkdir()
    (data / "posts.csv").write_text(
        "id,text,image\n" + "".join(f"p{number},The weeds {number},a.png\n" for number in range(60)), "utf-8"
    )
    Image.new("RGB", (300, 200), (200, 30, 30)).save(data / "a.png")
    held = {"name": "table", "split": "all", "files": ["posts.csv"]}
    held["sha256"] = hashlib.sha256((data / "posts.csv").read_bytes()).hexdigest()
    image: dict[str, Any] = {
        "image_sha256": hashlib.sha256((data / "a.png").read_bytes()).hexdigest(),
        "has_image": True,
    }
    made = []
    for name, step in (("one", 2), ("two", 3)):
        lines = [
            line(f"p{number}", number % 2, int(number % step > 0), confidence=number / 60, **image,
                 fields={"difficulty": ("Easy", "Hard")[number % 2], "target": f"group {number}"})
            for number in range(60)
        ]  # fmt: skip
        lines.append(line(HOSTILE, 1, 0, text=HOSTILE, explanation=HOSTILE, fields={"difficulty": HOSTILE}, track=None))
        made.append(write_run(folder / name, lines, dataset="table", data=held, settings={"base_url": HOSTILE}))
    return made[0], made[1], data


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    one, two, data = runs_in(tmp_path_factory.mktemp("view"))
    command = ["-m", "tribunal", "view", str(one), str(two), "--data", str(data)]
    server = await asyncio.create_subprocess_exec(sys.executable, *command, stderr=asyncio.subprocess.PIPE)
    assert server.stderr is not None
    yield (await server.stderr.readline()).decode().split()[1].rstrip("/")
    server.terminate()
    assert await server.wait() == 0


@asynccontextmanager
async def at(chromium: Browser, address: str, width: int = 1280) -> AsyncIterator[Page]:
    """A page that has complained of nothing, run nothing of a stranger's, and is no wider than the window."""
    said: list[str] = []
    page = await chromium.new_page(viewport={"width": width, "height": 900})
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    await page.goto(address)
    yield page
    wide, window, ran = await page.evaluate("[document.scrollingElement.scrollWidth, innerWidth, window.ran ?? null]")
    await page.close()
    assert wide <= window
    assert (ran, said) == (None, [])


@pytest.mark.parametrize(
    "width", [390, *(pytest.param(each, marks=pytest.mark.slow) for each in WIDTHS if each != 390)]
)
async def test_every_page_is_as_wide_as_the_window(chromium: Browser, address: str, width: int) -> None:
    for path in (
        "/",
        "/samples?run=one&read=yes",
        "/samples?run=one&sort=post&page=2&read=yes",
        "/pairs?run=one&with=two",
    ):
        async with at(chromium, address + path, width):
            pass
    async with at(chromium, f"{address}/pair?run=one&with=two&post=p1", width) as page:
        await is_read(page, "The weeds 1")
    async with at(chromium, f"{address}/samples?run=one", width) as page:
        await is_read(page, "true negative")
        if width < 1000:
            assert not await page.is_visible(".facets")
            await page.click("text=Filters")
        await page.click("nav.facets >> text=Hard")
        await page.wait_for_url("**difficulty=Hard**")
        assert await page.inner_text("#found") == "30 samples of 61"
        await page.fill("[name=words]", '"weeds 59"')
        await page.press("[name=words]", "Enter")
        await page.wait_for_url("**words=**")
        assert await page.inner_text("#found") == "1 sample of 61"
        await page.click("text=p59")
        await page.wait_for_url("**/sample?**")
        await is_read(page, "The weeds 59")


async def test_a_stranger_s_words_on_the_page_of_a_sample(chromium: Browser, address: str) -> None:
    async with at(chromium, f"{address}/samples?run=one&sort=confidence&page=2", 390) as page:
        await page.click(f"{ROWS} >> nth=-1 >> a")
        await page.wait_for_url("**/sample?**")
        await is_read(page, "<script>window.ran = 1</script>")
        assert await page.evaluate("document.querySelectorAll('iframe, base, object').length") == 0


async def test_an_image_is_fetched_when_it_is_asked_for(chromium: Browser, address: str) -> None:
    async with at(chromium, f"{address}/sample?run=one&post=p7") as page:
        fetched: list[str] = []
        page.on("request", lambda request: fetched.append(request.url))
        await page.wait_for_timeout(300)
        assert fetched == []
        assert not await page.is_visible(".ex-image img")
        await page.click("text=Show the image")
        await expect(page.locator(".ex-image img")).to_have_js_property("naturalWidth", 300)
        assert "blur(14px)" in await page.evaluate("getComputedStyle(document.querySelector('.ex-image img')).filter")
        assert len(fetched) == 1


async def test_by_keyboard_alone(chromium: Browser, address: str) -> None:
    async with at(chromium, f"{address}/samples?run=one&sort=post") as page:
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**post=p0&**")
        await page.keyboard.press("j")
        await page.wait_for_url("**post=p1&**")
        await page.keyboard.press("u")
        await page.wait_for_url("**/samples?**")
        for _ in range(4):
            await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.matches('a, input')")


async def test_all_samples_in_one_file(chromium: Browser, tmp_path: Path) -> None:
    one, two, _ = runs_in(tmp_path)
    done = CliRunner().invoke(app, ["report", str(one), str(two), "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    async with opened(chromium, tmp_path / "samples.html") as page:
        await page.wait_for_selector("body[data-ready]")
        assert await page.inner_text("#count") == "61 of 61 samples"
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            assert await page.evaluate("document.scrollingElement.scrollWidth") <= width
    page = await chromium.new_page()
    await page.goto((tmp_path / "samples.html").as_uri())
    await page.wait_for_selector("body[data-ready]")
    await page.click("nav.facets >> text=false negative")
    await expect(page.locator("#count")).to_have_text(re.compile(r"^1 "))
    await page.click("#table th a")
    await is_read(page, "<script>window.ran = 1</script>")
    assert await page.evaluate("window.ran ?? null") is None
    await page.click("text=Clear filters")
    await expect(page.locator("#count")).to_have_text(re.compile(r"^61 "))
    await page.fill("[name=words]", "p59")
    await expect(page.locator("#count")).to_have_text(re.compile(r"^1 "))
    await page.fill("[name=words]", "")
    await page.select_option("[name=with]", "1")
    # Answers of one: odd numbers; of two: those that three doesn't divide. They differ at 0 mod 6 + {2, 3, 4}.
    await expect(page.locator("#count")).to_have_text(re.compile(r"^30 "))
    await page.select_option("[name=pairs]", "first")
    await expect(page.locator("#table tbody tr")).to_have_count(30)
    await page.select_option("[name=sort]", "confidence")
    await page.select_option("[name=order]", "down")
    await expect(page.locator("#table tbody a").first).to_have_text("p58")
    await page.close()
