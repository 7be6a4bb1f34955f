"""A replica's own work: cases that it has taken up, each tried by its graph, and the events of their trials."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence, Set
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

from tribunal.allowance import Allowance, Spending, spending_of
from tribunal.cases.case_store import CaseStore
from tribunal.cases.checkpoints import TakenOver
from tribunal.cases.holds import Hold, hold_case
from tribunal.cases.leases import Held, without_earlier_calls
from tribunal.cases.trials import TrialResult, Trials, trusted_graph
from tribunal.context import context_from
from tribunal.errors import BadInput
from tribunal.runner.background_loops import DATABASE_AWAY, retry_while_away
from tribunal.runner.decider import record_of_unusable_post
from tribunal.runner.observer import RunnerTelemetry, TrialObserver
from tribunal.runner.outages import Outages
from tribunal.runner.sample import Sample
from tribunal.schema import JSON, Call, Record, Usage
from tribunal.store.engine import Store
from tribunal.store.problems import is_away
from tribunal.trust import for_an_agent, stored_settings

_LOG = logging.getLogger(__name__)
_MAX_ATTEMPTS = 5  # a case that ends its replica each time must not go round for ever
_GATHER_SECONDS = 0.1  # for which events are gathered

TrialOutcome = Record | BadInput | None  # the record, why there is none, or None if the trial doesn't count


class Worker:
    """Tries cases, at most `in_flight` at a time."""

    def __init__(
        self, case_store: CaseStore, store: Store, in_flight: int, telemetry: RunnerTelemetry, outages: Outages
    ) -> None:
        """Begin with no case."""
        self.outages, self._store = outages, store
        self.trials_on_checkpoints = Trials(store, case_store)
        self._case_store, self._telemetry = case_store, telemetry
        self._room, self._in_flight, self._taken = asyncio.Semaphore(in_flight), in_flight, 0
        self.stopping = False
        self._hurry = asyncio.Event()
        self.trials: dict[str, asyncio.Task[TrialOutcome]] = {}
        self._beginning: set[str] = set()  # cases that are taken up, and not tried yet
        self.held_in_memory: set[str] = set()  # cases that are not to be kept, and wait for a provider without a place

    @property
    def case_ids(self) -> Set[str]:
        """Return the cases that are tried here or will be at once."""
        return self.trials.keys() | self._beginning

    @property
    def places(self) -> int:
        """Return how many more cases could be tried now; none while the queue waits for a place."""
        return 0 if self._room.locked() else self._in_flight - self._taken

    async def take_place(self) -> bool:
        """Take a place, to be given to `begin` or back, if one is free at once; return whether it was."""
        if self._room.locked():
            return False
        await self.wait_for_place()  # which doesn't wait
        return True

    async def wait_for_place(self) -> None:
        """Take a place, to be given to `begin` or back, once one is free."""
        await self._room.acquire()
        self._taken += 1

    def give_place_back(self) -> None:
        """Give a place back that was taken."""
        self._taken -= 1
        self._room.release()

    async def begin(self, held: Held) -> asyncio.Task[TrialOutcome] | None:
        """Try a case that this replica has, in a place that was taken for it.

        Returns:
            its trial, which has begun, or None if there is nothing to try here.
        """
        self._beginning.add(held.id)
        trial = None
        try:
            if await self._check_triable(held):
                trial = self._begin(held)
        finally:
            self._beginning.discard(held.id)
            if trial is None:
                self.outages.end(held.id)
                self.give_place_back()
        return trial

    async def give_back(self, held: Held) -> None:
        """Let a case that this replica has taken up, and hasn't begun with, wait again; give its place back."""
        self.give_place_back()
        await retry_while_away(lambda: self._case_store.give_back(held, Spending()))

    async def _check_triable(self, held: Held) -> bool:
        """Return whether a case can be tried here; if not, cancel it, or give it back when this replica stops."""
        if held.post is None:
            await self._case_store.cancel(
                held, "its replica ended, and the post was not to be kept; send it again", Spending()
            )
        elif held.attempt - held.attempts_before > _MAX_ATTEMPTS:
            why = f"{_MAX_ATTEMPTS} attempts ended without an outcome: their replicas ended, or their log says why"
            await self._case_store.cancel(held, why, Spending())
        elif self.stopping:
            await self._case_store.give_back(held, Spending())
        else:
            return True
        return False

    def _begin(self, held: Held) -> asyncio.Task[TrialOutcome]:
        def end(ended: asyncio.Task[TrialOutcome]) -> None:
            if self.trials.get(held.id) is ended:  # else the case was taken from it, and is tried here once more
                del self.trials[held.id]
                self.outages.end(held.id)
            if held.id in self.held_in_memory:
                self.held_in_memory.discard(held.id)
            else:
                self.give_place_back()

        self.outages.begin(held.id)
        trial = self.trials[held.id] = asyncio.create_task(self._run_observed(held), name=held.id)
        trial.add_done_callback(end)
        return trial

    async def _run_observed(self, held: Held) -> TrialOutcome:
        text = (held.post or {}).get("text") if held.keep else None
        with self._telemetry.trial(held.id, held.graph, held.attempt, text) as observer:
            return await self._run(held, observer)

    async def _run(self, held: Held, observer: TrialObserver) -> TrialOutcome:
        """Try a case and write down what became of it."""
        allowance = self._case_store.bounds.allowance(held.reserved)
        try:
            async with self._writing_events() as events:
                result, hold = await self._run_patiently(held, events, observer, allowance)
            record, paid, spent = result.record, without_earlier_calls(held, result.record), allowance.close()
            listed = {} if hold else {call.id: call for call in paid.calls}  # else they are counted when it ends
            calls = list(({call["id"]: Call.model_validate(call) for call in result.calls} | listed).values())
            usage, prices = Usage.from_calls([call.dump() for call in calls]), self._telemetry.prices
            _, money = spending_of(calls, usage, prices.cost_of_call if prices else None)
            if hold is not None:
                observer.hold(result.calls)
                await retry_while_away(lambda: self._case_store.write_events(events[:]))
                lease = self._case_store.lease_of(held)
                await retry_while_away(lambda: hold_case(self._store, lease, held, hold, result.calls, spent, money))
                await self.outages.settle(hold)
                return None
            question = result.question.dump() if result.question else None
            counts = await retry_while_away(
                lambda: self._case_store.finish(
                    held, record, question, written=result.written, said=events[:], spent=spent, money=money
                )
            )
            if not counts:
                observer.end = "taken_over"
                return None
        except TakenOver:
            observer.end = "taken_over"
            return None
        except asyncio.CancelledError:
            observer.end = "handed_back" if self.stopping else "cancelled"
            if self.stopping:
                await self._case_store.give_back(held, allowance.close())
            else:
                why = "who asked for it went away before it was decided"
                await self._case_store.cancel(held, why, allowance.close())
            raise
        except BadInput as error:
            observer.end, why = "bad_input", str(error)
            await retry_while_away(lambda: self._end_without_trial(held, why, allowance.close()))
            return error
        except Exception as error:  # noqa: BLE001 (whatever it is, the case must not stay in this replica's hands)
            return await self._end_after_error(held, error, observer, allowance.close())
        observer.finish(paid)
        return record

    async def _run_patiently(
        self, held: Held, events: list[JSON], observer: TrialObserver, allowance: Allowance
    ) -> tuple[TrialResult, Hold | None]:
        """Try a case; return what came of it, and how it is held if no model answered and it is to go on later.

        One that is not to be kept can't be held in the table: it waits here, and gives its place up meanwhile.
        """
        hold: Hold | None = None
        is_decided, earlier_calls = False, list[JSON]()

        async def decide(record: Record, calls: list[JSON]) -> bool:
            nonlocal hold, is_decided
            is_decided, hold = True, await self.outages.decide(held, record, calls)
            return hold is not None

        while True:
            if not held.keep:
                needed = await self.outages.needed_providers(held.graph, held.settings)
                if not self.outages.admit(held.id, needed):
                    await self._wait_in_memory(held)
            await self.outages.begin_probe(held.id)
            hold, is_decided, given_up = None, False, self.outages.given_up(held)
            patient = not given_up
            how = {"hold": decide if patient else None, "given_up": given_up, "allowance": allowance}
            result = await self._run_graph(held, events, observer, **how)
            made = list(result.calls) or [call.dump() for call in result.record.calls]
            result = result.model_copy(update={"calls": (*earlier_calls, *made)})
            if patient and not is_decided:
                await decide(result.record, made)
            if not patient or held.keep or hold is None:
                return result, hold if hold is None or result.held else hold.model_copy(update={"begin_anew": True})
            earlier_calls += made
            self.outages.end(held.id)
            self.outages.begin(held.id)

    async def _wait_in_memory(self, held: Held) -> None:
        """Wait until a case may be begun, or its deadline, without its place."""
        self.held_in_memory.add(held.id)
        self.give_place_back()
        await self.outages.admit_in_memory(held)
        await self.wait_for_place()
        self.held_in_memory.discard(held.id)

    async def _run_graph(self, held: Held, events: list[JSON], observer: TrialObserver, **how: Any) -> TrialResult:
        """Run the graph of a case; `how` is what else `Trials.run` takes."""
        numbers = count(held.attempt * 100_000)

        def on_event(event: JSON) -> None:
            events.append({"case_id": held.id, "number": next(numbers), "attempt": held.attempt, "event": event})
            observer.observe_event(event)

        if held.via != "service":  # of the terminal: its settings and its image are the operator's
            await asyncio.to_thread(trusted_graph, held.graph)
            with stored_settings():
                return await self.trials_on_checkpoints.run(held, on_event, **how)
        with for_an_agent():
            # Nobody listens to the many of a batch.
            listen = on_event if held.batch_id is None else None
            return await self.trials_on_checkpoints.run(held, listen, **how)

    @asynccontextmanager
    async def _writing_events(self) -> AsyncIterator[list[JSON]]:
        """Write a trial's events down while it runs, a moment later, for those who listen from any replica.

        Gives the rows that aren't written yet. What is left when the trial ends is written with its record.
        """
        rows: list[JSON] = []
        is_over = asyncio.Event()

        async def write_regularly() -> None:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_over.wait(), _GATHER_SECONDS)
                    return
                written = rows[:]
                try:
                    await self._case_store.write_events(written)
                except DATABASE_AWAY:
                    continue  # it is written later; what is written twice has the same number
                except Exception as error:  # noqa: BLE001 (the trial's end will tell)
                    _LOG.warning("the events of a trial can't be written: %s", type(error).__name__)
                    return
                del rows[: len(written)]

        writing = asyncio.create_task(write_regularly())
        try:
            yield rows
        finally:
            is_over.set()
            await writing  # so that nothing is written after the record, which may delete them

    async def _end_without_trial(self, held: Held, why: str, spent: Spending) -> None:
        """End a case that can't be judged. A row of a batch is a failure among the others, as in a file."""
        if held.batch_id is None:
            await self._case_store.cancel(held, why, spent)
        else:
            await self._case_store.finish(held, _failure(held, "input", why), spent=spent)

    async def _end_after_error(
        self, held: Held, error: Exception, observer: TrialObserver, spent: Spending
    ) -> TrialOutcome:
        """End a case that an error of this program stopped: every replica would meet it again.

        Where the database or the machine failed, another attempt may do better, so the case goes back to the queue.
        """
        _LOG.error("case %s: could not be tried", held.id, exc_info=error)
        if not (is_away(error) or isinstance(error, OSError | MemoryError)):
            kind = type(error).__name__
            self._telemetry.metrics.count_error(kind)
            why = f"{kind}: an error of the program; the log of the service has it under the case {held.id}"
            record = _failure(held, "internal", why, observer.calls)
            try:
                if await retry_while_away(lambda: self._case_store.finish(held, record, spent=spent)):
                    observer.finish(record)
                    return record
            except Exception:  # noqa: BLE001 (what can't be stored either; a few more attempts may)
                _LOG.exception("case %s: its failure could not be stored", held.id)
        await retry_while_away(lambda: self._case_store.give_back(held, spent))
        return None

    async def stop(self, seconds: float) -> None:
        """Let what is in flight end, for so long; what is left goes back to the queue."""
        self.stopping = True
        hurry = asyncio.create_task(self._hurry.wait())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.trials and not hurry.done() and (left := deadline - loop.time()) > 0:
            await asyncio.wait([*self.trials.values(), hurry], timeout=left, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        running = list(self.trials.values())
        for trial in running:
            trial.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def hurry(self) -> None:
        """Don't wait any longer for what is in flight."""
        self._hurry.set()


def _failure(held: Held, kind: str, why: str, calls: Sequence[JSON] = ()) -> Record:
    sample = Sample(id=(held.post or {}).get("post_id") or held.id)
    made = tuple(Call.model_validate(call) for call in calls)
    return record_of_unusable_post(sample, held.graph, context_from(held.settings), why, kind, made)
