"""From a host to the addresses that may be connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address

from tribunal.retrievers.web.fetch.addresses import forbidden
from tribunal.retrievers.web.fetch.errors import FetchFailed, FetchRefused
from tribunal.retrievers.web.fetch.target import Target

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""A name and a port in, every address of it out. Raises `OSError` when there is none."""


class SystemResolver:
    """`getaddrinfo` on threads of its own, so that names that hang hold up nothing but other names."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="tribunal-dns")

    async def __call__(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        return [str(sockaddr[0]) for *_, sockaddr in await loop.run_in_executor(self._threads, ask)]


async def checked_addresses(target: Target, resolver: Resolver, seconds: float, *, lifted: bool) -> list[str]:
    """Every address of a host, all of them checked: one that is forbidden spoils the lot.

    Args:
        target: whose host is meant; a name is looked up once.
        resolver: looks it up.
        seconds: how long that may take.
        lifted: an operator allows this place, wherever it is.

    Raises:
        FetchRefused: an address is forbidden.
        FetchFailed: there is none.
    """
    found: Sequence[str]
    if target.address is not None:
        found = [str(target.address)]
    else:
        try:
            async with asyncio.timeout(seconds):
                found = await resolver(target.host, target.port)
        except TimeoutError as error:
            raise FetchFailed("dns", f"{target.host} was not resolved in time", target.url) from error
        except (OSError, UnicodeError) as error:
            raise FetchFailed("dns", f"{target.host} has no address ({error})", target.url) from error
        if not found:
            raise FetchFailed("dns", f"{target.host} has no address", target.url)
    for text in () if lifted else found:
        if use := forbidden(ip_address(text)):
            raise FetchRefused("address", f"{target.host} is at {text}: {use}", target.url)
    return list(dict.fromkeys(found))
