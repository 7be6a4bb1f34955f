"""Define a search engine, the hits that it sends, and how it fails.

Sizes of hits are bounded, their types checked, and whatever is no web address is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal, Protocol, runtime_checkable
from urllib.parse import urlsplit, urlunsplit

from tribunal.core.text import one_line, wellformed
from tribunal.errors import TribunalError
from tribunal.models.faults import read_fault
from tribunal.retrievers.web.fetch.target import MAX_URL, PORTS
from tribunal.schema import Frozen

MAX_TITLE = 300
MAX_SNIPPET = 2000
MAX_ROWS = 1000


class Hit(Frozen):
    """One result. `rank` counts from 1, as the engine put them."""

    query: str
    url: str
    title: str
    snippet: str
    engine: str
    rank: int


def hits_from_rows(
    query: str, engine: str, rows: Iterable[tuple[Any, Any, Any]], k: int
) -> list[Hit]:
    """Return at most k hits, each page once, from rows of (url, title, snippet), whatever these hold."""
    hits: list[Hit] = []
    seen: set[str] = set()
    for url, title, snippet in list(rows)[:MAX_ROWS]:
        if not _is_web_url(url) or (plain := normal_url(url)) in seen:
            continue
        seen.add(plain)
        hits.append(
            Hit(
                query=query,
                url=wellformed(url).strip(),
                title=clip_text(title, MAX_TITLE),
                snippet=clip_text(snippet, MAX_SNIPPET),
                engine=engine,
                rank=len(hits) + 1,
            )
        )
        if len(hits) == k:
            break
    return hits


def clip_text(text: Any, most: int) -> str:
    """Return a stranger's text on one line, of so many characters at most; empty for anything else."""
    # Cut before as well as after: a title of megabytes isn't worth splitting.
    return one_line(wellformed(text[: 4 * most]))[:most] if isinstance(text, str) else ""


def _is_web_url(url: Any) -> bool:
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


_TRACKING = re.compile(r"(?:utm_[^=]*|fbclid|gclid|msclkid)(?:=.*)?", re.IGNORECASE)


def normal_url(url: str) -> str:
    """Return the form in which two spellings of one page are the same, fit to be fetched.

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


FailureKind = Literal["rate_limit", "timeout", "connection", "server", "refused", "bad_answer"]

SECONDS = 15.0
MAX_BYTES = 4 * 2**20


class SearchFailed(TribunalError):
    """An engine could not answer; `retry_after` in seconds, where it said so."""

    def __init__(
        self, kind: FailureKind, message: str, *, retry_after: float | None = None
    ) -> None:
        """Make the error from its kind and a message."""
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after


@runtime_checkable
class SearchEngine(Protocol):
    """Find pages by a query."""

    @property
    def name(self) -> str:
        """Return its name in archives."""

    async def search(self, query: str, k: int) -> list[Hit]:
        """Return about k hits, the best first; none where it knows none. The chain takes k, and counts the rest.

        Raises:
            SearchFailed: it could not answer. Whatever else it raises means that, too.
        """


_LIMITED = re.compile(r"\b429\b|rate.?limit|too many requests|quota", re.IGNORECASE)
_TIMED_OUT = re.compile(r"time[d-]?.?out", re.IGNORECASE)
_LOST = re.compile(r"connect|\bdns\b|resolve", re.IGNORECASE)
_KINDS: dict[str, FailureKind] = {
    "rate_limit": "rate_limit", "quota": "rate_limit", "timeout": "timeout", "connection": "connection",
    "authentication": "refused", "request": "refused",
}  # fmt: skip


def search_failure_from(error: Exception, secrets: Iterable[str] = ()) -> SearchFailed:
    """Return the failure of a search that another library's exception means."""
    if isinstance(error, SearchFailed):
        return error
    meant = read_fault(error, secrets=secrets)
    kind = _KINDS.get(meant.kind, "server")
    if kind == "server":
        message = f"{type(error).__name__} {meant.message}"
        if type(error).__name__ == "RatelimitException" or _LIMITED.search(message):
            kind = "rate_limit"
        elif _TIMED_OUT.search(message):
            kind = "timeout"
        elif _LOST.search(message):
            kind = "connection"
    return SearchFailed(kind, meant.message, retry_after=meant.wait.seconds if meant.wait else None)
