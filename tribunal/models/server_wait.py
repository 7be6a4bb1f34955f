"""A model's server: whether it is up, and how many requests it takes at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import AliasPath, BaseModel, Field

from tribunal.core.text import parse_json
from tribunal.models.completion import Completion
from tribunal.models.faults import Fault
from tribunal.models.providers import Provider
from tribunal.models.providers.http import fetch
from tribunal.schema import Frozen


class ServerSlots(BaseModel):
    """The slots of a server, and the tokens that each has room for, prompt and answer together."""

    total_slots: int
    context: int = Field(validation_alias=AliasPath("default_generation_settings", "n_ctx"))


async def read_server_slots(
    provider: Provider, environment: Mapping[str, str]
) -> ServerSlots | None:
    """Return the slots of a server whose address somebody has set, or None if it doesn't tell of any."""
    if provider.listing is None or not provider.address_setting(environment):
        return None
    keys = provider.key_pool(environment)
    root = (provider.base_url(environment) or "").partition("?")[0].rstrip("/").removesuffix("/v1")
    try:
        status, _, raw = await fetch(
            "GET", f"{root}/props", provider.headers(keys[0] if keys else None), keys=keys
        )
        return ServerSlots.model_validate(parse_json(raw)) if status == 200 else None
    except (OSError, ValueError):
        return None


A_NIGHT = 8 * 3_600.0  # seconds
PAUSES = 1.0, 60.0  # seconds between two questions after a server's health: at first, and at most
# what a server answers that loads its model, and a gateway before one that is gone
_STARTING = (
    502,
    503,
    504,
)
_ENOUGH_HITS = 2  # of a call, while others were answered in between; then it is sent in its turn
_ENOUGH_LOSSES = 3  # of a call that was sent in its turn to a server that was well, or that answered others meanwhile
_HEALTH_SECONDS = 10.0

Send = Callable[[int | None], Awaitable[Completion | Fault]]


@dataclass
class Breaker:
    """The state of one provider's server: closed while it answers, else open until `retry_at`, each time for longer."""

    provider: str
    times_opened: int = 0  # since it was last closed; 0: it is closed
    why: str = ""
    since: float = 0.0
    retry_at: float = 0.0

    def open_longer(self, why: str, pauses: tuple[float, float], now: float) -> None:
        """Open it, or keep it open for twice as long as the last time, within these pauses in seconds."""
        self.why = why
        self.since = self.since if self.times_opened else now
        self.retry_at = now + min(pauses[0] * 2**self.times_opened, pauses[1])
        self.times_opened += 1


