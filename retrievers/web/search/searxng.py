"""A SearXNG server, by its JSON interface."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from tribunal.errors import BadInput
from tribunal.loops import PerLoop
from tribunal.parsed import from_json
from tribunal.retrievers.web.fetch import USER_AGENT
from tribunal.retrievers.web.fetch.target import PORTS
from tribunal.retrievers.web.search.engine import MAX_BYTES, SearchFailed
from tribunal.retrievers.web.search.hits import MAX_ROWS, Hit, hits_of, words
from tribunal.scrub import scrub
from tribunal.text import wellformed

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession


class SearXNG:
    """A SearXNG server, by its JSON interface.

    The address is an operator's, so it may be on a private network. Redirects aren't followed, and nothing is read from
    the environment.

    Raises:
        BadInput: there is no address, or it is none.
    """

    name = "searxng"

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url.strip())
            bad = parts.scheme not in PORTS or not parts.hostname or parts.query or parts.port == 0
        except ValueError:
            bad = True
        if bad:
            shown = scrub(re.sub("//.*@", "//", url), ())[:200]
            given = f"{shown!r} is not the http(s) address of a SearXNG server" if url else "no server is named"
            raise BadInput(f"search: searxng: {given}; set SEARXNG_URL, such as http://localhost:8888")
        path = parts.path.rstrip("/").removesuffix("/search")
        self._url = urlunsplit((parts.scheme, parts.netloc, f"{path}/search", "", ""))
        self._place = parts.netloc.rpartition("@")[2]

    async def search(self, query: str, k: int) -> list[Hit]:
        from aiohttp import ClientError

        session = await _sessions.here()
        asked = {"q": wellformed(query), "format": "json"}
        try:
            async with session.get(self._url, params=asked, allow_redirects=False) as response:
                self._check(response)
                body = await self._body(response)
        except TimeoutError as error:
            raise SearchFailed("timeout", f"{self._place}: no answer in time") from error
        except ClientError as error:
            said = str(error) or type(error).__name__
            raise SearchFailed("connection", f"{self._place}: {said}") from error
        return self._read(query, body)

    def _check(self, response: ClientResponse) -> None:
        status = response.status
        if status == 200:
            return
        if status == 429:
            raise SearchFailed("rate_limit", f"{self._place}: too many requests", retry_after=_retry_after(response))
        if status == 403:
            raise SearchFailed(
                "refused",
                f"{self._place}: HTTP 403: its JSON format is switched off, as it is by default; add `json` to "
                "`search: formats:` in the server's settings.yml, or name another server",
            )
        if 300 <= status < 400:
            to = response.headers.get("location", "")[:200]
            raise SearchFailed("bad_answer", f"{self._place}: redirects to {to}; give the address itself")
        raise SearchFailed("server" if status >= 500 else "refused", f"{self._place}: HTTP {status}")

    async def _body(self, response: ClientResponse) -> bytes:
        # It was asked not to pack; what is packed nevertheless could be of any size once unpacked.
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise SearchFailed("bad_answer", f"{self._place}: packed, though it was asked not to")
        held = bytearray()
        async for piece in response.content.iter_any():
            held += piece
            if len(held) > MAX_BYTES:
                raise SearchFailed("bad_answer", f"{self._place}: the answer is over {MAX_BYTES} bytes")
        return bytes(held)

    def _read(self, query: str, body: bytes) -> list[Hit]:
        try:
            answer = from_json(body)
        except ValueError as error:
            raise SearchFailed("bad_answer", f"{self._place}: the answer is not JSON") from error
        results = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list):
            raise SearchFailed("bad_answer", f"{self._place}: the answer holds no list of results")
        rows = ((each.get("url"), each.get("title"), each.get("content")) for each in results if isinstance(each, dict))
        # All of its one page of results, which it sends whatever is wanted: so the chain can say how many are left out.
        hits = hits_of(query, self.name, rows, MAX_ROWS)
        silent = answer.get("unresponsive_engines")
        if not results and isinstance(silent, list) and silent:
            # Its own sources failed it: that is no proof that there is nothing to be found.
            said = words(json.dumps(silent, ensure_ascii=False), 200)
            limited = re.search(r"too many|captcha|suspended|denied", said, re.IGNORECASE)
            raise SearchFailed(
                "rate_limit" if limited else "server", f"{self._place}: its engines did not answer: {said}"
            )
        return hits


def _retry_after(response: ClientResponse) -> float | None:
    said = response.headers.get("retry-after", "")
    return float(said) if re.fullmatch(r"\d{1,6}", said) else None


async def _open_session() -> ClientSession:
    from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

    from tribunal.retrievers.web.fetch.wire import trusted_authorities

    return ClientSession(
        connector=TCPConnector(ssl=await asyncio.to_thread(trusted_authorities)),
        timeout=ClientTimeout(total=None, sock_connect=None),  # the chain keeps the time
        trust_env=False,
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        headers={"User-Agent": USER_AGENT, "Accept": "application/json", "Accept-Encoding": "identity"},
    )


async def _close_session(session: ClientSession) -> None:
    await session.close()


_sessions = PerLoop(_open_session, _close_session)
