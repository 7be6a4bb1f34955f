"""A run carried out by a Ray cluster: what is left of it goes out in batches, and comes back as parts."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import time
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ray

from tribunal.errors import BadInput
from tribunal.eval.ray.cluster import Cluster, joined
from tribunal.eval.ray.kept import InRunFolder, Kept
from tribunal.eval.ray.source import Left
from tribunal.eval.ray.worker import WorkOrder, heard, own_spool
from tribunal.eval.runs.deciding import Order
from tribunal.eval.runs.engine import Job
from tribunal.eval.runs.engines import Engine
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.signals import heeding_signals
from tribunal.eval.runs.spending import NO_LIMITS, Ledger, Limits
from tribunal.eval.runs.tally import Tally, Watch
from tribunal.schema import JSON

# So few posts that were left over are decided by the driver itself, which finds out whose fault it was.
FEW = 64
_LARGEST_BATCH = 500  # posts
_BATCHES_A_WORKER = 8  # so that workers end at about the same time


async def run_on_ray(
    job: Job,
    folder: Path,
    order: Order,
    engine: Engine,
    *,
    prices: Prices | None = None,
    watch: Watch | None = None,
    ledger_limits: Limits = NO_LIMITS,
) -> Tally:
    """Decide on a cluster what a run's folder has no result of yet.

    A first Ctrl-C (or SIGTERM) lets those in flight finish; a second one stops at once.

    Args:
        job: what is decided.
        folder: the run's, on a disk that all machines of the cluster share, where there are several.
        order: what the workers are told of it.
        engine: which cluster, and how many workers.
        prices: for the running cost.
        watch: is told how the run stands after every batch.
        ledger_limits: what the whole run may spend.

    Returns:
        how it stands at the end; `stopped` says why, if not everything was done.

    Raises:
        BadInput: the cluster can't be used, or a setting or the data is wrong. Results stay.
        DiskFull: results can't be put into the folder; they stay where they are.
    """
    kept = InRunFolder(job, prices, folder)
    return await decided_on_ray(job, kept, order, engine, watch=watch, limits=ledger_limits)


async def decided_on_ray(
    job: Job, kept: Kept, order: Order, engine: Engine, *, watch: Watch | None = None, limits: Limits = NO_LIMITS
) -> Tally:
    """Decide on a cluster what is left of a run, wherever that keeps its results. The rest as `run_on_ray`."""
    tally, done = await kept.taken_in()
    if tally.at == tally.total:
        return tally
    ledger = Ledger(limits, kept.spent(), job.context) if limits else None
    with joined(engine, _name(str(kept.parts.at))) as cluster:
        clerk = await asyncio.to_thread(cluster.clerk)  # a second driver is refused before it changes anything
        try:
            in_flight = cluster.share(job.in_flight)
            attempt = kept.begin(in_flight)
            if ledger is not None:
                for _ in range(attempt.lost):
                    ledger.begin_again()
                await clerk.fund.remote(ledger)
            tally.started = time.monotonic()
            while True:
                before = tally.done
                work = WorkOrder(
                    order=order,
                    parts=kept.parts.url,
                    spool=kept.spool,
                    shape=kept.shape,
                    attempt=attempt.attempt,
                    in_flight=in_flight,
                    limited=ledger is not None,
                    folder=str(Path.cwd()),
                    version=version("tribunal"),
                    run=cluster.run,
                )
                lost = await _passed(cluster, clerk, job, work, bytes(done), tally, watch)
                now, done = await kept.taken_in()
                _as_kept(tally, now)
                if tally.stopped or tally.total - tally.at <= FEW or tally.done == before:
                    break
                kept.end(0, finished=False)
                attempt = kept.begin(in_flight)
        finally:
            await asyncio.to_thread(cluster.dismiss, clerk)
    if tally.at < tally.total and not tally.stopped:
        last = await kept.last(done, limits, watch)
        _as_kept(tally, (await kept.taken_in())[0])
        tally.stopped, tally.interrupted, tally.slowed = last.stopped, last.interrupted, last.slowed
        tally.asked.update(last.asked)
        tally.unkept += last.unkept
    kept.end(lost, finished=not tally.stopped)
    if not tally.stopped:
        shutil.rmtree(own_spool(cluster.run), ignore_errors=True)  # of this machine
    return tally


async def _passed(
    cluster: Cluster, clerk: Any, job: Job, work: WorkOrder, done: bytes, tally: Tally, watch: Watch | None
) -> int:
    """Send what is left through the cluster once, and count what comes back.

    Returns:
        how many posts were under way when workers were killed, where what the run spends is limited.

    Raises:
        BadInput: a worker says that the input or its machine is wrong.
    """
    left = len(done) - sum(done)
    posts = Left(
        samples=job.samples,
        count=job.count,
        repeats=job.repeats,
        done=ray.put(done),
        budgets=job.budgets,
        batch=max(1, min(_LARGEST_BATCH, -(-left // (_BATCHES_A_WORKER * cluster.workers)))),
        cells=work.shape.given is not None,
        folder=work.folder,
        clerk=clerk,
    )
    loop = asyncio.get_running_loop()

    def came_back(batch: JSON) -> None:
        if batch:
            heard(tally, batch)
        if watch:
            watch(tally)

    def tell(batch: JSON) -> None:
        loop.call_soon_threadsafe(came_back, batch)

    tally.in_flight = min(left, work.in_flight * cluster.workers)
    if watch:
        watch(tally)
    with _interruptible(tally, clerk):
        await asyncio.to_thread(cluster.decide, posts, work, clerk, tell)
        await asyncio.sleep(0)  # what the last batches came to is counted
    tally.in_flight = 0
    standing = await asyncio.to_thread(cluster.standing, clerk)
    if standing.stopped and standing.bad_input:
        raise BadInput(standing.stopped)
    tally.stopped = tally.stopped or standing.stopped
    return standing.lost


def _interruptible(tally: Tally, clerk: Any) -> AbstractContextManager[None]:
    """The first signal stops taking posts, the second stops at once."""

    def asked() -> None:
        if tally.interrupted:
            tally.stopped = "stopped at once"
            clerk.leave.remote()
            return
        tally.interrupted, tally.stopped = True, tally.stopped or "interrupted"
        clerk.halt.remote("interrupted")

    return heeding_signals(asked)


def _as_kept(tally: Tally, now: Tally) -> None:
    """Count what lies in the run's folder: a batch may have been written of which no word came back."""
    tally.done, tally.rehearsed = now.before - tally.before, now.rehearsed
    whole, before = now.earlier, tally.earlier
    tally.outcomes = whole.outcomes - before.outcomes
    tally.calls, tally.tokens = whole.calls - before.calls, whole.tokens - before.tokens
    tally.cost, tally.unpriced = whole.cost - before.cost, whole.unpriced - before.unpriced


def _name(where: str) -> str:
    return hashlib.sha256(where.encode()).hexdigest()[:16]
