"""From the bytes of a page to text one can read, cite and check.

Parsing what strangers wrote happens in processes of their own: one that hangs, runs out of memory or crashes is ended
and replaced, and the event loop never waits for it. Those processes get no environment, so no keys. Nothing in a page
is executed. Text that a person would not see (see `_drop_hidden`) is left out.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
import unicodedata
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, Literal, cast

from pydantic import Field

from tribunal.errors import BadInput, TribunalError
from tribunal.schema import Frozen
from tribunal.text import without_hidden

if TYPE_CHECKING:
    from lxml.html import HtmlElement  # type: ignore[import-untyped]

MAX_CHARACTERS = 1_000_000
MAX_PDF_PAGES = 200


@dataclass(frozen=True, slots=True)
class Text:
    """What a page says, in Unicode NFC, without invisible characters."""

    title: str
    text: str
    language: str | None
    """As the page declares it (BCP 47), never guessed."""
    date: str | None
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


# Reading, away from the event loop


class ReadLimits(Frozen):
    """What reading one page may take."""

    seconds: float = Field(default=20.0, gt=0, description="Seconds of reading; a PDF gives what it has by then.")
    memory: int = Field(default=2 * 2**30, gt=0, description="Bytes of address space of a reading process.")
    start_seconds: float = Field(default=60.0, gt=0, description="Seconds for a reading process to start.")


class Reader:
    """Turns pages into text in processes that can be ended.

    Serves any number of readings at once, from any event loop; pages above `processes` wait. Processes are started when
    they are first needed (about a second each; `warm` does it ahead) and kept. They end with `close`, with the object,
    or with the program.
    """

    def __init__(self, processes: int = 2, limits: ReadLimits | None = None) -> None:
        self.limits = limits or ReadLimits()
        self._processes = processes
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="tribunal-reader")
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._closed = False
        self._end = weakref.finalize(self, _end_all, self._all)

    def warm(self) -> None:
        """Start the processes now, without waiting for them."""
        for _ in range(self._processes):
            self._threads.submit(self._warm)

    async def read(self, body: bytes, content_type: str, charset: str | None = None) -> Text:
        """The text of a page.

        Args:
            body: its bytes, decompressed.
            content_type: its media type, without parameters: HTML, XHTML, PDF or plain text.
            charset: as the server declared it; a byte order mark beats it.

        Raises:
            PageUnreadable: it has no text, isn't what it says it is, or took too long.
        """
        if content_type not in _READERS:
            raise PageUnreadable("content_type", f"{content_type} has no text to read")
        job = {"content_type": content_type, "charset": charset, "seconds": self.limits.seconds}
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._threads, self._in_thread, job, body)
        if "reason" in answer:
            raise PageUnreadable(**answer)
        return Text(**answer)

    def close(self) -> None:
        """End the processes. A reading under way fails."""
        self._closed = True
        self._end()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _warm(self) -> None:
        self._idle.append(self._start())

    def _take(self) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            self._drop(worker)
        return self._start()

    def _drop(self, worker: _Worker) -> None:
        self._all.discard(worker)
        worker.end()

    def _start(self) -> _Worker:
        worker = _Worker(self.limits)
        self._all.add(worker)
        if self._closed:  # it was still starting when the others were ended
            self._drop(worker)
        return worker

    def _in_thread(self, job: dict[str, Any], body: bytes) -> dict[str, Any]:
        worker = self._take()
        try:
            answer = worker.exchange(job, body)
        except PageUnreadable:
            self._drop(worker)
            raise
        self._idle.append(worker)
        return answer


class _Worker:
    """One reading process: a JSON line and a page in, a JSON line out."""

    def __init__(self, limits: ReadLimits) -> None:
        self._process = subprocess.Popen(  # noqa: S603 (our own interpreter, our own code)
            [sys.executable, "-c", f"from tribunal.retrievers.web.pages import _serve; _serve({limits.memory})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": os.pathsep.join(sys.path)} | _needed_on_windows(),
        )
        self._jobs, self._answers = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        # Importing the parsers takes a second; a page's own time begins after that.
        self._answer(limits.start_seconds)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def exchange(self, job: dict[str, Any], body: bytes) -> dict[str, Any]:
        send = partial(self._send, json.dumps(job | {"bytes": len(body)}).encode() + b"\n", body)
        # A PDF stops by itself when its time is up, and hands over what it has; hence the second on top.
        answer: dict[str, Any] = json.loads(self._answer(job["seconds"] + 1, send))
        return answer

    def _send(self, header: bytes, body: bytes) -> None:
        self._jobs.write(header)
        self._jobs.write(body)
        self._jobs.flush()

    def _answer(self, seconds: float, send: Callable[[], None] = lambda: None) -> bytes:
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            send()
            line = self._answers.readline()
        except (BrokenPipeError, ValueError):  # it ended, or was closed, under our hands
            line = b""
        finally:
            timer.cancel()
            timer.join()
        if late.is_set():
            raise PageUnreadable("timeout", f"reading took longer than {seconds:g} s")
        if not line.endswith(b"\n"):
            raise PageUnreadable("crashed", "the page crashed its reader")
        return line

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._jobs, self._answers):
            with suppress(BrokenPipeError):  # what was still to be sent has no reader any more
                pipe.close()


def _needed_on_windows() -> dict[str, str]:
    return {"SYSTEMROOT": os.environ["SYSTEMROOT"]} if sys.platform == "win32" else {}


def _end_all(workers: set[_Worker]) -> None:
    while workers:
        workers.pop().end()


def _serve(memory: int) -> None:
    """The life of a reading process. An error that isn't foreseen ends it, and the next page gets a new one."""
    import lxml.html  # type: ignore[import-untyped]  # noqa: F401
    import trafilatura  # noqa: F401

    jobs, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not be taken for an answer
    _limit_memory(memory)
    answers.write(b"{}\n")
    answers.flush()
    while header := jobs.readline():
        job = json.loads(header)
        body = jobs.read(job.pop("bytes"))
        _limit_time(job["seconds"])
        answers.write(json.dumps(_read(body, **job)).encode() + b"\n")
        answers.flush()


