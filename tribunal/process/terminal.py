r"""The one way to a terminal. Whatever is printed passes through here, with nothing in it that a terminal would obey.

Posts, file names, models and servers may hold escape sequences, line breaks, and characters that hide text or turn it
around. `say` and `screen` write these out, as in `[U+001B]`; `say_json` escapes them as JSON does. No other file prints
(`tests/ground/test_terminal.py`).

A terminal or a pipe may take few letters, such as ASCII or Latin-1. After `degrade_output`, whatever is printed is
written in those: typography by its plain signs, other letters as `\uXXXX`.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tribunal.core.text import escape_json, make_visible

if TYPE_CHECKING:
    from tribunal.process.screen import Screen

_WIDE = 200  # columns of a table where nobody watches
_PLAIN = {
    "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "…": "...", "·": "-",
    "×": "x", "→": "->", "≥": ">=", "≤": "<=", "●": "*", "•": "*",
}  # fmt: skip
_DEGRADED = "tribunal.plain"  # what codecs call this way of writing


def degrade_output() -> None:
    """From here on, write what standard output or error can't encode in letters that it takes, and never fail."""
    codecs.register_error(_DEGRADED, _in_plain_letters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_DEGRADED)


def _in_plain_letters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    left = error.object[error.start : error.end]
    return "".join(
        _PLAIN.get(each) or each.encode("ascii", "backslashreplace").decode() for each in left
    ), error.end


def say(text: str, *, lines: bool = False, aside: bool = False) -> None:
    """Print a text.

    Args:
        text: any; of one line.
        lines: whether it has several lines; else a line break in it is a blank.
        aside: to standard error.
    """
    shown = make_visible(text)
    stream = sys.stderr if aside else sys.stdout
    stream.write((shown if lines else shown.replace("\n", " ")) + "\n")
    stream.flush()


def say_json(value: Any, *, indent: int | None = None) -> None:
    """Print a value as JSON. It reads back as the same value, whichever letters the output accepts."""
    written = as_json(value, indent=indent)
    try:
        written.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        written = json.dumps(value, indent=indent)
    sys.stdout.write(written + "\n")
    sys.stdout.flush()


def as_json(value: Any, *, indent: int | None = None) -> str:
    r"""Return a value as JSON: letters as they are; controls, and what hides or turns text around, as `\uXXXX`."""
    return escape_json(json.dumps(value, ensure_ascii=False, indent=indent))


class OutputFailed(Exception):
    """Standard output accepts no more text; standard error may still be read."""


@contextmanager
def print_in_full() -> Iterator[None]:
    """Print something that is to be there in full.

    Raises:
        OutputFailed: standard output takes no more, as where it goes to a file on a full disk.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is left in the buffer would be written again, and complained of, as the process ends.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # noqa: TID251 (the null device)
        raise OutputFailed(
            f"what it came to could not be printed: {error.strerror or error}; make room"
        ) from error


@contextmanager
def redirect_library_output() -> Iterator[None]:
    """Send a library's output to standard error meanwhile, so that standard output has only our words."""
    with redirect_stdout(sys.stderr):
        yield


def screen(*, aside: bool = False, quiet: bool = False, wide: bool = False) -> Screen:
    """Something to print paragraphs, tables and bars on: rich's console, which takes no markup out of a text.

    Args:
        aside: on standard error.
        quiet: print nothing.
        wide: where nobody watches, don't cut a table to a terminal's width.
    """
    from tribunal.process.screen import Screen

    made = Screen(stderr=aside, quiet=quiet, highlight=False, markup=False, emoji=False)
    if wide and not made.is_terminal:
        made.width = _WIDE
    return made


_NARROWEST = 8  # columns of the screen that a cell is folded to before it is left out
_GAP = 1


def print_table(
    heads: Iterable[str], rows: Iterable[Iterable[object]], *, whole: str | None = None
) -> None:
    """Print a table on standard output; a cell that is None or empty is a hyphen.

    Args:
        heads: the names of its columns.
        rows: their cells.
        whole: the column whose cells are never cut or folded, since another command takes them. None: the first.
            On a narrow terminal the other columns are folded, then left out: empty columns first, then from the right.
    """
    from rich.cells import cell_len
    from rich.table import Table

    names = list(heads)
    console = screen(wide=True)
    cells = [["-" if cell in (None, "") else str(cell) for cell in row] for row in rows]
    kept = names.index(whole) if whole else 0
    shown = list(range(len(names)))
    columns = [[name, *(row[at] for row in cells)] for at, name in enumerate(names)]
    widths = [
        max(cell_len(line) for cell in column for line in cell.split("\n")) for column in columns
    ]
    least = [width if at == kept else min(width, _NARROWEST) for at, width in enumerate(widths)]
    others = sorted(
        (at for at in range(len(names)) if at != kept),
        key=lambda at: (set(columns[at][1:]) != {"-"}, -at),
    )
    for at in others:
        if sum(least[each] + _GAP for each in shown) - _GAP <= console.width:
            break
        shown.remove(at)
    console.width = max(console.width, widths[kept])
    table = Table(box=None, pad_edge=False)
    for at in shown:
        table.add_column(names[at], no_wrap=at == kept, min_width=least[at], overflow="fold")
    for row in cells:
        table.add_row(*(row[at] for at in shown))
    console.print(table)
    missing = ", ".join(name for at, name in enumerate(names) if at not in shown)
    if missing:
        say(f"Not shown at this width: {missing}. A wider terminal shows all columns", aside=True)


def is_watched(*, aside: bool = False) -> bool:
    """Return whether somebody watches: whether it is a terminal that is printed to."""
    return (sys.stderr if aside else sys.stdout).isatty()


def print_uncaught_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an error that nobody caught, as `sys.excepthook` does."""
    say(
        "".join(traceback.format_exception(kind, error, trace)).rstrip("\n"), lines=True, aside=True
    )
