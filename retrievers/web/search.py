"""Search engines by name, and chains of them.

| name | what it is |
|---|---|
| `duckduckgo` | DuckDuckGo, through `ddgs`; no key |
| `searxng` | a SearXNG server of your own or another's, by its JSON interface (`SEARXNG_URL`) |
| `langchain:NAME` | a search wrapper of `langchain-community` (the extra `community`), such as `BraveSearchWrapper` |
| `none` | finds nothing |

In a chain an engine that is rate limited or fails hands over to the next one, and the answer says who found it and who
failed. That nothing was found is an answer like any other.

What engines send is a stranger's word: sizes are bounded, types checked, and whatever is no web address is dropped.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import random
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from pydantic import Field, ValidationError

from tribunal.context import setting
from tribunal.errors import BadInput, TribunalError
from tribunal.loops import PerLoop
from tribunal.models.diagnosis import diagnose, scrub
from tribunal.retrievers.web.addresses import MAX_URL, PORTS
from tribunal.schema import Frozen
from tribunal.text import wellformed

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
FaultKind = Literal["rate_limit", "timeout", "connection", "server", "refused", "bad_answer"]

SECONDS = 15.0
MAX_BYTES = 4 * 2**20
MAX_TITLE = 300
MAX_SNIPPET = 2000
MAX_ROWS = 1000
NAMES = "duckduckgo, searxng, langchain:NAME, none"


class Hit(Frozen):
    """One result. `rank` counts from 1, as the engine put them."""

    query: str
    url: str
    title: str
    snippet: str
    engine: str
    rank: int


class EngineFault(Frozen):
    """Why an engine of a chain gave no answer."""

    engine: str
    kind: FaultKind
    message: str


class Found(Frozen):
    """What a chain gave for a query. `engine` is the one that answered, be it with nothing; None where all failed."""

    query: str
    hits: tuple[Hit, ...] = ()
    engine: str | None = None
    failures: tuple[EngineFault, ...] = Field(default=(), description="of the engines asked before, in order")


class SearchFailed(TribunalError):
    """An engine could not answer; `retry_after` in seconds, where it said so."""

    def __init__(self, kind: FaultKind, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind, self.retry_after = kind, retry_after


class Engine(Protocol):
    """What finds pages by a query."""

    @property
    def name(self) -> str:
        """What a record calls it."""

    async def search(self, query: str, k: int) -> list[Hit]:
        """At most k hits, the best first; an empty list where it knows none.

        Raises:
            SearchFailed: it could not answer.
        """


# Chains


def search_chain(
    names: Sequence[str] | str,
    *,
    searxng_url: str | None = None,
    seconds: float = SECONDS,
    spacing: Mapping[str, float] | None = None,
) -> Chain:
    """The chain of these engines.

    Args:
        names: in the order in which they are asked; one string separates them by commas.
        searxng_url: the base URL of the SearXNG server; left out: `SEARXNG_URL`, for which a file is read.
        seconds: how long one engine may take for a query.
        spacing: least seconds between two requests to an engine, by its name; left out: 1 for DuckDuckGo, else 0.

    Raises:
        BadInput: a name is unknown, or its engine lacks something: an address, an extra, a key.
    """
    wanted = names.split(",") if isinstance(names, str) else list(names)
    wanted = list(dict.fromkeys(name.strip() for name in wanted if name.strip()))
    if not wanted:
        raise BadInput(f"search: no engine is named; give one or several of {NAMES}")
    return Chain([_engine(name, searxng_url, seconds) for name in wanted], seconds=seconds, spacing=spacing)


def _engine(name: str, searxng_url: str | None, seconds: float) -> Engine:
    if name == "duckduckgo":
        return DuckDuckGo(seconds)
    if name == "searxng":
        return SearXNG(searxng_url or setting("SEARXNG_URL") or "")
    if name == "none":
        return Nothing()
    kind, _, wrapper = name.partition(":")
    if kind == "langchain" and wrapper:
        return LangChain(wrapper, seconds)
    raise BadInput(f"search: {name!r}: not a search engine; give one or several of {NAMES}, separated by commas")


class Chain:
    """Engines that are asked in turn until one answers.

    Any number of searches may be under way at once; requests to one engine keep their distance from each other,
    whichever chain of the event loop they come from.
    """

    def __init__(
        self, engines: Sequence[Engine], *, seconds: float = SECONDS, spacing: Mapping[str, float] | None = None
    ) -> None:
        self.engines = tuple(engines)
        self._seconds = seconds
        self._spacing = dict(spacing or {})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(engine.name for engine in self.engines)

    async def search(self, query: str, k: int = 10) -> Found:
        """At most k hits from the first engine that answers. Raises nothing for an engine that fails."""
        faults: list[EngineFault] = []
        for engine in self.engines:
            try:
                hits = await self._ask(engine, query, k)
            except SearchFailed as error:
                faults.append(EngineFault(engine=engine.name, kind=error.kind, message=scrub(str(error), ())[:400]))
            else:
                return Found(query=query, hits=tuple(hits[:k]), engine=engine.name, failures=tuple(faults))
        return Found(query=query, failures=tuple(faults))

    async def _ask(self, engine: Engine, query: str, k: int) -> list[Hit]:
        pace = _paces.setdefault(asyncio.get_running_loop(), {}).setdefault(engine.name, _Pace())
        spacing = self._spacing.get(engine.name, 1.0 if "duckduckgo" in engine.name.lower() else 0.0)
        await pace.turn(spacing)
        try:
            async with asyncio.timeout(self._seconds):
                return await engine.search(query, k)
        except TimeoutError as error:
            raise SearchFailed("timeout", f"no answer in {self._seconds:g} s") from error
        except SearchFailed as error:
            if error.kind == "rate_limit":
                # To go on asking makes a block longer.
                pace.rest(10 * spacing if error.retry_after is None else error.retry_after)
            raise


class _Pace:
    """When an engine may be asked next."""

    LONGEST_REST = 120.0

    def __init__(self) -> None:
        self._next = self._rests_until = 0.0

    async def turn(self, spacing: float) -> None:
        """Wait until it may be asked. Raises SearchFailed where it was told to leave off for a while."""
        self._check()
        now = time.monotonic()
        at = max(now, self._next)
        # Requests at even intervals look like what they are.
        self._next = at + spacing * random.uniform(1.0, 1.5)
        if at > now:
            await asyncio.sleep(at - now)
            self._check()

    def rest(self, seconds: float) -> None:
        self._rests_until = time.monotonic() + min(seconds, self.LONGEST_REST)

    def _check(self) -> None:
        left = self._rests_until - time.monotonic()
        if left > 0:
            raise SearchFailed("rate_limit", f"not asked: it limited an earlier query, and rests for {left:.0f} s more")


_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Pace]] = WeakKeyDictionary()


# From what an engine sent to hits


_TRACKING = re.compile(r"(?:utm_[^=]*|fbclid|gclid|msclkid)(?:=.*)?", re.IGNORECASE)


def normal_url(url: str) -> str:
    """The form in which two spellings of one page are the same: for telling them apart, and fit to be fetched.

    Scheme and host are in lower case; the scheme's own port, the fragment, tracking parameters and a path's last slash
    are left out. What can't be read as a web address comes back as it is, stripped. Never raises.
    """
    text = wellformed(url).strip()
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return text
    scheme = parts.scheme.lower()
    if scheme not in PORTS or not parts.hostname:
        return text
    user, at, place = parts.netloc.rpartition("@")
    host = place.lower().removesuffix(f":{port}" if port == PORTS[scheme] else ":")
    query = "&".join(each for each in parts.query.split("&") if not _TRACKING.fullmatch(each))
    return urlunsplit((scheme, user + at + host, parts.path.rstrip("/") or "/", query, ""))


def _hits(query: str, engine: str, rows: Iterable[tuple[Any, Any, Any]], k: int) -> list[Hit]:
    """Hits from rows of (url, title, snippet), none of which need be what it should."""
    hits: list[Hit] = []
    seen: set[str] = set()
    for url, title, snippet in list(rows)[:MAX_ROWS]:
        if not _is_web(url) or (plain := normal_url(url)) in seen:
            continue
        seen.add(plain)
        hits.append(
            Hit(
                query=query,
                url=wellformed(url).strip(),
                title=_words(title, MAX_TITLE),
                snippet=_words(snippet, MAX_SNIPPET),
                engine=engine,
                rank=len(hits) + 1,
            )
        )
        if len(hits) == k:
            break
    return hits


def _is_web(url: Any) -> bool:
    if not isinstance(url, str) or len(url) > MAX_URL:
        return False
    # The fetcher refuses these too, since two readers understand them differently.
    if any(c.isspace() or not c.isprintable() for c in url.strip()):
        return False
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return False
    return parts.scheme.lower() in PORTS and bool(parts.hostname)


def _words(text: Any, most: int) -> str:
    # Cut before as well as after: a title of megabytes isn't worth splitting.
    return " ".join(wellformed(text[: 4 * most]).split())[:most] if isinstance(text, str) else ""


# Engines


class Nothing:
    """Finds nothing, and asks nobody."""

    name = "none"

    async def search(self, query: str, k: int) -> list[Hit]:
        return []


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
        import httpx

        client = await _clients.here()
        asked = {"q": query, "format": "json"}
        try:
            async with client.stream("GET", self._url, params=asked) as response:
                self._check(response)
                body = await self._body(response)
        except httpx.TimeoutException as error:
            raise SearchFailed("timeout", f"{self._place}: no answer in time") from error
        except httpx.HTTPError as error:
            raise SearchFailed("connection", f"{self._place}: {error or type(error).__name__}") from error
        return self._read(query, body, k)

    def _check(self, response: httpx.Response) -> None:
        status = response.status_code
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
        if response.is_redirect:
            to = response.headers.get("location", "")[:200]
            raise SearchFailed("bad_answer", f"{self._place}: redirects to {to}; give the address itself")
        raise SearchFailed("server" if status >= 500 else "refused", f"{self._place}: HTTP {status}")

    async def _body(self, response: httpx.Response) -> bytes:
        # It was asked not to pack; what is packed nevertheless could be of any size once unpacked.
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise SearchFailed("bad_answer", f"{self._place}: packed, though it was asked not to")
        held = bytearray()
        async for piece in response.aiter_raw():
            held += piece
            if len(held) > MAX_BYTES:
                raise SearchFailed("bad_answer", f"{self._place}: the answer is over {MAX_BYTES} bytes")
        return bytes(held)

    def _read(self, query: str, body: bytes, k: int) -> list[Hit]:
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise SearchFailed("bad_answer", f"{self._place}: the answer is not JSON") from error
        results = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list):
            raise SearchFailed("bad_answer", f"{self._place}: the answer holds no list of results")
        rows = ((each.get("url"), each.get("title"), each.get("content")) for each in results if isinstance(each, dict))
        hits = _hits(query, self.name, rows, k)
        silent = answer.get("unresponsive_engines")
        if not results and isinstance(silent, list) and silent:
            # Its own sources failed it: that is no proof that there is nothing to be found.
            said = _words(json.dumps(silent, ensure_ascii=False), 200)
            limited = re.search(r"too many|captcha|suspended|denied", said, re.IGNORECASE)
            raise SearchFailed(
                "rate_limit" if limited else "server", f"{self._place}: its engines did not answer: {said}"
            )
        return hits


def _retry_after(response: httpx.Response) -> float | None:
    said = response.headers.get("retry-after", "")
    return float(said) if re.fullmatch(r"\d{1,6}", said) else None


class DuckDuckGo:
    """DuckDuckGo's page without scripts, through `ddgs`."""

    name = "duckduckgo"

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds

    async def search(self, query: str, k: int) -> list[Hit]:
        found = await _aside(lambda: _ask_duckduckgo(query, self._seconds), ())
        return _hits(query, self.name, ((each.href, each.title, each.body) for each in found), k)


