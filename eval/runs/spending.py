"""What a whole run may spend: calls, tokens and money, over all its starts and all its processes.

What a post will cost nobody can know before, so one under way is held at its own limit where it has one, and else at
what the dearest so far has cost. Until one has cost anything, posts go alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import NamedTuple, Protocol

from tribunal.context import Context
from tribunal.errors import BadInput
from tribunal.eval.runs.earlier import PricedEarlier, read_earlier
from tribunal.eval.runs.journal import RESULTS, SUPERSEDED, line_starts
from tribunal.eval.runs.prices import PricedCall, Prices
from tribunal.rehearsed import REHEARSAL


class Spent(NamedTuple):
    """What was spent. A cost of None is not known: a call's model has no price."""

    calls: int = 0
    tokens: int = 0
    cost: float | None = 0.0

    def and_(self, other: Spent) -> Spent:
        """Both together."""
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Spent(self.calls + other.calls, self.tokens + other.tokens, cost)


NOTHING = Spent()


@dataclass(frozen=True)
class Limits:
    """What a run may spend at most; None: as much as it takes. Calls count as often as they were sent.

    `elsewhere` is what other runs have spent that share the limits.
    """

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    elsewhere: Spent = NOTHING

    def __bool__(self) -> bool:
        return (self.calls, self.tokens, self.cost) != (None, None, None)

    def check(self, prices: Prices | None) -> None:
        """See that what is limited can be known.

        Raises:
            BadInput: a cost is limited, and there are no prices.
        """
        if self.cost is not None and prices is None:
            raise BadInput("run_max_cost: takes prices by model; give --prices FILE")


NO_LIMITS = Limits()


class SpentCall(PricedCall, Protocol):
    """A call, as it was made or as it is read back."""

    @property
    def attempts(self) -> int: ...


def spent_on(calls: Iterable[SpentCall], prices: Prices | None) -> Spent:
    """What calls have cost; answers from our own cache, and the rehearsal model's, cost nothing."""
    paid = [call for call in calls if not call.cached]
    costs = [0.0 if call.model == REHEARSAL or prices is None else prices.of(call) for call in paid]
    known = [cost for cost in costs if cost is not None]
    return Spent(
        calls=sum(call.attempts for call in paid),
        tokens=sum(call.prompt_tokens + call.completion_tokens for call in paid),
        cost=sum(known) if len(known) == len(costs) else None,
    )


def spent_in_all(folder: Path, prices: Prices | None) -> Spent:
    """What the results in a run's folder have cost together. Errors as `spent_before`."""
    return reduce(Spent.and_, spent_before(folder, prices), NOTHING)


def spent_before(folder: Path, prices: Prices | None) -> Iterator[Spent]:
    """What each result in a run's folder has cost, those that were set aside and decided anew included.

    Raises:
        BadInput: a line is none of a run's.
    """
    for name in (RESULTS, SUPERSEDED):
        for start in line_starts(folder / name):
            if isinstance(result := read_earlier(start.line, priced=True), PricedEarlier):
                yield spent_on(result.calls, prices)


# What is counted, the option that limits it, and how it is said: of all that was spent, and of a post.
_KINDS = (
    ("calls", "--run-max-calls", "{:,} of at most {:,} calls are spent", "{:,}"),
    ("tokens", "--run-max-tokens", "{:,} of at most {:,} tokens are spent", "{:,}"),
    ("cost", "--run-max-cost", "{:,.4f} of a cost of at most {:,.4f} is spent", "{:,.4f}"),
)


class Ledger:
    """What a run has spent, and what the posts under way may still take.

    Attributes:
        under_way: how many posts were begun and have not ended.
    """

    def __init__(self, limits: Limits, spent: Iterable[Spent] = (), context: Context | None = None) -> None:
        """
        Args:
            limits: of the whole run.
            spent: what was spent before: of each result, or in all.
            context: the run's settings, for what one post may take.
        """
        self._limits = limits
        self._of_a_post = Limits(context.max_calls, context.max_tokens) if context else Limits()
        self._spent, self._dearest = limits.elsewhere, NOTHING
        self.under_way = 0
        for each in spent:
            self._add(each)

    def take(self) -> bool:
        """Whether another post may begin. If not, it may once one under way has ended; if none is, not at all."""
        if next(self._short(), None) is not None:
            return False
        if self.under_way and not self._known():
            return False
        self.under_way += 1
        return True

    def settle(self, calls: int = 0, tokens: int = 0, cost: float | None = 0.0) -> None:
        """A post under way has ended, and cost this; a cost of None is not known, and ends a run that limits it."""
        self.under_way -= 1
        self._add(Spent(calls, tokens, cost))

    def lose(self) -> None:
        """A post under way has ended, and nobody knows what it cost: it counts as what it was held at."""
        self.settle(*self._held)

    def begin_again(self) -> None:
        """A post under way is begun once more, and nobody knows what it had cost before."""
        self._add(self._held)

    def why(self) -> str:
        """Why no other post may begin, and the way on."""
        option, words = next(self._short(), ("", ""))
        return f"{words}; to go on, give {option}" if option else words

    def _add(self, spent: Spent) -> None:
        self._spent = self._spent.and_(spent)
        dearest = max(self._dearest.cost or 0.0, spent.cost or 0.0)
        self._dearest = Spent(max(self._dearest.calls, spent.calls), max(self._dearest.tokens, spent.tokens), dearest)

    def _known(self) -> bool:
        """Whether anything is known of what a post costs, of all that is limited."""
        limited = [name for name, *_ in _KINDS if getattr(self._limits, name) is not None]
        return bool(self._dearest.calls) or all(getattr(self._of_a_post, name) for name in limited)

    @property
    def _held(self) -> Spent:
        """What a post under way may take; what one has cost that nobody knows the cost of counts as this."""
        own = self._of_a_post
        return Spent(own.calls or self._dearest.calls, own.tokens or self._dearest.tokens, self._dearest.cost)

    def _short(self) -> Iterator[tuple[str, str]]:
        """The limits that don't reach for one more post, by their options and in words."""
        held = self._held
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
