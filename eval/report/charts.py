"""The scales of the report's charts, which the page draws as SVG (`charts.html.jinja`), and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

LEFT, RIGHT, TOP, BOTTOM = 48, 348, 14, 228  # of the box that is drawn in, in the units of the page; y goes downward
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
            other.cost <= run.cost and other.value >= run.value and (other.cost, other.value) != (run.cost, run.value)
            for other in runs
            if other.whole
        )
    }


def rivals_within_intervals(runs: Sequence[CostAndValue], place: int) -> list[int]:
    """Return the places of the runs that may be at least as cheap and as good as one, as far as intervals tell.

    Empty where its place is sure: no other may be so, or another is so at every end of the intervals.
    """
    run = runs[place]
    least, most = run.cost_ends or (run.cost, run.cost)
    low, high = run.value_ends or (0.0, 1.0)
    found = []
    for at, other in enumerate(runs):
        if at == place or not other.whole:
            continue
        cheap, dear = other.cost_ends or (other.cost, other.cost)
        bad, good = other.value_ends or (0.0, 1.0)
        if dear <= least and bad > high:
            return []
        if cheap <= most and good >= low:
            found.append(at)
    return found


def percent_axis(low: float, high: float) -> Axis:
    """Return the scale of shares that holds both ends."""
    return Axis(_round_ticks(low, high), lambda share: f"{100 * share:.4g}%")


def cost_axis(costs: Sequence[float]) -> Axis:
    """Return the scale of costs: logarithmic where they are far apart, else from 0."""
    least, most = min(costs), max(costs)
    if far_apart := least > 0 and most / least >= _APART:
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
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * at, 12) for at in range(first, max(last, first + 1) + 1)]
