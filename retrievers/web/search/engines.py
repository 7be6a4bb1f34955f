"""The engines of the project: DuckDuckGo through `ddgs`, SearXNG servers, the wrappers of `langchain-community`."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import re
import warnings
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import ValidationError

from tribunal.core.text import parse_json, scrub, wellformed
from tribunal.errors import BadInput
from tribunal.process.loops import PerLoop, run_in_thread
from tribunal.retrievers.web.fetch import USER_AGENT
from tribunal.retrievers.web.fetch.target import PORTS
from tribunal.retrievers.web.search.engine import (
    MAX_BYTES,
    MAX_ROWS,
    SECONDS,
    FailureKind,
    Hit,
    SearchFailed,
    clip_text,
    hits_from_rows,
    search_failure_from,
)

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response


class DuckDuckGo:
    """DuckDuckGo's page without scripts, through `ddgs`.

    The library says "No results found." where DuckDuckGo found nothing, and where it blocks us. A block must not pass
    as an answer, so both are a failure, and the next engine is asked.
    """

    name = "duckduckgo"

    def __init__(self, seconds: float = SECONDS) -> None:
        """Give each query so many seconds."""
        self._seconds = seconds

    async def search(self, query: str, k: int) -> list[Hit]:
        """Return DuckDuckGo's hits for a query."""
        found = await run_in_thread(lambda: self._ask(query), "tribunal-search")
        return hits_from_rows(
            query, self.name, ((each["href"], each["title"], each["body"]) for each in found), k
        )

    def _ask(self, query: str) -> list[dict[str, Any]]:
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException

        try:
            found: list[dict[str, Any]] = DDGS(timeout=math.ceil(self._seconds)).text(
                query, region="wt-wt", max_results=None, backend="duckduckgo"
            )
        except DDGSException as error:
            if "no results" in str(error).lower():
                raise SearchFailed(
                    "bad_answer", "nothing found, or it blocks us: ddgs doesn't say which"
                ) from error
            raise
        return found


class SearXNG:
    """A SearXNG server, by its JSON interface.

    The address is an operator's, so it may be on a private network. Redirects aren't followed, and nothing is read from
    the environment.

    Raises:
        BadInput: there is no address, or it is none.
    """

    name = "searxng"

    def __init__(self, url: str) -> None:
        """Take the base URL of a server, and check it."""
        try:
            parts = urlsplit(url.strip())
            bad = parts.scheme not in PORTS or not parts.hostname or parts.query or parts.port == 0
        except ValueError:
            bad = True
        if bad:
            shown = scrub(re.sub("//.*@", "//", url), ())[:200]
            given = (
                f"{shown!r} is not the http(s) address of a SearXNG server"
                if url
                else "no server is named"
            )
            raise BadInput(
                f"search: searxng: {given}; set SEARXNG_URL, such as http://localhost:8888"
            )
        path = parts.path.rstrip("/").removesuffix("/search")
        self._url = urlunsplit((parts.scheme, parts.netloc, f"{path}/search", "", ""))
        self._place = parts.netloc.rpartition("@")[2]

    async def search(self, query: str, k: int) -> list[Hit]:
        """Return the server's hits for a query."""
        from httpx2 import HTTPError, InvalidURL

        client = await _clients.get()
        params = {"q": wellformed(query), "format": "json"}
        try:
            async with client.stream("GET", self._url, params=params) as response:
                self._check_status(response)
                body = await self._read_body(response)
        except (HTTPError, InvalidURL) as error:
            raise self._failure("connection", str(error) or type(error).__name__) from error
        try:
            answer = parse_json(body)
        except ValueError as error:
            raise self._failure("bad_answer", "the answer is not JSON") from error
        results = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list):
            raise self._failure("bad_answer", "the answer holds no list of results")
        silent = answer.get("unresponsive_engines")
        if not results and isinstance(silent, list) and silent:
            # Its own sources failed it: that is no proof that there is nothing to be found.
            silent_engines = clip_text(json.dumps(silent, ensure_ascii=False), 200)
            limited = re.search(r"too many|captcha|suspended|denied", silent_engines, re.IGNORECASE)
            kind: FailureKind = "rate_limit" if limited else "server"
            raise self._failure(kind, f"its engines did not answer: {silent_engines}")
        rows = (
            (each.get("url"), each.get("title"), each.get("content"))
            for each in results
            if isinstance(each, dict)
        )
        # All of its one page of results, which it sends whatever is wanted: so the chain can say how many are left out.
        return hits_from_rows(query, self.name, rows, MAX_ROWS)

    def _failure(
        self, kind: FailureKind, why: str, retry_after: float | None = None
    ) -> SearchFailed:
        return SearchFailed(kind, f"{self._place}: {why}", retry_after=retry_after)

    def _check_status(self, response: Response) -> None:
        status = response.status_code
        if status == 200:
            return
        if status == 429:
            seconds = response.headers.get("retry-after", "")
            rest = float(seconds) if re.fullmatch(r"\d{1,6}", seconds) else None
            raise self._failure("rate_limit", "too many requests", rest)
        if status == 403:
            raise self._failure(
                "refused",
                "HTTP 403: its JSON format is switched off, as it is by default; add `json` to "
                "`search: formats:` in the server's settings.yml, or name another server",
            )
        if 300 <= status < 400:
            to = response.headers.get("location", "")[:200]
            raise self._failure("bad_answer", f"redirects to {to}; give the address itself")
        raise self._failure("server" if status >= 500 else "refused", f"HTTP {status}")

    async def _read_body(self, response: Response) -> bytes:
        # It was asked not to pack; what is packed nevertheless could be of any size once unpacked.
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise self._failure("bad_answer", "packed, though it was asked not to")
        received = bytearray()
        async for piece in response.aiter_raw():
            received += piece
            if len(received) > MAX_BYTES:
                raise self._failure("bad_answer", f"the answer is over {MAX_BYTES} bytes")
        return bytes(received)