@dataclass
class _WaitingLine(Breaker):
    """The calls that wait for a server: one at a time has the turn to ask whether it is back."""

    answers: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Have the call that has the turn look again."""
        self.changed.set()
        self.changed = asyncio.Event()


def is_server_down(outcome: object) -> bool:
    """Return whether a request failed because its server is gone or starting, which is no fault of the request."""
    return isinstance(outcome, Fault) and (
        outcome.kind == "connection" or (outcome.kind == "server" and outcome.status in _STARTING)
    )


class WaitSettings(Frozen):
    """Say how long a server that is down is waited for, in seconds; 0: not at all.

    One that hasn't answered yet, whose address may be wrong, is waited for only `from_start`.
    """

    seconds: float = 0.0
    from_start: bool = False


NO_WAIT = WaitSettings()


class ServerWait:
    """Hold the calls of one event loop while their server is away.

    Attributes:
        given_up: the reason why calls no longer wait; empty while they do.
    """

    def __init__(self, settings: WaitSettings, report: Callable[[str, str], None]) -> None:
        """Begin with every server taken to be there.

        `report` is called with the provider and the problem; an empty text means that the provider answers.
        """
        self._settings = settings
        self._report = report
        self._lines: dict[str, _WaitingLine] = {}
        self.given_up = ""

    async def send(
        self, provider: Provider, environment: Mapping[str, str], send: Send
    ) -> Completion | Fault:
        """Send a request; while its server is down hold it, and send it again.

        If a call fails each time that it is sent by itself to a healthy server, the call is the cause.

        Args:
            provider: whose server.
            environment: the settings outside the run.
            send: sends it, with at most so many tries; None: as many as usual.
        """
        line = self._line(provider.name)
        seen = line.answers
        hits = 0
        losses = 0
        while True:
            if self.given_up or (not line.times_opened and hits < _ENOUGH_HITS):
                outcome = await send(1 if line.times_opened else None)
            else:
                async with line.turn:
                    healthy = await self._wait_for_health(line, provider, environment)
                    if self.given_up or (not line.times_opened and hits < _ENOUGH_HITS):
                        continue
                    outcome = await send(1)
                    if isinstance(outcome, Fault) and is_server_down(outcome):
                        losses += line.answers > seen or (healthy and outcome.kind == "connection")
                        self._open(line, outcome)
            if not isinstance(outcome, Fault):
                self.note_answer(provider.name)
                return outcome
            if not is_server_down(outcome) or self.given_up or losses >= _ENOUGH_LOSSES:
                return outcome
            if not (line.answers or self._settings.from_start or outcome.status in _STARTING):
                return outcome
            hits = hits + (line.answers > seen)
            seen = line.answers
            if not line.times_opened:
                self._open(line, outcome)

    def note_answer(self, provider: str, *, elsewhere: bool = False) -> None:
        """Record that a server answers, in this process or in another that has reported it."""
        line = self._line(provider)
        line.answers += 1
        if line.times_opened or line.answers == 1:
            line.times_opened = 0
            line.wake()
            if not elsewhere:
                self._report(provider, "")

    def give_up(self, why: str) -> None:
        """Hold no call any more."""
        self.given_up = self.given_up or why
        for line in self._lines.values():
            line.wake()

    def _open(self, line: _WaitingLine, outcome: Fault) -> None:
        if not line.times_opened:
            self._report(line.provider, outcome.in_words)
        line.open_longer(outcome.in_words, PAUSES, time.time())

    def _line(self, provider: str) -> _WaitingLine:
        return self._lines.setdefault(provider, _WaitingLine(provider))

    async def _wait_for_health(
        self, line: _WaitingLine, provider: Provider, environment: Mapping[str, str]
    ) -> bool:
        """Wait until a server is well, answers somebody, or is given up; return whether it said that it is well."""
        while line.times_opened and not self.given_up:
            left = line.since + self._settings.seconds - time.time()
            if left <= 0:
                self.give_up(f"{line.provider}: {line.why}")
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    line.changed.wait(), max(0.0, min(left, line.retry_at - time.time()))
                )
                continue
            healthy = await _ask_health(provider, environment)
            if healthy is not False:
                return bool(healthy)
            line.open_longer(line.why, PAUSES, time.time())
        return False


async def _ask_health(provider: Provider, environment: Mapping[str, str]) -> bool | None:
    """Return whether a server is up, as llama.cpp, vLLM and others say at /health; None if it has no address to ask."""
    try:
        status = await _health_status(provider, environment)
    except (OSError, TimeoutError, ValueError):
        return False
    # one that knows no such path is there
    return None if status is None else status not in _STARTING


async def is_reachable(provider: Provider, environment: Mapping[str, str]) -> bool:
    """Return whether a provider's server answers anything at all; True if it has no address to ask."""
    try:
        await _health_status(provider, environment)
    except (OSError, TimeoutError):
        return False
    except ValueError:
        pass  # it answers something
    return True


async def _health_status(provider: Provider, environment: Mapping[str, str]) -> int | None:
    url = provider.base_url(environment) or provider.rest_url
    if url is None:
        return None
    root = url.partition("?")[0].rstrip("/").removesuffix("/v1")
    async with asyncio.timeout(_HEALTH_SECONDS):
        fetched = await fetch("GET", f"{root}/health", {}, keys=provider.key_pool(environment))
    return fetched.status
