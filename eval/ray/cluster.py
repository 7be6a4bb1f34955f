"""Decide the posts of a run on a Ray cluster: one that is there, or one of this machine that ends with the run.

The driver is the leader of the run, as of the processes of this machine (`tribunal.runner.worker_pool`): it reads
the posts, keeps the budget and writes the results. The actors have the keys of their own machines.
"""

from __future__ import annotations

import asyncio
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

from tribunal.errors import BadInput
from tribunal.process.terminal import redirect_library_output
from tribunal.process.workers import JobWorker
from tribunal.runner.job import RunEngine, RunOrder
from tribunal.runner.worker import serve_posts
from tribunal.schema import JSON

_TRACE_SECONDS = 10
# Whether runs one after another share the cluster that the first of them joins.
_IS_SHARED: ContextVar[bool] = ContextVar("_IS_SHARED", default=False)


class ClusterWorker:
    """Decide posts in an actor of a cluster, whose messages come and go by calls of it."""

    def __init__(self, order: JSON, folder: str) -> None:
        """Take the order of the run; `folder` is where relative paths begin."""
        with suppress(OSError):
            os.chdir(folder)
        self._jobs: asyncio.Queue[tuple[JSON, bytes]] = asyncio.Queue()
        self._answers: asyncio.Queue[tuple[JSON, bytes] | None] = asyncio.Queue()
        self._jobs.put_nowait(({"order": order}, b""))

    async def run(self) -> None:
        """Decide the posts that come, unless a setting is wrong on this machine."""
        try:
            await serve_posts(
                self._jobs.get,
                lambda *message: self._answers.put_nowait(message),
                f"machine {platform.node()}: ",
            )
        finally:
            self._answers.put_nowait(None)

    async def send(self, message: JSON, body: bytes) -> None:
        """Take a message of the leader."""
        self._jobs.put_nowait((message, body))

    async def receive(self) -> list[tuple[JSON, bytes] | None]:
        """Return the next messages for the leader; None after the last."""
        messages = [await self._answers.get()]
        while not self._answers.empty():
            messages.append(self._answers.get_nowait())
        return messages

    async def send_traces(self) -> None:
        """Send LangSmith what it hasn't been sent: an actor that is killed sends nothing more."""
        await asyncio.to_thread(wait_for_all_tracers)


class ActorWorker(JobWorker):
    """Have an actor of the cluster decide posts."""

    def __init__(self, order: RunOrder, *, alone: bool) -> None:
        """Start the actor; `alone` on a machine whose processors are all taken."""
        super().__init__()
        actor: Any = ray.remote(ClusterWorker).options(num_cpus=0 if alone else 1)
        self._actor = actor.remote(order.model_dump(mode="json"), str(Path.cwd()))
        self._life = asyncio.ensure_future(self._receive_messages())

    def send(self, message: JSON, body: bytes = b"") -> None:
        """Send a message."""
        self._actor.send.remote(message, body)

    async def close(self) -> None:
        """End the actor, once its traces are sent, or after some seconds."""
        self._life.cancel()
        with suppress(RayError, TimeoutError):
            await asyncio.wait_for(self._actor.send_traces.remote(), _TRACE_SECONDS)
        with suppress(RayError):
            await asyncio.to_thread(ray.kill, self._actor)

    async def _receive_messages(self) -> None:
        """Run the actor, and hand out its messages, until it ends."""
        try:
            running = self._actor.run.remote()
            messages = list[tuple[JSON, bytes] | None]()
            while None not in messages:
                messages = await self._actor.receive.remote()
                for message in filter(None, messages):
                    self._receive(*message)
            await running  # raises what it broke by
        except RayError as error:
            self._ending = _describe_ray_error(error)
        finally:
            self._note_end()


def _describe_ray_error(error: RayError) -> str:
    """Return in one line what Ray says of an actor that has ended, and what to do if its machine lacks tribunal."""
    said = next(
        (line.strip() for line in reversed(str(error).splitlines()) if line.strip()),
        type(error).__name__,
    )
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
    if ray.is_initialized():
        yield engine.workers or _available_workers()
        return
    own = address in (None, "", "local")
    place: JSON = {"address": address}
    if own:
        workers = engine.workers or os.cpu_count() or 1
        place = {"address": "local", "num_cpus": workers, "include_dashboard": False}
    with redirect_library_output():  # where Ray prints what happens to its nodes
        try:
            ray.init(
                **place,
                namespace="tribunal",
                configure_logging=True,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
        except Exception as error:  # a bare one if its processes take over 30 s to start
            said = f"{address or 'local'}: can't be joined: {' '.join(str(error).split())[:300]}"
            raise BadInput(f"address: {said}; see to the cluster, and run again") from error
        try:
            yield engine.workers or _available_workers()
        finally:
            if not _IS_SHARED.get():
                ray.shutdown()


@contextmanager
def share_cluster() -> Iterator[None]:
    """Keep the cluster that a run joins for the runs after it: starting one takes seconds."""
    is_own = not ray.is_initialized()
    token = _IS_SHARED.set(True)
    try:
        yield
    finally:
        _IS_SHARED.reset(token)
        if is_own:
            ray.shutdown()


def _available_workers() -> int:
    """Return how many workers the cluster has room for."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]
