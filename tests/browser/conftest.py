"""One Chromium for each file of these tests, and the marks that all of them have.

It is the one that TRIBUNAL_CHROMIUM names, or that is found as `chromium`; without one these tests skip.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

CHROMIUM = os.environ.get("TRIBUNAL_CHROMIUM") or shutil.which("chromium")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
IN_CHROMIUM = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no Chromium here; name one with TRIBUNAL_CHROMIUM"
    ),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("browser"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        yield await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