def _limit_memory(memory: int) -> None:
    if sys.platform != "win32":
        import resource

        with suppress(OSError, ValueError):  # some systems don't keep this limit; the one on time still holds
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _limit_time(seconds: float) -> None:
    """For a process whose program has gone, and with it the one that would have ended it."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds) + 2, hard))


# Parsing: everything below this line and above the windows runs in a reading process


def _read(body: bytes, content_type: str, charset: str | None, seconds: float) -> dict[str, Any]:
    try:
        found = _READERS[content_type](body, charset, seconds)
    except PageUnreadable as error:
        return {"reason": error.reason, "why": str(error)}
    text = _visible(found["text"])
    if not text:
        return {"reason": "no_text", "why": "there is no text in it"}
    return found | {
        "title": " ".join(_visible(found["title"]).split())[:500],
        "text": text[:MAX_CHARACTERS],
        "truncated": found.get("truncated", False) or len(text) > MAX_CHARACTERS,
    }


def _read_plain(body: bytes, charset: str | None, seconds: float) -> dict[str, Any]:
    return {"title": "", "text": decode(body, charset), "language": None, "date": None}


def _read_html(body: bytes, charset: str | None, seconds: float) -> dict[str, Any]:
    import lxml.etree  # type: ignore[import-untyped]
    import lxml.html
    import trafilatura

    text = decode(body, charset or _meta_charset(body))
    parser = lxml.html.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    try:
        tree = lxml.html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except lxml.etree.ParserError as error:
        raise PageUnreadable("no_text", f"there is no page in it ({error})") from error
    _drop_hidden(tree)
    # The quick way for big pages: the thorough one tries several extractors, and each costs a second a megabyte.
    document = trafilatura.bare_extraction(
        tree,
        fast=len(text) > 1_000_000,
        favor_recall=True,
        include_comments=False,
        with_metadata=True,
        date_extraction_params={"original_date": True, "extensive_search": False},
    )
    found = None if document is None or isinstance(document, dict) else document
    return {
        "title": (found.title if found else None) or tree.findtext(".//title") or "",
        "text": (found.text if found else None) or trafilatura.html2txt(tree),
        "language": _declared_language(tree),
        "date": found.date if found else None,
    }


def _read_pdf(body: bytes, charset: str | None, seconds: float) -> dict[str, Any]:
    import pypdf
    from pypdf.errors import FileNotDecryptedError, PyPdfError

    until = time.monotonic() + seconds
    texts: list[str] = []
    try:
        reader = pypdf.PdfReader(BytesIO(body))
        pages = len(reader.pages)
        for page in reader.pages[:MAX_PDF_PAGES]:
            if time.monotonic() > until or sum(map(len, texts)) > MAX_CHARACTERS:
                break
            texts.append(page.extract_text())
        about = reader.metadata
        title = str((about.title if about else None) or "")
        created = about.creation_date if about else None
        language = reader.root_object.get("/Lang")
    except FileNotDecryptedError as error:
        raise PageUnreadable("encrypted", "the PDF asks for a password") from error
    except PyPdfError as error:
        raise PageUnreadable("broken", f"not a readable PDF: {error}") from error
    return {
        "title": title,
        "text": "\n\n".join(texts),
        "language": _tag(str(language or "")),
        "date": created.date().isoformat() if created else None,
        "truncated": len(texts) < pages,
    }


_READERS: dict[str, Callable[[bytes, str | None, float], dict[str, Any]]] = {
    "text/html": _read_html,
    "application/xhtml+xml": _read_html,
    "text/plain": _read_plain,
    "application/pdf": _read_pdf,
}


# Character sets: the ones that the web has (WHATWG), by the name of Python's codec. Others are refused by omission:
# `idna`, `unicode_escape` and their like are codecs too, and slow or strange.
_CODECS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs",
} | {
    name: name
    for name in (
        "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254",
        "cp1255", "cp1256", "cp1257", "cp1258", "cp866", "cp874", "cp932", "cp949", "iso8859-2", "iso8859-3",
        "iso8859-4", "iso8859-5", "iso8859-6", "iso8859-7", "iso8859-8", "iso8859-10", "iso8859-13", "iso8859-14",
        "iso8859-15", "iso8859-16", "koi8-r", "koi8-u", "mac-roman", "gb18030", "big5hkscs", "euc_jp", "iso2022_jp",
    )
}  # fmt: skip
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def decode(body: bytes, charset: str | None = None) -> str:
    """Bytes to text: by a byte order mark, else the declared charset, else UTF-8, else by what the bytes look like.

    Never raises; bytes that don't fit become the replacement character.
    """
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body.decode(codec, errors="replace")
    try:
        declared = _CODECS.get(codecs.lookup(charset).name) if charset else None
    except (LookupError, ValueError):  # no such charset; a NUL in its name
        declared = None
    if declared:
        return body.decode(declared, errors="replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        best = from_bytes(body[:100_000]).best()
        return body.decode(_CODECS.get(best.encoding, "cp1252") if best else "cp1252", errors="replace")


_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)


def _meta_charset(body: bytes) -> str | None:
    found = _META_CHARSET.search(body[:4096])
    # A page that could be read this far is no UTF-16, whatever it claims.
    return None if found is None or found[1].lower().startswith(b"utf-16") else found[1].decode("ascii")


# What a person wouldn't see. Not an exhaustive reading of CSS: style sheets of other files, scripts, colours and what
# lies under something else are not looked at. What slips through is text like any other, which the prompts quote and
# never obey.
_HIDING = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|opacity:0(?:\.0+)?(?![.\d])|font-size:0(?![.\d])"
    r"|(?:^|;)(?:max-)?(?:width|height):[01](?:px)?(?:;|!|$)"
    r"|(?:left|top|right|bottom|text-indent|margin-left|margin-top):-\d{3,}|clip:rect\((?:0|1)(?:px)?,|clip-path:inset\((?:50|100)%",
)
_CLASS_HIDING = re.compile(r"display:none|visibility:hidden|font-size:0(?![.\d])")
_HIDDEN = (
    "//*[@hidden or @aria-hidden='true' or self::template or self::noscript or self::dialog[not(@open)]"
    " or self::input or self::textarea or self::select or self::object or self::iframe]"
)


def _drop_hidden(tree: HtmlElement) -> None:
    """Take out what is not shown: `hidden`, `aria-hidden`, templates, and what inline styles or the page's own simple
    class and id rules hide, shrink to nothing or move off the page. Comments never got into the tree."""
    hiding = _hiding_names("\n".join(style.text or "" for style in tree.iter("style")))
    doomed = list(tree.xpath(_HIDDEN))
    for element in tree.iter():
        style = re.sub(r"\s+", "", element.get("style") or "").lower()
        names = {f".{name}" for name in (element.get("class") or "").split()} | {f"#{element.get('id')}"}
        if (style and _HIDING.search(style)) or names & hiding:
            doomed.append(element)
    for element in doomed:
        if element.tag not in ("html", "head", "body", "style") and element.getparent() is not None:
            element.drop_tree()


def _hiding_names(css: str) -> set[str]:
    """The classes and ids that a style sheet hides outright; rules inside `@media` and its like are left alone."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)[:200_000]
    found, depth, at = set(), 0, 0
    selector = ""
    for match in re.finditer(r"[{}]", css):
        between, at = css[at : match.start()], match.end()
        if match[0] == "{":
            depth += 1
            selector = between.rpartition(";")[2] if depth == 1 else ""
        else:
            if depth == 1 and _CLASS_HIDING.search(re.sub(r"\s+", "", between).lower()):
                found |= {name for name in map(str.strip, selector.split(",")) if re.fullmatch(r"[.#][\w-]+", name)}
            depth = max(0, depth - 1)
    return found