def _ask_duckduckgo(query: str, seconds: float) -> list[Any]:
    from ddgs.engines.duckduckgo import Duckduckgo
    from ddgs.exceptions import DDGSException, RatelimitException

    class FetchedPage(Duckduckgo):
        """The library takes every status but 200 for "no results", so a block would pass as an answer."""

        def request(self, *args: Any, **kwargs: Any) -> Any:
            answer = self.http_client.request(*args, **kwargs)
            if answer.status_code in (202, 403, 418, 429) or "anomaly-modal" in answer.text:
                raise RatelimitException(
                    f"HTTP {answer.status_code}: it takes us for a robot, and wants to be asked less"
                )
            if answer.status_code != 200:
                raise DDGSException(f"HTTP {answer.status_code}")
            return answer.text

    return FetchedPage(timeout=math.ceil(seconds)).search(query, region="wt-wt") or []


class LangChain:
    """A search wrapper of `langchain-community`, by the name of its class; it finds its keys in the environment.

    One that `langchain_community.utilities` doesn't export goes by its module: `tavily_search.TavilySearchAPIWrapper`.

    Raises:
        BadInput: the extra isn't installed, it has no such wrapper, or the wrapper lacks a key or a package.
    """

    def __init__(self, wrapper: str, seconds: float = SECONDS) -> None:
        self.name = f"langchain:{wrapper}"
        self._wrapper = _wrapper(wrapper)
        fields = vars(self._wrapper).items()
        held = [
            getattr(value, "get_secret_value", lambda value=value: value)() for name, value in fields if _SECRET(name)
        ]
        self._secrets = [value for value in held if isinstance(value, str)]

    async def search(self, query: str, k: int) -> list[Hit]:
        answer = await _aside(lambda: _ask_wrapper(self._wrapper, query, k), self._secrets)
        return _hits(query, self.name, _rows(answer), k)


