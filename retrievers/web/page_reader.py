"""The text of a page, read in processes of their own (`tribunal.sandbox`), where nothing in a page is executed."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

import webencodings  # type: ignore[import-untyped]

from tribunal.errors import TribunalError
from tribunal.retrievers.indexes.bounded_text import find_marked_encoding
from tribunal.retrievers.web.fetch.fetcher import PAGES
from tribunal.sandbox import SandboxPool, WorkerLate
from tribunal.workers import WorkerDied

# The standard reads all that is labelled `gbk` as the larger set. The other two are no encodings to read text by.
_OTHERWISE = {"gbk": "gb18030", "replacement": None, "x-user-defined": None}


def decode_body(body: bytes, charset: str | None = None) -> str:
    """Decode by a byte order mark, else the declared charset, else UTF-8, else by what the bytes look like.

    Never raises; bytes that don't fit become the replacement character.
    """
    declared = find_marked_encoding(body) or (_codec_of_label(charset) if charset else None)
    if declared:
        return body.decode(declared, errors="replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        best = from_bytes(body[:100_000]).best()
        return body.decode((best and _codec_of_label(best.encoding)) or "cp1252", errors="replace")


def _codec_of_label(label: str) -> str | None:
    """Return Python's codec for a label of the web, or for Python's own name of an encoding that the web has.

    `idna`, `unicode_escape` and their like are Python codecs too, and slow or strange: None.
    """
    if found := webencodings.lookup(label):
        return _codec_of_encoding(found)
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):  # no such charset; a NUL in its name
        return None
    return name if name in _web_codecs() else None


def _codec_of_encoding(encoding: webencodings.Encoding) -> str | None:
    return _OTHERWISE.get(encoding.name, encoding.codec_info.name)


@cache
def _web_codecs() -> frozenset[str | None]:
    return frozenset(_codec_of_encoding(webencodings.lookup(name)) for name in set(webencodings.LABELS.values()))


MAX_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page, in Unicode NFC, without invisible characters."""

    title: str
    text: str
    language: str | None = None  # as the page declares it (BCP 47), never guessed
    date: str | None = None  # of publication, YYYY-MM-DD, as the page declares it
    truncated: bool = False  # more was there than the limits on characters, PDF pages or seconds let through


class PageUnreadable(TribunalError):
    """A page that gave no text; `reason` is for machines, `str()` is one line."""

    def __init__(
        self, reason: Literal["timeout", "crashed", "broken", "encrypted", "no_text", "content_type"], why: str
    ) -> None:
        """Make the error from a reason and an explanation."""
        super().__init__(why)
        self.reason = reason


def language_tag(value: str) -> str | None:
    """Return a declared language as a tag (BCP 47); None if it can't be one."""
    tag = value.strip().replace("_", "-")
    return tag if re.fullmatch(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*", tag) else None


class PageReader:
    """Turns pages into text. Serves any number of readings at once; pages above `processes` wait.

    A process takes about a second to start; `workers.warm_up` does it ahead, and `workers.close` ends them all.
    """

    def __init__(self, processes: int = 2, *, seconds: float = 20.0, memory: int = 2 * 2**30) -> None:
        """Make a reader; its processes start when they are needed.

        Args:
            processes: how many read at once.
            seconds: of reading one page; a PDF gives what it has by then.
            memory: bytes of address space of a process.
        """
        self.seconds = seconds
        self.workers = SandboxPool(
            "tribunal.retrievers.web.page_parsing:run_reading_job",
            processes=processes,
            memory=memory,
        )

    async def read_page(self, body: bytes, content_type: str, charset: str | None = None) -> PageText:
        """Return the text of a page: decompressed bytes of a media type (HTML, XHTML, PDF, plain text).

        A byte order mark beats the charset that the server declared.

        Raises:
            PageUnreadable: it has no text, isn't what it says it is, or took too long.
        """
        if content_type not in PAGES:
            raise PageUnreadable("content_type", f"{content_type} has no text to read")
        job = {"content_type": content_type, "charset": charset, "seconds": self.seconds}
        try:
            # A PDF stops by itself when its time is up, and hands over what it has; hence the second on top.
            answer, _ = await self.workers.ask(job, body, seconds=self.seconds + 1)
        except WorkerLate as error:
            raise PageUnreadable("timeout", f"reading {error}") from error
        except WorkerDied as error:
            raise PageUnreadable("crashed", "the page crashed its reader") from error
        if "reason" in answer:
            raise PageUnreadable(**answer)
        return PageText(**answer)
