"""Read the figures that a paper prints, print measured ones in the same form, and tell how far the two lie apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tribunal.eval.protocols.protocol import NumberFormat
from tribunal.schema import JSON

# A number, in brackets or with what stands in brackets beside it: 75.31, (+8.3), 0.747 (±0.003), 22%.
_FIGURE = re.compile(r"\(?([-+]?\d+(?:\.(\d+))?)%?\)?(?: \(±?\d+(?:\.\d+)?\))?")


def compare_with_paper(form: NumberFormat, printed: str, value: float, interval: Sequence[float] | None) -> JSON:
    """Return the fields of a cell that compare its value with what a paper prints; none if that is no number.

    `in_interval` says whether the interval holds the paper's figure, taken for any value that is printed so; None if
    there is no interval.
    """
    found = _FIGURE.fullmatch(printed)
    if found is None:
        return {}
    paper, rounding = float(found[1]) / _unit_of(form), 0.5 * 10.0 ** -len(found[2] or "") / _unit_of(form)
    return {
        "paper_value": paper,
        "difference": value - paper,
        "difference_printed": format_as_printed(form, value - paper, signed=True),
        "in_interval": interval and interval[0] - rounding <= paper <= interval[1] + rounding,
    }


def is_figure(printed: str) -> bool:
    """Return whether a paper's table prints a number here."""
    return _FIGURE.fullmatch(printed) is not None


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
