"""Rows of text of bounded length, out of files of any length: lines, and the members of a JSON array or object."""

from __future__ import annotations

import codecs
import errno
import re
from collections.abc import Iterator
from json import JSONDecodeError
from typing import IO, Any, cast

from tribunal.core.text import TooDeep, parse_json_at
from tribunal.errors import BadInput

# Characters of one unpacked row; in Parquet, bytes. FakeNewsNet puts every tweet id of a story into one cell.
MOST_ROW = 16 * 1024**2
_CHUNK = 64 * 1024  # characters that are read at a time of JSON
_SPACE = re.compile(r"[ \t\r\n]*")
# UTF-32's mark begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
# bytes that the encoding doesn't have, by `surrogateescape`
_UNDECODED = re.compile("[\udc80-\udcff]")


def find_marked_encoding(start: bytes) -> str | None:
    """Return the encoding that a byte order mark names at the start of a file; None if there is none."""
    return next((codec for mark, codec in _MARKS.items() if start.startswith(mark)), None)


def too_large(hint: str = "") -> OSError:
    """Return the error for a row over `MOST_ROW`."""
    return OSError(errno.EFBIG, f"is over {MOST_ROW // 1024**2} MB{hint}")


def check_decoded(text: str) -> str:
    """Return a text; raise `UnicodeError` if it holds a byte that its encoding doesn't have."""
    if not text.isascii() and (wrong := _UNDECODED.search(text)):
        raise UnicodeError(f"byte 0x{ord(wrong[0]) - 0xDC00:02x}")
    return text


class RowLines:
    """The lines of an open file, decoded by `surrogateescape`. All lines since `start_row` are bounded together."""

    def __init__(self, file: IO[str], hint: str = "") -> None:
        """Begin a row. The hint ends the error for a row that is too large."""
        self._file = file
        self._hint = hint
        self._length = 0
        self._ahead = ""

    def start_row(self) -> None:
        """Begin another row."""
        self._length = 0

    def peek(self) -> str:
        """Return the next line, which stays the next one."""
        self._ahead = next(self, "")
        self._length = 0
        return self._ahead

    def skip_line(self) -> None:
        """Pass over the line that was peeked at."""
        self._ahead = ""

    def __iter__(self) -> RowLines:
        """Return itself."""
        return self

    def __next__(self) -> str:
        """Return the next line; raise `OSError` or `UnicodeError` if the row is too large or can't be decoded."""
        line = self._ahead or self._file.readline(MOST_ROW + 1 - self._length)
        self._ahead = ""
        self._length += len(line)
        if self._length > MOST_ROW:
            raise too_large(self._hint)
        if not line:
            raise StopIteration
        return check_decoded(line)


class JsonParts:
    """Parses one large JSON array or object, member by member. Memory holds one member."""

    def __init__(self, shown: str, file: IO[str]) -> None:
        """Begin at the start of a file, which errors call `shown`."""
        self._shown = shown
        self._file = file
        self._text = ""
        self._at = 0
        self._row = 1
        self._is_whole = False

    def members(self, *, keyed: bool) -> Iterator[tuple[int | str, Any]]:
        """Yield the members of an array with their numbers; or of an object with their keys."""
        opening, closing = "{}" if keyed else "[]"
        if self._peek() != opening:
            raise BadInput(f"file {self._shown}: is not one JSON {'object' if keyed else 'array'}")
        self._at += 1
        while self._peek() != closing:
            if self._row > 1:
                self._expect(",")
            key: int | str = self._row
            if keyed:
                key = str(self._parse_value())
                self._expect(":")
            yield key, self._parse_value()
            self._row += 1
        self._at += 1
        if self._peek():
            raise BadInput(f"file {self._shown}: not JSON: there is more after {closing!r}")

    def _peek(self) -> str:
        """Return the next character that is no white space; empty at the end."""
        while True:
            self._at = cast("re.Match[str]", _SPACE.match(self._text, self._at)).end()
            if self._at < len(self._text) or self._is_whole:
                return self._text[self._at : self._at + 1]
            self._read_on()

    def _expect(self, sign: str) -> None:
        if self._peek() != sign:
            raise self._error(f"not JSON: expecting {sign!r}")
        self._at += 1

    def _parse_value(self) -> Any:
        self._peek()
        while True:
            try:
                value, end = parse_json_at(self._text, self._at)
            except ValueError as error:
                if self._is_whole or not self._may_go_on(error):
                    raise self._error(f"not JSON: {getattr(error, 'msg', error)}") from error
            else:
                # A number may go on in what isn't read yet.
                if end < len(self._text) or self._is_whole:
                    check_decoded(self._text[self._at : end])
                    self._at = end
                    return value
            self._read_on()

    def _may_go_on(self, error: ValueError) -> bool:
        """Return whether the parser stopped at the end of the text: the rest of the value isn't read yet."""
        if not isinstance(error, JSONDecodeError) or isinstance(error, TooDeep):
            return False
        return error.msg.startswith("Unterminated string") or error.pos > len(self._text) - 16

    def _read_on(self) -> None:
        """Read as much again as is there of the member, so that parsing it anew takes twice the time at most."""
        self._text = self._text[self._at :]
        self._at = 0
        length = len(self._text)
        if length > MOST_ROW:
            raise too_large()
        more = self._file.read(min(max(length, _CHUNK), MOST_ROW + 1 - length))
        self._is_whole = not more
        self._text += more

    def _error(self, problem: str) -> BadInput:
        return BadInput(f"file {self._shown}: row {self._row}: {problem}")
