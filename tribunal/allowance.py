"""Bound what a trial sends: calls, tokens and money, counted before each request, so that no limit is exceeded.

A budget (`tribunal.budget`) looks at what calls have cost once they are over. From an allowance a request takes, before
it is sent, the most that it can cost; what it didn't cost is given back once it is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from pydantic import Field

from tribunal.calls import REHEARSAL, Frozen

# Cost of so many tokens of a model, by its name: of the prompt, of it cached by the provider, of the answer. None: it
# has no price.
CostOfTokens = Callable[[str, int, int, int], float | None]


class Spending(Frozen):
    """The cost of a case, a request or a run: calls as often as they were sent, tokens in and out, and money.

    The money lacks that of the `unpriced` calls, whose models have no price.
    """

    calls: int = 0
    tokens: int = 0
    money: float = 0.0
    unpriced: int = Field(default=0, exclude=True)

    @property
    def known_money(self) -> float | None:
        """Return the money; None if a call has no price."""
        return None if self.unpriced else self.money

    def add(self, other: Spending) -> Spending:
        """Return the sum of both."""
        return Spending(
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            money=self.money + other.money,
            unpriced=self.unpriced + other.unpriced,
        )


NO_SPENDING = Spending()


class PaidCall(Protocol):
    """A call as a record or a result has it."""

    @property
    def model(self) -> str:
        """Return the name of its model."""

    @property
    def cached(self) -> bool:
        """Return whether our own cache answered it."""

    @property
    def attempts(self) -> int:
        """Return how often it was sent."""

    @property
    def prompt_tokens(self) -> int:
        """Return the tokens of its prompts."""

    @property
    def completion_tokens(self) -> int:
        """Return the tokens of its answers."""


def spending_of(calls: Iterable[PaidCall], price: Callable[[Any], float | None] | None) -> Spending:
    """Return what calls have cost; `price` gives the money of one, or None. The rehearsal model costs none."""
    paid = [call for call in calls if not call.cached]
    costs = [0.0 if call.model == REHEARSAL else price(call) if price else None for call in paid]
    return Spending(
        calls=sum(call.attempts for call in paid),
        tokens=sum(call.prompt_tokens + call.completion_tokens for call in paid),
        money=sum(cost for cost in costs if cost is not None),
        unpriced=costs.count(None),
    )


class Limits(NamedTuple):
    """The most of each that may be spent; None: no limit."""

    calls: int | None = None
    tokens: int | None = None
    money: float | None = None


NO_LIMITS = Limits()


@dataclass
class PaidRequest:
    """A request that was paid for from an allowance: the most that it can cost until it is over, then what it cost."""

    model: str
    cost: Spending


class Allowance:
    """The allowance of one trial, which counts all that is sent in it."""

    def __init__(self, most: Limits = NO_LIMITS, cost: CostOfTokens = lambda *tokens: None) -> None:
        """Begin with nothing spent."""
        self.most, self._cost = most, cost
        self._spent = Spending()
        self._under_way: dict[int, PaidRequest] = {}
        self._closed = False

    @property
    def counts_tokens(self) -> bool:
        """Return whether it matters how many tokens a request may take."""
        return self.most.tokens is not None or self.most.money is not None

    @property
    def total_spent(self) -> Spending:
        """Return what was spent. A request under way counts as the most that it can cost."""
        spent = self._spent
        for request in self._under_way.values():
            spent = spent.add(request.cost)
        return spent

    @property
    def calls_left(self) -> int | None:
        """Return how many more requests may be sent; None: any number."""
        return None if self.most.calls is None else self.most.calls - self.total_spent.calls

    def covers(self, needed: Spending) -> bool:
        """Return whether so much is left."""
        if self._closed:
            return False
        pairs = ((self.most.calls, "calls"), (self.most.tokens, "tokens"), (self.most.money, "money"))
        limited = [(limit, name) for limit, name in pairs if limit is not None]
        together = self.total_spent.add(needed) if limited else needed
        return all(getattr(together, name) <= limit for limit, name in limited)

    def begin(self, model: str, prompt_tokens: int, answer_tokens: int, *, final: bool) -> PaidRequest | None:
        """Take the most that a request can cost, before it is sent.

        Args:
            model: its name.
            prompt_tokens: the most that its prompt can have.
            answer_tokens: the most that its answer can have.
            final: whether it is the last word of the case; any other one leaves as much for that.

        Returns:
            the request, to be given to `end`; None where not enough is left.
        """
        money = self._cost(model, prompt_tokens, 0, answer_tokens) or 0.0
        cost = Spending(calls=1, tokens=prompt_tokens + answer_tokens, money=money)
        if not self.covers(cost if final else cost.add(cost)):
            return None
        request = PaidRequest(model, cost)
        self._under_way[id(request)] = request
        return request

    def note_tokens(self, request: PaidRequest, prompt_tokens: int, cached_tokens: int, answer_tokens: int) -> None:
        """Note what a request took, as the provider says it."""
        money = self._cost(request.model, prompt_tokens, cached_tokens, answer_tokens) or 0.0
        request.cost = Spending(calls=1, tokens=prompt_tokens + answer_tokens, money=money)

    def end(self, request: PaidRequest) -> None:
        """Count a request that is over, and give back what it didn't take."""
        if self._under_way.pop(id(request), None) is not None:
            self._spent = self._spent.add(request.cost)

    def close(self) -> Spending:
        """Let nothing more be sent, and return what was spent."""
        spent = self.total_spent
        self._closed = True
        return spent


_ALLOWANCE: ContextVar[Allowance | None] = ContextVar("tribunal_allowance", default=None)


def current_allowance() -> Allowance:
    """Return the allowance of the trial that this is part of, or one without limits if it has none."""
    return _ALLOWANCE.get() or Allowance()


@contextmanager
def spend_from(allowance: Allowance) -> Iterator[None]:
    """Let every request within the block be paid for from an allowance."""
    token = _ALLOWANCE.set(allowance)
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)
