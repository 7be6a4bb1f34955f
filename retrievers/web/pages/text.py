"""What a page says, or why it says nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tribunal.errors import TribunalError

MAX_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class Text:
    """What a page says, in Unicode NFC, without invisible characters."""

    title: str
    text: str
    language: str | None = None
    """As the page declares it (BCP 47), never guessed."""
    date: str | None = None
    """Of publication, YYYY-MM-DD, as the page declares it."""
    truncated: bool = False
    """More was there than the limits on characters, PDF pages or seconds let through."""


class PageUnreadable(TribunalError):
    """A page that gave no text; `reason` is for machines, `str()` is one line."""

    def __init__(
        self, reason: Literal["timeout", "crashed", "broken", "encrypted", "no_text", "content_type"], why: str
    ) -> None:
        super().__init__(why)
        self.reason = reason


def language_tag(value: str) -> str | None:
    """A declared language as a tag (BCP 47); None where it can't be one."""
    tag = value.strip().replace("_", "-")
    return tag if re.fullmatch(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*", tag) else None
