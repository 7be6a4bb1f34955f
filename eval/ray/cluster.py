"""Decide the posts of a run on a Ray cluster: one that is there, or one of this machine that ends with the run.

The driver is the leader of the run, as of the processes of this machine (`tribunal.eval.runs.worker_pool`): it reads
the posts, keeps the budget and writes the results. The actors have the keys of their own machines.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import ray
from langchain_core.tracers.langchain import wait_for_all_tracers
from ray.exceptions import RayError

from tribunal.contents import keep_files_read
from tribunal.errors import BadInput
from tribunal.eval.runs.decider import PostDecider
from tribunal.eval.runs.job import RunEngine, RunOrder
from tribunal.eval.runs.worker_pool import OnRest
from tribunal.models.registry import current_registry
from tribunal.schema import JSON
from tribunal.terminal import redirect_library_output
from tribunal.workers import WorkerDied

_TRACE_SECONDS = 10
_AT_A_TIME = 10_000  # calls of an actor, by far more than a run has in flight
# Of runs one after another: how many workers the cluster has room for that the first of them joined.
_SHARED_WORKERS: ContextVar[list[int] | None] = ContextVar("_SHARED_WORKERS", default=None)


class ClusterWorker:
    """Decide posts in an actor of a cluster."""

    def __init__(self, order: str, folder: str) -> None:
        """Take the order, as JSON; `folder` is where relative paths begin."""
        with suppress(OSError):
            os.chdir(folder)
        logging.getLogger("tribunal").setLevel(logging.ERROR)  # of the environment the leader has warned already
        self._order, self._opened, self._wrong_setting = order, asyncio.Event(), ""
        self._rests: asyncio.Queue[tuple[str, int, float]] = asyncio.Queue()
        self._variables: contextvars.Context
        self._decider: PostDecider

    async def open(self) -> str:
        """Open graph, models and indexes; return the setting that is wrong on this machine, if one is."""
        with keep_files_read():
            self._variables = contextvars.copy_context()
        order = RunOrder.model_validate_json(self._order)
        try:
            opening = PostDecider.open_for_order(order, lambda *rest: self._rests.put_nowait(rest))
            self._decider = await asyncio.create_task(opening, context=self._variables)
        except BadInput as error:
            self._wrong_setting = f"machine {platform.node()}: {error}"
        self._opened.set()
        return self._wrong_setting

    async def decide(self, job: JSON, body: bytes) -> tuple[JSON, bytes]:
        """Return the answer to a job, as `PostDecider.answer_job`."""
        await self._opened.wait()
        if self._wrong_setting:
            return {"bad_input": self._wrong_setting}, b""
        return await asyncio.create_task(self._decider.answer_job(job, body), context=self._variables)

    async def wait_for_rest(self) -> tuple[str, int, float]:
        """Return the next rest that a server asked this actor for."""
        return await self._rests.get()

    async def send_traces(self) -> None:
        """Send LangSmith what it hasn't been sent: an actor that is killed sends nothing more."""
        await asyncio.to_thread(wait_for_all_tracers)

    async def rest_key(self, provider: str, number: int, seconds: float) -> None:
        """Leave a key alone for some seconds, as a server has told another worker."""
        (await current_registry()).rest_key_quietly(provider, number, seconds)


