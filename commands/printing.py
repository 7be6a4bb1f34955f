"""What commands print: results, tables, and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Exit

from tribunal.core.templates import make_template_environment
from tribunal.core.text import count_noun, make_visible, one_line
from tribunal.core.times import format_date
from tribunal.errors import BadInput, TribunalError
from tribunal.process.terminal import say, screen

if TYPE_CHECKING:
    from jinja2 import Environment
    from rich.padding import Padding

STATUS = {"verdict": 0, "refusal": 3, "failure": 4, "pending": 5}
BAD_INPUT = 2
INTERRUPTED = 130


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn an error of ours into one line on standard error and exit status 2, and Ctrl-C into status 130."""
    try:
        yield
    except KeyboardInterrupt:
        raise Exit(INTERRUPTED) from None
    except TribunalError as error:
        say(f"tribunal: error: {one_line(str(error))}", aside=True)
        raise Exit(BAD_INPUT) from None


def ask_to_go_on(command: str, *, yes: bool) -> None:
    """Ask on standard error, unless that was answered.

    Raises:
        BadInput: nobody can answer, or the answer is no.
    """
    if yes:
        return
    try:
        go_on = typer.confirm("Go on?", err=True)
    except typer.Abort:
        raise BadInput(
            f"{command}: nobody answered; give --yes to spend without being asked"
        ) from None
    if not go_on:
        raise BadInput(f"{command}: not begun, and nothing was spent")


@contextmanager
def report_write_errors(path: Path, option: str = "out") -> Iterator[None]:
    """Name the option and its file if it can't be written.

    Raises:
        BadInput: it can't.
    """
    try:
        yield
    except OSError as error:
        raise BadInput(f"{option}: {path}: can't be written: {error.strerror or error}") from error


# within a paragraph, and before a value; no stranger's stays as it is
_LINE_BREAK = "\x1e"
_NO_STYLE = "\x1d"
_STYLES = {"! ": "bold", "~ ": "dim", "? ": "yellow", "> ": "cyan"}
_ANY_STYLE = re.compile(r"<([a-z ]+)> ")
_PASSAGE = 240  # characters of a passage that is listed


def print_template(name: str, *, aside: bool = False, wrapped: bool = False, **values: Any) -> None:
    """Print a text.

    Args:
        name: of its template, without .txt.jinja.
        aside: to standard error.
        wrapped: break long lines even where nobody watches; else each paragraph is one line for a pipe.
        values: what it says.
    """
    watched = screen(aside=aside)
    if wrapped or watched.is_terminal:
        for paragraph in template_paragraphs(name, **values):
            watched.print(paragraph)
        return
    for _, indent, words in _styled_lines(name, values):
        margin = " " * indent
        say(margin + words.replace("\n", f"\n{margin}"), lines=True, aside=aside)


def template_paragraphs(name: str, **values: Any) -> Iterator[Padding]:
    """Yield the paragraphs of a template as rich prints them."""
    from rich.padding import Padding
    from rich.text import Text

    for style, indent, words in _styled_lines(name, values):
        yield Padding(Text(words, style), (0, 0, 0, indent), expand=False)


def _styled_lines(name: str, values: dict[str, Any]) -> Iterator[tuple[str, int, str]]:
    """Yield the style of each paragraph of a template, by how many columns it is indented, and its words."""
    text = _templates().get_template(f"{name}.txt.jinja").render(values)
    for line in text.removesuffix("\n").split("\n") if text else ():
        named = _ANY_STYLE.match(line)
        style = named[1] if named else _STYLES.get(line[:2], "")
        words = (line[named.end() :] if named else line[2:] if style else line).replace(
            _NO_STYLE, ""
        )
        indent = len(words) - len(words.lstrip(" "))
        yield style, indent, words[indent:].replace(_LINE_BREAK, "\n")


@cache
def _templates() -> Environment:
    made = make_template_environment(_read_template, _printable_value)
    made.globals |= {"count_noun": count_noun, "format_date": format_date}
    made.filters |= {
        "count": lambda number: f"{number:,}",
        "noun": count_noun,
        "date": format_date,
        "short": lambda number: f"{number:g}",
        "share": format_share,
        "p_value": format_p_value,
        "span": lambda ends: "" if not ends else f" ({format_span(ends)})",
        "paragraphs": lambda text: _printable_value(text, _LINE_BREAK),
        "one_line": one_line,
        "shorten": _shorten_passage,
    }
    return made


def _read_template(name: str) -> str:
    """Return a template of commands, or one that every picture of a case shares."""
    own = files(__package__).joinpath("templates", name)
    return (
        own if own.is_file() else files("tribunal.explanations").joinpath("templates", name)
    ).read_text("utf-8")


def _shorten_passage(passage: str) -> str:
    """Return a passage as it is listed: on one line, and cut off where it is long."""
    words = one_line(passage)
    return words if len(words) <= _PASSAGE else f"{words[:_PASSAGE].rstrip()} …"


def _printable_value(value: Any, line_break: str = " ") -> Any:
    """Return a value of a template as a part of one line, of which it is no mark; what a macro made stays as it is."""
    from markupsafe import Markup

    if isinstance(value, Markup):
        return value
    text = "–" if value is None else make_visible(str(value)).replace("\n", line_break)
    return Markup(f"{_NO_STYLE}{text}" if text[:2] in _STYLES or text[:1] == "<" else text)  # noqa: S704  # no HTML


def format_share(value: float | None) -> str:
    """Return a share in percent."""
    return "–" if value is None else f"{value:.1%}"


def format_p_value(p: float | None) -> str:
    """Return the p-value of a test."""
    return "–" if p is None else "below 0.001" if p < 0.001 else f"{p:.3f}"


def format_span(ends: Sequence[float] | None) -> str:
    """Return the ends of an interval of shares; empty where there is none."""
    return "" if not ends else f"{ends[0]:.1%} to {ends[1]:.1%}"
