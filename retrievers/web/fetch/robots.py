"""A site's robots.txt: asked for, kept, and read by its rules (RFC 9309)."""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tribunal.retrievers.web.fetch import (
    USER_AGENT,
    FetchError,
    FetchFailed,
    FetchLimits,
    FetchRefused,
    HostLocks,
    NetworkClock,
)
from tribunal.retrievers.web.fetch.target import REDIRECTS, FetchTarget, follow_redirect

if TYPE_CHECKING:
    from tribunal.retrievers.web.fetch.wire import SiteAnswer


_TOKEN = USER_AGENT.partition("/")[0].lower()


class RobotsRules:
    """The rules of one robots.txt for us.

    Our own group if one names us, else the `*` group; the longest pattern that fits decides; on a tie, allow.
    Written here because the standard library's parser takes the first match and knows no wildcards, and `protego` (0.7
    too) takes time and memory that grow with agents × rules: 130 KB of hostile text keep it busy for 40 s.
    """

    def __init__(self, text: str) -> None:
        """Read the rules from the text of a robots.txt."""
        rules: dict[str, list[tuple[str, bool]]] = {"*": []}
        addressed: set[str] = set()
        naming = False
        for line in text.splitlines():
            field, _, value = (part.strip() for part in line.partition("#")[0].partition(":"))
            match field.lower():
                case "user-agent":
                    if not naming:
                        addressed = set()
                    naming = True
                    token = value if value == "*" else re.sub(r"[^A-Za-z_-].*", "", value).lower()
                    if token in ("*", _TOKEN):
                        addressed.add(token)
                        rules.setdefault(token, [])
                case "allow" | "disallow" as verb:
                    naming = False
                    for token in addressed if value else ():
                        rules[token].append((_normal_path(value), verb == "allow"))
        own_rules = rules.get(_TOKEN, rules["*"])
        self._rules = sorted(own_rules, key=lambda rule: (len(rule[0]), rule[1]), reverse=True)

    def allows_path(self, path: str) -> bool:
        """Return whether a path may be asked for."""
        path = _normal_path(path)
        return next(
            (allowed for pattern, allowed in self._rules if _pattern_fits(pattern, path)), True
        )


def _normal_path(path: str) -> str:
    """Return a path or pattern with its percent-encoding in one form: `%7E` and `~` are the same octet."""
    return re.sub(
        r"%([0-9a-fA-F]{2})",
        lambda m: (
            chr(int(m[1], 16)) if re.match(r"[A-Za-z0-9._~-]", chr(int(m[1], 16))) else m[0].upper()
        ),
        "".join(c if c.isascii() else "".join(f"%{byte:02X}" for byte in c.encode()) for c in path),
    )


def _pattern_fits(pattern: str, path: str) -> bool:
    """Return whether a pattern with `*` and a final `$` matches from the start of a path.

    Greedy, so linear in its parts.
    """
    anchored = pattern.endswith("$")
    first, *rest = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    if not rest:
        return not anchored or at == len(path)
    *middle, last = rest
    for part in middle:
        found = path.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    if anchored:
        return len(path) - len(last) >= at and path.endswith(last)
    return path.find(last, at) >= 0


_BYTES = 500 * 1024
_SITES = 512

OpenAnswer = Callable[[FetchTarget, NetworkClock], AbstractAsyncContextManager["SiteAnswer"]]
"""Asks for a URL, and gives the answer while it comes in. Raises `FetchError`."""


@dataclass(frozen=True, slots=True)
class _SiteRules:
    """The rules of a site's robots.txt; no rules means that it couldn't be read, which forbids everything."""

    expires: float
    rules: RobotsRules | None
    failure: FetchError | None = None


class RobotsCache:
    """The rules of sites' robots.txt for us.

    Args:
        open_answer: asks for one of them.
        limits: what asking for one may take.
    """

    def __init__(self, open_answer: OpenAnswer, limits: FetchLimits) -> None:
        """Make a cache that knows no site yet."""
        self._open_answer = open_answer
        self._limits = limits
        self._turns = HostLocks()
        self._sites: OrderedDict[str, _SiteRules] = OrderedDict()

    async def check_target(self, target: FetchTarget) -> None:
        """Ask the site, unless it was asked of late.

        Raises:
            FetchRefused: it says no, or can't be read; or its address or port is forbidden.
            FetchFailed: the host can't be reached: that is what the page's own reader wants to hear.
        """
        async with self._turns.lock_for(target.origin):
            site = self._sites.get(target.origin)
            if site is None or site.expires < time.monotonic():
                site = self._sites[target.origin] = await self._ask_site(target)
            self._sites.move_to_end(target.origin)
            while len(self._sites) > _SITES:
                self._sites.popitem(last=False)
        if site.failure is not None:
            raise FetchFailed(site.failure.reason, site.failure.why, target.url)
        if site.rules is None:
            raise FetchRefused(
                "robots", "its robots.txt can't be read, which counts as a no", target.url
            )
        if not site.rules.allows_path(target.path):
            raise FetchRefused("robots", "its robots.txt asks not to", target.url)

    async def _ask_site(self, page: FetchTarget) -> _SiteRules:
        clock = NetworkClock(self._limits.seconds)
        target = FetchTarget(page.scheme, page.host, page.port, "/robots.txt")
        hops = 0
        try:
            while hops <= 5:
                async with self._open_answer(target, clock) as answer:
                    hops += 1
                    if not answer.redirect:
                        return _SiteRules(
                            time.monotonic() + 86_400, await self._read_answer(answer)
                        )
                target = follow_redirect(target, answer.redirect)
        except FetchError as error:
            if not hops and error.reason in ("address", "port"):
                raise FetchRefused(error.reason, error.why, page.url) from error
            if not hops and error.reason in ("dns", "connect", "tls", "timeout"):
                return _SiteRules(time.monotonic() + 60, None, error)
        return _SiteRules(time.monotonic() + 300, None)

    async def _read_answer(self, answer: SiteAnswer) -> RobotsRules | None:
        if 400 <= answer.status < 500 or answer.status in REDIRECTS:
            return RobotsRules("")
        if answer.status >= 500 or answer.status < 200:
            return None
        body = bytearray()
        async with aclosing(answer.iter_body(self._limits.wire_bytes)) as read:
            async for piece in read:
                body += piece
                if len(body) >= _BYTES:
                    break
        # Half a megabyte of rules takes a while to sort.
        return await asyncio.to_thread(
            RobotsRules, body[:_BYTES].decode("utf-8-sig", errors="replace")
        )
