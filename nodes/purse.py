"""What a post may still spend on equal draws that are made at the same time, and on rounds that cost alike.

A draw costs what the dearest one so far has cost, as far as anybody can know. Where there is a budget the first draw is
therefore made alone, and always: a post gets a decision, however small its budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from nodes.context import Context
from nodes.errors import BudgetSpent
from nodes.model import requests_of, tokens_of
from nodes.schema import JSON

Drawn = TypeVar("Drawn")


def limits(context: Context) -> str:
    """The budget of a post in words; empty where it has none."""
    calls = [f"{context.max_calls} calls"] if context.max_calls else []
    return " and ".join(calls + ([f"{context.max_tokens} tokens"] if context.max_tokens else []))


def reaches(context: Context, paid: Sequence[JSON], requests: int, tokens: int) -> bool:
    """Whether the budget of a post reaches for so much more than was paid."""
    return (context.max_calls is None or requests_of(paid) + requests <= context.max_calls) and (
        context.max_tokens is None or tokens_of(paid) + tokens <= context.max_tokens
    )


class Purse:
    """A budget of calls and tokens, from which draws are paid.

    `calls` are the records of all that was paid for, in the order in which it was.
    """

    def __init__(self, context: Context) -> None:
        self._context, self.limits = context, limits(context)
        self.calls: list[JSON] = []
        self._dearest = (0, 0)  # requests, tokens
        self._under_way = 0
        self._first = asyncio.Event()

    async def pay(self, number: int, draw: Callable[[], Awaitable[tuple[Drawn, Sequence[JSON]]]]) -> Drawn:
        """Make a draw, if the budget reaches for it.

        Args:
            number: which draw it is; 0 is made at once, and the others wait for it where there is a budget.
            draw: gives what was drawn, and the records of its calls; a `ModelError` carries them itself.

        Raises:
            BudgetSpent: it would cost more than is left.
        """
        if number and self.limits:
            await self._first.wait()
            requests, tokens = (each * (self._under_way + 1) for each in self._dearest)
            if not reaches(self._context, self.calls, requests, tokens):
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
