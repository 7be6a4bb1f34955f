"""The page and its Markdown twin, from templates. Whatever is put into them is a stranger's words until it is escaped.

Every value passes through `visible`, so that nothing hides or turns around what is read, and is then escaped: by
Jinja's autoescape in the page, and by `finalize` in the Markdown.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from tribunal.text import visible

if TYPE_CHECKING:
    from tribunal.schema import JSON

_NOTHING = "–"


def html(held: JSON) -> str:
    """The page: it loads nothing, runs nothing, and says so to the browser."""
    style = _source("report.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = _environment(_shown, autoescape=True).get_template("report.html.jinja")
    return page.render(**held, style=Markup(style), digest=digest)  # noqa: S704  # our own file


def markdown(held: JSON) -> str:
    """The same as Markdown. What was said of a post stands in it as escaped HTML, inside `<details>`."""
    return _environment(_shown_in_markdown, autoescape=False).get_template("report.md.jinja").render(**held)


def _environment(finalize: Callable[[Any], Any], *, autoescape: bool) -> Environment:
    environment = Environment(
        loader=FunctionLoader(_source),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
        autoescape=autoescape,  # noqa: S701  # of Markdown, `finalize` escapes
    )
    environment.filters |= {
        "percent": lambda value, digits=1: None if value is None else f"{100 * value:.{digits}f}",
        "span": lambda ends: "" if ends is None else f"{100 * ends[0]:.1f} to {100 * ends[1]:.1f}",
        "number": lambda value: None if value is None else f"{value:,.2f}".removesuffix(".00"),
        "probability": lambda p: None if p is None else "below 0.001" if p < 0.001 else f"{p:.3f}",
        "as_html": lambda value: escape(_shown(value)),
    }
    return environment


def _source(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _shown(value: Any) -> Any:
    if value is None:
        return _NOTHING
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


# Whatever begins markup inside a line, a mention, or an address that a viewer would make a link of.
_SPECIAL = re.compile(r"[&<>`*_{}\[\]#|~\\@$]|:(?=/)|(?<=www)\.", re.IGNORECASE)
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}


def _shown_in_markdown(value: Any) -> Any:
    shown = _shown(value)
    if not isinstance(shown, str) or isinstance(shown, Markup):
        return shown
    return _SPECIAL.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), " ".join(shown.split()))
