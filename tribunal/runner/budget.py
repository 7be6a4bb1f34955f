"""Limit what a run may spend, over all its starts and processes.

Nobody can know what a post will cost. One under way is counted at its own limit if it has one, otherwise at what the
dearest post so far has cost. Until one has cost anything, posts go one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.models.budget import NO_LIMITS, NO_SPENDING, Limits, Spending, spending_of
from tribunal.runner.journal import RESULTS, SUPERSEDED, read_line_starts
from tribunal.runner.prices import Prices
from tribunal.runner.results import summarize_result
from tribunal.settings.context import Context


@dataclass(frozen=True)
class RunLimits:
    """The limits of a run, and the costs of other runs that share the limits (`elsewhere`)."""

    most: Limits = NO_LIMITS
    elsewhere: Spending = NO_SPENDING

    def __bool__(self) -> bool:
        """Return whether anything is limited."""
        return self.most != NO_LIMITS

    def check_prices(self, prices: Prices | None) -> None:
        """Raise `BadInput` if the cost is limited, and there are no prices."""
        if self.most.money is not None and prices is None:
            raise BadInput("run_max_cost: takes prices by model; give --prices FILE")


UNLIMITED = RunLimits()


def total_spending(folder: Path, prices: Prices | None) -> Spending:
    """Return what all results in a run's folder cost."""
    return reduce(Spending.add, read_spending(folder, prices), NO_SPENDING)


def read_spending(folder: Path, prices: Prices | None) -> Iterator[Spending]:
    """Yield what each result in a run's folder cost, including superseded results."""
    price = prices.cost_of_call if prices else None
    for name in (RESULTS, SUPERSEDED):
        for start in read_line_starts(folder / name):
            result = summarize_result(start.line)
            if result is not None:
                yield spending_of(result.calls, price)


# What is counted, the option that limits it, and how it is told: of all that was spent, and of a post.
_KINDS = (
    ("calls", "--run-max-calls", "{:,} of at most {:,} calls are spent", "{:,}"),
    ("tokens", "--run-max-tokens", "{:,} of at most {:,} tokens are spent", "{:,}"),
    ("money", "--run-max-cost", "{:,.4f} of a cost of at most {:,.4f} is spent", "{:,.4f}"),
)


class RunBudget:
    """Counts the costs of a run, and the reservations of its running posts.

    Attributes:
        under_way: how many posts were begun and have not ended.
        repeated_posts: how many were begun again, since what their first try cost is unknown.
    """

    def __init__(
        self, limits: RunLimits, spent: Iterable[Spending] = (), context: Context | None = None
    ) -> None:
        """Start from what each result before, or all of them, have spent; the run's settings limit one post."""
        self._most = limits.most
        self._of_a_post = Limits(context.max_calls, context.max_tokens) if context else NO_LIMITS
        self._spent = limits.elsewhere
        self._dearest = NO_SPENDING
        self.under_way = self.repeated_posts = 0
        for each in spent:
            self._add_spending(each)

    def reserve_post(self) -> bool:
        """Reserve one more post. Return False if the budget has no room now, or none ever if no post is under way."""
        if next(self._limits_without_room(), None) is not None:
            return False
        if self.under_way and not self._cost_is_known():
            return False
        self.under_way += 1
        return True

    def settle_post(self, spent: Spending | None) -> None:
        """Replace a post's reservation by its cost; None is unknown, and counts as the full reservation."""
        spent = self._reservation if spent is None else spent
        self.under_way -= 1
        self._add_spending(spent)

    def count_repeated_post(self) -> None:
        """Count a post that is begun again: its first try counts as a whole reservation."""
        self.repeated_posts += 1
        self._add_spending(self._reservation)

    def explain_exhaustion(self, more: int = 1) -> str:
        """Return why this number of posts can't begin, and how to go on; empty if they can. 0: the running posts."""
        option, words = next(self._limits_without_room(more), ("", ""))
        return f"{words}; to go on, give {option}" if option else words

    def _add_spending(self, spent: Spending) -> None:
        self._spent = self._spent.add(spent)
        self._dearest = Spending(
            **{name: max(getattr(self._dearest, name), getattr(spent, name)) for name, *_ in _KINDS}
        )

    def _cost_is_known(self) -> bool:
        """Return whether the cost of a post is known in everything that is limited."""
        limited = [name for name, *_ in _KINDS if getattr(self._most, name) is not None]
        return bool(self._dearest.calls) or all(getattr(self._of_a_post, name) for name in limited)

    @property
    def _reservation(self) -> Spending:
        """Return the reservation of a running post; a post of unknown cost counts as this."""
        return Spending(
            **{
                name: getattr(self._of_a_post, name) or getattr(self._dearest, name)
                for name, *_ in _KINDS
            }
        )

    def _limits_without_room(self, more: int = 1) -> Iterator[tuple[str, str]]:
        """Yield the limits that do not suffice for so many more posts, by option and in words."""
        held = self._reservation
        for name, option, words, number in _KINDS:
            limit = getattr(self._most, name)
            if limit is None:
                continue
            spent = getattr(self._spent, name)
            one = getattr(held, name)
            if name == "money" and self._spent.unpriced:
                yield (
                    "",
                    "a model has no price, so what the run costs is not known; add it to the file of --prices",
                )
            elif (more and spent >= limit) or spent + one * (self.under_way + more) > limit:
                said = words.format(spent, limit)
                said += (
                    f", and a post may take {number.format(one)}" if one and spent < limit else ""
                )
                yield f"{option} more than {limit:,}", said
