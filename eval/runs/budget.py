"""Limit what a whole run may spend in calls, tokens and money, over all its starts and processes.

What a post will cost nobody can know before, so one under way is held at its own limit where it has one, and else at
what the dearest so far has cost. Until one has cost anything, posts go alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from tribunal.calls import REHEARSAL
from tribunal.context import Context
from tribunal.errors import BadInput
from tribunal.eval.runs.journal import RESULTS, SUPERSEDED, read_line_starts
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.results import ResultCall, summarize_result
from tribunal.schema import Call


class RunSpending(NamedTuple):
    """Count what was spent. The cost is None if a called model has no price."""

    calls: int = 0
    tokens: int = 0
    cost: float | None = 0.0

    def add(self, other: RunSpending) -> RunSpending:
        """Return the sum of both."""
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return RunSpending(self.calls + other.calls, self.tokens + other.tokens, cost)


NO_SPENDING = RunSpending()


@dataclass(frozen=True)
class RunLimits:
    """Limit a run's spending; None means no limit. Each sent request counts as a call.

    `elsewhere` is what other runs have spent that share the limits.
    """

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    elsewhere: RunSpending = NO_SPENDING

    def __bool__(self) -> bool:
        """Return whether anything is limited."""
        return (self.calls, self.tokens, self.cost) != (None, None, None)

    def check_prices(self, prices: Prices | None) -> None:
        """Raise `BadInput` if the cost is limited, and there are no prices."""
        if self.cost is not None and prices is None:
            raise BadInput("run_max_cost: takes prices by model; give --prices FILE")


NO_LIMITS = RunLimits()


def spending_of_calls(calls: Iterable[Call | ResultCall], prices: Prices | None) -> RunSpending:
    """Return what calls cost. Cached answers and the rehearsal model cost nothing."""
    paid = [call for call in calls if not call.cached]
    costs = [0.0 if call.model == REHEARSAL or prices is None else prices.cost_of_call(call) for call in paid]
    known = [cost for cost in costs if cost is not None]
    return RunSpending(
        calls=sum(call.attempts for call in paid),
        tokens=sum(call.prompt_tokens + call.completion_tokens for call in paid),
        cost=sum(known) if len(known) == len(costs) else None,
    )


def total_spending(folder: Path, prices: Prices | None) -> RunSpending:
    """Return what all results in a run's folder cost."""
    return reduce(RunSpending.add, read_spending(folder, prices), NO_SPENDING)


def read_spending(folder: Path, prices: Prices | None) -> Iterator[RunSpending]:
    """Yield what each result in a run's folder cost, including superseded results."""
    for name in (RESULTS, SUPERSEDED):
        for start in read_line_starts(folder / name):
            if (result := summarize_result(start.line)) is not None:
                yield spending_of_calls(result.calls, prices)


# What is counted, the option that limits it, and how it is said: of all that was spent, and of a post.
_KINDS = (
    ("calls", "--run-max-calls", "{:,} of at most {:,} calls are spent", "{:,}"),
    ("tokens", "--run-max-tokens", "{:,} of at most {:,} tokens are spent", "{:,}"),
    ("cost", "--run-max-cost", "{:,.4f} of a cost of at most {:,.4f} is spent", "{:,.4f}"),
)


class RunBudget:
    """Track what a run has spent and what its posts under way may still spend.

    Attributes:
        under_way: how many posts were begun and have not ended.
        repeated_posts: how many were begun again, since what their first try cost is unknown.
    """

    def __init__(self, limits: RunLimits, spent: Iterable[RunSpending] = (), context: Context | None = None) -> None:
        """Start from what each result before, or all of them, have spent; the run's settings limit one post."""
        self._limits = limits
        self._of_a_post = RunLimits(context.max_calls, context.max_tokens) if context else RunLimits()
        self._spent, self._dearest = limits.elsewhere, NO_SPENDING
        self.under_way = self.repeated_posts = 0
        for each in spent:
            self._add_spending(each)

    def reserve_post(self) -> bool:
        """Reserve one more post. Return False if the budget has no room now, or none ever if no post is under way."""
        if next(self._exceeded_limits(), None) is not None:
            return False
        if self.under_way and not self._cost_is_known():
            return False
        self.under_way += 1
        return True

    def settle_post(self, spent: RunSpending | None) -> None:
        """Replace a post's reservation by what it spent; None is unknown, and counts as the whole reservation."""
        spent = self._reservation if spent is None else spent
        self.under_way -= 1
        self._add_spending(spent)

    def count_repeated_post(self) -> None:
        """Count a post that is begun again: its first try counts as a whole reservation."""
        self.repeated_posts += 1
        self._add_spending(self._reservation)

    def explain_exhaustion(self) -> str:
        """Return why no other post may begin, and how to go on."""
        option, words = next(self._exceeded_limits(), ("", ""))
        return f"{words}; to go on, give {option}" if option else words

    def _add_spending(self, spent: RunSpending) -> None:
        self._spent = self._spent.add(spent)
        dearest = max(self._dearest.cost or 0.0, spent.cost or 0.0)
        self._dearest = RunSpending(
            max(self._dearest.calls, spent.calls), max(self._dearest.tokens, spent.tokens), dearest
        )

    def _cost_is_known(self) -> bool:
        """Return whether the cost of a post is known in everything that is limited."""
        limited = [name for name, *_ in _KINDS if getattr(self._limits, name) is not None]
        return bool(self._dearest.calls) or all(getattr(self._of_a_post, name) for name in limited)

    @property
    def _reservation(self) -> RunSpending:
        """Return what one post under way may spend; a post of unknown cost counts as this."""
        own = self._of_a_post
        return RunSpending(own.calls or self._dearest.calls, own.tokens or self._dearest.tokens, self._dearest.cost)

    def _exceeded_limits(self) -> Iterator[tuple[str, str]]:
        """Yield the limits that do not suffice for one more post, by option and in words."""
        held = self._reservation
        for name, option, words, number in _KINDS:
            limit = getattr(self._limits, name)
            if limit is None:
                continue
            spent, one = getattr(self._spent, name), getattr(held, name)
            if spent is None:
                yield "", "a model has no price, so what the run costs is not known; add it to the file of --prices"
            elif spent >= limit or spent + one * (self.under_way + 1) > limit:
                said = words.format(spent, limit)
                said += f", and a post may take {number.format(one)}" if one and spent < limit else ""
                yield f"{option} more than {limit:,}", said
