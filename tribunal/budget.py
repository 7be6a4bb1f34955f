"""What a post has cost and may still spend: on a call, and on equal draws that are made at the same time.

A draw costs what the dearest one so far has cost, as far as anybody can know. Where there is a budget the first draw is
therefore made alone, and always: a post gets a decision, however small its budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from tribunal.context import Context
from tribunal.errors import BudgetSpent
from tribunal.schema import JSON

Drawn = TypeVar("Drawn")


def check_budget(context: Context, seat: str, state: Mapping[str, Any], *, final: bool) -> None:
    """Raise `BudgetSpent` where the post may not pay for this seat; one request is kept for the final one."""
    if final or (context.max_calls is None and context.max_tokens is None):
        return
    if context.max_calls is not None and paid_requests(state) + 1 >= context.max_calls:
        raise BudgetSpent(f"the budget of {context.max_calls} calls was spent before the {seat} could speak")
    if context.max_tokens is not None and paid_tokens(state) >= context.max_tokens:
        raise BudgetSpent(f"the budget of {context.max_tokens} tokens was spent before the {seat} could speak")


def paid_requests(state: Mapping[str, Any]) -> int:
    """How many requests a post has cost so far, retries and re-asks included, answers from the cache not.

    Those that are `reserved` for others who speak at the same time, or later, count as spent.
    """
    return requests_of(_counted(state)) + int(state.get("reserved") or 0)


def paid_tokens(state: Mapping[str, Any]) -> int:
    """How many tokens, in and out, a post has cost so far, answers from the cache not."""
    return tokens_of(_counted(state))


def _counted(state: Mapping[str, Any]) -> Sequence[JSON]:
    """The calls that count against the budget; a trial that a person asked for has one of its own."""
    calls: Sequence[JSON] = state.get("calls", [])
    return calls[state.get("budget_from") or 0 :]


def requests_of(calls: Sequence[JSON]) -> int:
    """Requests that calls have cost, retries and re-asks included; answers from the cache cost none."""
    return sum(call["attempts"] for call in calls if not call["cached"])


def tokens_of(calls: Sequence[JSON]) -> int:
    """Tokens that calls have cost, in and out; answers from the cache cost none."""
    return sum(call["prompt_tokens"] + call["completion_tokens"] for call in calls if not call["cached"])


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
