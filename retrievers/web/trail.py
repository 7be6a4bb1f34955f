"""What stands in an archive: runs, what happened in each, and the pages that were read."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator

from tribunal.schema import JSON, Frozen
from tribunal.text import parse_json

if TYPE_CHECKING:
    from tribunal.retrievers.web.fetch.fetcher import FetchedPage
    from tribunal.retrievers.web.page_reader import PageText

Kind = Literal["search", "fetch", "reply", "decision"]


def _parse_column(value: Any) -> Any:
    return parse_json(value) if isinstance(value, str) else value


JSONColumn = Annotated[JSON, BeforeValidator(_parse_column)]  # stands in the file as text
ComposedText = Annotated[str, AfterValidator(partial(unicodedata.normalize, "NFC"))]


class StoredPage(Frozen):
    """A page as it was fetched and read. `url` is as it was asked for; the hash is of the body's bytes."""

    id: str
    url: str
    final_url: str
    title: str
    language: str | None
    date: str | None
    text: ComposedText
    truncated: bool
    content_type: str
    status: int
    fetched_at: str
    body_sha: str

    @classmethod
    def from_fetch(cls, page: FetchedPage, text: PageText) -> Self:
        """Return a page that was fetched, with what it says."""
        return cls(
            id=page_id(page.final_url, text.text),
            url=page.url,
            final_url=page.final_url,
            content_type=page.content_type,
            status=page.status,
            fetched_at=page.fetched_at.isoformat(timespec="seconds"),
            body_sha=hashlib.sha256(page.body).hexdigest(),
            **asdict(text),
        )


def page_id(final_url: str, text: str) -> str:
    """Return a page's id: the same address with the same text is the same page."""
    return text_hash(f"{final_url}\n{text}")[:16]


def text_hash(text: str) -> str:
    """Return the hash by which an archive knows a post's text, which it doesn't hold."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class ArchivedRun(Frozen):
    """One case in an archive. `started` in UTC, ISO 8601; `post_sha` is the SHA-256 of the post's text."""

    id: str
    post_id: str
    post_sha: str
    started: str
    settings: JSONColumn


class ArchiveEntry(Frozen):
    """One thing that happened in a run; the table in `archive` says what stands where."""

    kind: Kind
    topic: str
    key: str
    body: JSONColumn
    at: str


class Trail(Frozen):
    """A run and everything in it, in order; `pages` by their ids."""

    run: ArchivedRun
    entries: tuple[ArchiveEntry, ...]
    pages: dict[str, StoredPage]

    def entries_of(self, kind: Kind, topic: str = "") -> list[ArchiveEntry]:
        """Return the entries of a kind, in order; of a topic, where one is named."""
        return [each for each in self.entries if each.kind == kind and topic in ("", each.topic)]


class RunOverview(Frozen):
    """A run in short. `verdict` is the decision of that name, where there is one."""

    run: ArchivedRun
    searches: int = 0
    pages: int = 0
    verdict: Annotated[JSON | None, BeforeValidator(_parse_column)] = None
