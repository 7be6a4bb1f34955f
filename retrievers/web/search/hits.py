"""Hits: what an engine sent, with its sizes bounded, its types checked, and whatever is no web address dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tribunal.retrievers.web.fetch.target import MAX_URL, PORTS
from tribunal.schema import Frozen
from tribunal.text import one_line, wellformed

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


def hits_of(query: str, engine: str, rows: Iterable[tuple[Any, Any, Any]], k: int) -> list[Hit]:
    """At most k hits, each page once, from rows of (url, title, snippet), none of which need be what it should."""
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
                title=words(title, MAX_TITLE),
                snippet=words(snippet, MAX_SNIPPET),
                engine=engine,
                rank=len(hits) + 1,
            )
        )
        if len(hits) == k:
            break
    return hits


def words(text: Any, most: int) -> str:
    """A stranger's text on one line, of so many characters at most; empty for anything else."""
    # Cut before as well as after: a title of megabytes isn't worth splitting.
    return one_line(wellformed(text[: 4 * most]))[:most] if isinstance(text, str) else ""


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
