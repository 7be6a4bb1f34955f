"""The pages that are ours, in a real Chromium: nothing of a stranger's runs or loads, and they can be read anywhere.

It is the one that TRIBUNAL_CHROMIUM names, or that is found as `chromium`; without one these tests skip.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route
from typer.testing import CliRunner

import tribunal
from tests.browser.conftest import IN_CHROMIUM
from tests.result_lines import line, write_run
from tribunal.commands import app
from tribunal.schema import Evidence, Opinion, Record, Review, Step

HOSTILE = (
    "</p></article></details></script><script>window.ran = 1</script><img src=http://198.51.100.7/x onerror='ran = 1'>"
    "<svg onload=\"window.ran=1\"><style>@import 'http://198.51.100.7/s'</style><iframe src=javascript:parent.ran=1>"
    "<base href=http://198.51.100.7/><meta http-equiv=refresh content='0;url=http://198.51.100.7/'> ${ran=1} {{ran=1}} "
    "<a id=hidden>" + "Wwwwwwwwww" * 30
)
# Of every text on the page, the smallest contrast between it and what is behind it (WCAG 2.2, 1.4.3).
CONTRAST = """() => {
    const rgba = colour => {
        const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
        return colour.startsWith("color(") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
    };
    const over = (top, below) => below.map((each, at) => top[at] * top[3] + each * (1 - top[3]));
    const light = colour => {
        const [r, g, b] = colour.map(each => each / 255).map(
            each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = element => {
        const below = element.parentElement ? behind(element.parentElement) : [255, 255, 255];
        return over(rgba(getComputedStyle(element).backgroundColor), below);
    };
    const seen = element => element ? getComputedStyle(element).opacity * seen(element.parentElement) : 1;
    const found = [];
    for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
        if (!own || element.closest("svg") || !element.getClientRects().length) continue;
        const back = behind(element), [r, g, b, a] = rgba(getComputedStyle(element).color);
        const both = [light(over([r, g, b, a * seen(element)], back)), light(back)];
        found.push([(Math.max(...both) + 0.05) / (Math.min(...both) + 0.05), element.outerHTML.slice(0, 80)]);
    }
    return found.sort((x, y) => x[0] - y[0])[0];
}"""

pytestmark = IN_CHROMIUM


@asynccontextmanager
async def opened(chromium: Browser, file: Path) -> AsyncIterator[Page]:
    """A page of ours on a telephone, with every part unfolded. It has complained of nothing and asked nobody."""
    complaints: list[str] = []
    asked: list[str] = []

    async def nobody(route: Route) -> None:
        asked.append(route.request.url)
        await route.abort()

    page = await chromium.new_page(viewport={"width": 390, "height": 800})
    page.on("console", lambda said: complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    await page.route(lambda url: url != file.as_uri(), nobody)
    await page.goto(file.as_uri())
    await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    yield page
    ran, place = await page.evaluate("[window.ran ?? null, document.URL]")
    await page.close()
    assert (ran, place, complaints, asked) == (None, file.as_uri(), [], [])


async def hostile_record() -> Record:
    """A record with these words wherever a stranger's can come to stand."""
    record = await tribunal.ajudge(
        "Immigrants: the weeds in our garden.", graph="multiround", rounds=1
    )
    cue = record.cues[0].model_copy(
        update={"claim": HOSTILE, "justification": HOSTILE, "target_group": HOSTILE}
    )
    turns = [
        turn.model_copy(update={"text": HOSTILE, "cues": (cue,)}) for turn in record.transcript
    ]
    passage = Evidence.model_validate(Evidence.of("G1", HOSTILE, "supports", HOSTILE, HOSTILE))
    opinion = Opinion(
        id=HOSTILE, title=HOSTILE, language="en", stance="hate", label_name=HOSTILE, reason=HOSTILE
    )
    review = Review(
        reason=HOSTILE, court={"category": HOSTILE}, action="edit", reviewer=HOSTILE, at=HOSTILE
    )
    said = {
        "post_id": HOSTILE, "category": HOSTILE, "explanation": HOSTILE, "warnings": (HOSTILE,), "cues": (cue,),
        "transcript": tuple(turns), "evidence": (passage,), "opinions": (opinion,), "review": review,
        "steps": (Step(claim=HOSTILE, evidence=("G1",)),),
    }  # fmt: skip
    return record.model_copy(update=said)


def in_a_notebook(record: Record, folder: Path) -> Path:
    """What a notebook has of a record, on a page of its own in the reader's colours."""
    head = (
        '<!doctype html><meta charset="utf-8"><meta '
        'name="viewport" content="width=device-width"><title>A case</title>'
    )
    style = "color-scheme: light dark; background: Canvas; color: CanvasText"
    page = folder / "case.html"
    page.write_text(f'{head}<body style="{style}">{record._repr_html_()}</body>', "utf-8")
    return page


def report(folder: Path, words: str) -> Path:
    """What `tribunal report` writes of a run into whose every field these words have come."""
    turn: dict[str, Any] = {
        "id": "t", "seat": "prosecutor", "stage": "indictment", "round": 1, "cues": [], "stance": words, "text": words,
        "arguments": [{"cue_id": words, "stance": "refute", "claim": words, "argument": words}],
    }  # fmt: skip
    found = {"id": "E1", "stance": "supports", "url": words, "passage": words}
    held: dict[str, Any] = {
        "text": words, "explanation": words, "warnings": [words], "transcript": [turn], "evidence": [found],
        "opinions": [{"id": words, "stance": "hate", "label_name": words, "reason": words}], "confidence": 0.9,
        "fields": {"target": words, "difficulty": "Hard"},
    }  # fmt: skip
    lines = [line(f"{words} {number}", 1, number % 2, **held) for number in range(4)]
    run = write_run(
        folder / "run", lines, settings={"base_url": words}, graph="arcade", dataset=words
    )
    done = CliRunner().invoke(app, ["report", str(run), "--out", str(folder / "out")])
    assert done.exit_code == 0, done.output
    return folder / "out" / "report.html"


async def is_read(page: Page, words: str) -> None:
    """What is said stands there to be read, no wider than the window, and in enough contrast by day and by night."""
    assert words in await page.inner_text("body")
    wide, window = await page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
    assert wide <= window
    schemes: tuple[Any, ...] = ("light", "dark")
    for scheme in schemes:
        await page.emulate_media(color_scheme=scheme)
        contrast, element = await page.evaluate(CONTRAST)
        assert contrast >= 4.5, (scheme, element)


async def test_a_case_in_a_notebook(chromium: Browser, tmp_path: Path) -> None:
    async with opened(chromium, in_a_notebook(await hostile_record(), tmp_path)) as page:
        await is_read(page, "<script>window.ran = 1</script>")
        assert (
            await page.evaluate(
                "document.querySelectorAll('script, img, svg, iframe, base, a').length"
            )
            == 0
        )


async def test_a_report(chromium: Browser, tmp_path: Path) -> None:
    async with opened(chromium, report(tmp_path, HOSTILE)) as page:
        await is_read(page, "<script>window.ran = 1</script>")
        assert (
            await page.evaluate("document.querySelectorAll('script, img, iframe, base').length")
            == 0
        )


async def test_what_runs_loads_or_can_t_be_read_would_be_found(
    chromium: Browser, tmp_path: Path
) -> None:
    page = tmp_path / "case.html"
    page.write_text(
        "<!doctype html><script>window.ran = 1</script><img src=http://198.51.100.7/x>", "utf-8"
    )
    with pytest.raises(AssertionError, match=r"51\.100\.7/x"):
        async with opened(chromium, page):
            pass
    page.write_text("<!doctype html><p style='color: gray; background: silver'>words", "utf-8")
    async with opened(chromium, page) as read:
        with pytest.raises(AssertionError, match="color: gray"):
            await is_read(read, "words")