class ActorWorker:
    """Lead an actor that decides posts, as `tribunal.eval.runs.worker_pool.RunWorker` says."""

    def __init__(self, order: RunOrder, on_rest: OnRest, *, alone: bool) -> None:
        """Start the actor; `alone` on a machine whose processors are all taken."""
        self.pending: set[int] = set()
        self.ready = self.ended = False
        self.wrong_setting = ""
        self._numbers, self._on_rest, self._ending = itertools.count(), on_rest, "it was ended"
        options: JSON = {"num_cpus": 0 if alone else 1, "max_concurrency": _AT_A_TIME}
        self._actor: Any = ray.remote(ClusterWorker).options(**options).remote(order.model_dump_json(), str(Path.cwd()))
        self._life = asyncio.ensure_future(self._listen())

    async def ask(self, job: JSON, body: bytes) -> tuple[JSON, bytes]:
        """Have the actor decide a post; raise `WorkerDied` if it ended first."""
        if self.ended:
            raise WorkerDied(self._ending)
        self.pending.add(number := next(self._numbers))
        try:
            answer: tuple[JSON, bytes] = await self._actor.decide.remote(job, body)
        except RayError as error:
            raise WorkerDied(_describe_ray_error(error)) from error
        finally:
            self.pending.discard(number)
        return answer

    def announce_rest(self, provider: str, number: int, seconds: float) -> None:
        """Tell the actor that a server asked for a pause of one key."""
        self._actor.rest_key.remote(provider, number, seconds)

    async def close(self) -> None:
        """End the actor, once its traces are sent, or after some seconds."""
        self._life.cancel()
        with suppress(RayError, TimeoutError):
            await asyncio.wait_for(self._actor.send_traces.remote(), _TRACE_SECONDS)
        with suppress(RayError):
            await asyncio.to_thread(ray.kill, self._actor)

    async def _listen(self) -> None:
        """Open the actor, and hand on the rests that servers ask it for, until it ends."""
        try:
            self.wrong_setting = await self._actor.open.remote()
            self.ready = not self.wrong_setting
            while True:
                self._on_rest(self, *await self._actor.wait_for_rest.remote())
        except RayError as error:
            self._ending = _describe_ray_error(error)
        finally:
            self.ended = True


def _describe_ray_error(error: RayError) -> str:
    """Return in one line what Ray says of an actor that has ended, and what to do if its machine lacks tribunal."""
    said = next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
    if "No module named 'tribunal" in str(error):
        return f"a machine of the cluster lacks tribunal: {said[:300]}; install it on every machine"
    return said[:300]


@contextmanager
def join_cluster(engine: RunEngine) -> Iterator[int]:
    """Join the cluster of an engine's address, or start one on this machine, for as long as it is needed.

    Yields:
        How many workers decide posts.

    Raises:
        BadInput: there is no cluster, or the address is one of the Ray Client.
    """
    address = engine.address or os.environ.get("RAY_ADDRESS")
    if address and address.startswith("ray://"):
        raise BadInput(
            f"address: {address}: is the Ray Client's, by which no run can be carried out; start the command on a "
            "machine of the cluster with --address auto, or by `ray job submit`"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    shared = _SHARED_WORKERS.get()
    if ray.is_initialized():
        yield engine.workers or (shared[0] if shared else _available_workers())
        return
    own = address in (None, "", "local")
    place: JSON = {"address": address}
    if own:
        workers = engine.workers or os.cpu_count() or 1
        place = {"address": "local", "num_cpus": workers, "include_dashboard": False}
    with redirect_library_output():  # where Ray prints what happens to its nodes
        try:
            ray.init(
                **place, namespace="tribunal", configure_logging=True, logging_level=logging.ERROR, log_to_driver=False
            )
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise BadInput(f"address: {address}: can't be joined: {' '.join(str(error).split())[:300]}") from error
        try:
            workers = engine.workers or _available_workers()
            if shared is not None:
                shared.append(workers)
            yield workers
        finally:
            if shared is None:
                ray.shutdown()


@contextmanager
def share_cluster() -> Iterator[None]:
    """Keep the cluster that a run joins for the runs after it: starting one takes seconds."""
    shared: list[int] = []
    token = _SHARED_WORKERS.set(shared)
    try:
        yield
    finally:
        _SHARED_WORKERS.reset(token)
        if shared:  # else no run was left to be carried out, or the cluster is the caller's own
            ray.shutdown()


def _available_workers() -> int:
    """Return how many workers the cluster has room for."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]
