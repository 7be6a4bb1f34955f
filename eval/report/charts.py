"""Charts as plain numbers, which the page draws as SVG: x and y in a box of 100 by 100, y downward."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tribunal.schema import JSON


class Bar(NamedTuple):
    x: float
    y: float
    width: float
    height: float


def reliability_bars(calibration: JSON) -> list[Bar]:
    """A bar a bin, as high as its accuracy; on the diagonal, confidence means what it says."""
    return [
        Bar(x=100 * each["from"], y=100 * (1 - each["accuracy"]), width=100 / calibration["bins"] - 1,
            height=100 * each["accuracy"])
        for each in calibration["reliability"]
    ]  # fmt: skip


def risk_line(calibration: JSON) -> str:
    """The points of the risk–coverage curve; the box is as high as the greatest risk (`risk_top`)."""
    top = risk_top(calibration)
    return " ".join(
        f"{100 * each['coverage']:.2f},{100 * (1 - each['risk'] / top):.2f}" for each in calibration["risk_coverage"]
    )


def risk_top(calibration: JSON) -> float:
    """The risk at the top of the box: the greatest there is; 0.05 where nothing is wrong."""
    return max((float(each["risk"]) for each in calibration["risk_coverage"]), default=0.0) or 0.05