async def _open_client() -> AsyncClient:
    from httpx2 import AsyncClient

    from tribunal.retrievers.web.fetch.wire import trusted_authorities

    return AsyncClient(
        verify=await asyncio.to_thread(trusted_authorities),
        timeout=None,  # the chain keeps the time
        trust_env=False,
        follow_redirects=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        headers={
            "User-Agent": USER_AGENT,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        },
    )


_clients: PerLoop[AsyncClient] = PerLoop(_open_client, lambda client: client.aclose())


class LangChainEngine:
    """A search wrapper of `langchain-community`, by the name of its class; it finds its keys in the environment.

    One that `langchain_community.utilities` doesn't export goes by its module: `tavily_search.TavilySearchAPIWrapper`.

    Raises:
        BadInput: the extra isn't installed, it has no such wrapper, or the wrapper lacks a key or a package.
    """

    def __init__(self, wrapper: str) -> None:
        """Make the wrapper of this class name."""
        self.name = f"langchain:{wrapper}"
        self._wrapper = _make_wrapper(wrapper)
        fields = vars(self._wrapper).items()
        secrets = [
            getattr(value, "get_secret_value", lambda value=value: value)()
            for name, value in fields
            if _SECRET(name)
        ]
        self._secrets = [value for value in secrets if isinstance(value, str)]

    async def search(self, query: str, k: int) -> list[Hit]:
        """Return the wrapper's hits for a query."""
        try:
            answer = await run_in_thread(
                lambda: _ask_wrapper(self._wrapper, query, k), "tribunal-search"
            )
        except Exception as error:
            raise search_failure_from(error, self._secrets) from error
        return hits_from_rows(query, self.name, rows_from_answer(answer), k)


_SECRET = re.compile(r"key|token|secret|password", re.IGNORECASE).search


def _make_wrapper(name: str) -> Any:
    if find_spec("langchain_community") is None:
        raise BadInput(
            f"search: langchain:{name}: langchain-community is not installed; it comes with the extra `community`: "
            "pip install 'tribunal-court[community]'"
        )
    # Its utilities hold more than search, and some of them run what they are given.
    if not re.fullmatch(r"(?:\w+\.)?\w*(?:Search|Serp)\w*", name):
        raise BadInput(
            f"search: langchain:{name}: not a search wrapper; give a class such as BraveSearchWrapper"
        )
    try:
        # It announces its retirement whenever it is imported; the README says so once.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module, _, class_name = f"langchain_community.utilities.{name}".rpartition(".")
            return getattr(import_module(module), class_name)()
    except AttributeError as error:
        raise BadInput(
            f"search: langchain:{name}: langchain_community.utilities has no such wrapper"
        ) from error
    except (ImportError, ValueError, TypeError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise BadInput(
            f"search: langchain:{name}: can't be set up: {clip_text(scrub(why, ()), 300)}"
        ) from error


def _ask_wrapper(wrapper: Any, query: str, k: int) -> Any:
    """Return what a wrapper answers; they agree on names, and on little else."""
    results = getattr(wrapper, "results", None)
    if results is None:
        return wrapper.run(query)
    takes = inspect.signature(results).parameters
    many = next((name for name in ("max_results", "num_results") if name in takes), None)
    return results(query, **({many: k} if many else {}))


def rows_from_answer(answer: Any) -> list[tuple[Any, Any, Any]]:
    """Return rows of (url, title, snippet) from a list, a mapping that holds one, or either as JSON.

    Raises:
        SearchFailed: it is none of these.
    """
    if isinstance(answer, str):
        try:
            answer = parse_json(answer[:MAX_BYTES])
        except ValueError as error:
            raise SearchFailed(
                "bad_answer", "the wrapper answered in prose, without addresses"
            ) from error
    if isinstance(answer, Mapping):
        answer = next(
            (answer[name] for name in ("organic", "organic_results", "results") if name in answer),
            [],
        )
    if not isinstance(answer, list):
        raise SearchFailed(
            "bad_answer", f"the wrapper answered a {type(answer).__name__}, not a list of results"
        )
    return [_row_from_result(each) for each in answer[:MAX_ROWS]]


def _row_from_result(each: Any) -> tuple[Any, Any, Any]:
    fields = each if isinstance(each, Mapping) else {**getattr(each, "metadata", {})}
    text = getattr(each, "page_content", None)
    return (
        _first_field(fields, "link", "url", "href", "source"),
        fields.get("title"),
        text or _first_field(fields, "snippet", "content", "body", "description", "summary"),
    )


def _first_field(fields: Mapping[Any, Any], *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name)), None)
