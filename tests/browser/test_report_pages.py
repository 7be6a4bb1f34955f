"""A report of four runs in a real Chromium: on a telephone, a tablet, a desk, on paper, by day and by night."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page
from typer.testing import CliRunner

from tests.browser.conftest import IN_CHROMIUM
from tests.browser.test_own_pages import CONTRAST
from tests.result_lines import line, write_run
from tribunal.commands import app
from tribunal.eval.report import write_report

pytestmark = IN_CHROMIUM
HIGHEST = 12_000  # pixels of a report on four runs at a telephone's width, as docs/measures.md says
# Words and figures that stand on several lines. Those of more than 40 letters may; of 24 in the name of a row or a run.
BROKEN = r"""() => {
    const found = [], range = document.createRange();
    for (const cell of document.querySelectorAll("td, th, h1, h2, h3, summary, figcaption, dt")) {
        if (!cell.checkVisibility()) continue;
        const longest = cell.matches("th:first-child, h2, :has(> h2)") ? 24 : 40;
        const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        for (let node = walker.nextNode(); node; node = walker.nextNode()) {
            for (const word of node.data.matchAll(/\S+/g)) {
                range.setStart(node, word.index);
                range.setEnd(node, word.index + word[0].length);
                const boxes = [...range.getClientRects()].filter(each => each.width);
                const lines = new Set(boxes.map(each => Math.round(each.top)));
                if (lines.size > 1 && word[0].length <= longest) found.push([cell.tagName, word[0]]);
            }
        }
    }
    return found;
}"""
# What reaches beyond the window and doesn't lie in a box that scrolls.
WIDE = """() => [...document.querySelectorAll("body *")].filter(each => {
    const box = each.getBoundingClientRect(), boxed = each.parentElement.closest(".scroll");
    return box.width && !boxed && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map(each => each.outerHTML.slice(0, 80))"""
# Tables that scroll, though there is room for them, or that can't be scrolled to.
SCROLLED = """() => [...document.querySelectorAll(".scroll")].filter(each => each.scrollWidth > each.clientWidth + 1)
    .map(each => [each.ariaLabel, getComputedStyle(each).overflowX, each.tabIndex])"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on four runs over 50 posts, with long names, large numbers, refusals and confidence."""
    folder = tmp_path_factory.mktemp("report")
    folders = [
        write_run(folder / f"{graph}-judged-by-{model}", lines(model, right), graph=graph, data={"split": "train"})
        for graph, model, right in (
            ("arcade", "gpt-4o-2024", 44), ("arcade", "gpt-4o-mini", 35), ("multiround", "gemini-2.5-pro-preview", 41),
            ("baseline", "qwen3-vl-235b-a22b", 30),
        )
    ]  # fmt: skip
    (folder / "prices.toml").write_text('["openai:aux-model"]\ninput = 0.15\noutput = 0.6\n')
    done = CliRunner().invoke(
        app,
        [
            "report",
            *map(str, folders),
            "--out",
            str(folder),
            "--prices",
            str(folder / "prices.toml"),
        ],
    )
    assert done.exit_code == 0, done.output
    return folder / "report.html"


def lines(model: str, right: int) -> Iterator[dict[str, Any]]:
    for number in range(50):
        gold = number % 6
        answer: int | str = (
            gold if number < right else "refusal" if number == 49 else (gold + 1) % 6
        )
        calls = [
            {"model": f"openrouter:vendor/{model}", "seat": "judge", "served": f"{model}-2026-01-01",
             "prompt_tokens": 15_000, "completion_tokens": 372},
            {"model": "openai:aux-model", "seat": "prosecutor", "prompt_tokens": 1_234_567, "completion_tokens": 8},
        ]  # fmt: skip
        fields = {
            "difficulty": ("Easy", "Normal", "Hard")[number % 3], "smi_pattern": f"{number % 8:03b}",
            "functionality": f"counter-speech_{number % 12}/quotation", "target": ["immigrants/refugees", "women"],
        }  # fmt: skip
        yield line(
            f"set/post-{number:05}.jpg", gold, answer, calls=calls, fields=fields, confidence=0.5 + (number % 50) / 100,
            usage={"calls": 2, "prompt_tokens": 1_249_567, "completion_tokens": 380}, text="What was posted.",
        )  # fmt: skip


async def opened(chromium: Browser, report: Path, width: int) -> Page:
    page = await chromium.new_page(viewport={"width": width, "height": 800})
    await page.goto(report.as_uri())
    return page


@pytest.mark.parametrize("width", [390, pytest.param(800, marks=pytest.mark.slow), 1280])
async def test_no_word_or_figure_breaks_and_nothing_is_cut_off(
    chromium: Browser, report: Path, width: int
) -> None:
    page = await opened(chromium, report, width)
    if width == 390:
        assert await page.evaluate("document.documentElement.scrollHeight") < HIGHEST
    for _ in range(2):  # as it opens, and with every part unfolded
        assert await page.evaluate(BROKEN) == []
        assert await page.evaluate(WIDE) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        assert all(how == ["auto", 0] for _, *how in await page.evaluate(SCROLLED))
        await page.evaluate(
            "for (const each of document.querySelectorAll('details')) each.open = true"
        )
    await page.close()


async def test_a_wide_table_scrolls_beside_the_names_of_its_rows(
    chromium: Browser, report: Path
) -> None:
    page = await opened(chromium, report, 390)
    box = page.get_by_role("group", name="All runs")
    name = box.get_by_role("rowheader").first
    before = await name.bounding_box()
    await box.evaluate("each => each.scrollLeft = 600")
    assert await box.evaluate("each => each.scrollLeft") == 600
    after = await name.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(before["x"] - after["x"]) < 1, "the first column stays"
    assert after["width"] < 390 / 2
    await page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_plots_and_shades_are_read_by_day_and_by_night(
    chromium: Browser, report: Path, scheme: Any
) -> None:
    page = await opened(chromium, report, 1280)
    await page.emulate_media(color_scheme=scheme)
    await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    contrast, element = await page.evaluate(CONTRAST)
    assert contrast >= 4.5, element
    plots = page.locator("svg.plot")
    # The answer; fronts by three costs and two scores, and two of each functionality; confidence of each run and
    # functionality.
    assert await plots.count() == 1 + 3 * 2 + 12 * 2 + 4 * (2 + 12 * 2)
    for number in range(await plots.count()):
        told = await plots.nth(number).evaluate(
            "each => [...each.children].slice(0, 2).map(part => part.textContent)"
        )
        assert all(told), "a title, and a description of what is drawn"
    outside = """() => [...document.querySelectorAll("svg.plot text, svg.plot rect, svg.plot circle")].filter(each => {
        const own = each.getBoundingClientRect(), box = each.ownerSVGElement.getBoundingClientRect();
        const beside = own.left < box.left - 1 || own.right > box.right + 1;
        return beside || own.top < box.top - 1 || own.bottom > box.bottom + 1;
    }).map(each => each.outerHTML)"""
    assert await page.evaluate(outside) == []
    await page.close()


async def test_on_paper_tables_are_whole_figures_unfolded_and_posts_still_covered(
    chromium: Browser, report: Path
) -> None:
    # what A4 in landscape leaves between margins of 12 mm
    page = await opened(chromium, report, 1032)
    await page.emulate_media(media="print", color_scheme="dark")
    assert (
        await page.evaluate("getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert await page.evaluate(WIDE) == []
    cut = "[...document.querySelectorAll('table')].filter(each => each.getBoundingClientRect().right > innerWidth + 1)"
    assert await page.evaluate(f"{cut}.map(each => each.textContent.slice(0, 80))") == []
    assert await page.locator("details.figures table").count() > 20
    seen = "[...document.querySelectorAll('{}')].map(each => each.checkVisibility())"
    assert all(await page.evaluate(seen.format("details.figures table")))
    assert not any(await page.evaluate(seen.format("details.post")))
    await page.close()


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 800)])
async def test_the_answer_and_its_picture_are_in_the_first_screen(
    chromium: Browser, tmp_path: Path, width: int, height: int
) -> None:
    runs = [write_run(tmp_path / f"{right}-right", lines("gpt-4o", right)) for right in (44, 30)]
    page = await opened(chromium, write_report(runs, tmp_path)[0], width)
    box = await page.locator("figure.answer svg").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < height
    labels = await page.locator("figure.answer svg text").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().toJSON())"
    )
    overlaps = [
        (one, other)
        for one, other in combinations(labels, 2)
        if min(one["right"], other["right"]) > max(one["left"], other["left"]) + 1
        and min(one["bottom"], other["bottom"]) > max(one["top"], other["top"]) + 1
    ]
    assert overlaps == []
    assert await page.locator("figure.table:visible").count() == 1, (
        "everything after the first table is folded"
    )
    await page.close()
