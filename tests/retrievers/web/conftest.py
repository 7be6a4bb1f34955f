"""A reader of pages with one process, and archives that are closed in the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from tribunal.retrievers.web.archive import Archive
from tribunal.retrievers.web.page_reader import PageReader


@pytest.fixture(scope="module")
def reader() -> Iterator[PageReader]:
    reader = PageReader(processes=1)
    yield reader
    reader.workers.close()


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., Awaitable[Archive]]]:
    """`Archive.open`."""
    held = []

    async def open_one(*arguments: Any, **named: Any) -> Archive:
        held.append(await Archive.open(*arguments, **named))
        return held[-1]

    yield open_one
    for each in held:
        await each.close()
