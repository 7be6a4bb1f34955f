"""How long a request waits, and how many run at once."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from tribunal.core.times import seconds_until_retry

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_UNIT = r"(?:ms|milliseconds?|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?)(?![a-z])"
_DURATION = rf"(?:\d+(?:\.\d+)?\s?{_UNIT}[,\s]*)+"
_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s?(ms|milli|s|m|h|d)", re.IGNORECASE)
_WHOLE = re.compile(_DURATION, re.IGNORECASE)
_IN_WORDS = re.compile(
    rf"(?:try(?:ing)? again|retry(?:ing)?|wait|resets?)\b(?:[^\d\n]{{0,24}})({_DURATION})",
    re.IGNORECASE,
)
_RETRY_INFO = re.compile(r"retryDelay['\"]?:\s*['\"]?(\d+(?:\.\d+)?)s", re.IGNORECASE)
# A number of this size is a time since 1970, in seconds or in milliseconds; a smaller one is a duration.
_EPOCH = 1e8
_EPOCH_MS = 1e11


class Wait(NamedTuple):
    """A pause in seconds, and the header or the words that ask for it."""

    seconds: float
    source: str


def read_wait(headers: Mapping[str, str], body: str, *, limited: bool) -> Wait | None:
    """Return how long a server asks to wait, or None if it doesn't say.

    Args:
        headers: of the response, in any case.
        body: everything that the server says, as text.
        limited: whether it is a rate limit; the state of its limits comes with other responses too.
    """
    named = {name.lower(): value.strip() for name, value in headers.items()}
    try:
        return Wait(max(0.0, float(named.get("retry-after-ms", "")) / 1000), "retry-after-ms")
    except ValueError:
        pass
    for name in ("retry-after", "x-retry-after"):
        seconds = seconds_until_retry(named.get(name, ""))
        if seconds is not None and seconds == seconds:  # "nan" is a float too
            return Wait(seconds, name)
    match = _RETRY_INFO.search(body)
    if match:
        return Wait(float(match[1]), "RetryInfo")
    if limited and (reset := _reset_of_limits(named)):
        return reset
    match = _IN_WORDS.search(body)
    if match:
        return Wait(parse_duration(match[1]) or 0.0, f"“{match[0].strip(' ,')}”")
    return None


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration such as 7.9s, 6m0s, 350ms or 2 minutes; None of any other text."""
    if not _WHOLE.fullmatch(text.strip()):
        return None
    return sum(
        float(number) * _UNITS["ms" if unit.lower() == "milli" else unit.lower()]
        for number, unit in _PIECE.findall(text)
    )


def _reset_of_limits(headers: Mapping[str, str]) -> Wait | None:
    """Return when the limit that is used up is reset; where none is said to be, the last of all."""
    resets: dict[str, float] = {}
    for name, value in headers.items():
        if (
            "ratelimit" in name
            and "reset" in name
            and (seconds := _seconds_until_reset(value)) is not None
        ):
            resets[name] = seconds
    used_up = {
        name: seconds
        for name, seconds in resets.items()
        if headers.get(name.replace("reset", "remaining")) == "0"
    }
    name, seconds = max((used_up or resets).items(), key=lambda pair: pair[1], default=("", 0.0))
    return Wait(seconds, name) if name else None


def _seconds_until_reset(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        duration = parse_duration(value)
        if duration is not None:
            return duration
        try:
            return max(0.0, datetime.fromisoformat(value).timestamp() - time.time())
        except (ValueError, OverflowError):
            return None
    if not 0 <= number < 1e15:
        return None
    if number >= _EPOCH_MS:
        number /= 1000
    return max(0.0, number - time.time()) if number >= _EPOCH else number


# After so many answers for each request at a time, a number that timed out before is tried again.
_PATIENCE = 10


class ConcurrencyLimit:
    """Turns at one model, of one event loop.

    A server that answers one request at a time makes the others wait, and they time out while it works. So a request
    that times out halves the number of those that may be under way, unless as many were answered while it waited: then
    it is slow by itself. Answers raise the number again, one by one: quickly to just below the one that timed out,
    slowly beyond it.

    Attributes:
        limit: how many may be under way now; None: any number.
        lowered: how often it was lowered.
        lowest: the lowest that it has been; None where it never was lowered.
    """

    def __init__(self) -> None:
        """Begin without a limit."""
        self.limit: int | None = None
        self.lowered = 0
        self.lowest: int | None = None
        self._under_way = self._answers = self._since = self._too_many = self._most = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire_slot(self) -> tuple[int, int]:
        """Wait for a slot; return the value that `release_slot` needs."""
        if self.limit is None or self._under_way < self.limit:
            self._under_way += 1
            return self.lowered, self._answers
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free_slot()
            raise
        return self.lowered, self._answers

    def release_slot(
        self, taken: tuple[int, int], *, timed_out: bool = False, answered: bool = False
    ) -> None:
        """End a turn; `taken` is what `acquire_slot` gave."""
        if timed_out:
            self._lower_limit(*taken)
        elif answered:
            self._answers += 1
            self._raise_limit_after_enough_calls()
        self._free_slot()

    def _lower_limit(self, lowered: int, answers: int) -> None:
        # One crowd times out as one: of those that began before the number was lowered, none lowers it once more.
        if (
            self._under_way < 2
            or lowered < self.lowered
            or self._answers - answers >= self._under_way
        ):
            return
        self._most = max(self._most, self._under_way)
        self._too_many = self._under_way
        self._since = 0
        self.limit = self._under_way // 2
        self.lowered += 1
        self.lowest = min(self.limit, self.lowest or self.limit)

    def _raise_limit_after_enough_calls(self) -> None:
        if self.limit is None:
            return
        self._since += 1
        if self._since >= self.limit * (_PATIENCE if self.limit + 1 >= self._too_many else 1):
            self._since = 0
            self.limit = self.limit + 1
            if self.limit >= self._most:
                self.limit = None

    def _free_slot(self) -> None:
        self._under_way -= 1
        while self._waiting and (self.limit is None or self._under_way < self.limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self._under_way += 1
                turn.set_result(None)
