"""Run any graph over any number of posts: limited concurrency, results written at once, safe to interrupt."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.models.registry import current_registry
from tribunal.process.files import read_text, write_whole
from tribunal.runner.budget import RunBudget, read_spending
from tribunal.runner.decider import PostDecider
from tribunal.runner.job import AS_USUAL, RunJob, RunOptions, load_ray_engine, order_of_job
from tribunal.runner.journal import RESULTS, DiskFull, read_line_starts, shows_rehearsal
from tribunal.runner.outage import SilentServers
from tribunal.runner.outcome import Outcome, carry_out
from tribunal.runner.prices import Prices
from tribunal.runner.results import summarize_result
from tribunal.runner.run_ledger import RunLedger, RunPost
from tribunal.runner.tally import RunTally
from tribunal.runner.worker_pool import WorkerPool, start_child
from tribunal.schema import JSON

TELL_EVERY = 10_000  # earlier results that are counted
_LOST = ".lost"  # how many posts of a limited run were under way when its processes were killed


async def decide_posts(
    job: RunJob, folder: Path, options: RunOptions = AS_USUAL, pinned: JSON | None = None
) -> RunTally:
    """Decide every post that has no result in the folder yet.

    A first Ctrl-C (or SIGTERM) lets running posts finish; a second Ctrl-C stops at once.

    Args:
        job: the posts and settings to run.
        folder: the run's.
        options: how.
        pinned: what other processes have to find as it is here (`tribunal.runner.pins`).

    Returns:
        The state of the run at the end; `stopped` says why not everything was done.

    Raises:
        BadInput: a setting or the data is wrong. Running posts are finished first; results are kept.
        DiskFull: the results can't be opened for writing.
    """
    decider = PostDecider(job, options.prices)
    silent = SilentServers(options.server_wait, options.warn)
    decider.wait_for_servers(options.server_wait, silent.note_server)
    await decider.check_before_run()
    tally = RunTally(total=job.count * job.repeats)
    done = bytearray(job.count * job.repeats)
    for count in _count_earlier_results(folder / RESULTS, job, tally, done, options.prices):
        tally.preparing = f"counting earlier results: {count:,}"
        options.watch(tally)
    tally.preparing = ""
    spent = read_spending(folder, options.prices) if options.limits else ()
    budget = RunBudget(options.limits, spent, job.context)
    async with AsyncExitStack() as stack:
        run = Run(
            job,
            stack.enter_context(closing(RunLedger(job, tally, options, folder, done, budget))),
            decider,
        )
        note_loss: Callable[[], str] | None = None
        if options.limits:
            note_loss = stack.enter_context(_count_lost_posts(folder, job.in_flight, budget))
        workers = options.engine.workers or 1
        ray = None
        if options.engine.name == "ray" and not all(done):
            ray = load_ray_engine()
            workers = stack.enter_context(ray.join_cluster(options.engine))
        tally.started = time.monotonic()
        stack.enter_context(_call_on_signals(run.interrupt))
        if ray is not None or workers > 1:
            order, secret = order_of_job(job, options.prices, pinned, options.server_wait)
            start = (
                partial(start_child, order, secret)
                if ray is None
                else partial(ray.ActorWorker, order)
            )
            registry = await current_registry()
            run.decider = pool = WorkerPool(
                order, job.context, registry, workers, start, note_loss, silent.note_server
            )
            stack.push_async_callback(pool.close)
        await run.decide_all()
    return tally


@contextmanager
def _count_lost_posts(
    folder: Path, in_flight: int, budget: RunBudget
) -> Iterator[Callable[[], str]]:
    """Count posts that were under way when processes were killed, in earlier starts too: nobody knows their cost.

    Their number is in a file, with what is in flight, so that it outlives a kill of this process, too.

    Yields:
        What is called for each post that was under way in a process that ended; it returns why the run can't go on, or
        an empty text.

    Raises:
        BadInput: the file holds no number.
        DiskFull: the number can't be written; so does what is yielded.
    """
    path = folder / _LOST
    try:
        lost = int(read_text(path)) if path.exists() else 0
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{path}: holds no number of posts: {error}; remove it, and run again"
        ) from error
    for _ in range(lost):
        budget.count_repeated_post()

    def write_number() -> None:
        try:
            write_whole(path, str(budget.repeated_posts + in_flight))
        except OSError as error:
            raise DiskFull(f"{path}: can't be written: {error}; make room") from error

    def note_loss() -> str:
        budget.count_repeated_post()
        write_number()
        return budget.explain_exhaustion(more=0)

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
        BadInput: a result belongs to no post of this run, or occurs twice.
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
        result = summarize_result(start.line)
        if result is not None:
            tally.earlier.count_result(result, prices)


class Run:
    """One start of a run: tasks that take posts from its ledger, try them, and store their outcomes."""

    def __init__(self, job: RunJob, ledger: RunLedger, decider: PostDecider) -> None:
        """Begin with no post under way; `decider` may be replaced before `decide_all`."""
        self._job = job
        self._ledger = ledger
        self.decider: PostDecider | WorkerPool = decider
        self._tasks: Sequence[asyncio.Future[None]] = ()

    async def decide_all(self) -> None:
        """Decide the posts that are left, so many at a time, and put the results on the disk."""
        ledger = self._ledger
        ledger.show()
        self._tasks = tasks = [
            asyncio.ensure_future(self._work_through_posts()) for _ in range(self._job.in_flight)
        ]
        for task in tasks:
            task.add_done_callback(self._note_task_end)
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            await ledger.finish_unanswered()
        except asyncio.CancelledError:
            if not ledger.tally.interrupted:
                raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await ledger.sync_to_disk()
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def interrupt(self) -> None:
        """Finish the posts under way, and take no more; at a second interruption cancel them."""
        tally = self._ledger.tally
        if not tally.interrupted:
            tally.interrupted = True
            self._ledger.stop("interrupted")
            self.decider.stop_waiting()
            self._ledger.show()
            return
        tally.stopped = "stopped at once"
        for each in (*self._tasks, self._ledger.question):
            if each is not None:
                each.cancel()

    async def _work_through_posts(self) -> None:
        """Decide post after post until none is left or the run stops."""
        while (post := await self._ledger.take()) is not None:
            try:
                await carry_out(self._ledger, post, self._attempt)
            finally:
                self._ledger.note_end(self.decider.unkept_verdicts, self.decider.lowest_concurrency)

    async def _attempt(self, post: RunPost) -> Outcome:
        max_tokens = self._job.budgets.get(post.sample.id) if self._job.budgets else None
        return await self.decider.decide_post(post.place, post.repeat, post.sample, max_tokens)

    def _note_task_end(self, task: asyncio.Future[None]) -> None:
        """Stop taking posts if a task broke, so that the others finish theirs."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._ledger.stop(str(error) or type(error).__name__)


@contextmanager
def _call_on_signals(interrupt: Callable[[], None]) -> Iterator[None]:
    """Call a function at each SIGINT or SIGTERM within the context."""
    loop = asyncio.get_running_loop()
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        for each in before:
            loop.add_signal_handler(each, interrupt)
    except (
        NotImplementedError,
        RuntimeError,
        ValueError,
    ):  # Windows, or a thread that is not the main one
        yield
        return
    try:
        yield
    finally:
        for each, handler in before.items():
            loop.remove_signal_handler(each)
            if handler is not None:  # it was not set by Python
                signal.signal(each, handler)
