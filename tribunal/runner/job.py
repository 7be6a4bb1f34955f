"""Describe a run: its posts, its engine, and the information for its other processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from tribunal.docket.keeping import KeepOptions
from tribunal.errors import BadInput
from tribunal.models.server_wait import NO_WAIT, WaitSettings
from tribunal.plugins import require_extra
from tribunal.process.model_objects import refuse_objects
from tribunal.runner.budget import UNLIMITED, RunLimits
from tribunal.runner.prices import Prices
from tribunal.runner.results import Sample
from tribunal.schema import JSON, Frozen
from tribunal.settings.context import Context, settings_for_record

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from tribunal.runner.tally import RunTally, Watch

# If every other post failed, ten in a row would be one in a thousand: so many have one cause.
FIRST_FAILURES = 10
RETRIED = ("failures", "refusals")
_PASSWORD = re.compile(r"//[^@/]*:[^@]*@|password=", re.IGNORECASE)


@dataclass(frozen=True)
class RunEngine:
    """Choose what carries out a run. Results don't depend on it, and a run may go on by another engine.

    Attributes:
        name: `embedded` is this machine's own processes, `ray` a Ray cluster.
        workers: how many processes decide posts; 1 of `embedded` is this process itself. None: 1, or of Ray as many as
            its cluster has room for.
        address: of the Ray cluster; None: the one in `RAY_ADDRESS`, else one of its own.
    """

    name: Literal["embedded", "ray"] = "embedded"
    workers: int | None = None
    address: str | None = None


def _ignore(news: RunTally | str) -> None:
    """Show nothing, and warn nobody."""


@dataclass(frozen=True)
class RunOptions:
    """Say how a run is carried out.

    Attributes:
        in_flight: posts at a time, at most.
        retry: which results to decide again, of `RETRIED`.
        prices: for the running cost; kept in the run's folder, for its reports.
        watch: takes the state of the run after every post.
        warn: takes each warning before the first post.
        engine: what carries it out.
        limits: the limits of the run, over all its starts.
        keep_text: write each post's text into its result.
        stop_after_failures: stop once so many first posts all failed in the same way; 0: never.
        server_wait: how long the run waits for a model's server that is down.
    """

    in_flight: int = 16
    retry: Collection[str] = ()
    prices: Prices | None = None
    watch: Watch = _ignore
    warn: Callable[[str], None] = _ignore
    engine: RunEngine = RunEngine()
    limits: RunLimits = UNLIMITED
    keep_text: bool = False
    stop_after_failures: int = FIRST_FAILURES
    server_wait: WaitSettings = NO_WAIT

    def outcomes_to_retry(self) -> set[str]:
        """Return the outcomes that are to be decided again; raise `BadInput` if a word is none of `RETRIED`."""
        unknown = next((each for each in self.retry if each not in RETRIED), None)
        if unknown:
            raise BadInput(f"retry: {unknown!r}: what can be retried is {', '.join(RETRIED)}")
        return {each.removesuffix("s") for each in self.retry}


AS_USUAL = RunOptions()


def load_ray_engine() -> Any:
    """Return the module `tribunal.eval.ray.cluster`, loaded by its name: nothing else imports Ray."""
    require_extra("engine ray", "ray")
    return import_module("tribunal.eval.ray.cluster")


def _make_empty_config() -> RunnableConfig:
    return {}


@dataclass(frozen=True)
class RunJob:
    """The posts and settings of a run.

    `samples` gives the same ones in the same order at every iteration; `budgets` are tokens by post id; `keep` says how
    verdicts are kept in the database beside the results; `config` is LangChain's, of each post's run.
    """

    graph: str
    context: Context
    samples: Iterable[Sample]
    count: int
    repeats: int = 1
    in_flight: int = 16
    budgets: Mapping[str, int] | None = None
    keep_text: bool = False
    keep: KeepOptions | None = None
    config: RunnableConfig = field(default_factory=_make_empty_config)


class RunOrder(Frozen):
    """Hold what another process must know to decide posts of a `RunJob`: JSON, without secrets.

    `prices` give a verdict that is kept its cost; `withheld` are the environment variables that hold what can't be told
    here, an address with a password; `pinned` has to be there as it is here (`tribunal.runner.pins`), unless None.
    """

    graph: str
    settings: JSON
    keep_text: bool = False
    keep: KeepOptions | None = None
    prices: Prices | None = None
    server_wait: WaitSettings = NO_WAIT
    withheld: tuple[str, ...] = ()
    pinned: JSON | None = None
    config: JSON = Field(default_factory=dict)


def order_of_job(
    job: RunJob, prices: Prices | None, pinned: JSON | None, server_wait: WaitSettings = NO_WAIT
) -> tuple[RunOrder, Mapping[str, str]]:
    """Return the order of a job, and the secrets that other processes must have in their environment, by variable.

    Raises:
        BadInput: a model is an object, or the job's config has callbacks, which can't leave this process.
    """
    if job.config.get("callbacks"):
        raise BadInput(
            "config: callbacks can't be handed to other processes; decide with one process, or give tags and metadata"
        )
    settings = settings_for_record(job.context)
    keep = job.keep
    secret = dict[str, str]()
    refuse_objects(settings)
    if job.context.searxng_url and "searxng_url" not in settings:
        secret["SEARXNG_URL"] = job.context.searxng_url
    if keep is not None and _PASSWORD.search(keep.database or ""):
        secret["TRIBUNAL_DATABASE"] = keep.database or ""
        keep = keep.model_copy(update={"database": None})
    order = RunOrder(
        graph=job.graph,
        settings=settings,
        keep_text=job.keep_text,
        keep=keep,
        prices=prices,
        server_wait=server_wait,
        withheld=tuple(secret),
        pinned=pinned,
        config=dict(job.config),
    )
    return order, secret
