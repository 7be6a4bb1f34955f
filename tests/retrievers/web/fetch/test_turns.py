"""Test who waits for whom: one connection a host at a time, many hosts together, a loop that is never held up."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import AbstractAsyncContextManager

import pytest

from tests.retrievers.web.fetch.small_web import Web, ok, outcome
from tribunal.retrievers.web.fetch import FetchLimits, NetworkClock
from tribunal.retrievers.web.fetch.fetcher import Fetcher


async def test_one_connection_a_host_at_a_time(web: Web) -> None:
    async def unhurried(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        writer.write(ok())

    web.site.answers |= {f"/{i}": unhurried for i in range(4)}
    fetcher = web.fetcher()
    fetched = await asyncio.gather(
        *(outcome(fetcher.fetch(f"http://site.test/{i}")) for i in range(4))
    )
    assert set(fetched) == {"taken, 14 bytes"}
    assert web.site.most_open == 1
    assert not fetcher._turns, "a host's lock goes when nobody waits at it"


async def test_many_hosts_together(web: Web) -> None:
    all_here = asyncio.Barrier(4)

    async def together(writer: asyncio.StreamWriter) -> None:
        await all_here.wait()  # answers when all four are being asked, and never otherwise
        writer.write(ok())

    web.site.answers["/"] = together
    fetcher = web.fetcher()
    fetched = await asyncio.gather(
        *(outcome(fetcher.fetch(f"http://site{i}.test/")) for i in range(4))
    )
    assert set(fetched) == {"taken, 14 bytes"}


async def test_waiting_for_ones_turn_does_not_count_as_slowness(
    monkeypatch: pytest.MonkeyPatch, web: Web
) -> None:
    begun: list[NetworkClock] = []
    running = NetworkClock.count_time

    def counted(clock: NetworkClock) -> AbstractAsyncContextManager[None]:
        begun.append(clock)
        return running(clock)

    monkeypatch.setattr(NetworkClock, "count_time", counted)
    fetcher = web.fetcher()
    async with fetcher._turns.lock_for("site.test"):
        fetching = asyncio.create_task(outcome(fetcher.fetch("http://site.test/")))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not begun, "no second is counted before it is one's turn"
    assert await fetching == "taken, 14 bytes"
    assert len(begun) == 2, "robots.txt and the page have a clock each"


async def test_a_cancelled_fetch_lets_go_of_its_host(web: Web) -> None:
    async def nothing(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    web.site.answers["/never"] = nothing
    fetcher = web.fetcher()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(fetcher.fetch("http://site.test/never"), 0.3)
    assert await outcome(fetcher.fetch("http://site.test/")) == "taken, 14 bytes"
    while web.site.open > 1:  # the handler that still sleeps; its connection is gone
        await asyncio.sleep(0.01)


async def test_a_look_up_does_not_hold_the_loop(monkeypatch: pytest.MonkeyPatch, web: Web) -> None:
    release = threading.Event()
    ended = threading.Event()

    def hanging(*args: object, **kwargs: object) -> list[object]:
        release.wait(60)
        ended.set()
        raise socket.gaierror(-3, "try again")

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    fetcher = Fetcher(limits=FetchLimits(dns_seconds=0.2), route=web.route)
    assert await outcome(fetcher.fetch("http://slow.test/")) == "failed: dns"
    assert not ended.is_set(), "the fetch ends while the look-up hangs"
    release.set()
