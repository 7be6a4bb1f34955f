"""Budgets of a case, a run or a key: calls and tokens, reserved before a call and settled after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from pydantic import Field

from tribunal.core.calls import REHEARSAL, Frozen
from tribunal.errors import BudgetSpent
from tribunal.schema import JSON
from tribunal.settings.context import Context

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
    """A request paid from an allowance. While it runs, it counts with its highest possible cost."""

    model: str
    cost: Spending


class Allowance:
    """The allowance of one trial, which counts all that is sent in it."""

    def __init__(self, most: Limits = NO_LIMITS, cost: CostOfTokens = lambda *tokens: None) -> None:
        """Begin with nothing spent."""
        self.most = most
        self._cost = cost
        self._spent = Spending()
        self._under_way: dict[int, PaidRequest] = {}
        self._closed = False

    @property
    def counts_tokens(self) -> bool:
        """Return whether it matters how many tokens a request may take."""
        return self.most.tokens is not None or self.most.money is not None

    @property
    def total_spent(self) -> Spending:
        """Return the sum of all costs. A running request counts with its highest possible cost."""
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
        pairs = (
            (self.most.calls, "calls"),
            (self.most.tokens, "tokens"),
            (self.most.money, "money"),
        )
        limited = [(limit, name) for limit, name in pairs if limit is not None]
        together = self.total_spent.add(needed) if limited else needed
        return all(getattr(together, name) <= limit for limit, name in limited)

    def begin(
        self, model: str, prompt_tokens: int, answer_tokens: int, *, final: bool
    ) -> PaidRequest | None:
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

    def note_tokens(
        self, request: PaidRequest, prompt_tokens: int, cached_tokens: int, answer_tokens: int
    ) -> None:
        """Record the tokens of a request as the provider reports them."""
        money = self._cost(request.model, prompt_tokens, cached_tokens, answer_tokens) or 0.0
        request.cost = Spending(calls=1, tokens=prompt_tokens + answer_tokens, money=money)

    def end(self, request: PaidRequest) -> None:
        """Count a finished request, and release the unused part of its reservation."""
        if self._under_way.pop(id(request), None) is not None:
            self._spent = self._spent.add(request.cost)

    def close(self) -> Spending:
        """Refuse all further requests, and return the sum of all costs."""
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


LAST_WORD = 1

Drawn = TypeVar("Drawn")


def count_requests(calls: Sequence[JSON]) -> int:
    """Return how many requests calls have cost."""
    return sum(call["attempts"] for call in calls if not call["cached"])


def count_tokens_paid(calls: Sequence[Mapping[str, Any]]) -> int:
    """Return how many tokens calls have cost, in and out."""
    return sum(
        call["prompt_tokens"] + call["completion_tokens"] for call in calls if not call["cached"]
    )


@dataclass(frozen=True)
class Budget:
    """The limits of a post, and the calls that it has paid for.

    `reserved` requests are left to others, who speak at the same time or later: they count as spent.
    """

    context: Context
    paid: Sequence[JSON] = ()
    reserved: int = 0

    @classmethod
    def from_state(cls, context: Context, state: Mapping[str, Any]) -> Budget:
        """Return the budget of a case. A trial that a reviewer asked for has its own, from `budget_from` on."""
        paid: Sequence[JSON] = state.get("calls", [])
        return cls(context, paid[state.get("budget_from") or 0 :], state.get("reserved") or 0)

    @property
    def limits(self) -> str:
        """Return the budget in words; empty where there is none."""
        most = current_allowance().most
        limits = (
            (self.context.max_calls or most.calls, "calls"),
            (self.context.max_tokens or most.tokens, "tokens"),
        )
        return " and ".join(f"{limit} {unit}" for limit, unit in limits if limit)

    def reaches(self, requests: int, tokens: int) -> bool:
        """Return whether there is enough left for so much."""
        return self.most(requests) == requests and self._has_tokens(tokens)

    def affords(self, calls: int) -> bool:
        """Return whether so many calls may be made now, and the last word after them.

        What tokens they will cost nobody can know, so any that are left do.
        """
        return self.reaches(calls + LAST_WORD, tokens=1)

    def most(self, wanted: int, *, kept: int = 0) -> int:
        """Return how many of so many calls may be made, where some are kept for others; only requests are counted."""
        left = [current_allowance().calls_left]
        if self.context.max_calls is not None:
            left.append(self.context.max_calls - count_requests(self.paid))
        return max(
            0, min([wanted, *(each - self.reserved - kept for each in left if each is not None)])
        )

    def check(self, seat: str) -> None:
        """Raise `BudgetSpent` where this seat can't be asked, and the last word after it."""
        most = current_allowance().most
        if self.most(1 + LAST_WORD) < 1 + LAST_WORD:
            spent = f"{self.context.max_calls or most.calls} calls"
        elif not self._has_tokens(1):
            spent = f"{self.context.max_tokens or most.tokens} tokens"
        else:
            return
        raise BudgetSpent(f"the budget of {spent} was spent before the {seat} could speak")

    def _has_tokens(self, wanted: int) -> bool:
        limit = self.context.max_tokens
        is_within_own = limit is None or count_tokens_paid(self.paid) + wanted <= limit
        return is_within_own and current_allowance().covers(Spending(tokens=wanted))


def reserve_requests(state: Mapping[str, Any], requests: int) -> JSON:
    """Return the state of a case for nodes that must leave this number of requests to later nodes."""
    return {**state, "reserved": requests}


def renew_budget(state: Mapping[str, Any]) -> JSON:
    """Return an update that gives a second trial its own budget: earlier costs no longer count."""
    return {"budget_spent": False, "budget_from": len(state.get("calls", []))}


class DrawBudget:
    """A budget from which equal draws are paid that are made at the same time.

    A draw is expected to cost as much as the most expensive draw so far. With a limit, the first draw is
    therefore always made before the others. `calls` are all paid calls, in order.
    """

    def __init__(self, context: Context) -> None:
        """Begin with nothing paid."""
        self.calls: list[JSON] = []
        self._budget = Budget(context, self.calls)
        self.limits = self._budget.limits
        self._dearest = (0, 0)  # requests, tokens
        self._under_way = 0
        self._first = asyncio.Event()

    async def pay(
        self, number: int, draw: Callable[[], Awaitable[tuple[Drawn, Sequence[JSON]]]]
    ) -> Drawn:
        """Make a draw, if the budget reaches for it.

        Args:
            number: which draw it is; 0 is made at once, and the others wait for it where there is a limit.
            draw: makes a draw, and returns its result and its calls; a `ModelError` carries its own calls.

        Raises:
            BudgetSpent: it would cost more than is left.
        """
        if number and self.limits:
            await self._first.wait()
            if not self._budget.reaches(*(each * (self._under_way + 1) for each in self._dearest)):
                raise BudgetSpent(f"the budget of {self.limits} did not reach for another draw")
        self._under_way += 1
        calls: Sequence[JSON] = ()
        try:
            drawn, calls = await draw()
        except Exception as error:
            calls = getattr(error, "calls", ())
            raise
        finally:
            self._under_way -= 1
            self.calls += calls
            requests, tokens = self._dearest
            self._dearest = (
                max(requests, count_requests(calls), 1),
                max(tokens, count_tokens_paid(calls)),
            )
            self._first.set()
        return drawn
