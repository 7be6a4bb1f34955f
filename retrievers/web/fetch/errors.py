"""Why a URL gave no page.

FetchError (a TribunalError)
├── FetchRefused    we would not: an address, a port, a size, a wish of the site
└── FetchFailed     we could not: no such name, no answer, an answer cut short
"""

from __future__ import annotations

from typing import Literal

from tribunal.errors import TribunalError

Reason = Literal[
    # why we would not
    "url", "scheme", "credentials", "port", "address", "outward", "robots", "redirects", "loop", "downgrade",
    "content_type", "too_large", "encoding",
    # why we could not
    "dns", "connect", "tls", "timeout", "protocol", "truncated", "status",
]  # fmt: skip


class FetchError(TribunalError):
    """A URL that gave no page.

    `reason` is for machines; `str()` is one line for people; `status` is the answer's HTTP status, where there was one.
    """

    def __init__(self, reason: Reason, why: str, url: str, *, status: int | None = None) -> None:
        super().__init__(f"{_printable(url)}: {_printable(why)}")
        self.reason, self.why, self.url, self.status = reason, why, url, status


class FetchRefused(FetchError):
    """We would not ask for this URL, or would not take what came."""


class FetchFailed(FetchError):
    """We asked, or tried to, and it didn't work."""


def _printable(text: str) -> str:
    plain = "".join(c if c.isprintable() else "�" for c in text)
    return plain if len(plain) <= 200 else plain[:197] + "…"