_SECRET = re.compile(r"key|token|secret|password", re.IGNORECASE).search


def _wrapper(name: str) -> Any:
    if find_spec("langchain_community") is None:
        raise BadInput(
            f"search: langchain:{name}: langchain-community is not installed; it comes with the extra `community`: "
            "pip install 'tribunal[community]'"
        )
    # Its utilities hold more than search, and some of them run what they are given.
    if not re.fullmatch(r"(?:\w+\.)?\w*(?:Search|Serp)\w*", name):
        raise BadInput(f"search: langchain:{name}: not a search wrapper; give a class such as BraveSearchWrapper")
    try:
        # It announces its retirement whenever it is imported; the README says so once.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module, _, class_name = f"langchain_community.utilities.{name}".rpartition(".")
            return getattr(import_module(module), class_name)()
    except AttributeError as error:
        raise BadInput(f"search: langchain:{name}: langchain_community.utilities has no such wrapper") from error
    except (ImportError, ValueError, TypeError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise BadInput(f"search: langchain:{name}: can't be set up: {_words(scrub(why, ()), 300)}") from error


def _ask_wrapper(wrapper: Any, query: str, k: int) -> Any:
    """What a wrapper answers; they agree on names, and on little else."""
    results = getattr(wrapper, "results", None)
    if results is None:
        return wrapper.run(query)
    takes = inspect.signature(results).parameters
    many = next((name for name in ("max_results", "num_results") if name in takes), None)
    return results(query, **({many: k} if many else {}))


def _rows(answer: Any) -> list[tuple[Any, Any, Any]]:
    """(url, title, snippet) from a list of mappings or documents, a mapping that holds one, or either as JSON."""
    if isinstance(answer, str):
        try:
            answer = json.loads(answer[:MAX_BYTES])
        except (ValueError, RecursionError) as error:
            raise SearchFailed("bad_answer", "the wrapper answered in prose, without addresses") from error
    if isinstance(answer, Mapping):
        answer = next((answer[name] for name in ("organic", "organic_results", "results") if name in answer), [])
    if not isinstance(answer, list):
        raise SearchFailed("bad_answer", f"the wrapper answered a {type(answer).__name__}, not a list of results")
    return [_row(each) for each in answer[:MAX_ROWS]]


def _row(each: Any) -> tuple[Any, Any, Any]:
    fields = each if isinstance(each, Mapping) else {**getattr(each, "metadata", {})}
    text = getattr(each, "page_content", None)
    return (
        _first(fields, "link", "url", "href", "source"),
        fields.get("title"),
        text or _first(fields, "snippet", "content", "body", "description", "summary"),
    )


def _first(fields: Mapping[Any, Any], *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name)), None)


