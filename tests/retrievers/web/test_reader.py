"""Reading pages in processes that can be ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tribunal.retrievers.web.page_reader import PageReader, PageUnreadable


async def test_a_picture_is_not_read(reader: PageReader) -> None:
    with pytest.raises(PageUnreadable) as caught:
        await reader.read_page(b"\x89PNG", "image/png")
    assert caught.value.reason == "content_type"


def big_page(megabytes: int) -> bytes:
    paragraph = (
        "<p>"
        + "Some words that make a paragraph of a page that is far too long to be read. " * 12
        + "</p>\n"
    )
    return f"<html><body><article>{paragraph * (megabytes * 2**20 // len(paragraph))}</article></body></html>".encode()


@pytest.mark.long
async def test_a_page_that_takes_long_holds_up_neither_the_loop_nor_the_others() -> None:
    reader = PageReader(processes=2)
    try:
        await asyncio.gather(
            reader.read_page(b"warm", "text/plain"), reader.read_page(b"warm", "text/plain")
        )
        await _until(lambda: len(reader.workers._idle) == 2)
        os.kill(reader.workers._idle[-1].pid, signal.SIGSTOP)  # the one that is taken next
        long = asyncio.create_task(reader.read_page(big_page(10), "text/html"))
        await _until(lambda: len(reader.workers._idle) == 1)
        for _ in range(5):
            assert (await reader.read_page(b"small", "text/plain")).text == "small"
        assert not long.done()
        long.cancel()
    finally:
        reader.workers.close()


@pytest.mark.long
async def test_however_often_it_is_warmed_no_more_processes_are_started() -> None:
    reader = PageReader(processes=2)
    try:
        for _ in range(3):
            reader.workers.warm_up()
        await _until(lambda: len(reader.workers._idle) == 2)
        for _ in range(3):
            reader.workers.warm_up()
        assert (await reader.read_page(b"a page", "text/plain")).text == "a page"
        assert len(reader.workers._all) == 2
    finally:
        reader.workers.close()


async def test_a_text_is_cut_at_a_million_characters(reader: PageReader) -> None:
    text = await reader.read_page(b"word " * 300_000, "text/plain")
    assert (len(text.text), text.truncated) == (1_000_000, True)


@pytest.mark.long
async def test_a_page_that_takes_too_long_is_given_up_and_the_next_one_read() -> None:
    reader = PageReader(processes=1, seconds=0.01)
    try:
        reader.workers.warm_up()
        await _until(lambda: bool(reader.workers._idle))
        os.kill(reader.workers._idle[0].pid, signal.SIGSTOP)
        with pytest.raises(PageUnreadable) as caught:
            await reader.read_page(b"a page", "text/plain")
        assert caught.value.reason == "timeout"
        assert (await reader.read_page(b"next", "text/plain")).text == "next"
    finally:
        reader.workers.close()


async def _until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.01)


@pytest.mark.long
async def test_a_page_that_crashes_its_reader_and_the_next_one_read() -> None:
    reader = PageReader(processes=1)
    try:
        reader.workers.warm_up()
        await _until(lambda: bool(reader.workers._idle))
        (worker,) = reader.workers._all
        os.kill(worker.pid, signal.SIGSTOP)
        reading = asyncio.create_task(reader.read_page(big_page(4), "text/html"))
        await _until(lambda: not reader.workers._idle)
        worker.kill()
        with pytest.raises(PageUnreadable) as caught:
            await reading
        assert caught.value.reason == "crashed"
        assert (await reader.read_page(b"next", "text/plain")).text == "next"
        (worker,) = reader.workers._all
        worker.kill()
        await _until(lambda: worker.ended)
        assert (await reader.read_page(b"after that", "text/plain")).text == "after that"
    finally:
        reader.workers.close()


@pytest.mark.long
async def test_memory_has_a_limit() -> None:
    reader = PageReader(processes=1, memory=2**29)
    try:
        with pytest.raises(PageUnreadable):
            await reader.read_page(b"a" * 2**28, "text/plain")
        assert (await reader.read_page(b"next", "text/plain")).text == "next"
    finally:
        reader.workers.close()


def _environment(pid: int) -> str:
    """Return the environment of a process, where the system shows it."""
    shown = Path(f"/proc/{pid}/environ")
    return shown.read_text() if shown.exists() else ""


async def test_the_reading_processes_know_no_keys_and_end_with_their_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-something")
    reader = PageReader(processes=1)
    reader.workers.warm_up()
    await reader.read_page(b"x", "text/plain")
    (worker,) = reader.workers._all
    assert "sk-something" not in _environment(worker.pid)
    reader.workers.close()
    assert worker.ended
    assert not reader.workers._all


async def test_modules_in_the_working_folder_are_not_run(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    reader = PageReader(processes=1)
    try:
        assert (await reader.read_page(b"x", "text/plain")).text == "x"
    finally:
        reader.workers.close()
    assert not (tmp_path / "ran").exists()
