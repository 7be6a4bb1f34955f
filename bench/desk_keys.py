"""The desk by keyboard alone: key presses, page loads and seconds of the machine per case, in a Chromium.

Nobody reads here: what a person needs to read a post and to think comes on top of the seconds.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import time
from typing import TYPE_CHECKING

import httpx

from bench.service import replica
from bench.table import table
from tribunal.core.calls import REHEARSAL
from tribunal.process.terminal import say

if TYPE_CHECKING:
    from playwright.sync_api import Page

_WHO = (
    "My neighbour",
    "Our teacher",
    "The baker",
    "A friend of mine",
    "The whole choir",
    "My sister",
    "Their team",
)
_DID = ("found", "painted", "repaired", "photographed", "forgot", "borrowed", "praised", "lost")
_WHAT = (
    "an old bicycle",
    "two umbrellas",
    "the garden gate",
    "a map of the lake",
    "some apples",
    "the piano",
)
_WHEN = (
    "before breakfast",
    "on a rainy Tuesday",
    "at the station",
    "during the concert",
    "in the snow",
    "last summer",
)
_NUMBERS = "123456"  # of the categories of the policy h-vli
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


def desk_keys(quick: bool) -> None:
    """Print what it takes to decide cases at the desk, each by the number of its category and Enter."""
    number = 5 if quick else 50
    say(f"### The desk by keyboard: {number} cases, each by a number and Enter\n", lines=True)
    chromium = os.environ.get("TRIBUNAL_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        say("There is no Chromium here; name one with TRIBUNAL_CHROMIUM.\n", lines=True)
        return
    from playwright.sync_api import sync_playwright

    with (
        replica(graph="tribunal", model=REHEARSAL, review="true", review_rule="all") as at,
        sync_playwright() as playwright,
    ):
        _send_posts(at.url, number)
        browser = playwright.chromium.launch(executable_path=chromium, args=_ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{at.url}/desk")
        page.get_by_label("Your name").fill("kim")
        page.get_by_role("button", name="I understand").click()
        page.wait_for_url("**/desk/queue")
        counts = _KeyCounts(page)
        counts.press("n", "Enter")
        start = len(counts.keys), len(counts.loads)
        measured = [_decide_case(counts, each % len(_NUMBERS)) for each in range(number)]
        if page.locator("[data-row]").count() or "/desk/queue" not in page.url:
            raise RuntimeError(f"not every case was decided: {page.url}")
        browser.close()
    rows = []
    for name, values, form in (
        ("key presses", [keys for keys, _, _ in measured], "{:.0f}"),
        ("page loads", [loads for _, loads, _ in measured], "{:.0f}"),
        ("seconds of the machine", [seconds for _, _, seconds in measured], "{:.2f}"),
    ):
        rows.append(
            (
                name,
                *(
                    form.format(each)
                    for each in (min(values), statistics.median(values), max(values))
                ),
            )
        )
    table(("per case", "least", "median", "most"), rows)
    say(
        f"Before the first case: {start[0]} key presses and {start[1]} page load, to take it from the queue.\n",
        lines=True,
    )


class _KeyCounts:
    """Presses keys on a page, and keeps which were pressed and which pages were loaded."""

    def __init__(self, page: Page) -> None:
        self.page, self.keys, self.loads = page, list[str](), list[str]()
        page.on("load", lambda loaded: self.loads.append(loaded.url))

    def press(self, *keys: str) -> None:
        """Press keys; the last one sends a form, and the page that it leads to has loaded when this returns."""
        self.keys += keys
        for key in keys[:-1]:
            self.page.keyboard.press(key)
        with self.page.expect_navigation(wait_until="load"):
            self.page.keyboard.press(keys[-1])


def _decide_case(counts: _KeyCounts, category: int) -> tuple[int, int, float]:
    """Decide the case on the page; return the key presses, the page loads and the seconds until the next is there."""
    keys, loads, began = len(counts.keys), len(counts.loads), time.perf_counter()
    counts.press(_NUMBERS[category], "Enter")
    return len(counts.keys) - keys, len(counts.loads) - loads, time.perf_counter() - began


def _send_posts(url: str, number: int) -> None:
    """Send mild posts, no two with the same words, and wait until each waits for a person."""
    chance, texts = random.Random(7), dict[str, None]()
    while len(texts) < number:
        texts[" ".join(chance.choice(each) for each in (_WHO, _DID, _WHAT, _WHEN)) + "."] = None
    with httpx.Client(base_url=url, timeout=120) as client:
        for text in texts:
            answer = client.post("/v1/judge?wait=60", json={"text": text, "language": "en"}).json()
            if answer.get("outcome") != "pending":
                raise RuntimeError(f"it does not wait for a person: {answer}")
