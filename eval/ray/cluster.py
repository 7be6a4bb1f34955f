"""The Ray cluster of a run: one that is there already, or one of this machine that ends with the run."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import ray
from ray.data import ActorPoolStrategy, DataContext
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tribunal.errors import BadInput
from tribunal.eval.ray.clerk import Clerk, Standing
from tribunal.eval.ray.source import Left, Posts
from tribunal.eval.ray.worker import Worker, WorkOrder
from tribunal.eval.runs.engines import Engine
from tribunal.eval.runs.outage import LOST_IN_A_ROW
from tribunal.parsed import from_json
from tribunal.schema import JSON
from tribunal.terminal import others_aside

_NAMESPACE = "tribunal"
# Of a processor. A worker takes nearly one, and leaves the rest to the task that reads the posts.
_WORKER, _READER = 0.9, 0.1
_AT_A_TIME = 4  # batches of a worker
_SETTLES_WITHIN = 30.0  # seconds until the name of a driver that was killed is free again
_MEMORY = 256 * 1024 * 1024  # bytes of posts that are read and not yet decided
# Of runs one after another: how many workers the cluster has room for that the first of them joined.
_SEVERAL: ContextVar[list[int] | None] = ContextVar("_SEVERAL", default=None)


class Cluster:
    """A cluster that this process has joined.

    Attributes:
        workers: how many decide posts.
        run: a name of the run's own.
    """

    def __init__(self, workers: int, run: str) -> None:
        self.workers, self.run = workers, run

    def share(self, in_flight: int) -> int:
        """How many posts each worker has in flight."""
        return max(1, in_flight // self.workers)

    def clerk(self) -> Any:
        """The clerk of the run, on this machine.

        Raises:
            BadInput: another driver on the cluster is at the run.
        """
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        until = time.monotonic() + _SETTLES_WITHIN
        while True:
            try:
                clerk: Any = (
                    ray.remote(Clerk)
                    .options(
                        name=f"clerk-{self.run}", namespace=_NAMESPACE, num_cpus=0, max_concurrency=10_000,
                        scheduling_strategy=here,
                    )
                    .remote(LOST_IN_A_ROW)
                )  # fmt: skip
                break
            except ValueError as error:
                if time.monotonic() > until:
                    raise BadInput(
                        "out: another driver on this cluster is at this run; wait for it, or stop it"
                    ) from error
                time.sleep(0.5)
        ray.get(clerk.here.remote())
        return clerk

    def dismiss(self, clerk: Any) -> None:
        """Let the clerk go, and its name."""
        with suppress(Exception):  # it is gone already
            ray.kill(clerk)

    def decide(self, posts: Left, work: WorkOrder, clerk: Any, tell: Callable[[JSON], None]) -> None:
        """Send posts through the workers, batch by batch; returns when all are back that were begun.

        Args:
            posts: what is left.
            work: what the workers are told.
            clerk: of the run.
            tell: is given what each batch came to; nothing of one that wasn't begun.
        """
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context = DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.target_max_block_size = 1  # a batch is a block, which goes out as soon as it is read
        context.execution_options.resource_limits = context.execution_options.resource_limits.copy(
            object_store_memory=_MEMORY
        )
        dataset = ray.data.read_datasource(Posts(posts), override_num_blocks=1, num_cpus=_READER)
        dataset = dataset.map_batches(
            Worker,
            fn_constructor_args=(work, clerk),
            batch_size=1,
            num_cpus=_WORKER,
            compute=ActorPoolStrategy(
                size=self.workers,
                max_tasks_in_flight_per_actor=_AT_A_TIME + 1,
                max_concurrent_calls_per_actor=_AT_A_TIME,
            ),
        )
        try:
            for row in dataset.iter_rows():
                tell(from_json(row["told"]))
        except RayError as error:
            raise _told(error) from error

    def standing(self, clerk: Any) -> Standing:
        """How the run stands."""
        found: Standing = ray.get(clerk.standing.remote())
        return found


def _told(error: BaseException) -> BadInput:
    """What broke a cluster's work, and the way on."""
    under: BaseException | None = error
    while under is not None:  # Ray wraps what a task raised
        if isinstance(under, BadInput) and not isinstance(under, RayError):
            return under
        under = getattr(under, "cause", None) or under.__cause__
    said = next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
    if "No module named 'tribunal" in str(error):
        return BadInput(f"engine ray: a machine of the cluster lacks tribunal: {said}; install it on every machine")
    return BadInput(f"engine ray: {said[:500]}; results are kept, and the same command goes on with them")


@contextmanager
def joined(engine: Engine, run: str) -> Iterator[Cluster]:
    """Join the cluster of an address, or start one on this machine, for as long as it is needed.

    Args:
        engine: its address, and how many workers are wanted.
        run: a name of the run's own.

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
    several = _SEVERAL.get()
    if ray.is_initialized():
        yield Cluster(engine.workers or (several[0] if several else _room()), run)
        return
    own = address in (None, "", "local")
    workers = engine.workers or ((os.cpu_count() or 1) if own else None)
    quiet: dict[str, Any] = {
        "namespace": _NAMESPACE, "configure_logging": True, "logging_level": logging.ERROR, "log_to_driver": False,
    }  # fmt: skip
    with others_aside():  # where Ray prints what happens to its nodes
        try:
            if own:
                ray.init(address="local", num_cpus=(workers or 1) + 1, include_dashboard=False, **quiet)
            else:
                ray.init(address=address, **quiet)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise BadInput(f"address: {address}: can't be joined: {' '.join(str(error).split())[:300]}") from error
        try:
            workers = workers or _room()
            if several is not None:
                several.append(workers)
            yield Cluster(workers, run)
        finally:
            if several is None:
                ray.shutdown()


@contextmanager
def for_several_runs() -> Iterator[None]:
    """Let the cluster that a run joins be that of the runs after it, too: to start one takes seconds."""
    several: list[int] = []
    token = _SEVERAL.set(several)
    try:
        yield
    finally:
        _SEVERAL.reset(token)
        if several:  # else no run was left to be carried out, or the cluster is the caller's own
            ray.shutdown()


def _room() -> int:
    """How many workers a cluster has room for."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]
