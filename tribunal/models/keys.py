"""Several keys for one provider: used in turn, retired when they are refused, rested when they are told to wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tribunal.errors import CallFailed

LONGEST_REST = 120.0


class KeyPool:
    """The keys of one provider, known outside by their number alone."""

    def __init__(
        self, provider: str, keys: list[str], told: Callable[[str, int, float], None] = lambda *rest: None
    ) -> None:
        """
        Args:
            provider: its name.
            keys: the keys themselves; none where it takes none.
            told: hears of every rest that a server asks for: the provider, the key's number, the seconds.
        """
        self._provider, self._told = provider, told
        self.keys: list[str | None] = list(keys) or [None]
        self._retired: dict[int, tuple[str, str]] = {}
        self._rests_until: dict[int, float] = {}
        self._next = 0

    async def take(self) -> int:
        """The number of the next key that may be used, waiting for one to have rested where all of them rest.

        Raises:
            CallFailed: every key was refused, or the shortest rest is longer than `LONGEST_REST` seconds.
        """
        if len(self.keys) == 1 and not self._retired and not self._rests_until:
            return 0
        while True:
            usable = [number for number in range(len(self.keys)) if number not in self._retired]
            if not usable:
                kind, why = next(iter(self._retired.values()))
                raise CallFailed(f"{self._provider}: {kind}: {why}", kind=kind)
            now = time.monotonic()
            rested = [number for number in usable if self._rests_until.get(number, 0.0) <= now]
            if rested:
                number = min(rested, key=lambda each: (each - self._next) % len(self.keys))
                self._next = number + 1
                return number
            wait = min(self._rests_until[number] for number in usable) - now
            if wait > LONGEST_REST:
                raise CallFailed(
                    f"{self._provider}: rate limit: the server asks to wait {wait:.0f} s", kind="rate_limit"
                )
            await asyncio.sleep(wait)

    def rested(self) -> bool:
        """Whether a key may be used at once."""
        now = time.monotonic()
        return any(
            number not in self._retired and self._rests_until.get(number, 0.0) <= now
            for number in range(len(self.keys))
        )

    def retire(self, number: int, kind: str, why: str) -> None:
        """This key is not used again; `kind` is authentication or quota."""
        self._retired[number] = kind, why if len(self.keys) == 1 else f"{why} (all {len(self.keys)} keys)"

    def rest(self, number: int, seconds: float) -> None:
        """This key is not used for so long, as a server asked; others that use it are told."""
        self.rest_quietly(number, seconds)
        self._told(self._provider, number, seconds)

    def rest_quietly(self, number: int, seconds: float) -> None:
        """This key is not used for so long, as others were asked who use it too."""
        self._rests_until[number] = max(self._rests_until.get(number, 0.0), time.monotonic() + seconds)