def _declared_language(tree: HtmlElement) -> str | None:
    for value in (
        tree.get("lang"),
        tree.get("xml:lang"),
        tree.xpath("string(//meta[translate(@http-equiv,'CL','cl')='content-language']/@content)"),
        tree.xpath("string(//meta[@property='og:locale']/@content)"),
    ):
        if tag := _tag(value or ""):
            return tag
    return None


def _tag(value: str) -> str | None:
    tag = value.strip().replace("_", "-")
    return tag if re.fullmatch(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*", tag) else None


def _visible(text: str) -> str:
    text = unicodedata.normalize("NFC", without_hidden(text, joiners=True))
    # JSON would carry a lone surrogate on, and SQLite would choke on it.
    return text.encode("utf-8", "replace").decode("utf-8").strip()


# Windows


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts tokens; `warning` says so when it can only estimate."""

    count: Callable[[str], float]
    warning: str | None = None

    @classmethod
    async def load(
        cls, encoding: str = "o200k_base", seconds: float = 5.0, *, get: Callable[[str], Any] | None = None
    ) -> TokenCounter:
        """The tokens of an encoding of `tiktoken`, or an estimate (a token for every three bytes of UTF-8, which is on
        the high side) where its tables can't be had: they are downloaded at first use, and that has no time limit of
        its own.

        Args:
            encoding: as `tiktoken` names it.
            seconds: how long to wait for the tables.
            get: what makes an encoding by its name; `tiktoken.get_encoding` by default.
        """
        loop = asyncio.get_running_loop()
        loaded: asyncio.Future[Any] = loop.create_future()

        def tell(value: Any) -> None:
            if not loaded.done():
                loaded.set_result(value)

        def work() -> None:
            value: Any
            try:
                if get is None:
                    import tiktoken

                    value = tiktoken.get_encoding(encoding)
                else:
                    value = get(encoding)
            except (OSError, ValueError, RuntimeError) as error:
                value = error
            with suppress(RuntimeError):  # the loop is gone, and nobody waits any more
                loop.call_soon_threadsafe(tell, value)

        # A thread that isn't joined when the program ends: a download that hangs must not hold up the exit.
        threading.Thread(target=work, name="tribunal-tiktoken", daemon=True).start()
        try:
            async with asyncio.timeout(seconds):
                value = await loaded
        except TimeoutError as error:
            value = error
        if isinstance(value, Exception):
            why = str(value) or f"no answer within {seconds:g} s"
            return cls(estimated_tokens, f"tokens are estimated: the tables of {encoding} can't be had ({why[:60]})")
        return cls(lambda text: len(value.encode_ordinary(text)))


def estimated_tokens(text: str) -> float:
    """A token for every three bytes of UTF-8: more than current tokenizers make of prose, so windows stay within."""
    return len(text.encode("utf-8", "replace")) / 3


ESTIMATE = TokenCounter(estimated_tokens, "tokens are estimated")


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a text: `whole[start:end] == text`."""

    index: int
    start: int
    """In characters, from the start of the whole text."""
    end: int
    text: str
    tokens: int
    """Counted word by word, so on the high side."""


# A word with the space before it, which is how tokenizers cut. A run without spaces is cut too: byte pair merging takes
# time that grows faster than the run does.
_WORD = re.compile(r"\s{0,200}\S{1,200}|\s{1,200}")


def windows(text: str, size: int, overlap: int, counter: TokenCounter = ESTIMATE) -> list[Window]:
    """Cut a text into windows that overlap.

    Takes about a second a million characters: `awindows` does it off the event loop.

    Args:
        text: the whole.
        size: tokens of a window, at most; a single word that is larger has a window of its own.
        overlap: tokens that a window repeats of the one before, at most.
        counter: what counts.

    Raises:
        BadInput: the size is under 1, or the overlap isn't smaller than it.
    """
    if size < 1 or not 0 <= overlap < size:
        raise BadInput(f"window: size {size} and overlap {overlap}: the size is at least 1, the overlap smaller")
    return list(_windows(text, size, overlap, counter))


async def awindows(text: str, size: int, overlap: int, counter: TokenCounter = ESTIMATE) -> list[Window]:
    """`windows`, on a thread."""
    return await asyncio.to_thread(windows, text, size, overlap, counter)


def _windows(text: str, size: int, overlap: int, counter: TokenCounter) -> Iterator[Window]:
    words = [(match.start(), match.end(), counter.count(match[0])) for match in _WORD.finditer(text)]
    first, index = 0, 0
    while first < len(words):
        last, total = first, 0.0
        while last < len(words) and (last == first or total + words[last][2] <= size):
            total += words[last][2]
            last += 1
        start, end = words[first][0], words[last - 1][1]
        yield Window(index, start, end, text[start:end], math.ceil(total))
        if last == len(words):
            return
        # What is repeated must leave room for the word that comes next, or the next window would end where this did.
        back, repeated, room = last, 0.0, min(overlap, size - words[last][2])
        while back - 1 > first and repeated + words[back - 1][2] <= room:
            back -= 1
            repeated += words[back][2]
        first, index = back, index + 1


# Passages

_QUOTES = {quote: f"[{group}]" for group in ("'‘’‚‛′`´ʼ＇", '"“”„‟″«»＂') for quote in group}


def find_passage(text: str, passage: str) -> tuple[int, int] | None:
    """Where a passage stands in a text, verbatim, as (start, end) in characters; None when it doesn't.

    Only runs of white space, the composition of characters (Unicode NFC) and the shape of quotation marks may differ.
    """
    words = unicodedata.normalize("NFC", passage).split()
    if not words:
        return None
    pattern = r"\s+".join("".join(_QUOTES.get(c) or re.escape(c) for c in word) for word in words)
    if unicodedata.is_normalized("NFC", text):
        found = re.search(pattern, text)
        return found.span() if found else None
    composed, spans = _composed(text)
    found = re.search(pattern, composed)
    return (spans[found.start()][0], spans[found.end() - 1][1]) if found else None


# The characters that aren't combining marks and still join what stands before them under NFC.
_JOINING = re.compile(
    "[\u09be\u09d7\u0b3e\u0b56\u0b57\u0bbe\u0bd7\u0cc2\u0cd5\u0cd6\u0d3e\u0d57\u0dcf\u0ddf\u0fb5\u0fb7\u102e\u1160-\u11ff"
    "\u1b35\U00011127\U0001133e\U00011357\U000114b0\U000114ba\U000114bd\U000115af\U00011930]"
)


def _composed(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text in NFC, and for each of its characters the span that it came from."""
    starts = [i for i, c in enumerate(text) if i == 0 or not (unicodedata.combining(c) or _JOINING.match(c))]
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = unicodedata.normalize("NFC", text[start:end])
        pieces.append(piece)
        same = piece == text[start:end]
        spans += [(i, i + 1) for i in range(start, end)] if same else [(start, end)] * len(piece)
    return "".join(pieces), spans
