"""The texts that commands print, from the templates in `templates/`.

A template gives one paragraph a line, which foreign text can't break: its own line breaks become blanks, or, after the
filter `paragraphs`, lines that are indented as far. "! " begins a line in bold, "~ " a dim one, "? " a warning, and
"> " one of our own words about others'.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tribunal.templates import make_template_environment
from tribunal.terminal import say, screen
from tribunal.text import count_noun, make_visible
from tribunal.times import format_date

if TYPE_CHECKING:
    from jinja2 import Environment

_LINE_BREAK, _NO_STYLE = "\x1e", "\x1d"  # within a paragraph, and before a value; no stranger's stays as it is
_STYLES = {"! ": "bold", "~ ": "dim", "? ": "yellow", "> ": "cyan"}


def print_template(name: str, *, aside: bool = False, **values: Any) -> None:
    """Print a text.

    Args:
        name: of its template, without .txt.jinja.
        aside: to standard error.
        values: what it says.
    """
    from rich.padding import Padding
    from rich.text import Text

    watched = screen(aside=aside)
    text = _templates().get_template(f"{name}.txt.jinja").render(values)
    for line in text.removesuffix("\n").split("\n") if text else ():
        style = _STYLES.get(line[:2], "")
        words = (line[2:] if style else line).replace(_NO_STYLE, "")
        indent = len(words) - len(words.lstrip(" "))
        if watched.is_terminal:
            paragraph = Text(words[indent:].replace(_LINE_BREAK, "\n"), style)
            watched.print(Padding(paragraph, (0, 0, 0, indent), expand=False))
        else:  # for a pipe: one line a paragraph, however long
            say(words.replace(_LINE_BREAK, "\n" + " " * indent), lines=True, aside=aside)


@cache
def _templates() -> Environment:
    made = make_template_environment(
        lambda name: files(__package__).joinpath("templates", name).read_text("utf-8"), _printable_value
    )
    made.filters |= {
        "count": lambda number: f"{number:,}",
        "noun": count_noun,
        "date": format_date,
        "short": lambda number: f"{number:g}",
        "share": format_share,
        "span": lambda ends: "" if not ends else f" ({format_span(ends)})",
        "paragraphs": lambda text: _printable_value(text, _LINE_BREAK),
    }
    return made


def _printable_value(value: Any, line_break: str = " ") -> Any:
    """Return a value of a template as a part of one line, of which it is no mark; what a macro made stays as it is."""
    from markupsafe import Markup

    if isinstance(value, Markup):
        return value
    text = "–" if value is None else make_visible(str(value)).replace("\n", line_break)
    return Markup(f"{_NO_STYLE}{text}" if text[:2] in _STYLES else text)  # noqa: S704  # no HTML


def format_share(value: float | None) -> str:
    """Return a share in percent."""
    return "–" if value is None else f"{value:.1%}"


def format_span(ends: Sequence[float] | None) -> str:
    """Return the ends of an interval of shares; empty where there is none."""
    return "" if not ends else f"{ends[0]:.1%} to {ends[1]:.1%}"
