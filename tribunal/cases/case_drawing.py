"""The picture of a case, drawn: as a page and a part of one, for a notebook, as Markdown, and as a letter.

One template each, in `templates/`; every one of them lists `details`, so that what is added there shows everywhere.
Every value is made visible, so that nothing hides or turns around what is read; it is then escaped for HTML
(by Jinja) or for Markdown. What a terminal shows of a case is drawn by `tribunal.commands.show`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from jinja2 import Environment, Template
from markupsafe import Markup

from tribunal.cases.case_view import AuthorLetter, CaseView, ViewedPost
from tribunal.shared_settings import VIEWS
from tribunal.templates import make_template_environment
from tribunal.text import count_noun, escape_markdown, make_visible, one_line, parse_toml
from tribunal.times import format_date

# Details that short pictures (a terminal's, a notebook's) leave out, and those that the author of a post is told.
IN_FULL_ONLY = frozenset({
    "Categories", "Hash of the image", "Not needed", "Post", "Prompts", "Protocol", "Research", "Rounds of debate",
    "Shown to models", "System", "Task",
})  # fmt: skip
TO_AUTHORS = frozenset({"Case"})
CasePart = Literal["all", "post", "trial"]


def draw_fragment(
    picture: CaseView | AuthorLetter, *, prefix: str = "ex-", titled: bool = True, part: CasePart = "all"
) -> Markup:
    """Return a case, or a letter, as a part of a page of one's own.

    It has classes and no style of its own: put `stylesheet()` into a style sheet. It needs no script, and under a
    Content-Security-Policy no more than `style-src` for that sheet and, where it has an image as a data URI,
    `img-src data:`. Where a page holds several, the ids in each begin with a `prefix` of its own.

    Of a case one `part` may be drawn alone: the post, with nothing of it folded away; or the trial and all
    else but the verdict, each section of it folded away.
    """
    return Markup(_render(picture, "html", prefix=prefix, titled=titled, part=part))  # noqa: S704  # autoescaped


def draw_page(picture: CaseView | AuthorLetter) -> str:
    """Return a case, or a letter, as a page of its own: no script, no outside address, and it tells the browser so."""
    language, heading, title = "en", picture.title, picture.title
    if isinstance(picture, AuthorLetter):
        language = picture.language
    else:
        heading = f"Explanation of {picture.case or picture.post.id}"
        title = f"{picture.title} – {heading}"
    return _template("page.html.jinja").render(
        language=language,
        title=one_line(title),
        heading=heading,
        style=Markup(_page_style()),  # noqa: S704  # our own files
        security=content_security_policy(),
        inside=draw_fragment(picture, titled=False),
    )


def draw_for_notebook(view: CaseView) -> str:
    """Return a case as a notebook shows it: no script, style sheet, image or link, so that it loads nothing."""
    return _template("notebook.html.jinja").render(case=view, details=short_details(view))


def draw_markdown(picture: CaseView | AuthorLetter) -> str:
    """Return a case, or a letter, as a Markdown document, in which a stranger's words are no markup."""
    return re.sub(r"\n{3,}", "\n\n", _render(picture, "md")).strip() + "\n"


def short_details(view: CaseView) -> list[tuple[str, str]]:
    """Return the details that a short picture has."""
    return [(name, value) for name, value in view.details if name not in IN_FULL_ONLY]


def stylesheet() -> str:
    """Return the styles of a fragment; every rule is one of `.ex`."""
    return _source("case.css")


def _page_style() -> str:
    return _source("page.css") + stylesheet()


@cache
def content_security_policy() -> str:
    """Return what a page is allowed, as it says itself: its own styles, and images that stand in it."""
    digest = base64.b64encode(hashlib.sha256(_page_style().encode()).digest()).decode()
    allowed = ("img-src data:", f"style-src 'sha256-{digest}'", "base-uri 'none'", "form-action 'none'")
    return "; ".join(("default-src 'none'", *allowed))


def line_of_case(macro: str, *values: Any) -> str:
    """Return a line about a case in plain text, by the macro of `lines.jinja`."""
    return str(getattr(_environment("lines").get_template("lines.jinja").module, macro)(*values))


@cache
def fixed_texts(language: str) -> dict[str, Any] | None:
    """Return the fixed texts of letters in a language: a title and a text for each decision, and labels; or None."""
    texts = parse_toml(_source("letters.toml"))
    return texts.get(language) or texts.get(language.partition("-")[0])


def _render(picture: CaseView | AuthorLetter, kind: Literal["html", "md"], **values: Any) -> str:
    """Return a case or a letter by its template."""
    if isinstance(picture, CaseView):
        return _template(f"case.{kind}.jinja").render(case=picture, **values)
    texts = fixed_texts(picture.notice.language) if picture.notice else None
    label = str((fixed_texts(picture.language) or {}).get("case", ""))
    return _template(f"letter.{kind}.jinja").render(letter=picture, texts=texts, label_of_case=label, **values)


def format_day(day: date, tag: str) -> str:
    """Return a day as people of a language write it: 26. Mai 2027."""
    from babel.dates import format_date

    base = tag.partition("-")[0]
    return str(format_date(day, "long", locale="en_GB" if base == "en" else base))


def _template(name: str) -> Template:
    return _environment(name.split(".")[-2]).get_template(name)


@cache
def _environment(kind: str) -> Environment:
    """Return the environment of templates for HTML, Markdown (`md`) or single plain `lines`."""

    def escape(value: Any) -> Any:
        """Return a value with all of it visible, escaped for what is made; what is Markup already stays."""
        if not isinstance(value, str) or isinstance(value, Markup):
            return value
        if kind == "lines":  # whatever draws a line makes it visible, and escapes it
            return Markup(value)  # noqa: S704
        if kind == "html":
            return make_visible(value)  # Jinja escapes it then
        return Markup(escape_markdown(one_line(value)))  # noqa: S704  # escaped here

    made = make_template_environment(_source, escape)
    made.globals |= {"count_noun": count_noun, "format_date": format_date}
    made.globals |= {"view_titles": VIEWS, "day": format_day}
    made.filters |= {"block": _markdown_block, "cell": _markdown_cell, "marked": _markdown_post}
    return made


@cache
def _source(name: str) -> str:
    """Return a file of the templates, as text."""
    return files(__package__).joinpath("templates", name).read_text("utf-8")


def _markdown_block(text: str) -> Markup:
    """Return somebody else's words as a quotation that keeps their line breaks."""
    return Markup("\n".join(f"> {escape_markdown(line)}  " for line in text.split("\n")))  # noqa: S704  # escaped here


def _markdown_cell(text: str) -> Markup:
    """Return a cell of a table."""
    return Markup(escape_markdown(one_line(text)) or "–")  # noqa: S704  # escaped here


def _markdown_post(post: ViewedPost) -> Markup:
    """Return a post's text as a quotation, with what a cue quotes in bold and the cues' numbers after it."""
    words = "".join(
        (_bold(part.text) if part.cues else escape_markdown(part.text))
        + "".join(f" \\[{number}\\]" for number in part.ends)
        for part in post.segments
    )
    return Markup("\n".join(f"> {line}  " for line in words.split("\n")))  # noqa: S704  # escaped here


def _bold(text: str) -> str:
    """Return words in bold, line by line; blanks at their ends stay outside of the stars, or they wouldn't be bold."""
    return re.sub(r"[^\s](?:[^\n]*[^\s])?", lambda match: f"**{escape_markdown(match[0])}**", text)
