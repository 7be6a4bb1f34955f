"""A replica's own work: cases that it has taken up, each tried by its graph, and the events of their trials."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from typing import Any

from tribunal.docket.case_store import CaseStore
from tribunal.docket.holds import Hold
from tribunal.docket.leases import Held
from tribunal.docket.trials import TrialResult, Trials, trusted_graph
from tribunal.models.budget import Spending
from tribunal.runner.case_ledger import CaseAttempt, CaseLedger
from tribunal.runner.outages import Outages, retry_while_away
from tribunal.runner.outcome import Decided, Invalid, Outcome, RunnerTelemetry, Waits, carry_out
from tribunal.schema import JSON, Record
from tribunal.store.engine import Store
from tribunal.trust import for_an_agent, stored_settings

_MAX_ATTEMPTS = 5  # a case that ends its replica each time must not go round for ever


class Worker:
    """Tries cases, at most `in_flight` at a time."""

    def __init__(
        self,
        case_store: CaseStore,
        store: Store,
        in_flight: int,
        telemetry: RunnerTelemetry,
        outages: Outages,
    ) -> None:
        """Begin with no case."""
        self.outages = outages
        self.trials_on_checkpoints = Trials(store, case_store)
        self._case_store = case_store
        self._telemetry = telemetry
        self._ledger = CaseLedger(store, case_store, outages, telemetry)
        self._room = asyncio.Semaphore(in_flight)
        self._in_flight = in_flight
        self._taken = 0
        self._hurry = asyncio.Event()
        self.trials: dict[str, asyncio.Task[Decided | Invalid | None]] = {}
        self._beginning: set[str] = set()  # cases that are taken up, and not tried yet
        # cases that are not to be kept, and wait for a provider without a place
        self.held_in_memory: set[str] = set()

    @property
    def stopping(self) -> bool:
        """Return whether this replica takes up no more cases, since it ends."""
        return self._ledger.is_stopping

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

    async def begin(self, held: Held) -> asyncio.Task[Decided | Invalid | None] | None:
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
                held,
                "its replica ended, and the post was not to be kept; send it again",
                Spending(),
            )
        elif held.attempt - held.attempts_before > _MAX_ATTEMPTS:
            why = f"{_MAX_ATTEMPTS} attempts ended without an outcome: their replicas ended, or their log says why"
            await self._case_store.cancel(held, why, Spending())
        elif self.stopping:
            await self._case_store.give_back(held, Spending())
        else:
            return True
        return False

    def _begin(self, held: Held) -> asyncio.Task[Decided | Invalid | None]:
        def end(ended: asyncio.Task[Decided | Invalid | None]) -> None:
            if (
                self.trials.get(held.id) is ended
            ):  # else the case was taken from it, and is tried here once more
                del self.trials[held.id]
                self.outages.end(held.id)
            if held.id in self.held_in_memory:
                self.held_in_memory.discard(held.id)
            else:
                self.give_place_back()

        self.outages.begin(held.id)
        trial = self.trials[held.id] = asyncio.create_task(self._try(held), name=held.id)
        trial.add_done_callback(end)
        return trial

    async def _try(self, held: Held) -> Decided | Invalid | None:
        """Try a case and store its outcome; return it, or None if the case is to be tried again, here or elsewhere."""
        text = (held.post or {}).get("text") if held.keep else None
        with self._telemetry.trial(held.id, held.graph, held.attempt, text) as observer:
            case = CaseAttempt(held, observer, self._case_store.bounds.allowance(held.reserved))
            outcome = await carry_out(self._ledger, case, self._attempt)
        return outcome if isinstance(outcome, Decided | Invalid) else None

    async def _attempt(self, case: CaseAttempt) -> Outcome:
        async with self._ledger.append_events(case):
            return await self._run_patiently(case)

    async def _run_patiently(self, case: CaseAttempt) -> Outcome:
        """Run the graph of a case until it comes to rest, or no model answers and it is to go on later.

        A case that is not to be kept can't be held in the table: it waits here, without its place.
        """
        held = case.held
        hold: Hold | None = None
        is_decided = False
        earlier_calls = list[JSON]()

        async def decide(record: Record, calls: list[JSON]) -> bool:
            nonlocal hold, is_decided
            is_decided = True
            hold = await self.outages.decide(held, record, calls)
            return hold is not None

        while True:
            if not held.keep:
                needed = await self.outages.needed_providers(held.graph, held.settings)
                if not self.outages.admit(held.id, needed):
                    await self._wait_in_memory(held)
            await self.outages.begin_probe(held.id)
            hold = None
            is_decided = False
            given_up = self.outages.given_up(held)
            patient = not given_up
            result = await self._run_graph(
                case, hold=decide if patient else None, given_up=given_up
            )
            made = list(result.calls) or [call.dump() for call in result.record.calls]
            calls = (*earlier_calls, *made)
            if patient and not is_decided:
                await decide(result.record, made)
            if hold is None:
                question = result.question.dump() if result.question else None
                return Decided(
                    result.record, calls=calls, question=question, has_checkpoints=result.written
                )
            if held.keep:
                hold = hold if result.held else hold.model_copy(update={"begin_anew": True})
                return Waits(result.record, calls=calls, hold=hold)
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

    async def _run_graph(self, case: CaseAttempt, **how: Any) -> TrialResult:
        """Run the graph of a case; `how` is what else `Trials.run` takes."""
        held = case.held
        how = {"allowance": case.allowance, **how}
        if held.via != "service":  # of the terminal: its settings and its image are the operator's
            await asyncio.to_thread(trusted_graph, held.graph)
            with stored_settings():
                return await self.trials_on_checkpoints.run(held, case.add_event, **how)
        with for_an_agent():
            # Nobody listens to the many of a batch.
            listen = case.add_event if held.batch_id is None else None
            return await self.trials_on_checkpoints.run(held, listen, **how)

    async def stop(self, seconds: float) -> None:
        """Let running cases finish for this time; return the others to the queue."""
        self._ledger.is_stopping = True
        hurry = asyncio.create_task(self._hurry.wait())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.trials and not hurry.done() and (left := deadline - loop.time()) > 0:
            await asyncio.wait(
                [*self.trials.values(), hurry], timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
        hurry.cancel()
        running = list(self.trials.values())
        for trial in running:
            trial.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def hurry(self) -> None:
        """Stop waiting for running cases."""
        self._hurry.set()
