"""One post of a run, decided: its record, and the line that says so in results.jsonl. In any process of the run."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Self, cast

from langchain_core.runnables import RunnableConfig
from pydantic import Field

from tribunal.cases.session import POST, hear
from tribunal.context import Context, context_from, kept_settings
from tribunal.errors import BadInput, ModelError, WrongState
from tribunal.eval.datasets.sample import Sample
from tribunal.eval.runs.earlier import Told
from tribunal.eval.runs.likeness import make_ready
from tribunal.eval.runs.lines import has_likeness, line, unheard, unusable, what_broke
from tribunal.eval.runs.outage import LOCKED_OUT, kind_of_failure, unanswered
from tribunal.eval.runs.pins import check_pins
from tribunal.eval.runs.prices import Prices
from tribunal.graphs import load_seats
from tribunal.kept.wanted import Wanted
from tribunal.model_objects import refuse_objects
from tribunal.models.door import Door, door_here
from tribunal.models.providers import ModelName
from tribunal.schema import JSON, Frozen, Record

if TYPE_CHECKING:
    from tribunal.kept.keeping import Keeper

_PASSWORD = re.compile(r"//[^@/]*:[^@]*@|password=", re.IGNORECASE)


class Stopped(Exception):
    """Why a run can't go on now."""


class Decided(NamedTuple):
    """What a post came to: its record, or what another process told of it, and its line as results.jsonl has it."""

    record: Record | Told
    line: bytes


class Order(Frozen):
    """All that another process has to be told to decide posts of a run. In JSON, and nothing secret is in it.

    Attributes:
        graph: its name, or its file.
        settings: those that were given, as a record keeps them.
        keep_text: whether a result holds its post's text.
        keep: how verdicts are kept beside the results; None: they aren't.
        prices: by which a verdict that is kept has its cost.
        withheld: the environment variables that hold what can't be told here: an address with a password.
        pinned: what has to be there as it is here (`tribunal.eval.runs.pins.pinned`); None: that isn't looked at.
        config: the tags and metadata of each post's run, as LangChain has them.
    """

    graph: str
    settings: JSON
    keep_text: bool = False
    keep: Wanted | None = None
    prices: Prices | None = None
    withheld: tuple[str, ...] = ()
    pinned: JSON | None = None
    config: JSON = Field(default_factory=dict)

    @classmethod
    def of(
        cls,
        graph: str,
        context: Context,
        *,
        keep_text: bool,
        keep: Wanted | None,
        prices: Prices | None,
        pinned: JSON | None = None,
        config: RunnableConfig | None = None,
    ) -> tuple[Self, Mapping[str, str]]:
        """Return the order, and what it withholds: by the variable that has to hold it in the other process.

        Raises:
            BadInput: a model is an object.
        """
        settings, secret = kept_settings(context), dict[str, str]()
        refuse_objects(settings)
        if context.searxng_url and "searxng_url" not in settings:
            secret["SEARXNG_URL"] = context.searxng_url
        if keep is not None and _PASSWORD.search(keep.database or ""):
            secret["TRIBUNAL_DATABASE"] = keep.database or ""
            keep = keep.model_copy(update={"database": None})
        told = cls(
            graph=graph,
            settings=settings,
            keep_text=keep_text,
            keep=keep,
            prices=prices,
            withheld=tuple(secret),
            pinned=pinned,
            config=dict(config or {}),
        )
        return told, secret


