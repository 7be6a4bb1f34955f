"""What a post has cost and may still spend: on a call, on calls made at the same time, and on equal draws.

A request counts as often as it was sent, retries and re-asks included; answers from the cache cost nothing. One request
is kept for the last word, so that a post gets a decision, however small its budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tribunal.context import Context
from tribunal.errors import BudgetSpent
from tribunal.schema import JSON

LAST_WORD = 1

Drawn = TypeVar("Drawn")


def requests_of(calls: Sequence[JSON]) -> int:
    """How many requests calls have cost."""
    return sum(call["attempts"] for call in calls if not call["cached"])


def tokens_of(calls: Sequence[Mapping[str, Any]]) -> int:
    """How many tokens calls have cost, in and out."""
    return sum(call["prompt_tokens"] + call["completion_tokens"] for call in calls if not call["cached"])


@dataclass(frozen=True)
class Budget:
    """What a post may spend, and the calls that it has paid for.

    `reserved` requests are left to others, who speak at the same time or later: they count as spent.
    """

    context: Context
    paid: Sequence[JSON] = ()
    reserved: int = 0

    @classmethod
    def of(cls, context: Context, state: Mapping[str, Any]) -> Budget:
        """The budget of a case. A trial that a reviewer asked for has one of its own, from `budget_from` on."""
        paid: Sequence[JSON] = state.get("calls", [])
        return cls(context, paid[state.get("budget_from") or 0 :], state.get("reserved") or 0)

    @property
    def limits(self) -> str:
        """The budget in words; empty where there is none."""
        limits = ((self.context.max_calls, "calls"), (self.context.max_tokens, "tokens"))
        return " and ".join(f"{limit} {unit}" for limit, unit in limits if limit)

    def reaches(self, requests: int, tokens: int) -> bool:
        """Whether there is enough left for so much."""
        return self._has_requests(requests) and self._has_tokens(tokens)

    def affords(self, calls: int) -> bool:
        """Whether so many calls may be made now, and the last word after them.

        What tokens they will cost nobody can know, so any that are left do.
        """
        return self.reaches(calls + LAST_WORD, tokens=1)

    def most(self, wanted: int, *, kept: int = 0) -> int:
        """How many of so many calls may be made, where some are kept for others; only requests are counted."""
        if self.context.max_calls is None:
            return wanted
        return max(0, min(wanted, self.context.max_calls - self._requests() - kept))

    def check(self, seat: str) -> None:
        """Raise `BudgetSpent` where this seat can't be asked, and the last word after it."""
        if not self._has_requests(1 + LAST_WORD):
            spent = f"{self.context.max_calls} calls"
        elif not self._has_tokens(1):
            spent = f"{self.context.max_tokens} tokens"
        else:
            return
        raise BudgetSpent(f"the budget of {spent} was spent before the {seat} could speak")

    def _requests(self) -> int:
        return requests_of(self.paid) + self.reserved

    def _has_requests(self, wanted: int) -> bool:
        limit = self.context.max_calls
        return limit is None or self._requests() + wanted <= limit

    def _has_tokens(self, wanted: int) -> bool:
        limit = self.context.max_tokens
        return limit is None or tokens_of(self.paid) + wanted <= limit


def leaving(state: Mapping[str, Any], requests: int) -> JSON:
    """The state of a case as it is sent to those who leave so many requests to others."""
    return {**state, "reserved": requests}


def renewed(state: Mapping[str, Any]) -> JSON:
    """A budget for one more trial, as an update of the state: what was paid so far no longer counts."""
    return {"budget_spent": False, "budget_from": len(state.get("calls", []))}


class DrawBudget:
    """A budget from which equal draws are paid that are made at the same time.

    A draw costs what the dearest one so far has cost, as far as anybody can know. Where there is a limit the first draw
    is therefore made alone, and always. `calls` are all that were paid for, in the order in which they were.
    """

    def __init__(self, context: Context) -> None:
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
            self.book(calls)
            self._first.set()
        return drawn

    def book(self, calls: Sequence[JSON]) -> None:
        """Enter what was paid for."""
        self.calls += calls
        cost = max(1, requests_of(calls)), tokens_of(calls)
        self._dearest = max(self._dearest[0], cost[0]), max(self._dearest[1], cost[1])
