"""The ledger of the service: the outcomes of attempts at cases in the case store, under the lease of each attempt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import cast

from tribunal.docket.case_store import CaseStore
from tribunal.docket.checkpoints import TakenOver
from tribunal.docket.holds import Hold, hold_case
from tribunal.docket.leases import Held, without_earlier_calls
from tribunal.errors import BadInput
from tribunal.models.budget import Allowance, Spending, spending_of
from tribunal.runner.outages import DATABASE_AWAY, Outages, retry_while_away
from tribunal.runner.outcome import (
    Decided,
    Invalid,
    Lost,
    Outcome,
    RunnerTelemetry,
    Stopped,
    TrialObserver,
    Waits,
)
from tribunal.runner.result_lines import record_of_unusable_post
from tribunal.runner.results import Sample
from tribunal.schema import JSON, Call, Record
from tribunal.settings.context import context_from
from tribunal.store.engine import Store
from tribunal.store.table_versions import is_away

_LOG = logging.getLogger(__name__)
_GATHER_SECONDS = 0.1  # for which events are gathered


@dataclass
class CaseAttempt:
    """An attempt at a case.

    Attributes:
        held: the leased case, with the number of the attempt.
        observer: the telemetry's observer of the attempt.
        allowance: the part of its key's daily budget that it may use.
        events: rows of its events that aren't stored yet.
        has_failed: whether an error of this program has ended it.
    """

    held: Held
    observer: TrialObserver
    allowance: Allowance
    events: list[JSON] = field(default_factory=list)
    has_failed: bool = False

    def __post_init__(self) -> None:
        """Continue the numbers of its events after the events of earlier attempts."""
        self._numbers = count(self.held.attempt * 100_000)

    def add_event(self, event: JSON) -> None:
        """Take in an event of the attempt's stream."""
        row = {
            "case_id": self.held.id,
            "number": next(self._numbers),
            "attempt": self.held.attempt,
            "event": event,
        }
        self.events.append(row)
        self.observer.observe_event(event)


