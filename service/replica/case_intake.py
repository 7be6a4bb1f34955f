"""Posts are taken in: one by one, and from batches."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from tribunal.core.times import database_now
from tribunal.docket.case_store import CaseStore
from tribunal.docket.leases import Held, NewCase, held_case_from_row
from tribunal.docket.reservations import MOMENT
from tribunal.docket.trials import trusted_graph
from tribunal.docket.waiting_cases import WaitingCases, answer_of, check_waits
from tribunal.errors import BadInput, Problem
from tribunal.models.image import check_header
from tribunal.runner.case_worker import Worker
from tribunal.runner.outcome import Decided, Invalid
from tribunal.schema import JSON, Record
from tribunal.service.replica.batches import BatchStore
from tribunal.service.replica.keys import Caller, check_key
from tribunal.service.replica.options import ServiceOptions
from tribunal.settings.client_settings import check_request
from tribunal.settings.context import context_from
from tribunal.store.audit import OPERATOR, Who
from tribunal.store.engine import Store
from tribunal.trust import check_image, for_an_agent

# A post that is not to be kept is given up before its caller is, who is then told.
_PART_OF_WAIT = 0.9
# seconds between two looks at a case that another replica tries
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


class CaseIntake:
    """Takes cases in, and starts their trials."""

    def __init__(
        self, options: ServiceOptions, case_store: CaseStore, queued: asyncio.Event, worker: Worker
    ) -> None:
        """Keep the parts of the replica that it works with; `queued` is set when a case waits."""
        self.options = options
        self.case_store = case_store
        self.queued = queued
        self.worker = worker

    def settings_for(self, requested: JSON) -> JSON:
        """Return the settings of a case: the operator's, and those of the request that the operator allows.

        Raises:
            BadInput: one isn't allowed, or is wrong.
        """
        given = context_from(requested).model_dump(mode="json", exclude_unset=True)
        check_request(given)
        if (
            "task" not in requested
        ):  # policy and scheme follow a task, and else the operator's own stay in force
            given = {name: value for name, value in given.items() if name in requested}
        settings = {**self.options.settings, **given}
        context_from(settings)
        return settings

    async def check_image(self, ref: str | None) -> None:
        """Check that the image of a request can be judged: sent with it, or a web address.

        Raises:
            BadInput: it names a file of this machine, isn't an image, or is too large.
        """
        if ref and ref.startswith("data:"):
            await asyncio.to_thread(check_header, ref)
        elif ref and not ref.startswith(("https://", "http://")):
            with for_an_agent():
                check_image(ref)

    def check_running(self) -> None:
        """Check that this replica takes new work; raise Problem if it stops."""
        if self.worker.stopping:
            raise Problem("unavailable", "this replica stops; send it again", retry_after=1)

    async def open_case(
        self, new: NewCase, who: Caller, *, idempotency_key: str | None = None, client_request: JSON | None = None,
        again: float | None = None, deadline_s: float | None = None, wait: float = 0.0,
    ) -> OpenCase:  # fmt: skip
        """Take a case in, and begin with it if there is room and its models answer.

        Args:
            new: the case.
            who: asks for it.
            idempotency_key: the request's own name, under which it is done once.
            client_request: the fields that the client sent, to which the idempotency key belongs.
            again: find the same case instead, if it is under way or was decided in the last so many seconds.
            deadline_s: for how many seconds it may be held while no model answers, as far as the operator lets it.
            wait: for how many seconds its caller waits; one that is not to be kept is held no longer.

        Raises:
            Problem: too many wait, the key's budget is spent, or the idempotency key belongs to another request.
        """
        self.check_running()
        outages = self.worker.outages
        deadline = outages.deadline(
            deadline_s if new.keep else min(deadline_s or wait, wait * _PART_OF_WAIT)
        )
        hold = outages.hold_new(await outages.needed_providers(new.graph, new.settings), deadline)
        is_full = not new.keep and len(self.worker.held_in_memory) >= self.options.queue
        placed = not is_full and await self.worker.take_place()
        if not placed and not new.keep:
            raise Problem(
                "busy",
                "every place is taken, and a post that is not to be kept can't wait",
                retry_after=5,
            )
        held: Held | None = None
        try:
            case_id, is_new, held = await self.case_store.take_in(
                new, who.key_id, here=placed, most_waiting=self.options.queue, idempotency_key=idempotency_key,
                client_request=client_request, again=again, by=who.audit_actor, deadline=deadline,
                hold=hold if new.keep else None,
            )  # fmt: skip
        finally:
            if placed and held is None:
                self.worker.give_place_back()
        if not is_new:
            return OpenCase(self, case_id, found=True)
        return await self.try_or_queue(case_id, held)

    async def try_or_queue(self, case_id: str, held: Held | None) -> OpenCase:
        """Try a case that this replica has, in a place that was taken for it; one that it doesn't have is queued."""
        if held is not None:
            return OpenCase(self, case_id, await self.worker.begin(held))
        self.queued.set()
        return OpenCase(self, case_id)


