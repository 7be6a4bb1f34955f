"""Pages are read in a sandbox, and cut into passages."""

from __future__ import annotations

import asyncio
import codecs
import math
import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Literal

import webencodings  # type: ignore[import-untyped]

from tribunal.errors import BadInput, TribunalError
from tribunal.models.completion import ESTIMATE, TokenCounter
from tribunal.process.sandbox import SandboxPool, WorkerLate
from tribunal.process.workers import WorkerDied
from tribunal.retrievers.indexes.bounded_text import find_marked_encoding
from tribunal.retrievers.web.fetch.fetcher import PAGES

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
    found = webencodings.lookup(label)
    if found:
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
    return frozenset(
        _codec_of_encoding(webencodings.lookup(name)) for name in set(webencodings.LABELS.values())
    )


MAX_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page, in Unicode NFC, without invisible characters."""

    title: str
    text: str
    language: str | None = None  # as the page declares it (BCP 47), never guessed
    date: str | None = None  # of publication, YYYY-MM-DD, as the page declares it
    truncated: bool = (
        False  # more was there than the limits on characters, PDF pages or seconds let through
    )


class PageUnreadable(TribunalError):
    """A page that gave no text; `reason` is for machines, `str()` is one line."""

    def __init__(
        self,
        reason: Literal["timeout", "crashed", "broken", "encrypted", "no_text", "content_type"],
        why: str,
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

    def __init__(
        self, processes: int = 2, *, seconds: float = 20.0, memory: int = 2 * 2**30
    ) -> None:
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

    async def read_page(
        self, body: bytes, content_type: str, charset: str | None = None
    ) -> PageText:
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


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a text: `whole[start:end] == text`."""

    index: int
    start: int  # in characters, from the start of the whole text
    end: int
    text: str
    tokens: int  # counted word by word, so on the high side


# A word with the space before it, which is how tokenizers cut. A run without spaces is cut too: byte pair merging takes
# time that grows faster than the run does.
_WORD = re.compile(r"\s{0,200}\S{1,200}|\s{1,200}")


def cut_windows(
    text: str, size: int, overlap: int, counter: TokenCounter = ESTIMATE
) -> list[Window]:
    """Cut a text into windows that overlap. A million characters take a second; `cut_windows_in_thread` frees the loop.

    A window has at most `size` tokens, but for a single word that is larger, and repeats at most `overlap` of the one
    before.

    Raises:
        BadInput: the size is under 1, or the overlap isn't smaller than it.
    """
    if size < 1 or not 0 <= overlap < size:
        raise BadInput(
            f"window: size {size} and overlap {overlap}: the size is at least 1, the overlap smaller"
        )
    words = [
        (match.start(), match.end(), counter.count(match[0])) for match in _WORD.finditer(text)
    ]
    windows: list[Window] = []
    first = 0
    while first < len(words):
        last = first
        total = 0.0
        while last < len(words) and (last == first or total + words[last][2] <= size):
            total += words[last][2]
            last += 1
        start = words[first][0]
        end = words[last - 1][1]
        windows.append(Window(len(windows), start, end, text[start:end], math.ceil(total)))
        if last == len(words):
            break
        # What is repeated must leave room for the word that comes next, or the next window would end where this did.
        back = last
        repeated = 0.0
        room = min(overlap, size - words[last][2])
        while back - 1 > first and repeated + words[back - 1][2] <= room:
            back -= 1
            repeated += words[back][2]
        first = back
    return windows


async def cut_windows_in_thread(
    text: str, size: int, overlap: int, counter: TokenCounter = ESTIMATE
) -> list[Window]:
    """Cut a text as `cut_windows` does, on a thread."""
    return await asyncio.to_thread(cut_windows, text, size, overlap, counter)


_QUOTES = {quote: f"[{group}]" for group in ("'‘’‚‛′`´ʼ＇", '"“”„‟″«»＂') for quote in group}


def find_passage(text: str, passage: str) -> tuple[int, int] | None:
    """Return where a passage stands in a text in Unicode NFC, verbatim, as (start, end) in characters; None if nowhere.

    Only runs of white space, the composition of the passage's characters and the shape of quotation marks may differ.
    Where it fits without tearing a character from its marks comes before where it fits first.
    """
    words = unicodedata.normalize("NFC", passage).split()
    if not words:
        return None
    pattern = r"\s+".join("".join(_QUOTES.get(c) or re.escape(c) for c in word) for word in words)
    first = None
    for match in re.finditer(pattern, text):
        first = first or match.span()
        if not any(
            0 < at < len(text) and is_mark(text[at]) and not text[at - 1].isspace()
            for at in match.span()
        ):
            return match.span()
    return first


def is_mark(character: str) -> bool:
    """Return whether a character belongs to the one before it."""
    return unicodedata.category(character).startswith("M")
