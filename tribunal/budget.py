"""Count what a post has cost and may still spend: on a call, on calls made at the same time, and on equal draws.

A request counts as often as it was sent, retries and re-asks included; answers from the cache cost nothing. One request
is kept for the last word, so that a post gets a decision, however small its budget. What a key's daily budget allows a
post (`tribunal.allowance`) is one more limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tribunal.allowance import Spending, current_allowance
from tribunal.context import Context
from tribunal.errors import BudgetSpent
from tribunal.schema import JSON

LAST_WORD = 1

Drawn = TypeVar("Drawn")


def count_requests(calls: Sequence[JSON]) -> int:
    """Return how many requests calls have cost."""
    return sum(call["attempts"] for call in calls if not call["cached"])


def count_tokens_paid(calls: Sequence[Mapping[str, Any]]) -> int:
    """Return how many tokens calls have cost, in and out."""
    return sum(call["prompt_tokens"] + call["completion_tokens"] for call in calls if not call["cached"])


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
        limits = ((self.context.max_calls or most.calls, "calls"), (self.context.max_tokens or most.tokens, "tokens"))
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
        return max(0, min([wanted, *(each - self.reserved - kept for each in left if each is not None)]))

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
    """Return the state of a case as it is sent to those who leave so many requests to others."""
    return {**state, "reserved": requests}


def renew_budget(state: Mapping[str, Any]) -> JSON:
    """Return an update that gives one more trial a budget of its own: what was paid so far no longer counts."""
    return {"budget_spent": False, "budget_from": len(state.get("calls", []))}


class DrawBudget:
    """A budget from which equal draws are paid that are made at the same time.

    A draw costs what the dearest one so far has cost, as far as anybody can know. Where there is a limit the first draw
    is therefore made alone, and always. `calls` are all that were paid for, in the order in which they were.
    """

    def __init__(self, context: Context) -> None:
        """Begin with nothing paid."""
        self.calls: list[JSON] = []
        self._budget = Budget(context, self.calls)
        self.limits = self._budget.limits
        self._dearest = (0, 0)  # requests, tokens
        self._under_way = 0
        self._first = asyncio.Event()

    async def pay(self, number: int, draw: Callable[[], Awaitable[tuple[Drawn, Sequence[JSON]]]]) -> Drawn:
        """Make a draw, if the budget reaches for it.

        Args:
            number: which draw it is; 0 is made at once, and the others wait for it where there is a limit.
            draw: gives what was drawn, and its calls; a `ModelError` carries them itself.

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