class OpenCase:
    """A case that a request has opened, or has found open (`found`)."""

    def __init__(
        self,
        intake: CaseIntake,
        case_id: str,
        trial: asyncio.Task[Decided | Invalid | None] | None = None,
        *,
        found: bool = False,
    ) -> None:
        """Keep the case and its trial here, if it has one."""
        self._intake = intake
        self.id = case_id
        self._trial = trial
        self.found = found

    async def outcome(self, seconds: float) -> Record | None:
        """Return the record, or None if it takes longer than this; raise BadInput if what was asked can't be judged."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        if self._trial is not None:
            try:
                ended = await asyncio.wait_for(asyncio.shield(self._trial), seconds)
            except TimeoutError:
                return None
            except asyncio.CancelledError:
                if self._trial.cancelled() and self._intake.worker.stopping:
                    return None  # it was handed back: another replica has it, or this one when it is up again
                raise
            if isinstance(ended, Invalid):
                raise BadInput(ended.why)
            if isinstance(ended, Decided) and isinstance(ended.record, Record):
                return ended.record
            if self._intake.worker.stopping:
                return None
        return await self._outcome_elsewhere(deadline)

    async def _outcome_elsewhere(self, deadline: float) -> Record | None:
        """Return the record of a case that has no trial here, or whose trial here came to nothing. As `outcome`."""
        loop = asyncio.get_running_loop()
        pause = _FIRST_PAUSE
        while True:
            row = await self._intake.case_store.case(self.id)
            if row["status"] == "done":
                return Record.model_validate(row["record"]) if row["record"] else None
            if row["status"] == "cancelled":
                raise BadInput(row["record"]["cancelled"])
            if loop.time() + pause > deadline:
                return None
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    async def abandon(self) -> None:
        """End a trial whose outcome only those who have gone away could have had."""
        if self._trial is not None and not self._trial.done():
            self._trial.cancel()
            with suppress(asyncio.CancelledError):
                await self._trial


def reviewer_name(who: Caller, person: str | None) -> str:
    """Return who decides: the key's name, and before it the person whom its holder names."""
    return f"{person} ({who.name})" if person else who.name


class Reviews(WaitingCases):
    """The cases that wait for a person, as one replica sees them."""

    def __init__(self, store: Store, intake: CaseIntake) -> None:
        """Keep the way back to a trial."""
        super().__init__(store, intake.case_store.bounds, intake.case_store.outbox)
        self._intake = intake

    async def decide(
        self, case_id: str, reviewer: str, decision: JSON, question: str | None, by: Who = OPERATOR, *,
        leads: bool = True, undo_seconds: float = 0.0, noted: JSON | None = None,
    ) -> OpenCase:  # fmt: skip
        """Take in what a person decides on a case, and go on with it.

        Args:
            case_id: the case.
            reviewer: who decides.
            decision: `action` (accept, change or ask), and what belongs to it.
            question: the id of the question that was before them; None: whichever there is.
            by: who asks, for the audit log.
            leads: whether they may decide what was escalated.
            undo_seconds: for how long they can undo it; nobody goes on with the case until then.
            noted: what the audit log tells beside the decision: which cases were decided `together`; whether it was
                `blind`, and the category of the `court` then.

        Raises:
            Problem: there is no such case, it doesn't wait, somebody else has claimed it, it waits for a lead, or it
                asks another question; or it is a question for a model, and the budget of the case's key is spent.
            BadInput: the decision doesn't fit the policy of the case, which goes on waiting.
        """
        self._intake.check_running()
        worker = self._intake.worker
        case_store = self._intake.case_store
        row = await case_store.case(case_id)
        check_waits(row, reviewer, leads=leads)
        if question is not None and question != row["question"]["id"]:
            raise Problem(
                "conflict",
                f"answers: {question[:80]}: the case was tried again since; look at it once more",
            )
        answer = answer_of(**decision, reviewer=reviewer)
        if row["via"] != "service":
            await asyncio.to_thread(trusted_graph, row["graph"])
        await worker.trials_on_checkpoints.check_answer(row, answer)

        needed = await worker.outages.needed_providers(row["graph"], row["settings"])

        async def write_and_go_on() -> OpenCase:
            goes_on = not undo_seconds and not worker.outages.concerns(needed)
            placed = goes_on and await worker.take_place()
            held = None
            try:
                owner = case_store.replica if placed else None
                changed = await self.take_answer(
                    row,
                    reviewer,
                    answer,
                    by,
                    owner,
                    leads=leads,
                    undo_seconds=undo_seconds,
                    noted=noted,
                )
                held = held_case_from_row(changed) if placed else None
            finally:
                if placed and held is None:
                    worker.give_place_back()
            return await self._intake.try_or_queue(case_id, held)

        # On its own, so that whoever goes away doesn't leave it between its row and its trial.
        return await asyncio.shield(asyncio.create_task(write_and_go_on()))


