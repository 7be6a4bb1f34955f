"""What outlives an outage: writes that wait for the database, repeated rounds, and a breaker for each provider.

While a provider's server doesn't answer, no case is begun that needs it. Closed, a breaker lets every case through. A
case that no model answered opens it for a pause; then one case at a time is let through, the probe, and each that isn't
answered makes the pause longer. The first answer closes it.

A case that no model answered is held (`tribunal.docket.holds`) until its provider answers again, or its deadline. One
that stays without an answer while others that began later are answered has itself to blame, and fails.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Literal, Protocol, TypeVar

import psycopg
from pydantic import Field
from sqlalchemy import exc
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential

from tribunal.core.times import database_now
from tribunal.docket.holds import Hold, count_waiting, hold_longer, release
from tribunal.docket.leases import Held
from tribunal.errors import BadInput
from tribunal.models.registry import current_registry, find_provider, model_names, split_name
from tribunal.models.server_wait import Breaker, is_reachable
from tribunal.runner.outcome import (
    RunnerMetrics,
    is_locked_out,
    is_unanswered,
    kind_of_failure,
    model_at_fault,
    was_answered,
)
from tribunal.schema import JSON, Frozen, Record
from tribunal.settings.contents import apply_line_up
from tribunal.settings.context import context_from
from tribunal.settings.systems import seats_in
from tribunal.store.engine import Store
from tribunal.store.table_versions import explain_error, is_full, words_of

DATABASE_AWAY: tuple[type[Exception], ...] = (
    *(exc.OperationalError, exc.InterfaceError, exc.TimeoutError, sqlite3.OperationalError),
    *(psycopg.OperationalError, psycopg.InterfaceError),
)
_LOG = logging.getLogger(__name__)
Result = TypeVar("Result")


async def retry_while_away(write: Callable[[], Awaitable[Result]]) -> Result:
    """Retry an idempotent write until the database is reachable. The write may already have succeeded."""

    async def attempt() -> Result:
        return await write()

    pauses = wait_exponential(multiplier=0.2, max=5.0)
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(DATABASE_AWAY), wait=pauses, before_sleep=_log_away
    )
    return await retrying(attempt)


def _log_away(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    trouble = (
        "the disk is full; make room"
        if error is not None and is_full(error)
        else "the database is away"
    )
    _LOG.warning("%s; it is asked again: %s", trouble, words_of(error) if error is not None else "")


async def repeat(
    work: Callable[[], Awaitable[object]],
    seconds: float,
    what: str,
    wake: asyncio.Event | None = None,
) -> None:
    """Repeat work until cancelled, with a pause after each round that doesn't return how much it has done.

    Args:
        work: one round.
        seconds: how long a pause is.
        what: the name of the round in the log, if it fails; the next round may work.
        wake: ends a pause when it is set.
    """
    wake = wake or asyncio.Event()
    while True:
        wake.clear()
        done: object = None
        # A connection that is cancelled within a transaction may keep its locks, so a round is let end.
        one_round = asyncio.ensure_future(work())
        try:
            done = await asyncio.shield(one_round)
        except asyncio.CancelledError:
            with suppress(Exception):
                await one_round
            raise
        except Exception as error:  # noqa: BLE001 (the database may come back)
            _LOG.warning("%s: %s", what, explain_error(error))
        if not done:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await wake.wait()


# seconds for which a breaker is open: at first, and at most; each time twice as long
PAUSES = (
    10.0,
    600.0,
)
_ENOUGH_TRIES = 3  # of a case, while others that began after its first try were answered
_MAX_ROW_TRIES = 10  # of a row of a batch, which has no deadline, whatever became of others
_MOST_TRIED = 10_000  # cases whose tries are remembered
# Of each seat of a case, the providers of its models: one of them has to answer.
NeededProviders = Sequence[frozenset[str]]


class ProviderState(Frozen):
    """The state of one provider, as one replica sees it."""

    state: Literal["closed", "open", "half-open"] = Field(
        description="open: its server doesn't answer; half-open: one case is to show whether it does again"
    )
    kind: str | None = Field(default=None, description="how it fails", examples=["connection"])
    waiting: int = Field(default=0, description="how many posts wait for it")
    since: float | None = Field(
        default=None, description="since when, in seconds of the epoch", examples=[1795330000.0]
    )
    retry_at: float | None = Field(
        default=None, description="when it is tried again", examples=[1795330010.0]
    )


@dataclass
class CaseBreaker(Breaker):
    """The breaker of one provider, which this process asks at one address."""

    kind: str = ""
    probe: str | None = None  # the case that is to show whether the provider answers again
    # the cases that no model answered since it opened
    unanswered: set[str] = field(default_factory=set)
    last_answered: int = 0  # the number of the case that was answered and began last

    def admits(self, case_id: str) -> bool:
        """Return whether a case may begin. While only one was unanswered, another may show that it was the cause."""
        if not self.times_opened:
            return True
        alone = len(self.unanswered) == 1 and case_id not in self.unanswered
        return self.probe is None and (alone or database_now() >= self.retry_at)

    @property
    def next_look(self) -> float:
        """Return when a case that isn't admitted now is looked at again."""
        return max(self.retry_at, database_now() + PAUSES[0] / 10)

    def show(self, waiting: int) -> ProviderState:
        """Return its state, with how many posts wait for it."""
        if not self.times_opened:
            return ProviderState(state="closed")
        state: Literal["open", "half-open"] = "open" if self.probe is None else "half-open"
        return ProviderState(
            state=state, kind=self.kind, waiting=waiting, since=self.since, retry_at=self.retry_at
        )


