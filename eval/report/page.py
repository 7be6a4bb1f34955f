"""The page of a report, and its charts."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment
from markupsafe import Markup

from tribunal.core.templates import make_template_environment, visible_value
from tribunal.core.text import one_line
from tribunal.errors import BadInput
from tribunal.schema import JSON

# of the box that is drawn in, in the units of the page; y goes downward
LEFT = 48
RIGHT = 348
TOP = 14
BOTTOM = 228
_STEPS = (1, 2, 2.5, 5, 10)
_APART = 20  # from here on, costs that are so many times apart stand on a logarithmic scale


class Axis(NamedTuple):
    """A scale from its first tick to its last, how a tick is labelled, and whether it is logarithmic."""

    ticks: Sequence[float]
    label: Callable[[float], str]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return how far along the scale a number stands, from 0 to 1."""
        held = (self.ticks[0], self.ticks[-1], value)
        first, last, at = map(math.log10, held) if self.logarithmic else held
        return (at - first) / (last - first)


class CostAndValue(NamedTuple):
    """A run's cost a post and its score, a fraction, each with its interval.

    `whole` is false where the run made calls that nobody saw, so that it cost more than is known. `cost_ends` are None
    where every post costs the same, `value_ends` where nothing is known of how far the score may be off.
    """

    cost: float
    value: float
    whole: bool = True
    cost_ends: Sequence[float] | None = None
    value_ends: Sequence[float] | None = None


def x_of_share(share: float) -> float:
    """Return where a share of the width of a chart's box lies, in the units of the page."""
    return round(LEFT + share * (RIGHT - LEFT), 2)


def y_of_share(share: float) -> float:
    """Return where a share of the height lies, from the bottom up."""
    return round(BOTTOM - share * (BOTTOM - TOP), 2)


def pareto_front(runs: Sequence[CostAndValue]) -> set[int]:
    """Return the places of the runs on the Pareto front: no other is at least as cheap and as good, and better in one.

    A run whose cost isn't known whole is not on the front, and beats no other.
    """
    return {
        place
        for place, run in enumerate(runs)
        if run.whole
        and not any(
            other.cost <= run.cost
            and other.value >= run.value
            and (other.cost, other.value) != (run.cost, run.value)
            for other in runs
            if other.whole
        )
    }


def percent_axis(low: float, high: float) -> Axis:
    """Return the scale of shares that holds both ends."""
    return Axis(_round_ticks(low, high), lambda share: f"{100 * share:.4g}%")


def cost_axis(costs: Sequence[float]) -> Axis:
    """Return the scale of costs: logarithmic where they are far apart, else from 0."""
    least = min(costs)
    most = max(costs)
    far_apart = least > 0 and most / least >= _APART
    if far_apart:
        powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
        ticks = [10.0**power for power in powers]
    else:
        ticks = _round_ticks(0.0, most or 1.0)
    return Axis(ticks, lambda cost: f"{cost:,.0f}" if cost >= 1000 else f"{cost:.4g}", far_apart)


def _round_ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers that hold both ends between them."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * each for each in _STEPS if power * each >= span / 4)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(step * at, 12) for at in range(first, max(last, first + 1) + 1)]


_NOTHING = "–"
_LONGEST_WORD = 40  # letters that stand on one line whatever there is room for
_LONGEST_NAME = 24  # the same in a first column, which stays in sight on a telephone


def render_template(template: str, held: JSON, style: str | None = None) -> str:
    """Render a page of ours, its Markdown twin, or plain lines that both show as values.

    Args:
        template: its name in this folder: `NAME.html.jinja`, `NAME.md.jinja`, `NAME.tex.jinja` or `NAME.txt.jinja`.
        held: what it shows; every value is a stranger's words.
        style: the stylesheet of an HTML page; None: report.css.
    """
    form = template.split(".")[-2]
    if form == "html":
        style = style or read_source("report.css")
        held = {**held, "style": Markup(style), "digest": hash_source(style)}  # noqa: S704  # our own file
    return _jinja_environment(form).get_template(template).render(**held)


