"""The keys of a provider: one that is declined is retired, and one that is limited rests while another takes over."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from tribunal.errors import CallFailed
from tribunal.models.faults import Fault

_LOG = logging.getLogger(__name__)
Result = TypeVar("Result")
LONGEST_REST = 120.0


def retry_delay(tries: int) -> float:
    """Return the seconds to wait after so many tries, where no server asked for some: doubling, with jitter."""
    return float(min(20.0, 0.5 * 2 ** (tries - 1)) * random.uniform(0.75, 1.25))


class KeyPool:
    """The keys of one provider. Other code knows a key only by its number."""

    def __init__(
        self,
        provider: str,
        keys: list[str],
        on_rest: Callable[[str, int, float], None] = lambda *rest: None,
    ) -> None:
        """Begin with the first key.

        Args:
            provider: its name.
            keys: the keys themselves; none where it takes none.
            on_rest: called for each pause that a server asks for, with the provider, the key's number and the seconds.
        """
        self._provider = provider
        self._on_rest = on_rest
        self.keys: list[str | None] = list(keys) or [None]
        self._retired: dict[int, tuple[str, str]] = {}
        self._rests_until: dict[int, float] = {}
        self._next = 0

    async def send(
        self,
        send: Callable[[int], Awaitable[Result | Fault]],
        most_tries: int,
        adapt: Callable[[Fault], bool] = lambda fault: False,
        *,
        longest_rest: float = LONGEST_REST,
    ) -> Result | Fault:
        """Send a request, again after passing faults, and return its answer.

        A key that is declined is retired, and one that is limited rests; another takes over. A rate limit that all
        keys share, a server's error, a timeout or a lost connection costs a try.

        Args:
            send: sends the request with the key of this number; gives its answer, or what went wrong.
            most_tries: how many tries there are.
            adapt: called with the fault, unless the key caused it; returns whether it changed the request so that it
                is worth sending again at once.
            longest_rest: how many seconds are waited at most where a server asks for it.

        Returns:
            The answer; or what went wrong, where that doesn't pass or the tries are used up.

        Raises:
            CallFailed: no key is left, or all rest for too long.
        """
        requests = tries = 0
        other_keys = len(self.keys) - 1
        while True:
            key = await self.next_key(longest_rest)
            outcome = await send(key)
            if not isinstance(outcome, Fault):
                return outcome
            requests += 1
            pause: float | None = None
            if outcome.kind in ("authentication", "quota"):
                self._retired[key] = outcome.kind, outcome.message
                continue
            if outcome.kind == "rate_limit":
                self.rest_key(key, outcome.wait.seconds if outcome.wait else retry_delay(requests))
                self._log_wait(f"key {key} rests", outcome)
                if other_keys and self.rested_keys():
                    other_keys -= 1  # another key can be used at once, which is no new try
                    continue
                pause = 0.0  # `next_key` waits
            elif adapt(outcome):
                continue
            elif not outcome.is_transient:
                return outcome
            elif outcome.wait is not None:
                pause = outcome.wait.seconds
                if pause > longest_rest:
                    return replace(
                        outcome, message=f"{outcome.message}: asks to wait {pause:.0f} s"
                    )
                self._log_wait("the next try waits", outcome)
            tries += 1
            if tries == most_tries:
                return outcome
            await asyncio.sleep(retry_delay(tries) if pause is None else pause)
            other_keys = len(self.keys) - 1

    def _log_wait(self, words: str, fault: Fault) -> None:
        if fault.wait is not None:
            _LOG.info("%s: %s %.3g s (%s): %s", self._provider, words, *fault.wait, fault.in_words)

    async def next_key(self, longest_rest: float = LONGEST_REST) -> int:
        """Return the number of the next key that may be used; where all of them rest, wait for one.

        Raises:
            CallFailed: every key was refused, or the shortest rest is longer than `longest_rest` seconds.
        """
        if len(self.keys) == 1 and not self._retired and not self._rests_until:
            return 0
        while len(self._retired) < len(self.keys):
            rested = self.rested_keys()
            if rested:
                number = min(rested, key=lambda each: (each - self._next) % len(self.keys))
                self._next = number + 1
                return number
            rests = (
                until for number, until in self._rests_until.items() if number not in self._retired
            )
            wait = min(rests) - time.monotonic()
            if wait > longest_rest:
                words = f"{self._provider}: rate limit: the server asks to wait {wait:.0f} s"
                raise CallFailed(words, kind="rate_limit")
            await asyncio.sleep(wait)
        kind, why = next(iter(self._retired.values()))
        number_of_keys = "" if len(self.keys) == 1 else f" (all {len(self.keys)} keys)"
        raise CallFailed(f"{self._provider}: {kind}: {why}{number_of_keys}", kind=kind)

    def rested_keys(self) -> list[int]:
        """Return the numbers of the keys that may be used at once."""
        now = time.monotonic()
        usable = [each for each in range(len(self.keys)) if each not in self._retired]
        return [number for number in usable if self._rests_until.get(number, 0.0) <= now]

    def restore_keys(self) -> None:
        """Use keys again that were declined."""
        self._retired.clear()

    def rest_key(self, number: int, seconds: float, *, quietly: bool = False) -> None:
        """Don't use a key for so long, as a server asked.

        Args:
            number: the key's.
            seconds: how long.
            quietly: whether other users of the key know of it already, and aren't informed.
        """
        self._rests_until[number] = max(
            self._rests_until.get(number, 0.0), time.monotonic() + seconds
        )
        if not quietly:
            self._on_rest(self._provider, number, seconds)
