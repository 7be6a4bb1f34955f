"""samples.html in a real browser: every filter, order and count against runs worked out by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from typer.testing import CliRunner

from tests.browser.conftest import IN_CHROMIUM
from tests.browser.test_own_pages import HOSTILE, is_read, opened
from tests.result_lines import line, write_run
from tests.sample_lines import SAMPLES, sample
from tribunal.commands import app

pytestmark = IN_CHROMIUM
WIDTHS = (390, 800, 1280)
# post: the first run's answer, the second's.
GOLD: dict[str, int | None] = {"second": 0, "unlabelled": None}  # the others' is 1
ANSWERS: dict[str, tuple[int | str, int | str]] = {
    "same": (1, 1), "first": (1, 0), "second": (2, 0), "neither": (2, 3), "both-refused": ("refusal", "refusal"),
    "refused": ("refusal", 1), "unlabelled": (1, 0),
}  # fmt: skip


def report(folder: Path, *runs: Path) -> Path:
    done = CliRunner().invoke(app, ["report", *map(str, runs), "--out", str(folder)])
    assert done.exit_code == 0, done.output
    return folder / "samples.html"


async def load(chromium: Browser, file: Path) -> Page:
    page = await chromium.new_page()
    await page.goto(file.as_uri())
    await page.wait_for_selector("body[data-ready]")
    return page


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one_run(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Page:
    folder = tmp_path_factory.mktemp("one-run")
    run = write_run(folder / "one", SAMPLES)
    (run / "prices.json").write_text('{"openai:a": {"input": 1000, "output": 0}}', "utf-8")
    return await load(chromium, report(folder / "out", run))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two_runs(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Page:
    folder = tmp_path_factory.mktemp("two-runs")
    runs = []
    for number, name in enumerate(("one", "two")):
        lines = [
            sample(
                post,
                GOLD.get(post, 1),
                answers[number],
                confidence=0.1 * at or None,
                explanation=f"{name} on {post}",
            )
            for at, (post, answers) in enumerate(ANSWERS.items())
        ]
        if name == "two":
            lines = [*reversed(lines), sample("only-in-two", 1, 1)]
        runs.append(write_run(folder / name, lines))
    return await load(chromium, report(folder / "out", *runs))


async def listed(page: Page, query: str) -> list[str]:
    """The posts in the table, those of a later repeat with its number."""
    await page.evaluate(
        """async (query) => {
            document.getElementById("table").replaceChildren();
            location.hash = query;
            dispatchEvent(new HashChangeEvent("hashchange"));
        }""",
        query,
    )
    await page.wait_for_selector("#table table", state="attached")
    texts = await page.locator("#table tbody th").all_inner_texts()
    return [re.sub(r" repeat (\d)", r"\1", text.partition("\n")[0]).strip() for text in texts]


@pytest.mark.parametrize(
    ("query", "posts"),
    [
        ("", "a b c d e f g a1"),
        ("kind=false-positive", "c"),
        ("kind=false-negative", "d a1"),
        ("kind=other-category", "e"),
        ("kind=true-positive&kind=true-negative", "a b"),
        ("kind=no-verdict", "f"),
        ("kind=no-gold", "g"),
        ("outcome=refusal", "f"),
        ("fault=content_filter", "f"),
        ("gold=Racist", "a e f a1"),
        ("verdict=Racist", "a g"),
        ("uncertain=yes", "d"),
        ("track=dismissed", "b d"),
        ("pattern=A", "a c"),
        ("difficulty=Hard&difficulty=Easy&pattern=A", "a c"),
        ("functionality=slur", "a"),
        ("target=x", "a b"),
        ("target=y", "a"),
        ("language=ko", "e"),
        ("model=openai:b", "c"),
        ("repeat=1", "a1"),
        ("confidence_from=0.5&confidence_to=0.6", "e g"),
        ("calls_from=2", "c"),
        ("tokens_from=101", "b"),
        ("seconds_from=3&seconds_to=5", "a b"),
        ("money_from=0.1", "b"),  # 490 tokens at 1000 a million; of c's model no price is known
        ("words=WEED", "a c"),
        ("words=weeds+women", "c"),
        ("words=nowhere", ""),
        ("sort=post", "a a1 b c d e f g"),
        ("sort=confidence", "d a1 g e c b a f"),
        ("sort=confidence&order=down", "a b c e g a1 d f"),
        ("sort=gold", "g b c a e f a1 d"),
        ("sort=kind", "a b c d a1 e f g"),
        ("sort=calls&order=down&difficulty=Hard", "c b e"),
        ("sort=tokens&order=down", "b a c d e f g a1"),
        ("sort=money&order=down", "b a d e f g a1 c"),
        ("order=down", "a1 g f e d c b a"),
        ("difficulty=none+is+called+so", ""),
        ("page=9", "a b c d e f g a1"),
    ],
)
async def test_filters_and_orders(one_run: Page, query: str, posts: str) -> None:
    assert await listed(one_run, query) == posts.split()


@pytest.mark.parametrize(
    ("query", "posts"),
    [
        ("", "first second neither refused unlabelled"),
        ("pairs=first", "first"),
        ("pairs=second", "second refused"),
        ("pairs=neither", "neither"),
        ("pairs=all", "same first second neither both-refused refused unlabelled"),
        ("sort=confidence&order=down", "unlabelled refused neither second first"),
        ("gold=Racist", "first neither refused"),
        ("words=two+on+first", "first"),
        ("kind=false-positive", "second"),
    ],
)
async def test_pairs_of_two_runs(two_runs: Page, query: str, posts: str) -> None:
    assert await listed(two_runs, f"with=1&{query}") == posts.split()


async def test_both_cases_of_a_pair(two_runs: Page) -> None:
    await listed(two_runs, "with=1&pairs=neither")
    assert await two_runs.locator("#table tbody td").nth(3).inner_text() == "neither"
    await two_runs.click("#table tbody a")
    await two_runs.locator("#case .case").nth(1).wait_for()  # they are unpacked meanwhile
    first, second = await two_runs.locator("#case .case").all_inner_texts()
    assert "one on neither" in first
    assert "two on neither" in second
    repeated = (
        "[...document.querySelectorAll('[id]')].map((each) => "
        "each.id).filter((id, at, all) => all.indexOf(id) < at)"
    )
    assert await two_runs.evaluate(repeated) == []


async def test_counts_ignore_their_own_filter(one_run: Page) -> None:
    async def counts(facet: str, query: str) -> dict[str, str]:
        await listed(one_run, query)
        box = one_run.locator("#facets > details").filter(
            has=one_run.locator(f"summary:text-is('{facet}')")
        )
        names, numbers = [
            await box.locator(f".{each}").all_text_contents() for each in ("value", "count")
        ]
        return dict(zip(names, numbers, strict=True))

    assert await counts("Against the gold", "") == {
        "true positive": "1", "true negative": "1", "false positive": "1", "false negative": "2",
        "right side, other category": "1", "no verdict": "1", "no gold label": "1",
    }  # fmt: skip
    assert await counts("Difficulty", "difficulty=Hard") == {"Hard": "3", "Easy": "2"}
    assert await counts("Track", "words=weeds") == {"fast_track": "1", "deep_dive": "1"}


async def test_by_mouse_and_keyboard_at_every_width(chromium: Browser, tmp_path: Path) -> None:
    lines = [
        line(f"p{number:02}", number % 2, number % 3 % 2, confidence=number / 60)
        for number in range(60)
    ]
    lines.append(
        line(
            HOSTILE,
            1,
            0,
            text=HOSTILE,
            explanation=HOSTILE,
            fields={"difficulty": HOSTILE},
            track=None,
        )
    )
    file = report(tmp_path, write_run(tmp_path / "run", lines))
    async with opened(chromium, file) as page:
        await page.wait_for_selector("body[data-ready]")
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            assert await page.evaluate("document.scrollingElement.scrollWidth") <= width
    page = await load(chromium, file)
    assert await page.locator("#table tbody tr").count() == 50
    await page.click("text=Next page")
    await expect(page.locator("#table tbody tr")).to_have_count(11)
    await page.check("[name=read]")
    await is_read(page, "<script>window.ran = 1</script>")
    await page.click("#table tbody tr:last-child a")
    await expect(page.locator("#case .case")).to_have_count(1)
    assert await page.evaluate("window.ran ?? null") is None
    assert await page.evaluate("document.querySelectorAll('iframe, base, object, img').length") == 0
    assert await page.evaluate("document.activeElement.textContent") == "Close"
    await page.keyboard.press("Enter")
    await expect(page.locator("#case .case")).to_have_count(0)
    await page.fill("[name=words]", "p59")
    await expect(page.locator("#count")).to_have_text(re.compile(r"^1 of 61"))
    await page.click("text=Clear filters")
    await expect(page.locator("#count")).to_have_text(re.compile(r"^61 of 61"))
    await page.select_option("[name=sort]", "confidence")
    await page.select_option("[name=order]", "down")
    await expect(page.locator("#table tbody a").first).to_have_text("p59")
    await page.close()
