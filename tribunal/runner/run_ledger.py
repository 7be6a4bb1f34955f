"""The ledger of a run: the remaining posts, results.jsonl, and the run's cost.

A post that nobody answered is held back until another result shows whether the post or an outage is the cause
(`tribunal.runner.outage`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.models.budget import spending_of
from tribunal.runner.budget import RunBudget
from tribunal.runner.job import RunJob, RunOptions
from tribunal.runner.journal import DiskFull, Journal
from tribunal.runner.outage import LOST_IN_A_ROW, FirstFailures, UnansweredPosts
from tribunal.runner.outcome import Decided, Invalid, Lost, Stopped, Waits, is_locked_out
from tribunal.runner.results import AnyResult, Sample, SkippingSamples
from tribunal.runner.tally import RunTally
from tribunal.schema import Record


@dataclass
class RunPost:
    """A post that was taken from the ledger of a run, for which its budget holds a reservation until it is settled."""

    place: int
    repeat: int
    sample: Sample
    is_settled: bool = False


class RunLedger:
    """The ledger of one start of a run.

    Attributes:
        tally: the state of the run, which whoever watches is told after every post.
    """

    def __init__(
        self,
        job: RunJob,
        tally: RunTally,
        options: RunOptions,
        folder: Path,
        done: bytearray,
        budget: RunBudget,
    ) -> None:
        """Open results.jsonl; `done` tells of every post and repeat whether there is a result.

        Raises:
            DiskFull: the results can't be opened for writing.
        """
        self.tally = tally
        self._prices = options.prices
        self._watch = options.watch
        self._budget = budget
        self._unanswered = UnansweredPosts(job, folder)
        self._first_failures = FirstFailures(options.stop_after_failures)
        self._price = options.prices.cost_of_call if options.prices else None
        self._journal = Journal(folder)
        self._left = (
            RunPost(place, repeat, sample)
            for repeat in range(job.repeats)
            for place, sample in _posts_left(job.samples, memoryview(done)[repeat * job.count :])
        )
        self._settled = asyncio.Event()
        self._is_stopped = False

    def close(self) -> None:
        """Close results.jsonl."""
        self._journal.close()

    async def take(self) -> RunPost | None:
        """Return the next post, and reserve its budget; None if none is left or the run stops.

        If the budget has no room, posts under way are waited for, since they may free enough.
        """
        if self._is_stopped or (post := next(self._left, None)) is None:
            return None
        while not self._budget.reserve_post():
            if not self._budget.under_way:
                self.stop(self._budget.explain_exhaustion())
            else:
                self._settled.clear()
                await self._settled.wait()
            if self._is_stopped:
                return None
        self.tally.in_flight += 1
        return post

    async def finish(self, case: RunPost, decided: Decided) -> None:
        """Write a result, and before it the failures that it explains; stop if the first posts all failed alike."""
        self._settle(case, decided.record)
        released = self._unanswered.release_after(decided.record, case.sample)
        await self._write([*released, (decided.record, decided.line)])
        self.stop(self._first_failures.explain_stop(decided.record))

    async def hold(self, case: RunPost, waits: Waits) -> None:
        """Hold back a post that nobody answered; stop if the reason concerns every post."""
        self._settle(case, waits.record)
        if waits.given_up:
            self.tally.server_away |= not self.tally.stopped
            self.stop(f"the model's server didn't come back: {waits.given_up}. See to it")
        elif is_locked_out(waits.record):
            self.stop(f"{waits.record.explanation}. See to the key")
        else:
            self._unanswered.hold_back(waits.record, waits.line)
            if len(self._unanswered) >= LOST_IN_A_ROW:
                self.stop(self._unanswered.describe_outage())

    async def give_back(self, case: RunPost, why: Lost | Stopped) -> None:
        """Leave a post to the next start of the run, and stop."""
        self._settle(case, None)
        self.stop(why.why if isinstance(why, Stopped) else "a post was lost")

    async def refuse(self, case: RunPost, invalid: Invalid) -> None:
        """End the run: its settings are wrong for every post.

        Raises:
            BadInput: always.
        """
        self._settle(case, None)
        raise BadInput(invalid.why)

    def outcome_of_error(self, case: RunPost, error: BaseException) -> Stopped | None:
        """Return that a full disk stops the run. Any other error ends it; the post counts as its whole reservation."""
        self._settle(case, None)
        return Stopped(f"{error}. Make room") if isinstance(error, DiskFull) else None

    def note_end(self, unkept: int, lowest_concurrency: Mapping[str, int]) -> None:
        """Report that a post has ended, with the state of its worker."""
        self.tally.in_flight -= 1
        self.tally.unkept = unkept
        self.tally.slowed = "; ".join(
            f"requests to {model} timed out beside others, so it was sent as few as {number} at a time"
            for model, number in lowest_concurrency.items()
        )
        self.show()

    def show(self) -> None:
        """Report the state of the run."""
        self._watch(self.tally)

    def stop(self, why: str) -> None:
        """Give no more posts, unless `why` is empty. The first reason counts."""
        if why:
            self._is_stopped = True
            self.tally.stopped = self.tally.stopped or why
            self._settled.set()

    @property
    def question(self) -> asyncio.Future[Record] | None:
        """Return what asks a model whether it still answers, if that is under way."""
        return self._unanswered.asking

    async def finish_unanswered(self) -> None:
        """Write the waiting posts as failures if the models answer others; otherwise stop the run."""
        if self._is_stopped or not self._unanswered:
            return
        if not await self._unanswered.models_still_answer():
            self.stop(self._unanswered.describe_outage())
        if self._is_stopped:
            return
        try:
            await self._write(self._unanswered.release_all())
        except DiskFull as full:
            self.stop(f"{full}. Make room")

    async def sync_to_disk(self) -> None:
        """Wait until every result is on the disk, or stop the run."""
        try:
            await self._journal.sync_to_disk()
        except DiskFull as full:
            self.stop(str(full))

    async def _write(self, results: Iterable[tuple[AnyResult, bytes]]) -> None:
        for record, line in results:
            await self._journal.append(line)
            self.tally.add_result(record, self._prices)

    def _settle(self, post: RunPost, record: AnyResult | None) -> None:
        """Replace the reservation of a post by the cost of its calls; without a record, the cost is unknown."""
        if not post.is_settled:
            post.is_settled = True
            self._budget.settle_post(
                None if record is None else spending_of(record.calls, self._price)
            )
            self._settled.set()


def _posts_left(samples: Iterable[Sample], done: memoryview) -> Iterator[tuple[int, Sample]]:
    """Yield the posts that aren't done, each with its place."""
    if isinstance(samples, SkippingSamples):
        return samples.posts_left(lambda place: bool(done[place]))
    return ((place, sample) for place, sample in enumerate(samples) if not done[place])