@contextmanager
def output_folder(out: Path) -> Iterator[None]:
    """Make the folder of an output, and refuse it if it can't be written within the context."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise BadInput(
            f"out: {out}: {error.strerror or error}; give a folder that can be written"
        ) from error


def hash_source(source: str) -> str:
    """Return the hash by which a Content-Security-Policy allows an inline script or stylesheet."""
    return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


@cache
def _jinja_environment(form: str) -> Environment:
    finalize: Callable[[Any], Any] = {
        "html": visible_value,
        "md": _visible_in_markdown,
        "tex": _visible_in_latex,  # what is shown is marked, so that Jinja doesn't escape it for HTML
        "txt": lambda value: one_line(value) if isinstance(value, str) else value,
    }[form]
    environment = make_template_environment(
        read_source, finalize, autoescape=form in ("html", "tex")
    )

    def span(form: Callable[..., Any]) -> Callable[..., str]:
        """Return a filter that shows both ends of an interval; nothing without one."""
        return lambda ends, *more: (
            "" if ends is None else " to ".join(str(form(each, *more)) for each in ends)
        )

    filters: dict[str, Callable[..., Any]] = {
        "percent": lambda value, digits=1: None if value is None else f"{100 * value:z.{digits}f}",
        "signed": lambda value: None if value is None else f"{100 * value:+z.1f}",
        "span": span(lambda share: f"{100 * share:z.1f}"),
        "number": lambda value, digits=2: (
            None if value is None else f"{value:,.{digits}f}".removesuffix(".00")
        ),
        "score": lambda value: None if value is None else f"{value:.3f}",
        "scores": lambda ends: None if ends is None else f"{ends[0]:.3f} to {ends[1]:.3f}",
        "probability": lambda p: None if p is None else "below 0.001" if p < 0.001 else f"{p:.3f}",
        "money": _format_money,
        "cost": _format_cost,
        "cost_span": span(_format_cost),
        "set": lambda value: (
            "default" if value is None else value if isinstance(value, str) else json.dumps(value)
        ),
        "whole": _keep_words_whole,
        "name": lambda value: _keep_words_whole(value, _LONGEST_NAME),
        "as_html": _as_html,
        "x": x_of_share,
        "y": y_of_share,
    }
    environment.globals["quarters"] = percent_axis(0, 1)
    environment.filters |= filters
    return environment


def _format_money(cost: float | None) -> str | None:
    """Return an amount to three significant figures, and cents at least."""
    if cost is None:
        return None
    digits = 2 if abs(cost) >= 1 or not cost else 2 - math.floor(math.log10(abs(cost)))
    return f"{cost:,.{digits}f}"


def _format_cost(value: float | None, kind: str) -> str | None:
    """Return an amount of money, tokens, calls or seconds."""
    if value is None or kind == "money":
        return _format_money(value)
    return f"{value:,.{0 if 'tokens' in kind else 2}f}".removesuffix(".00")


def _keep_words_whole(value: Any, longest: int = _LONGEST_WORD) -> Markup:
    """Keep each word of a narrow column whole, where a browser would break it at a hyphen or a stroke.

    A word with more letters than `longest` may break.
    """
    return Markup(" ").join(
        Markup('<span class="{}">{}</span>').format(
            "whole" if len(word) <= longest else "long", word
        )
        if len(word) > longest or (len(word) > 1 and not word.isalnum())
        else word
        for word in str(visible_value(value)).split()
    )


def read_source(name: str) -> str:
    """Return the text of a file in this folder."""
    return files(__package__).joinpath(name).read_text("utf-8")


# What begins markup inside a line, a mention, or an address that a viewer would make a link of.
_SPECIAL = re.compile(r"[&<>`*_{}\[\]#|~\\@$]|:(?=/)|(?<=\w)\.(?=[^\W\d])")
# The same inside HTML, and what ends an HTML block or begins a block of Markdown's: a viewer may show no HTML.
_SPECIAL_IN_HTML = re.compile(rf"{_SPECIAL.pattern}|[!\n]|^[-+=]")
_FENCES = re.compile("`+")


def _visible_in_markdown(value: Any) -> Any:
    shown = visible_value(value)
    if not isinstance(shown, str) or isinstance(shown, Markup):
        return shown
    text = one_line(shown)
    return _as_code(text) if _SPECIAL.search(text) else text


_IN_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"{\char34}", "`": r"\textasciigrave{}", "[": "{[}", "]": "{]}",
    **{each: f"\\{each}" for each in "{}$&#%_"}, "*": "{*}", "✓": r"$\surd$", "✗": r"$\times$", "Δ": r"$\Delta$",
    "−": "$-$", "→": r"$\to$", "≤": r"$\leq$", "≥": r"$\geq$",
}  # fmt: skip
_SPECIAL_IN_LATEX = re.compile(r"-(?=-)|[\\~^<>|\"`\[\]{}$&#%_*✓✗Δ−→≤≥]")
# What is neither a letter nor a sign that LaTeX knows would end its run.
_UNKNOWN_TO_LATEX = re.compile("[^\\w\x20-\x7e✓✗Δ−→≤≥±×·–—…“”‘’]")


def _visible_in_latex(value: Any) -> Any:
    """Escape a value for LaTeX: one line of words without a command, comment, column, option or ligature of dashes."""
    shown = visible_value(value)
    if isinstance(shown, Markup):
        return shown
    text = _UNKNOWN_TO_LATEX.sub(lambda found: f"[U+{ord(found[0]):04X}]", one_line(str(shown)))
    return Markup(_SPECIAL_IN_LATEX.sub(lambda found: _IN_LATEX.get(found[0], "-{}"), text))  # noqa: S704  # just escaped


def _as_code(text: str) -> str:
    """Return a code span. A table is cut at every upright stroke, even inside one, so a stroke is written out."""
    text = text.replace("|", "[U+007C]")
    fence = "`" * (max((len(found) for found in _FENCES.findall(text)), default=0) + 1)
    margin = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{margin}{text}{margin}{fence}"


def _as_html(value: Any) -> Markup:
    """Escape words inside an HTML block of Markdown's.

    Line breaks are written out: a blank line would end the block.
    """
    text = str(visible_value(value)).strip() or _NOTHING
    return Markup(_SPECIAL_IN_HTML.sub(lambda found: f"&#{ord(found[0])};", text))  # noqa: S704  # just escaped