# Libraries that block


async def _aside(work: Callable[[], T], secrets: Iterable[str]) -> T:
    """Run what blocks on a thread of its own, which is left behind when the caller's time is up.

    A pool would be the worse for every call that hangs, and the program would wait for it before it ends.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not done.done():
            set_outcome(outcome)

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 (another's library may raise anything, and here it becomes ours)
            outcome: tuple[Callable[[Any], None], Any] = done.set_exception, _foreign(error, secrets)
        else:
            outcome = done.set_result, result
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="tribunal-search", daemon=True).start()
    return await done


_LIMITED = re.compile(r"\b429\b|rate.?limit|too many requests|quota", re.IGNORECASE)
_TIMED_OUT = re.compile(r"time[d-]?.?out", re.IGNORECASE)
_LOST = re.compile(r"connect|\bdns\b|resolve", re.IGNORECASE)
_KINDS: dict[str, FaultKind] = {
    "rate_limit": "rate_limit", "quota": "rate_limit", "timeout": "timeout", "connection": "connection",
    "authentication": "refused", "request": "refused",
}  # fmt: skip


def _foreign(error: Exception, secrets: Iterable[str]) -> SearchFailed:
    """What another library raised, in our terms."""
    if isinstance(error, SearchFailed):
        return error
    fault = diagnose(error, secrets=secrets)
    kind = _KINDS.get(fault.kind, "server")
    if kind == "server":
        said = f"{type(error).__name__} {fault.message}"
        if type(error).__name__ == "RatelimitException" or _LIMITED.search(said):
            kind = "rate_limit"
        elif _TIMED_OUT.search(said):
            kind = "timeout"
        elif _LOST.search(said):
            kind = "connection"
    failed = SearchFailed(kind, fault.message, retry_after=fault.retry_after)
    failed.__cause__ = error
    return failed


# The client for SearXNG


async def _open_client() -> httpx.AsyncClient:
    import httpx

    from tribunal.retrievers.web.fetch import USER_AGENT

    return httpx.AsyncClient(
        timeout=None,  # the chain keeps the time  # noqa: S113
        trust_env=False,
        headers={"User-Agent": USER_AGENT, "Accept": "application/json", "Accept-Encoding": "identity"},
    )


_clients: PerLoop[httpx.AsyncClient] = PerLoop(_open_client, lambda client: client.aclose())
