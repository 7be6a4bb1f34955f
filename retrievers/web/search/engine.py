"""What a search engine is, and how it fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal, Protocol, TypeVar, runtime_checkable

from tribunal.errors import TribunalError
from tribunal.loops import aside
from tribunal.models.diagnosis import diagnose
from tribunal.retrievers.web.search.hits import Hit

T = TypeVar("T")
FailureKind = Literal["rate_limit", "timeout", "connection", "server", "refused", "bad_answer"]

SECONDS = 15.0
MAX_BYTES = 4 * 2**20


class SearchFailed(TribunalError):
    """An engine could not answer; `retry_after` in seconds, where it said so."""

    def __init__(self, kind: FailureKind, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind, self.retry_after = kind, retry_after


@runtime_checkable
class Engine(Protocol):
    """What finds pages by a query."""

    @property
    def name(self) -> str:
        """What an archive calls it."""

    async def search(self, query: str, k: int) -> list[Hit]:
        """About k hits, the best first; an empty list where it knows none. The chain takes k, and counts what is left.

        Raises:
            SearchFailed: it could not answer.
        """


async def blocking(work: Callable[[], T], secrets: Iterable[str] = ()) -> T:
    """What a library that blocks gives, asked on a thread of its own.

    Raises:
        SearchFailed: it raised something; the secrets are struck out of what it says.
    """

    def guarded() -> T:
        try:
            return work()
        except Exception as error:
            raise in_our_terms(error, secrets) from error

    return await aside(guarded, "tribunal-search")


_LIMITED = re.compile(r"\b429\b|rate.?limit|too many requests|quota", re.IGNORECASE)
_TIMED_OUT = re.compile(r"time[d-]?.?out", re.IGNORECASE)
_LOST = re.compile(r"connect|\bdns\b|resolve", re.IGNORECASE)
_KINDS: dict[str, FailureKind] = {
    "rate_limit": "rate_limit", "quota": "rate_limit", "timeout": "timeout", "connection": "connection",
    "authentication": "refused", "request": "refused",
}  # fmt: skip


def in_our_terms(error: Exception, secrets: Iterable[str] = ()) -> SearchFailed:
    """What another library raised, as the failure of a search."""
    if isinstance(error, SearchFailed):
        return error
    meant = diagnose(error, secrets=secrets)
    kind = _KINDS.get(meant.kind, "server")
    if kind == "server":
        said = f"{type(error).__name__} {meant.message}"
        if type(error).__name__ == "RatelimitException" or _LIMITED.search(said):
            kind = "rate_limit"
        elif _TIMED_OUT.search(said):
            kind = "timeout"
        elif _LOST.search(said):
            kind = "connection"
    return SearchFailed(kind, meant.message, retry_after=meant.retry_after)
