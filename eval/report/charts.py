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


class Tick(NamedTuple):
    """A place on an axis, and what stands there."""

    at: float
    label: str


class Bar(NamedTuple):
    """A bin of confidence: its bar, the height of what was said, and how many verdicts are in it."""

    x: float
    y: float
    width: float
    height: float
    said: float
    n: int


class Point(NamedTuple):
    """A run: where it stands, the ends of its interval, and whether no other run is both cheaper and better."""

    x: float
    y: float
    low: float | None
    high: float | None
    number: int
    best: bool


class Chart(NamedTuple):
    """What is drawn. `line` is a polyline's points, and `dots` are places on it."""

    across: Sequence[Tick]
    up: Sequence[Tick]
    bars: Sequence[Bar] = ()
    points: Sequence[Point] = ()
    line: str = ""
    dots: Sequence[tuple[float, float]] = ()


class Traded(NamedTuple):
    """What a run cost a post, in money or tokens, and how good it is: fractions.

    `whole` is false where the run made calls that nobody saw, so that it cost more than is known.
    """

    cost: float
    value: float
    interval: Sequence[float] | None
    whole: bool = True


def reliability(calibration: JSON) -> Chart:
    """A bar a bin, as high as its accuracy; on the diagonal, confidence means what it says."""
    bars = []
    for each in calibration["reliability"]:
        left, right, top = _across(each["from"]), _across(each["to"]), _up(each["accuracy"])
        bars.append(
            Bar(
                x=left + 1,
                y=top,
                width=round(right - left - 2, 2),
                height=round(BOTTOM - top, 2),
                said=_up(each["confidence"]),
                n=each["n"],
            )
        )
    quarters = (0, 0.25, 0.5, 0.75, 1)
    return Chart(
        across=[Tick(_across(at), f"{at:.0%}") for at in quarters],
        up=[Tick(_up(at), f"{at:.0%}") for at in quarters],
        bars=bars,
    )


def risk_coverage(calibration: JSON) -> Chart:
    """The share of wrong verdicts among those accepted, as the threshold falls and more are accepted."""
    curve = calibration["risk_coverage"]
    ticks = _ticks(0.0, max((each["risk"] for each in curve), default=0.0) or 0.05)
    places = [(_across(each["coverage"]), _up(each["risk"] / ticks[-1])) for each in curve]
    return Chart(
        across=[Tick(_across(at), f"{at:.0%}") for at in (0, 0.25, 0.5, 0.75, 1)],
        up=[Tick(_up(at / ticks[-1]), _percent(at)) for at in ticks],
        line=_line(places),
        dots=places if len(places) <= _DOTS else (),
    )


def trade(runs: Sequence[Traded]) -> Chart:
    """A point a run: what it cost against how good it is, with the front of those that no other beats in both."""
    costs = [run.cost for run in runs]
    place, across = _scale(costs)
    ends = [end for run in runs for end in (run.interval or (run.value,))]
    ticks = _ticks(min(*ends, *(run.value for run in runs)), max(*ends, *(run.value for run in runs)))
    low, spread = ticks[0], ticks[-1] - ticks[0]

    def up(value: float) -> float:
        return _up((value - low) / spread)

    best = front(runs)
    points = [
        Point(
            x=place(run.cost),
            y=up(run.value),
            low=None if run.interval is None else up(run.interval[0]),
            high=None if run.interval is None else up(run.interval[1]),
            number=number,
            best=number - 1 in best,
        )
        for number, run in enumerate(runs, start=1)
    ]
    return Chart(
        across=across,
        up=[Tick(up(at), _percent(at)) for at in ticks],
        points=points,
        line=_line(sorted((point.x, point.y) for point in points if point.best)),
    )


def front(runs: Sequence[Traded]) -> set[int]:
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


def _scale(costs: Sequence[float]) -> tuple[Scale, list[Tick]]:
    """From cost to place, and the marks: logarithmic where costs are far apart, else from 0."""
    least, most = min(costs), max(costs)
    if least > 0 and most / least >= _APART:
        first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
        powers = [10.0**power for power in range(first, last + 1)]
        return (
            lambda cost: _across((math.log10(cost) - first) / (last - first)),
            [Tick(_across(at / (len(powers) - 1)), _amount(power)) for at, power in enumerate(powers)],
        )
    ticks = _ticks(0.0, most or 1.0)
    return lambda cost: _across(cost / ticks[-1]), [Tick(_across(at / ticks[-1]), _amount(at)) for at in ticks]


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers that hold both ends between them."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * each for each in _STEPS if power * each >= span / 4)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * at, 12) for at in range(first, max(last, first + 1) + 1)]


def _line(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in places)


def _across(share: float) -> float:
    return round(LEFT + share * (RIGHT - LEFT), 2)


def _up(share: float) -> float:
    return round(BOTTOM - share * (BOTTOM - TOP), 2)


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _amount(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"