class CaseLedger:
    """Store the outcomes of one replica's attempts. While the database is away, a write waits.

    Attributes:
        is_stopping: whether this replica ends, so that an attempt that is cancelled goes back to the queue.
    """

    def __init__(
        self, store: Store, case_store: CaseStore, outages: Outages, telemetry: RunnerTelemetry
    ) -> None:
        """Use a case store; the `outages` are told about every case that waits for a server."""
        self._store = store
        self._case_store = case_store
        self._outages = outages
        self._telemetry = telemetry
        self.is_stopping = False

    @asynccontextmanager
    async def append_events(self, case: CaseAttempt) -> AsyncIterator[None]:
        """Store an attempt's events while it runs, with a short delay, for listeners on any replica.

        The remaining events are stored with the record, so no event comes after it.
        """
        is_over = asyncio.Event()

        async def write_regularly() -> None:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_over.wait(), _GATHER_SECONDS)
                    return
                written = case.events[:]
                try:
                    await self._case_store.write_events(written)
                except DATABASE_AWAY:
                    continue  # they are written later; an event that is written twice has the same number
                except Exception as error:  # noqa: BLE001 (the end of the attempt will tell)
                    _LOG.warning("the events of a trial can't be written: %s", type(error).__name__)
                    return
                del case.events[: len(written)]

        writing = asyncio.create_task(write_regularly())
        try:
            yield
        finally:
            is_over.set()
            await writing

    async def finish(self, case: CaseAttempt, decided: Decided) -> None:
        """Store a record, and all that follows from it.

        Raises:
            TakenOver: another replica has the case now; nothing was stored.
        """
        # whole, since it was made in this process
        held = case.held
        record = cast("Record", decided.record)
        paid = without_earlier_calls(held, record)
        spent = case.allowance.close()
        calls = {call["id"]: Call.model_validate(call) for call in decided.calls}
        calls |= {call.id: call for call in paid.calls}
        money = self._money_of(list(calls.values()))
        counts = await retry_while_away(
            lambda: self._case_store.finish(
                held, record, decided.question, written=decided.has_checkpoints, said=case.events[:], spent=spent,
                money=money,
            )
        )  # fmt: skip
        if not counts:
            raise TakenOver
        case.observer.finish(paid)

    async def hold(self, case: CaseAttempt, waits: Waits) -> None:
        """Let a case go on when its provider answers again."""
        hold = cast("Hold", waits.hold)
        spent = case.allowance.close()
        case.observer.hold(waits.calls)
        money = self._money_of([Call.model_validate(call) for call in waits.calls])
        lease = self._case_store.lease_of(case.held)
        await retry_while_away(lambda: self._case_store.write_events(case.events[:]))
        await retry_while_away(
            lambda: hold_case(self._store, lease, case.held, hold, waits.calls, spent, money)
        )
        await self._outages.settle(hold)

    async def give_back(self, case: CaseAttempt, why: Lost | Stopped) -> None:
        """Let another attempt try a case. One that was cancelled, because nobody waits for it any more, ends."""
        spent = case.allowance.close()
        if isinstance(why, Stopped):
            case.observer.end = "handed_back" if self.is_stopping else "cancelled"
            if self.is_stopping:
                await self._case_store.give_back(case.held, spent)
            else:
                await self._case_store.cancel(
                    case.held, "who asked for it went away before it was decided", spent
                )
        elif why.taken_over:
            case.observer.end = "taken_over"
        else:
            await retry_while_away(lambda: self._case_store.give_back(case.held, spent))

    async def refuse(self, case: CaseAttempt, invalid: Invalid) -> None:
        """End a case that can't be tried: it is cancelled. A row of a batch is a failure among the others."""
        case.observer.end = "bad_input"
        spent = case.allowance.close()
        await retry_while_away(lambda: self._end_untried(case.held, invalid.why, spent))

    def outcome_of_error(self, case: CaseAttempt, error: BaseException) -> Outcome | None:
        """Return the outcome of an attempt that raised an error, or could not be stored; None if it is to be raised.

        An error of this program would meet every replica, so it is the case's failure. If the database or the machine
        failed, another attempt may do better.
        """
        if isinstance(error, TakenOver):
            return Lost(taken_over=True)
        if isinstance(error, asyncio.CancelledError):
            return Stopped()
        if isinstance(error, BadInput):
            return Invalid(str(error))
        if not isinstance(error, Exception):
            return None
        if (
            case.has_failed
        ):  # a failure that can't be stored, either; a few more attempts may do better
            _LOG.error("case %s: its failure could not be stored", case.held.id, exc_info=error)
            return Lost()
        _LOG.error("case %s: could not be tried", case.held.id, exc_info=error)
        if is_away(error) or isinstance(error, OSError | MemoryError):
            return Lost()
        case.has_failed = True
        case.events.clear()  # it may be one of them that can't be stored
        kind = type(error).__name__
        self._telemetry.metrics.count_error(kind)
        why = f"{kind}: an error of the program; the log of the service has it under the case {case.held.id}"
        return Decided(_failure(case.held, "internal", why, case.observer.calls))

    async def _end_untried(self, held: Held, why: str, spent: Spending) -> None:
        if held.batch_id is None:
            await self._case_store.cancel(held, why, spent)
        else:
            await self._case_store.finish(held, _failure(held, "input", why), spent=spent)

    def _money_of(self, calls: Sequence[Call]) -> float | None:
        """Return what calls cost; None if that isn't known."""
        prices = self._telemetry.prices
        return spending_of(calls, prices.cost_of_call if prices else None).known_money


def _failure(held: Held, kind: str, why: str, calls: Sequence[JSON] = ()) -> Record:
    sample = Sample(id=(held.post or {}).get("post_id") or held.id)
    made = tuple(Call.model_validate(call) for call in calls)
    return record_of_unusable_post(sample, held.graph, context_from(held.settings), why, kind, made)
