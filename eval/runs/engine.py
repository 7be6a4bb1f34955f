"""Any graph over any number of posts: at most so many in flight, results written as they come, safe to interrupt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from langchain_core.runnables import RunnableConfig

from tribunal.context import Context
from tribunal.errors import BadInput
from tribunal.eval.datasets.sample import Sample
from tribunal.eval.runs.crew import Crew
from tribunal.eval.runs.deciding import Decided, Decider, Order, Stopped
from tribunal.eval.runs.earlier import Told, read_earlier
from tribunal.eval.runs.journal import RESULTS, DiskFull, Journal, line_starts
from tribunal.eval.runs.left import posts_left
from tribunal.eval.runs.outage import LOCKED_OUT, LOST_IN_A_ROW, Unanswered, kind_of_failure, unanswered
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.signals import heeding_signals
from tribunal.eval.runs.spending import NO_LIMITS, Ledger, Limits, Spent, spent_before, spent_on
from tribunal.eval.runs.tally import Tally, Watch
from tribunal.models.door import door_here
from tribunal.schema import JSON, Record

if TYPE_CHECKING:
    from tribunal.kept.keeping import Keeper


@dataclass(frozen=True)
class Job:
    """What a run decides, and how.

    `samples` gives the same ones in the same order at every iteration; `budgets` are tokens by post id; `keeper` keeps
    what was decided beside the results; `config` is LangChain's, of each post's run.
    """

    graph: str
    context: Context
    samples: Iterable[Sample]
    count: int
    repeats: int = 1
    in_flight: int = 16
    budgets: Mapping[str, int] | None = None
    keep_text: bool = False
    keeper: Keeper | None = None
    config: RunnableConfig = field(default_factory=RunnableConfig)


async def run(
    job: Job,
    folder: Path,
    *,
    prices: Prices | None = None,
    watch: Watch | None = None,
    workers: int = 1,
    limits: Limits = NO_LIMITS,
    pinned: JSON | None = None,
) -> Tally:
    """Decide every post that the folder has no result of yet.

    A first Ctrl-C (or SIGTERM) lets those in flight finish; a second one stops at once.

    Args:
        job: what is decided, and how.
        folder: the run's.
        prices: for the running cost.
        watch: is told how the run stands after every post.
        workers: how many processes decide; 1 is this one.
        limits: what the run may spend, in all its starts.
        pinned: what other processes have to find as it is told here (`tribunal.eval.runs.pins`).

    Returns:
        how it stands at the end; `stopped` says why, if not everything was done.

    Raises:
        BadInput: a setting or the data is wrong. What was in flight is finished first; results stay.
        DiskFull: the results can't be opened for writing.
    """
    decider = Decider(
        job.graph, job.context, keep_text=job.keep_text, keeper=job.keeper, prices=prices, config=job.config
    )
    await decider.check()
    tally = Tally(total=job.count * job.repeats)
    done = posts_done(folder, job, tally, prices)
    ledger = Ledger(limits, spent_before(folder, prices), job.context) if limits else None
    tally.started = time.monotonic()
    held = Unanswered(job.graph, job.context, job.samples, folder)
    async with AsyncExitStack() as stack:
        under_way = _UnderWay(job, tally, prices, watch, held, decider, ledger)
        under_way.journal = stack.enter_context(Journal(folder))
        stack.enter_context(_interruptible(under_way))
        if workers > 1:
            lost = ledger.begin_again if ledger else lambda: None
            under_way.by = crew = Crew(order_of(job, prices, pinned), job.context, await door_here(), workers, lost)
            stack.push_async_callback(crew.close)
        under_way.left = posts_left(job.samples, job.count, job.repeats, done)
        await _carried_on(under_way)
    return tally


def order_of(job: Job, prices: Prices | None, pinned: JSON | None) -> tuple[Order, Mapping[str, str]]:
    """What other processes are told of a job, and what they have to find in their environment (`Order.of`).

    Raises:
        BadInput: the job's config has callbacks, which can't leave this process.
    """
    if job.config.get("callbacks"):
        raise BadInput(
            "config: callbacks can't be handed to other processes; decide with one process, or give tags and metadata"
        )
    keep = job.keeper.wanted if job.keeper else None
    return Order.of(
        job.graph, job.context, keep_text=job.keep_text, keep=keep, prices=prices, pinned=pinned, config=job.config
    )


async def _carried_on(under_way: _UnderWay) -> None:
    """Decide what is left, so many at a time, and put it on the disk."""
    tally = under_way.tally
    if under_way.watch:
        under_way.watch(tally)
    tasks = [asyncio.ensure_future(under_way.work()) for _ in range(under_way.job.in_flight)]
    under_way.tasks = tasks
    for task in tasks:
        task.add_done_callback(under_way.ended)
    try:
        await asyncio.gather(*tasks, return_exceptions=True)
        await under_way.end()
    except asyncio.CancelledError:
        if not tally.interrupted:
            raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await under_way.settle()
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


def posts_done(folder: Path, job: Job, tally: Tally, prices: Prices | None) -> bytearray:
    """A byte a post and repeat, 1 where there is a result; what these came to and cost is put into the tally."""
    done = bytearray(job.count * job.repeats)
    for start in line_starts(folder / RESULTS):
        at = start.repeat * job.count + start.place
        held = f"{folder / RESULTS}: holds post {start.place}, repeat {start.repeat}"
        if start.repeat >= job.repeats or start.place >= job.count:
            raise BadInput(f"{held}, which this run has not; remove the line")
        if done[at]:
            raise BadInput(f"{held} twice; remove one of the two lines")
        done[at] = 1
        tally.before += 1
        tally.rehearsed += start.rehearsed
        if (result := read_earlier(start.line, priced=prices is not None)) is not None:
            tally.earlier.count(result, prices)
    return done


class Deciding(Protocol):
    """By what posts are decided: in this process, or in others."""

    @property
    def unkept(self) -> int: ...
    @property
    def slowed(self) -> Mapping[str, int]: ...
    async def decide(self, place: int, repeat: int, sample: Sample, max_tokens: int | None = None) -> Decided: ...


class _UnderWay:
    """A run under way: what its tasks share, each of which has one post in flight."""

    def __init__(
        self,
        job: Job,
        tally: Tally,
        prices: Prices | None,
        watch: Watch | None,
        held: Unanswered,
        by: Deciding,
        ledger: Ledger | None,
    ) -> None:
        self.job, self.tally, self.prices, self.watch = job, tally, prices, watch
        self.held, self.by, self._ledger = held, by, ledger
        self.journal: Journal
        self.left: Iterator[tuple[int, int, Sample]]
        self.tasks: Sequence[asyncio.Future[None]] = ()
        self.stop = False
        self._settled = asyncio.Event()

    async def work(self) -> None:
        """Post after post, until none is left or the run is stopped."""
        for place, repeat, sample in self.left:
            if self.stop or not await self._may_begin():
                return
            self.tally.in_flight += 1
            try:
                decided = await self._decided(place, repeat, sample)
                await self._take(decided.record, sample, decided.line)
            except DiskFull as full:
                self.halt(f"{full}. Make room")
            except Stopped as stopped:
                self.halt(str(stopped))
            finally:
                self.tally.in_flight -= 1
                self.tally.unkept = self.by.unkept
                self.tally.slowed = _slowed(self.by.slowed)
                if self.watch:
                    self.watch(self.tally)
            if self.stop:
                return

    async def _may_begin(self) -> bool:
        """Whether the run may spend what one more post takes; waits for others to end where they may leave enough."""
        while self._ledger is not None and not self._ledger.take():
            if not self._ledger.under_way:
                self.halt(self._ledger.why())
                return False
            self._settled.clear()
            await self._settled.wait()
            if self.stop:
                return False
        return True

    async def _decided(self, place: int, repeat: int, sample: Sample) -> Decided:
        budget = self.job.budgets.get(sample.id) if self.job.budgets else None
        if self._ledger is None:
            return await self.by.decide(place, repeat, sample, budget)
        spent: Spent | None = None
        try:
            decided = await self.by.decide(place, repeat, sample, budget)
            spent = spent_on(decided.record.calls, self.prices)
        finally:
            if spent is None:
                self._ledger.lose()
            else:
                self._ledger.settle(*spent)
            self._settled.set()
        return decided

    def ended(self, task: asyncio.Future[None]) -> None:
        """What broke one task lets the others finish the posts that they have."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.halt(str(error))

    def halt(self, why: str) -> None:
        """Take no more posts; the first reason counts."""
        self.stop = True
        self.tally.stopped = self.tally.stopped or why
        self._settled.set()

    async def _take(self, record: Record | Told, sample: Sample, written: bytes) -> None:
        """Write a result down; one that says only that nobody answers waits for another that tells why."""
        if kind_of_failure(record) in LOCKED_OUT:
            raise Stopped(f"{record.explanation}. See to the key")
        if unanswered(record):
            self.held.hold(record, written)
            if len(self.held) >= LOST_IN_A_ROW:
                raise Stopped(self.held.why())
            return
        for each in self.held.cleared_by(record, sample):
            await self._write(*each)
        await self._write(record, written)

    async def end(self) -> None:
        """What is still held when no post is left: failures of their own if the models answer others, else not decided.

        Raises:
            BadInput: a post that was answered before can't be put to the models again.
        """
        if self.stop or not self.held:
            return
        if not await self.held.models_still_answer():
            self.halt(self.held.why())
        if self.stop:
            return
        try:
            for each in self.held.rest():
                await self._write(*each)
        except DiskFull as full:
            self.halt(f"{full}. Make room")

    async def settle(self) -> None:
        """Put what was written on the disk."""
        try:
            await self.journal.settled()
        except DiskFull as full:
            self.halt(str(full))

    async def _write(self, record: Record | Told, line: bytes) -> None:
        await self.journal.append(line)
        self.tally.add(record, self.prices)


def _slowed(lowest: Mapping[str, int]) -> str:
    """How far the number of requests at a time went down in this run, where requests timed out."""
    return "; ".join(
        f"requests to {model} timed out beside others, so it was sent as few as {number} at a time"
        for model, number in lowest.items()
    )


def _interruptible(under_way: _UnderWay) -> AbstractContextManager[None]:
    """The first signal stops taking posts, the second stops at once."""
    tally = under_way.tally

    def asked() -> None:
        if tally.interrupted:
            tally.stopped = "stopped at once"
            for each in (*under_way.tasks, under_way.held.asking):
                if each is not None:
                    each.cancel()
            return
        tally.interrupted = True
        under_way.halt("interrupted")
        if under_way.watch:
            under_way.watch(tally)

    return heeding_signals(asked)
