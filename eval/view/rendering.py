"""The pages, from templates. Whatever is put into one is a stranger's words: made visible, and escaped by Jinja."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache, partial
from importlib.resources import files
from typing import Any

from jinja2 import Environment

from tribunal.cases.page_files import hashed_name
from tribunal.eval.view.rows import FACETS, KINDS, RIGHT
from tribunal.eval.view.sample_filter import KIND, NUMBERS, PAIRED, SORTS
from tribunal.eval.view.samples import PAGE
from tribunal.templates import make_template_environment, visible_value
from tribunal.text import one_line

ASSETS = ("view.css", "view.js")
TITLES = {KIND: "Against the gold", **FACETS}
_MOST_VALUES = 12  # of a facet, before a reader asks for more
_FIRST_WORDS, _LONGEST_SETTING = 200, 300


def render_view(template: str, **held: Any) -> str:
    """Return a page from its template.

    Args:
        template: its file in `templates/`.
        held: what it shows; `title` is always wanted.
    """
    return _template_environment().get_template(template).render(held)


def asset_address(name: str) -> str:
    """Return where a page loads a file."""
    return f"/{hashed_name(str(__package__), name)}"


def first_words(text: str) -> str:
    """Return the beginning of a text, as one line."""
    said = one_line(text[: 2 * _FIRST_WORDS])
    return said if len(said) <= _FIRST_WORDS else f"{said[:_FIRST_WORDS]}…"


def flatten_settings(run: Any, under: str = "") -> Iterator[tuple[str, str]]:
    """Yield the settings of a run.json by name, such as settings.judge_model."""
    if isinstance(run, dict) and (run or not under):
        for name, value in run.items():
            yield from flatten_settings(value, f"{under}.{name}" if under else str(name))
        return
    shown = run if isinstance(run, str) else json.dumps(run, ensure_ascii=False)
    yield under, shown if len(shown) <= _LONGEST_SETTING else f"{shown[:_LONGEST_SETTING]} …"


@cache
def _template_environment() -> Environment:
    environment = make_template_environment(lambda name: read_source(f"templates/{name}"), visible_value)
    environment.filters |= {"figure": _format_figure, "words": first_words}
    environment.globals |= {
        "asset": asset_address, "titles": TITLES, "kinds": KINDS, "numbers": NUMBERS, "sorts": SORTS, "paired": PAIRED,
        "most": _MOST_VALUES, "size": PAGE, "whole_line": partial(json.dumps, indent=2, ensure_ascii=False),
        "right_kinds": [tuple(KINDS)[place] for place in RIGHT],
    }  # fmt: skip
    return environment


def read_source(name: str) -> str:
    """Return a file of this folder, as text."""
    return files(__package__).joinpath(*name.split("/")).read_text("utf-8")


def _format_figure(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:,.{digits}f}" if isinstance(value, float) else f"{value:,}"