class Decider:
    """Decides posts of one run."""

    def __init__(
        self,
        graph: str,
        context: Context,
        *,
        keep_text: bool,
        keeper: Keeper | None,
        prices: Prices | None,
        pinned: JSON | None = None,
        config: RunnableConfig | None = None,
    ) -> None:
        """
        Args:
            graph: its name, or its file.
            context: the run's settings.
            keep_text: write each post's text into its line.
            keeper: keeps every verdict beside the results; one that says only that nobody answers is none.
            prices: by which a verdict that is kept has its cost.
            pinned: what `check` has to find as it is told here; None: it doesn't look.
            config: callbacks, tags and metadata of each post's run, as LangChain has them.
        """
        self._config = config
        self._graph, self._context, self._keep_text = graph, context, keep_text
        self._keeper, self._prices, self._pinned = keeper, prices, pinned
        self._door: Door | None = None
        self._lowered_before: dict[ModelName, int] = {}

    @classmethod
    def of(cls, order: Order) -> Self:
        """The decider that another process ordered. Keys and passwords are those of this process's environment.

        Raises:
            BadInput: the environment lacks an address that the order withholds, or a setting is wrong here.
        """
        if lacks := next((name for name in order.withheld if not os.environ.get(name)), None):
            raise BadInput(f"{lacks}: is not set where posts are decided; set it there, since it holds a password")
        settings, keep = order.settings, order.keep
        if "SEARXNG_URL" in order.withheld:
            settings = {**settings, "searxng_url": os.environ["SEARXNG_URL"]}
        keeper = None
        if keep is not None:
            if "TRIBUNAL_DATABASE" in order.withheld:
                keep = keep.model_copy(update={"database": os.environ["TRIBUNAL_DATABASE"]})
            from tribunal.kept.keeping import Keeper  # SQLAlchemy, for those who keep

            keeper = Keeper(keep)
        load_seats(order.graph, settings)
        context = context_from(settings)
        return cls(
            order.graph,
            context,
            keep_text=order.keep_text,
            keeper=keeper,
            prices=order.prices,
            pinned=order.pinned,
            config=cast("RunnableConfig", order.config),
        )

    @property
    def unkept(self) -> int:
        """How many verdicts could not be kept beside the results."""
        return self._keeper.missed if self._keeper else 0

    @property
    def slowed(self) -> dict[str, int]:
        """By model whose requests timed out beside others since `check`: the fewest that it was sent at a time."""
        if self._door is None:
            return {}
        return {
            str(model): turns.lowest
            for model, turns in self._door.learned.turns.items()
            if turns.lowest is not None and turns.lowered > self._lowered_before.get(model, 0)
        }

    async def check(self) -> None:
        """Before the first post: see that verdicts can be kept, and that what decides results is as it was pinned.

        A database that is away now may be there later.

        Raises:
            BadInput: its address is wrong, or its tables are of another version; something differs from its pin.
        """
        self._door = await door_here()
        self._lowered_before = {model: turns.lowered for model, turns in self._door.learned.turns.items()}
        if self._keeper is not None:
            await self._keeper.check()
        if self._pinned is not None:
            await check_pins(self._graph, self._context, self._pinned)

    async def decide(self, place: int, repeat: int, sample: Sample, max_tokens: int | None = None) -> Decided:
        """Decide a post.

        Args:
            place: of the post in the run.
            repeat: which pass over the posts it is.
            sample: the post.
            max_tokens: what it may cost, where posts have budgets of their own.

        Raises:
            BadInput: a setting is wrong.
            Stopped: the graph broke at this post; where.
        """
        if has_likeness(sample):
            make_ready()
        started = time.perf_counter()
        record, seconds = await self._heard(sample, repeat, max_tokens), time.perf_counter() - started
        record = await self._kept(record, sample)
        return Decided(record, line(place, repeat, seconds, record, sample, self._keep_text))

    async def _heard(self, sample: Sample, repeat: int, max_tokens: int | None) -> Record:
        context = self._context
        if sample.problem:
            return unusable(sample, self._graph, context, sample.problem)
        own = {"repeat": repeat, "max_tokens": max_tokens or context.max_tokens}
        if any(getattr(context, name) != value for name, value in own.items()):
            context = context.model_copy(update=own)
        try:
            return await hear(**sample.post, graph=self._graph, context=context, config=self._config)
        except WrongState as error:  # of a case that is on its way to a person
            return unusable(sample, self._graph, context, f"{error} (graph {self._graph})", "wrong_state")
        except BadInput as error:
            if str(error).partition(":")[0] not in POST:
                raise
            return unusable(sample, self._graph, context, str(error))
        except ModelError as fault:
            return unheard(sample, self._graph, context, fault)
        except Exception as error:
            raise Stopped(what_broke(self._graph, sample, error)) from error

    async def _kept(self, record: Record, sample: Sample) -> Record:
        """The record, kept where that is wanted; one that says only that nobody answers is no result yet."""
        if self._keeper is None or unanswered(record) or kind_of_failure(record) in LOCKED_OUT:
            return record
        costs = [self._prices.of(call) or 0.0 for call in record.calls] if self._prices else None
        settings = kept_settings(self._context)
        return await self._keeper.keep(record, sample.post, settings, None if costs is None else sum(costs))
