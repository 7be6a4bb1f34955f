"""Read the figures that a paper prints, print measured ones in the same form, and tell how far the two lie apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tribunal.eval.protocols.protocol import NumberFormat

# A number, in brackets or with what stands in brackets beside it: 75.31, (+8.3), 0.747 (±0.003), 22%.
_FIGURE = re.compile(r"\(?([-+]?\d+(?:\.(\d+))?)%?\)?(?: \(±?\d+(?:\.\d+)?\))?")


class PaperComparison(NamedTuple):
    """Hold how a measured value compares with the paper's.

    `paper` is the paper's figure as a fraction or count, and `difference` the measured value less it. `in_interval`
    says whether the interval holds it, taken for any value that is printed so; None if there is no interval.
    """

    paper: float
    difference: float
    in_interval: bool | None


def compare_with_paper(
    form: NumberFormat, printed: str, value: float, interval: Sequence[float] | None
) -> PaperComparison | None:
    """Compare a value with the figure that a paper prints of it; None if it prints none."""
    paper = read_figure(form, printed)
    if paper is None:
        return None
    low, high = interval or (None, None)
    rounding = _rounding_of(form, printed)
    holds = None if low is None or high is None else low - rounding <= paper <= high + rounding
    return PaperComparison(paper, value - paper, holds)


def read_figure(form: NumberFormat, printed: str) -> float | None:
    """Return what a paper prints as a fraction or a count; None if that is no number."""
    found = _FIGURE.fullmatch(printed)
    return float(found[1]) / _unit_of(form) if found else None


def _rounding_of(form: NumberFormat, printed: str) -> float:
    """Return by how much a figure may have been rounded."""
    found = _FIGURE.fullmatch(printed)
    decimals = len(found[2] or "") if found else 0
    return 0.5 * 10.0**-decimals / _unit_of(form)


def _unit_of(form: NumberFormat) -> int:
    return 100 if form.startswith("00") else 1


def format_as_printed(form: NumberFormat, value: float, *, signed: bool = False) -> str:
    """Format a value as its paper prints such: as percentage or fraction of so many decimals, a count as it is."""
    sign = "+" if signed else ""
    decimals = len(form.rstrip("%").partition(".")[2])
    shown = f"{_unit_of(form) * value:{sign}.{decimals}f}"
    if form == "0" and value != round(value):
        shown = f"{value:{sign}.1f}"  # a mean over repeats
    if not float(shown):
        shown = shown.lstrip("+-")
    return shown + ("%" if form.endswith("%") else "")