class BatchStatuses(Protocol):
    """Tell the status of a batch."""

    async def batch(self, batch_id: str) -> JSON:
        """Return a batch with its `status`."""


class Outages:
    """The breakers of one replica, and its knowledge of the cases that no model answered."""

    def __init__(
        self, store: Store, batches: BatchStatuses, hold_seconds: float, metrics: RunnerMetrics
    ) -> None:
        """Begin with every breaker closed; a case waits for at most `hold_seconds`, or for less if its caller asks."""
        self._store = store
        self._batches = batches
        self._hold_seconds = hold_seconds
        self._metrics = metrics
        self._breakers: dict[str, CaseBreaker] = {}
        # the number of each case that is on trial
        self._numbers = count(1)
        self._begun = dict[str, int]()
        self._tries: dict[
            str, tuple[int, int]
        ] = {}  # of a case: how often, and the last number at its first failure
        self._changed = asyncio.Event()
        self._last_number = 0
        self.wakes: list[asyncio.Event] = []  # set when a case may be begun that could not be

    # Before a trial

    async def show(self, *, counted: bool = True) -> dict[str, ProviderState]:
        """Return the state of each provider that was ever without an answer here; `counted`: with who waits for it."""
        waiting = await count_waiting(self._store) if counted and self.any_open else {}
        return {
            name: breaker.show(waiting.get(name, 0))
            for name, breaker in sorted(self._breakers.items())
        }

    @property
    def any_open(self) -> bool:
        """Return whether any provider doesn't answer."""
        return any(breaker.times_opened for breaker in self._breakers.values())

    def deadline(self, seconds: float | None = None) -> float:
        """Return when a case fails that is taken in now, by its caller's wish as far as the operator lets them."""
        return database_now() + min(
            self._hold_seconds, self._hold_seconds if seconds is None else seconds
        )

    async def needed_providers(self, graph: str, settings: JSON) -> NeededProviders:
        """Return the providers that a case needs; none while every breaker is closed, when it doesn't matter."""
        if not self.any_open:
            return ()
        with suppress(BadInput):  # which its trial will say
            return await _find_needed(graph, settings)
        return ()

    def blocking(self, needed: NeededProviders, case_id: str = "") -> CaseBreaker | None:
        """Return a breaker for which a case may not be begun now, or None if it may."""
        return next(
            (
                open_ones[0]
                for open_ones in self._open(needed)
                if not _admitting(open_ones, case_id)
            ),
            None,
        )

    def hold_new(self, needed: NeededProviders, deadline: float) -> Hold | None:
        """Return how a new case is held, which is looked at again when it may be the probe; None if it isn't."""
        open_ones = self._open(needed)
        if not open_ones:
            return None
        breaker = self.blocking(needed) or open_ones[0][0]
        until = (
            database_now() + PAUSES[0] / 10 if self.blocking(needed) is None else breaker.next_look
        )
        return Hold(why=breaker.why, provider=breaker.provider, until=until, deadline=deadline)

    def concerns(self, needed: NeededProviders) -> bool:
        """Return whether a case needs a provider whose breaker isn't closed, so that it would be the probe."""
        return bool(self._open(needed))

    def admit(self, case_id: str, needed: NeededProviders) -> bool:
        """Return whether a case may be begun now; where a breaker is open it is then the probe."""
        if self.blocking(needed, case_id) is not None:
            return False
        for breaker in [
            breaker
            for open_ones in self._open(needed)
            for breaker in _admitting(open_ones, case_id)
        ]:
            breaker.probe = case_id
        return True

    async def reach_providers(self, case_id: str) -> bool:
        """Ask the servers of the providers that a case is to probe, without a post; return whether they are there.

        If one can't be reached, its breaker stays open for longer, and the case is no probe: it costs no attempt.
        """
        environment = (await current_registry()).environment
        for breaker in [each for each in self._breakers.values() if each.probe == case_id]:
            provider = find_provider(breaker.provider, "model")
            if provider is not None and not await is_reachable(provider, environment):
                breaker.probe = None
                await self._open_longer(breaker, breaker.why)
                return False
        return True

    async def begin_probe(self, case_id: str) -> None:
        """Hold the other cases of a provider while this one, whose trial begins now, is the probe of it.

        A case that is admitted and can't be tried, such as one that its key can't pay, must not keep the others back.
        """
        for breaker in [each for each in self._breakers.values() if each.probe == case_id]:
            (await current_registry()).retry_keys(breaker.provider)
            until = database_now() + PAUSES[0]
            await retry_while_away(
                partial(hold_longer, self._store, breaker.provider, breaker.why, until, but=case_id)
            )

    async def admit_in_memory(self, held: Held) -> bool:
        """Wait until a case that exists only in this process may begin; return False if its deadline comes first."""
        while not self.admit(
            held.id, needed := await self.needed_providers(held.graph, held.settings)
        ):
            blocking = self.blocking(needed, held.id)
            left = (held.deadline or 0.0) - database_now()
            if left <= 0:
                return False
            look = blocking.next_look - database_now() if blocking else 0.0
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(left, max(look, 0.001)))
        return True

    def given_up(self, held: Held) -> dict[str, tuple[str, str]]:
        """Return the providers that a case doesn't ask any more, since its deadline is over; as of `PatientCalls`."""
        if held.deadline is None or held.deadline > database_now():
            return {}
        return {
            each.provider: (each.kind, each.why)
            for each in self._breakers.values()
            if each.times_opened
        }

    def begin(self, case_id: str) -> None:
        """Note that a case is tried now."""
        self._last_number = self._begun[case_id] = next(self._numbers)

    def end(self, case_id: str) -> None:
        """Note that a case is tried no more, whether or not its trial has begun."""
        self._begun.pop(case_id, None)
        for breaker in self._breakers.values():
            if breaker.probe == case_id:
                breaker.probe = None
                self._wake()

    # After a trial

    async def decide(self, held: Held, record: Record, calls: Sequence[JSON]) -> Hold | None:
        """Learn from a trial which providers answer, and return how its case waits; None: its outcome is final.

        Args:
            held: the leased case.
            record: the record of the trial.
            calls: the calls of this trial.
        """
        number = self._begun.get(held.id, self._last_number)
        last_calls = {
            split_name(call["model"])[0]: call["error"] for call in calls if not call["cached"]
        }
        for provider in [name for name, error in last_calls.items() if was_answered(error)]:
            await self._note_answer(provider, number)
        if not (is_unanswered(record) or is_locked_out(record)):
            self._tries.pop(held.id, None)
            return None
        provider = split_name(model_at_fault(record))[0]
        breaker = self._breakers.setdefault(provider, CaseBreaker(provider))
        tries, first = self._tries.get(held.id, (0, self._last_number))
        self._tries[held.id] = tries, first = tries + 1, first
        if len(self._tries) > _MOST_TRIED:  # others of them went on in another replica
            del self._tries[next(iter(self._tries))]
        why = f"no answer: {record.explanation[:300]}"
        await self._note_silence(breaker, held.id, number, kind_of_failure(record), why)
        deadline = None if held.batch_id is not None else held.deadline or self.deadline()
        if await self._is_last_try(held, breaker, tries, first, deadline):
            self._tries.pop(held.id, None)
            return None
        self._metrics.count_held_case(provider)
        until = database_now() + PAUSES[0]
        is_open = breaker.times_opened > 0
        if is_open:
            until = max(until, breaker.retry_at)
        return Hold(why=why, provider=provider if is_open else "", until=until, deadline=deadline)

    async def settle(self, hold: Hold) -> None:
        """See that a case that was just held isn't left behind: its provider may have answered meanwhile."""
        if hold.provider and not self._is_open(hold.provider):
            await retry_while_away(lambda: release(self._store, hold.provider))
            self._wake()

    async def _is_last_try(
        self, held: Held, breaker: CaseBreaker, tries: int, first: int, deadline: float | None
    ) -> bool:
        if tries >= _ENOUGH_TRIES and breaker.last_answered > first:
            return True
        if held.batch_id is None:
            return deadline is not None and deadline <= database_now()
        return (
            tries >= _MAX_ROW_TRIES
            or (await self._batches.batch(held.batch_id))["status"] == "cancelled"
        )

    async def _note_answer(self, provider: str, number: int) -> None:
        breaker = self._breakers.get(provider)
        if breaker is None:
            return
        breaker.last_answered = max(breaker.last_answered, number)
        if breaker.times_opened:
            breaker.times_opened = 0
            breaker.probe = None
            breaker.unanswered.clear()
            self._metrics.set_provider_open(provider, is_open=False)
            await retry_while_away(lambda: release(self._store, provider))
            self._wake()

    async def _note_silence(
        self, breaker: CaseBreaker, case_id: str, number: int, kind: str, why: str
    ) -> None:
        """Open a breaker, or keep it open for longer; a case that began before one that was answered opens none."""
        was_open = breaker.times_opened > 0
        breaker.unanswered.add(case_id)
        if not was_open and breaker.last_answered > number:
            breaker.unanswered.clear()
            return
        if was_open and breaker.probe != case_id:
            return  # it was under way when the breaker opened
        breaker.kind = kind
        self._metrics.set_provider_open(breaker.provider, is_open=True)
        await self._open_longer(breaker, why)

    async def _open_longer(self, breaker: CaseBreaker, why: str) -> None:
        breaker.open_longer(why, PAUSES, database_now())  # its cases are held until then
        asyncio.get_running_loop().call_later(breaker.retry_at - database_now() + 0.01, self._wake)
        await retry_while_away(
            lambda: hold_longer(self._store, breaker.provider, why, breaker.retry_at)
        )

    def _open(self, needed: NeededProviders) -> list[list[CaseBreaker]]:
        """Return, of each seat whose every provider has an open breaker, these breakers."""
        found = [
            [self._breakers[each] for each in sorted(seat) if self._is_open(each)]
            for seat in needed
        ]
        return [
            breakers
            for breakers, seat in zip(found, needed, strict=True)
            if len(breakers) == len(seat)
        ]

    def _is_open(self, provider: str) -> bool:
        return provider in self._breakers and self._breakers[provider].times_opened > 0

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        for each in self.wakes:
            each.set()


def _admitting(breakers: Iterable[CaseBreaker], case_id: str) -> list[CaseBreaker]:
    return [each for each in breakers if each.admits(case_id)]


async def _find_needed(graph: str, settings: JSON) -> NeededProviders:
    """Return, of each seat of a graph, the providers of its models. A first look doesn't count: it may fail.

    Raises:
        BadInput: a setting is wrong.
    """
    context = await apply_line_up(context_from(settings))
    seats = seats_in(graph)
    own = {
        seat: names
        for seat, names in context.seats.items()
        if not seats or seat.partition(":")[0] in seats
    }
    named = [names for seat, names in own.items() if seat != "triage"]
    if not seats or any(seat not in own for seat in seats):
        model = context.model or (await current_registry()).environment.get("TRIBUNAL_MODEL")
        named += [
            each for each in (context.aux_model or model, context.judge_model or model) if each
        ]
    return [
        frozenset(model.provider for model in model_names(each, "model"))
        for each in dict.fromkeys(named)
    ]
