"""Charts as plain numbers, which the page draws as SVG (`charts.html.jinja`): x and y in its units, y downward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from tribunal.schema import JSON

WIDTH, HEIGHT = 360, 270
LEFT, RIGHT, TOP, BOTTOM = 48, 348, 14, 228  # of the box that is drawn in
_STEPS = (1, 2, 2.5, 5, 10)
_DOTS = 40  # the most that a line is dotted with
_APART = 20  # from here on, costs that are so many times apart stand on a logarithmic scale

Scale: TypeAlias = Callable[[float], float]


class AxisTick(NamedTuple):
    """A place on an axis, and what stands there."""

    at: float
    label: str


class ReliabilityBar(NamedTuple):
    """A bin of confidence: its bar, the height of what was said, and how many verdicts are in it."""

    x: float
    y: float
    width: float
    height: float
    said: float
    n: int


class RunPoint(NamedTuple):
    """A run: where it stands, the ends of its interval, and whether no other run is both cheaper and better."""

    x: float
    y: float
    low: float | None
    high: float | None
    number: int
    best: bool


class Chart(NamedTuple):
    """A drawing. `line` is a polyline's points, and `dots` are places on it."""

    across: Sequence[AxisTick]
    up: Sequence[AxisTick]
    bars: Sequence[ReliabilityBar] = ()
    points: Sequence[RunPoint] = ()
    line: str = ""
    dots: Sequence[tuple[float, float]] = ()


class CostAndValue(NamedTuple):
    """A run's cost a post, in money or tokens, and its score: fractions.

    `whole` is false where the run made calls that nobody saw, so that it cost more than is known.
    """

    cost: float
    value: float
    interval: Sequence[float] | None
    whole: bool = True


def reliability_chart(calibration: JSON) -> Chart:
    """Draw a bar a bin, as high as its accuracy; on the diagonal, confidence means what it says."""
    bars = []
    for each in calibration["reliability"]:
        left, right, top = _x_of_share(each["from"]), _x_of_share(each["to"]), _y_of_share(each["accuracy"])
        bars.append(
            ReliabilityBar(
                x=left + 1,
                y=top,
                width=round(right - left - 2, 2),
                height=round(BOTTOM - top, 2),
                said=_y_of_share(each["confidence"]),
                n=each["n"],
            )
        )
    quarters = (0, 0.25, 0.5, 0.75, 1)
    return Chart(
        across=[AxisTick(_x_of_share(at), f"{at:.0%}") for at in quarters],
        up=[AxisTick(_y_of_share(at), f"{at:.0%}") for at in quarters],
        bars=bars,
    )


def risk_coverage_chart(calibration: JSON) -> Chart:
    """Draw the share of wrong verdicts among those accepted, as the threshold falls and more are accepted."""
    curve = calibration["risk_coverage"]
    ticks = _round_ticks(0.0, max((each["risk"] for each in curve), default=0.0) or 0.05)
    places = [(_x_of_share(each["coverage"]), _y_of_share(each["risk"] / ticks[-1])) for each in curve]
    return Chart(
        across=[AxisTick(_x_of_share(at), f"{at:.0%}") for at in (0, 0.25, 0.5, 0.75, 1)],
        up=[AxisTick(_y_of_share(at / ticks[-1]), _percent_label(at)) for at in ticks],
        line=_polyline_points(places),
        dots=places if len(places) <= _DOTS else (),
    )


def trade_chart(runs: Sequence[CostAndValue]) -> Chart:
    """Draw a point a run: its cost against its accuracy, with the front of those that no other beats in both."""
    costs = [run.cost for run in runs]
    place, across = _cost_scale(costs)
    ends = [end for run in runs for end in (run.interval or (run.value,))]
    ticks = _round_ticks(min(*ends, *(run.value for run in runs)), max(*ends, *(run.value for run in runs)))
    low, spread = ticks[0], ticks[-1] - ticks[0]

    def scale_up(value: float) -> float:
        """Return the place of a value."""
        return _y_of_share((value - low) / spread)

    best = pareto_front(runs)
    points = [
        RunPoint(
            x=place(run.cost),
            y=scale_up(run.value),
            low=None if run.interval is None else scale_up(run.interval[0]),
            high=None if run.interval is None else scale_up(run.interval[1]),
            number=number,
            best=number - 1 in best,
        )
        for number, run in enumerate(runs, start=1)
    ]
    return Chart(
        across=across,
        up=[AxisTick(scale_up(at), _percent_label(at)) for at in ticks],
        points=points,
        line=_polyline_points(sorted((point.x, point.y) for point in points if point.best)),
    )


def pareto_front(runs: Sequence[CostAndValue]) -> set[int]:
    """Return the places of the runs on the Pareto front: no other is at least as cheap and as good, and better in one.

    A run whose cost isn't known whole is not on the front, and beats no other.
    """
    return {
        place
        for place, run in enumerate(runs)
        if run.whole
        and not any(
            other.cost <= run.cost and other.value >= run.value and (other.cost, other.value) != (run.cost, run.value)
            for other in runs
            if other.whole
        )
    }


def _cost_scale(costs: Sequence[float]) -> tuple[Scale, list[AxisTick]]:
    """Return a function from cost to place, and the ticks: logarithmic where costs are far apart, else from 0."""
    least, most = min(costs), max(costs)
    if least > 0 and most / least >= _APART:
        first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
        powers = [10.0**power for power in range(first, last + 1)]
        return (
            lambda cost: _x_of_share((math.log10(cost) - first) / (last - first)),
            [AxisTick(_x_of_share(at / (len(powers) - 1)), _amount_label(power)) for at, power in enumerate(powers)],
        )
    ticks = _round_ticks(0.0, most or 1.0)
    return lambda cost: _x_of_share(cost / ticks[-1]), [
        AxisTick(_x_of_share(at / ticks[-1]), _amount_label(at)) for at in ticks
    ]


def _round_ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers that hold both ends between them."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * each for each in _STEPS if power * each >= span / 4)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * at, 12) for at in range(first, max(last, first + 1) + 1)]


def _polyline_points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in places)


def _x_of_share(share: float) -> float:
    return round(LEFT + share * (RIGHT - LEFT), 2)


def _y_of_share(share: float) -> float:
    return round(BOTTOM - share * (BOTTOM - TOP), 2)


def _percent_label(share: float) -> str:
    return f"{100 * share:.4g}%"


def _amount_label(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"
