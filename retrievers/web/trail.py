"""What stands in an archive: runs, what happened in each, and the pages that were read."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal, Self

from tribunal.schema import JSON, Frozen

if TYPE_CHECKING:
    from tribunal.retrievers.web.fetch.fetcher import FetchedPage
    from tribunal.retrievers.web.pages.text import Text

Kind = Literal["search", "fetch", "reply", "decision"]


class StoredPage(Frozen):
    """A page as it was fetched and read. `url` is as it was asked for; the hash is of the body's bytes."""

    id: str
    url: str
    final_url: str
    title: str
    language: str | None
    date: str | None
    text: str
    truncated: bool
    content_type: str
    status: int
    fetched_at: str
    body_sha: str

    @classmethod
    def of(cls, page: FetchedPage, text: Text) -> Self:
        """A page that was fetched, with what it says."""
        return cls(
            id=page_id(page.final_url, text.text),
            url=page.url,
            final_url=page.final_url,
            title=text.title,
            language=text.language,
            date=text.date,
            text=text.text,
            truncated=text.truncated,
            content_type=page.content_type,
            status=page.status,
            fetched_at=page.fetched_at.isoformat(timespec="seconds"),
            body_sha=hashlib.sha256(page.body).hexdigest(),
        )


def page_id(final_url: str, text: str) -> str:
    """What a page is called: the same address with the same text is the same page."""
    return text_hash(f"{final_url}\n{text}")[:16]


def text_hash(text: str) -> str:
    """The hash by which an archive knows a post's text, which it doesn't hold."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class Run(Frozen):
    """One case in an archive. `started` in UTC, ISO 8601; `post_sha` is the SHA-256 of the post's text."""

    id: str
    post_id: str
    post_sha: str
    started: str
    settings: JSON


class ArchiveEntry(Frozen):
    """One thing that happened in a run; the table in `archive` says what stands where."""

    kind: Kind
    topic: str
    key: str
    body: JSON
    at: str


class Trail(Frozen):
    """A run and everything in it, in order; `pages` by their ids."""

    run: Run
    entries: tuple[ArchiveEntry, ...]
    pages: dict[str, StoredPage]

    def of(self, kind: Kind, topic: str = "") -> list[ArchiveEntry]:
        """The entries of a kind, in order; of a topic, where one is named."""
        return [each for each in self.entries if each.kind == kind and topic in ("", each.topic)]


class Overview(Frozen):
    """A run in short. `verdict` is the decision of that name, where there is one."""

    run: Run
    searches: int = 0
    pages: int = 0
    verdict: JSON | None = None
