"""One thing for each event loop and key; and what blocks, on a thread of its own."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from tribunal.process.loops import PerLoop, run_in_thread, run_many


class Opened:
    """Something that counts how often it was made, and knows that it was closed."""

    made: list[Opened]

    def __init__(self, key: tuple[object, ...]) -> None:
        self.key, self.closed = key, False
        self.made.append(self)

    @classmethod
    async def open(cls, *key: object) -> Opened:
        await asyncio.sleep(0)
        return cls(key)

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed = True


@pytest.fixture
def opened() -> PerLoop[Opened]:
    Opened.made = []
    return PerLoop(Opened.open, Opened.close)


def test_each_loop_has_its_own_and_closes_it(opened: PerLoop[Opened]) -> None:
    async def use() -> None:
        assert await opened.get() is await opened.get()
        assert not Opened.made[-1].closed

    for _ in range(2):
        asyncio.run(use())
    assert [each.closed for each in Opened.made] == [True, True]


def test_each_key_has_its_own_and_is_what_it_is_made_of(opened: PerLoop[Opened]) -> None:
    async def use() -> None:
        one, other, none = await opened.get("a", 1), await opened.get("b", 1), await opened.get()
        assert [one.key, other.key, none.key] == [("a", 1), ("b", 1), ()]
        assert await opened.get("a", 1) is one

    asyncio.run(use())
    assert [each.closed for each in Opened.made] == [True] * 3


async def test_tasks_that_want_it_at_once_get_the_same(opened: PerLoop[Opened]) -> None:
    found = await asyncio.gather(*(opened.get("a") for _ in range(5)))
    assert [*map(id, found)] == [id(Opened.made[0])] * 5
    assert len(Opened.made) == 1


async def test_what_could_not_be_made_is_tried_again() -> None:
    tries = iter([OSError("not yet"), "made"])

    async def make() -> str:
        outcome = next(tries)
        if isinstance(outcome, OSError):
            raise outcome
        return str(outcome)

    things = PerLoop(make)
    with pytest.raises(OSError, match="not yet"):
        await things.get()
    assert await things.get() == "made"


async def test_what_blocks_holds_up_neither_the_loop_nor_its_own_timeout() -> None:
    release = threading.Event()
    assert await run_in_thread(lambda: 7, "test") == 7
    with pytest.raises(KeyError, match="x"):
        await run_in_thread(lambda: {"y": 1}["x"], "test")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await run_in_thread(release.wait, "test")
    release.set()


def test_what_makes_many_calls_runs_on_uvloop_and_closes_what_it_opened(
    opened: PerLoop[Opened],
) -> None:
    async def use() -> str:
        await opened.get()
        return type(asyncio.get_running_loop()).__module__

    assert run_many(use()) == ("asyncio.windows_events" if sys.platform == "win32" else "uvloop")
    assert [each.closed for each in Opened.made] == [True]


def test_what_it_raises_is_raised() -> None:
    async def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        run_many(fail())