_REFUSED_KEY_SECONDS = 3600.0  # until a key that was revoked or has expired is looked at again


class BatchFeeder:
    """Takes rows of batches up, and has the worker try them. Set `wake` when there may be something to do."""

    def __init__(
        self, options: ServiceOptions, store: Store, batches: BatchStore, worker: Worker
    ) -> None:
        """Begin with no batch."""
        self._options = options
        self._store = store
        self._batches = batches
        self._worker = worker
        self._max_rows = max(1, round(options.in_flight * options.batch_share))
        self._trials: set[asyncio.Task[object]] = set()
        self.wake = asyncio.Event()
        self._last_turns: dict[str, float] = {}  # when each batch had its last turn

    async def feed(self) -> int:
        """Give the free places to the batches in turn; return how many were taken."""
        taken = 0
        free = min(self._max_rows - len(self._trials), self._worker.places)
        if free <= 0:
            return 0
        turns = await self._batches.find_turns()
        self._last_turns = {turn["id"]: self._last_turns.get(turn["id"], 0.0) for turn in turns}
        turns.sort(key=lambda turn: self._last_turns[turn["id"]])
        for place, turn in enumerate(turns):
            fair_share = -(-(free - taken) // (len(turns) - place))
            taken += await self._feed_from(turn, fair_share) if fair_share else 0
        return taken

    async def _feed_from(self, turn: JSON, count: int) -> int:
        """Try rows of a batch; return how many."""
        batch_id: str = turn["id"]
        if turn["key_id"] is not None:
            try:
                await check_key(self._store, turn["key_id"])
            except Problem as problem:
                until = database_now() + (problem.retry_after or _REFUSED_KEY_SECONDS)
                await self._batches.hold(batch_id, problem.message, until)
                return 0
        outages = self._worker.outages
        needed = await outages.needed_providers(turn["graph"], turn["settings"])
        breaker = outages.blocking(needed)
        if breaker is not None:
            await self._batches.hold(batch_id, breaker.why, breaker.next_look, breaker.provider)
            return 0
        if turn["held"] is not None:
            await self._batches.hold(batch_id, None, None)
        is_probe = outages.concerns(needed)
        placed = 0
        count = 1 if is_probe else count
        while placed < count and await self._worker.take_place():
            placed += 1
        if not placed:
            return 0
        rows: list[Held] = []
        try:
            rows = await self._batches.take_rows(batch_id, placed, fewest_attempts_first=is_probe)
        except Problem as problem:
            seconds = problem.retry_after or 0
            if seconds > MOMENT:  # else cases under way may give enough back
                await self._batches.hold(batch_id, problem.message, database_now() + seconds)
            return 0
        finally:
            for _ in range(placed - len(rows)):
                self._worker.give_place_back()
        self._last_turns[batch_id] = time.monotonic()
        if not rows:
            await self._batches.finish_if_done(batch_id)
        for row in rows:
            if not outages.admit(
                row.id, needed
            ):  # something else was begun meanwhile, to see whether it answers
                await self._worker.give_back(row)
            elif (trial := await self._worker.begin(row)) is not None:
                self._trials.add(trial)
                trial.add_done_callback(self._end_trial)
        return len(rows)

    def _end_trial(self, trial: asyncio.Task[object]) -> None:
        self._trials.discard(trial)
        self.wake.set()
