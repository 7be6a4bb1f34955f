"""Explanations in a real browser: whatever words stand in one, none runs, loads or hides; by day, by night, narrow."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from playwright.async_api import Browser

from tests.browser.conftest import IN_CHROMIUM
from tests.browser.test_own_pages import HOSTILE, hostile_record, is_read, opened
from tribunal.exhibit import Box
from tribunal.explanations.case_drawing import draw_fragment, draw_page, stylesheet
from tribunal.explanations.case_view import AuthorLetter
from tribunal.explanations.view_maker import CaseAtHand
from tribunal.review.explain import view_with_image
from tribunal.schema import Appealed, Precedent, Trial

pytestmark = IN_CHROMIUM
SEEN = "document.querySelector('.ex-image img')"


async def hostile_case(folder: Path) -> CaseAtHand:
    """A case with these words wherever a stranger's can come to stand, and an image with a marked part."""
    record = await hostile_record()
    cue = record.cues[0].model_copy(update={"box": Box(x0=0.1, y0=0.2, x1=0.6, y1=0.7)})
    trial = Trial(
        id="1", question=HOSTILE, reviewer=HOSTILE, at=HOSTILE, outcome={"category": HOSTILE, "explanation": HOSTILE},
        cues=record.cues, transcript=record.transcript,
    )  # fmt: skip
    appeal = Appealed(
        id="a", kind="appeal", at=HOSTILE, appellant=HOSTILE, reason=HOSTILE, context=HOSTILE,
        before={"category": HOSTILE}, decided_by=HOSTILE, trial=trial, result="upheld", reviewer=HOSTILE,
        decided=HOSTILE, note=HOSTILE,
    )  # fmt: skip
    precedent = Precedent(
        id="P1", case=HOSTILE, text=HOSTILE, category=HOSTILE, here=None, hateful=True, how="changed", note=HOSTILE,
        at=HOSTILE, policy=HOSTILE, same_policy=False, similarity=0.5, cited_by=(HOSTILE,),
    )  # fmt: skip
    said = {
        "cues": (cue,), "trials": (trial,), "appeals": (appeal,), "precedents": (precedent,), "language": HOSTILE,
        "policy": {"name": HOSTILE, "sha": HOSTILE}, "prompts": {"name": HOSTILE, "sha": HOSTILE},
        "debate": ({"id": "1", HOSTILE: HOSTILE},),
    }  # fmt: skip
    picture = folder / "a.png"
    Image.new("RGB", (300, 200), (200, 30, 30)).save(picture)
    post = {"text": f"{cue.claim} and more", "image": str(picture), "earlier": [HOSTILE]}
    return CaseAtHand(record.model_copy(update=said), post, decided_at=HOSTILE, case=HOSTILE)


async def test_an_explanation(chromium: Browser, tmp_path: Path) -> None:
    made, file = await view_with_image(await hostile_case(tmp_path)), tmp_path / "a.html"
    file.write_text(draw_page(made), "utf-8")
    async with opened(chromium, file) as read:
        await is_read(read, "<script>window.ran = 1</script>")
        assert (
            await read.evaluate(
                "document.querySelectorAll('script, iframe, base, object, form').length"
            )
            == 0
        )
        assert await read.evaluate("document.querySelectorAll('img').length") == 1
        outside = (
            "[...document.querySelectorAll('a')].filter(each "
            "=> !each.getAttribute('href').startsWith('#')).length"
        )
        assert await read.evaluate(outside) == 0, "an address that is none is no link"
        assert await read.evaluate("document.querySelectorAll('mark').length") >= 1


async def test_the_image_is_covered_until_it_is_asked_for(
    chromium: Browser, tmp_path: Path
) -> None:
    made, file = await view_with_image(await hostile_case(tmp_path)), tmp_path / "a.html"
    file.write_text(draw_page(made), "utf-8")
    read = await chromium.new_page(viewport={"width": 390, "height": 800})
    await read.goto(file.as_uri())
    assert not await read.is_visible(".ex-image img")
    await read.click("text=Show the image")
    assert await read.is_visible(".ex-image img")
    assert "blur(14px)" in await read.evaluate(f"getComputedStyle({SEEN}).filter")
    await read.check("text=sharp, in grey")
    assert await read.evaluate(f"getComputedStyle({SEEN}).filter") == "grayscale(1)"
    await read.check("text=in colour")
    assert await read.evaluate(f"getComputedStyle({SEEN}).filter") == "none"
    image = await read.evaluate(
        f"(({{x, y, width, height}}) => [x, y, width, height])({SEEN}.getBoundingClientRect())"
    )
    box = await read.evaluate(
        "(({x, y, width, height}) => [x, y, width, height])(document.querySelector('.ex-box').getBoundingClientRect())"
    )
    wanted = [image[0] + 0.1 * image[2], image[1] + 0.2 * image[3], 0.5 * image[2], 0.5 * image[3]]
    assert box == pytest.approx(wanted, abs=3), "the frame stands where the model saw the cue"
    await read.close()


async def test_in_a_page_of_others_under_a_strict_policy(chromium: Browser, tmp_path: Path) -> None:
    """The fragment has no style and no script of its own, so that a page which allows neither shows it whole."""
    made, file = await view_with_image(await hostile_case(tmp_path)), tmp_path / "b.html"
    (tmp_path / "own.css").write_text(stylesheet(), "utf-8")
    allowed = "default-src 'none'; img-src data:; style-src file:"
    head = f'<meta http-equiv="Content-Security-Policy" content="{allowed}"><link rel="stylesheet" href="own.css">'
    inside = draw_fragment(made)
    file.write_text(
        f"<!doctype html><meta charset=utf-8><title>x</title>{head}<body>{inside}", "utf-8"
    )
    read = await chromium.new_page()
    said: list[str] = []
    read.on("console", lambda message: said.append(message.text))
    await read.goto(file.as_uri())
    assert await read.evaluate("window.ran ?? null") is None
    assert not said
    assert (
        await read.evaluate("getComputedStyle(document.querySelector('.ex-chip')).borderRadius")
        != "0px"
    )
    await read.close()


async def test_for_the_person_who_posted(chromium: Browser, tmp_path: Path) -> None:
    made = AuthorLetter(
        outcome="verdict", hateful=True, language="en", title=HOSTILE, text=HOSTILE, post=HOSTILE, quoted=(HOSTILE,),
        rule=HOSTILE, source="fixed",
    )  # fmt: skip
    file = tmp_path / "a.html"
    file.write_text(draw_page(made), "utf-8")
    async with opened(chromium, file) as read:
        await is_read(read, "<script>window.ran = 1</script>")
        assert (
            await read.evaluate(
                "document.querySelectorAll('script, img, svg, iframe, base, a').length"
            )
            == 0
        )
