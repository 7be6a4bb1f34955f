"""Run any graph over any number of posts: limited concurrency, results written at once, safe to interrupt."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from tribunal.errors import LOCKED_OUT, BadInput
from tribunal.files import read_text, write_whole
from tribunal.models.registry import current_registry
from tribunal.runner.decider import DecidedPost, PostDecider, RunStopped, ServerAway
from tribunal.runner.job import (
    AS_USUAL,
    RunJob,
    RunOptions,
    load_ray_engine,
    order_of_job,
)
from tribunal.runner.journal import RESULTS, DiskFull, Journal, read_line_starts, shows_rehearsal
from tribunal.runner.outage import (
    LOST_IN_A_ROW,
    FirstFailures,
    SilentServers,
    UnansweredPosts,
    is_unanswered,
    kind_of_failure,
)
from tribunal.runner.prices import Prices, RunBudget, RunSpending, read_spending, spending_of_calls
from tribunal.runner.results import AnyResult, summarize_result
from tribunal.runner.sample import Sample, SkippingSamples
from tribunal.runner.tally import RunTally
from tribunal.runner.worker_pool import WorkerPool, start_child
from tribunal.schema import JSON

TELL_EVERY = 10_000  # earlier results that are counted
_LOST = ".lost"  # how many posts of a limited run were under way when its processes were killed


async def decide_posts(
    job: RunJob, folder: Path, options: RunOptions = AS_USUAL, pinned: JSON | None = None
) -> RunTally:
    """Decide every post that has no result in the folder yet.

    A first Ctrl-C (or SIGTERM) lets those in flight finish; a second one stops at once.

    Args:
        job: what is decided.
        folder: the run's.
        options: how.
        pinned: what other processes have to find as it is here (`tribunal.runner.pins`).

    Returns:
        The state of the run at the end; `stopped` says why not everything was done.

    Raises:
        BadInput: a setting or the data is wrong. What was in flight is finished first; results stay.
        DiskFull: the results can't be opened for writing.
    """
    decider, silent = PostDecider(job, options.prices), SilentServers(options.server_wait, options.warn)
    decider.wait_for_servers(options.server_wait, silent.note_server)
    await decider.check_before_run()
    tally, done = RunTally(total=job.count * job.repeats), bytearray(job.count * job.repeats)
    for count in _count_earlier_results(folder / RESULTS, job, tally, done, options.prices):
        tally.preparing = f"counting earlier results: {count:,}"
        options.watch(tally)
    tally.preparing = ""
    spent = read_spending(folder, options.prices) if options.limits else ()
    budget = RunBudget(options.limits, spent, job.context)
    async with AsyncExitStack() as stack:
        run = RunState(job, tally, options, folder, done, decider, budget)
        stack.enter_context(closing(run.journal))
        note_loss = budget.count_repeated_post
        if options.limits:
            note_loss = stack.enter_context(_count_lost_posts(folder, job.in_flight, budget))
        workers, ray = options.engine.workers or 1, None
        if options.engine.name == "ray" and not all(done):
            ray = load_ray_engine()
            workers = stack.enter_context(ray.join_cluster(options.engine))
        tally.started = time.monotonic()
        stack.enter_context(_call_on_signals(run.interrupt))
        if ray is not None or workers > 1:
            order, secret = order_of_job(job, options.prices, pinned, options.server_wait)
            start = partial(start_child, order, secret) if ray is None else partial(ray.ActorWorker, order)
            registry = await current_registry()
            run.decider = pool = WorkerPool(order, job.context, registry, workers, start, note_loss, silent.note_server)
            stack.push_async_callback(pool.close)
        await run.decide_all()
    return tally


@contextmanager
def _count_lost_posts(folder: Path, in_flight: int, budget: RunBudget) -> Iterator[Callable[[], None]]:
    """Count posts that were under way when processes were killed, in earlier starts too: nobody knows their cost.

    Their number is in a file, with what is in flight, so that it outlives a kill of this process, too.

    Yields:
        What is called for each post that was under way in a process that ended.

    Raises:
        BadInput: the file holds no number.
        DiskFull: the number can't be written; so does what is yielded.
    """
    path = folder / _LOST
    try:
        lost = int(read_text(path)) if path.exists() else 0
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: holds no number of posts: {error}; remove it, and run again") from error
    for _ in range(lost):
        budget.count_repeated_post()

    def write_number() -> None:
        try:
            write_whole(path, str(budget.repeated_posts + in_flight))
        except OSError as error:
            raise DiskFull(f"{path}: can't be written: {error}; make room") from error

    def note_loss() -> None:
        budget.count_repeated_post()
        write_number()
        if why := budget.explain_exhaustion(more=0):
            raise RunStopped(why)

    write_number()
    try:
        yield note_loss
    finally:
        with suppress(OSError):
            write_whole(path, str(budget.repeated_posts))


def _count_earlier_results(
    path: Path, job: RunJob, tally: RunTally, done: bytearray, prices: Prices | None
) -> Iterator[int]:
    """Count results from before in a tally, as `earlier`, and mark their posts in `done`; yield their number at times.

    Raises:
        BadInput: a result is of no post of this run, or stands there twice.
    """
    for start in read_line_starts(path):
        held = f"{path}: holds post {start.place}, repeat {start.repeat}"
        if start.repeat >= job.repeats or start.place >= job.count:
            raise BadInput(f"{held}, which this run has not; remove it, or take another folder")
        if done[at := start.repeat * job.count + start.place]:
            raise BadInput(f"{held}, a second time; remove one of the two")
        done[at] = 1
        tally.before += 1
        if tally.before % TELL_EVERY == 0:
            yield tally.before
        tally.rehearsed += shows_rehearsal(start.line)
        if (result := summarize_result(start.line)) is not None:
            tally.earlier.count_result(result, prices)


class RunState:
    """Hold the state of a run that several tasks carry out together: `journal` takes results, `decider` decides."""

    def __init__(
        self,
        job: RunJob,
        tally: RunTally,
        options: RunOptions,
        folder: Path,
        done: bytearray,
        decider: PostDecider,
        budget: RunBudget,
    ) -> None:
        """Open the journal; `done` tells of every post and repeat whether there is a result."""
        self._job, self._tally, self._prices, self._watch = job, tally, options.prices, options.watch
        self._unanswered, self._budget = UnansweredPosts(job, folder), budget
        self._first_failures = FirstFailures(options.stop_after_failures)
        self.decider: PostDecider | WorkerPool = decider
        self.journal = Journal(folder)
        self._left = (
            (place, repeat, sample)
            for repeat in range(job.repeats)
            for place, sample in _posts_left(job.samples, memoryview(done)[repeat * job.count :])
        )
        self._stop = False
        self._tasks: Sequence[asyncio.Future[None]] = ()
        self._settled = asyncio.Event()

    async def decide_all(self) -> None:
        """Decide the remaining posts, so many at a time, and sync the results to disk."""
        self._watch(self._tally)
        self._tasks = tasks = [asyncio.ensure_future(self._work_through_posts()) for _ in range(self._job.in_flight)]
        for task in tasks:
            task.add_done_callback(self._note_task_end)
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._finish_unanswered()
        except asyncio.CancelledError:
            if not self._tally.interrupted:
                raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            try:
                await self.journal.sync_to_disk()
            except DiskFull as full:
                self._stop_taking_posts(str(full))
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _work_through_posts(self) -> None:
        """Decide post after post until none is left or the run stops."""
        for place, repeat, sample in self._left:
            if self._stop or not await self._reserve_budget():
                return
            self._tally.in_flight += 1
            try:
                decided = await self._decide_within_budget(place, repeat, sample)
                await self._take_result(decided.record, sample, decided.line)
            except DiskFull as full:
                self._stop_taking_posts(f"{full}. Make room")
            except ServerAway as away:
                if not self._tally.stopped:
                    self._tally.server_away = True
                self._stop_taking_posts(f"the model's server didn't come back: {away}. See to it")
            except RunStopped as stopped:
                self._stop_taking_posts(str(stopped))
            finally:
                self._tally.in_flight -= 1
                self._tally.unkept = self.decider.unkept_verdicts
                self._tally.slowed = _describe_slowdown(self.decider.lowest_concurrency)
                self._watch(self._tally)
            if self._stop:
                return

    async def _reserve_budget(self) -> bool:
        """Return whether the budget suffices for one more post; wait for posts under way that may free enough."""
        while not self._budget.reserve_post():
            if not self._budget.under_way:
                self._stop_taking_posts(self._budget.explain_exhaustion())
                return False
            self._settled.clear()
            await self._settled.wait()
            if self._stop:
                return False
        return True

    async def _decide_within_budget(self, place: int, repeat: int, sample: Sample) -> DecidedPost:
        max_tokens = self._job.budgets.get(sample.id) if self._job.budgets else None
        spent: RunSpending | None = None
        try:
            decided = await self.decider.decide_post(place, repeat, sample, max_tokens)
            spent = spending_of_calls(decided.record.calls, self._prices)
        finally:
            self._budget.settle_post(spent)
            self._settled.set()
        return decided

    def _note_task_end(self, task: asyncio.Future[None]) -> None:
        """Stop taking posts if a task broke, so that the others finish theirs."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._stop_taking_posts(str(error))

    def _stop_taking_posts(self, why: str) -> None:
        """Take no more posts. The first reason counts."""
        self._stop = True
        self._tally.stopped = self._tally.stopped or why
        self._settled.set()

    def interrupt(self) -> None:
        """Finish the posts under way, and take no more; at a second interruption cancel them."""
        if not self._tally.interrupted:
            self._tally.interrupted = True
            self._stop_taking_posts("interrupted")
            self.decider.stop_waiting()
            self._watch(self._tally)
            return
        self._tally.stopped = "stopped at once"
        for each in (*self._tasks, self._unanswered.asking):
            if each is not None:
                each.cancel()

    async def _take_result(self, record: AnyResult, sample: Sample, line: bytes) -> None:
        """Write a result; hold an unanswered post back until another result shows why."""
        if kind_of_failure(record) in LOCKED_OUT:
            raise RunStopped(f"{record.explanation}. See to the key")
        if is_unanswered(record):
            self._unanswered.hold_back(record, line)
            if len(self._unanswered) >= LOST_IN_A_ROW:
                raise RunStopped(self._unanswered.describe_outage())
            return
        await self._write_results([*self._unanswered.release_after(record, sample), (record, line)])
        if why := self._first_failures.explain_stop(record):
            raise RunStopped(why)

    async def _finish_unanswered(self) -> None:
        """Write the posts still held back as failures if the models answer others; otherwise stop the run."""
        if self._stop or not self._unanswered:
            return
        if not await self._unanswered.models_still_answer():
            self._stop_taking_posts(self._unanswered.describe_outage())
        if self._stop:
            return
        try:
            await self._write_results(self._unanswered.release_all())
        except DiskFull as full:
            self._stop_taking_posts(f"{full}. Make room")

    async def _write_results(self, results: Iterable[tuple[AnyResult, bytes]]) -> None:
        for record, line in results:
            await self.journal.append(line)
            self._tally.add_result(record, self._prices)


def _describe_slowdown(lowest: Mapping[str, int]) -> str:
    """Describe how far the concurrency was lowered where requests timed out."""
    return "; ".join(
        f"requests to {model} timed out beside others, so it was sent as few as {number} at a time"
        for model, number in lowest.items()
    )


def _posts_left(samples: Iterable[Sample], done: memoryview) -> Iterator[tuple[int, Sample]]:
    """Yield the posts that aren't done, each with its place."""
    if isinstance(samples, SkippingSamples):
        return samples.posts_left(lambda place: bool(done[place]))
    return ((place, sample) for place, sample in enumerate(samples) if not done[place])


@contextmanager
def _call_on_signals(interrupt: Callable[[], None]) -> Iterator[None]:
    """Call a function at each SIGINT or SIGTERM within the context."""
    loop = asyncio.get_running_loop()
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        for each in before:
            loop.add_signal_handler(each, interrupt)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or a thread that is not the main one
        yield
        return
    try:
        yield
    finally:
        for each, handler in before.items():
            loop.remove_signal_handler(each)
            if handler is not None:  # it was not set by Python
                signal.signal(each, handler)
