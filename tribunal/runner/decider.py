"""Decide one post of a run, in any of its processes: make its record and its line in results.jsonl."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb
from typing import Self, cast

from langchain_core.runnables import RunnableConfig

from tribunal.core.text import parse_json
from tribunal.core.text_similarity import preload_hashing
from tribunal.docket.records import POST
from tribunal.docket.session import judge_post
from tribunal.errors import BadInput, ModelError, WrongState
from tribunal.graphs import code_of, graph, load_seats
from tribunal.models.providers import ModelName
from tribunal.models.registry import ModelRegistry, current_registry
from tribunal.models.server_wait import NO_WAIT, ServerWait, WaitSettings
from tribunal.nodes.state import outcome_of
from tribunal.runner.job import RunJob, RunOrder
from tribunal.runner.outcome import (
    Decided,
    Invalid,
    Outcome,
    Stopped,
    Waits,
    is_locked_out,
    is_unanswered,
    write_outcome,
)
from tribunal.runner.pins import check_pins
from tribunal.runner.prices import Prices
from tribunal.runner.result_lines import (
    needs_likeness,
    record_of_unusable_post,
    record_without_graph,
    result_line,
)
from tribunal.runner.results import Sample
from tribunal.schema import JSON, Call, Record
from tribunal.settings.context import context_from, settings_for_record


class PostDecider:
    """Decide the posts of one run."""

    def __init__(self, job: RunJob, prices: Prices | None, pinned: JSON | None = None) -> None:
        """Set up a decider; `check_before_run` comes before the first post.

        `prices` give a verdict that is kept its cost. `pinned` has to be found as it is told here, unless None.
        """
        self._job = job
        self._prices = prices
        self._pinned = pinned
        self.unkept_verdicts = 0  # how many could not be kept in the database
        self._registry: ModelRegistry | None = None
        self._lowered_before: dict[ModelName, int] = {}
        self._server_wait = NO_WAIT
        self._on_server: Callable[[str, str], None] = lambda provider, why: None

    def wait_for_servers(
        self, settings: WaitSettings, on_server: Callable[[str, str], None]
    ) -> None:
        """Hold calls while their server is away; `on_server` is told as `ServerWait` says. Before the check."""
        self._server_wait = settings
        self._on_server = on_server

    @classmethod
    def from_order(cls, order: RunOrder) -> Self:
        """Make the decider that another process ordered. Keys and passwords come from this process's environment."""
        lacks = next((name for name in order.withheld if not os.environ.get(name)), None)
        if lacks:
            raise BadInput(
                f"{lacks}: is not set where posts are decided; set it there, since it holds a password"
            )
        settings = order.settings
        keep = order.keep
        if "SEARXNG_URL" in order.withheld:
            settings = {**settings, "searxng_url": os.environ["SEARXNG_URL"]}
        if keep is not None and "TRIBUNAL_DATABASE" in order.withheld:
            keep = keep.model_copy(update={"database": os.environ["TRIBUNAL_DATABASE"]})
        load_seats(order.graph, settings)
        config = cast("RunnableConfig", order.config)
        job = RunJob(
            order.graph,
            context_from(settings),
            (),
            0,
            keep_text=order.keep_text,
            keep=keep,
            config=config,
        )
        return cls(job, order.prices, order.pinned)

    @classmethod
    async def open_for_order(
        cls,
        order: RunOrder,
        on_rest: Callable[[str, int, float], None],
        on_server: Callable[[str, str], None],
    ) -> Self:
        """Make the decider that another process ordered, ready for its first post.

        `on_rest` is told of every rest that a server asks for: the provider, the key's number, the seconds. `on_server`
        is told of servers that are away, and that answer.
        """
        decider = cls.from_order(order)
        decider.wait_for_servers(order.server_wait, on_server)
        await decider.check_before_run()
        graph(order.graph)
        (await current_registry()).on_rest = on_rest
        return decider

    @property
    def lowest_concurrency(self) -> dict[str, int]:
        """Return the fewest requests at a time since `check_before_run`, by model whose requests timed out."""
        if self._registry is None:
            return {}
        return {
            str(model): turns.lowest
            for model, turns in self._registry.concurrency.items()
            if turns.lowest is not None and turns.lowered > self._lowered_before.get(model, 0)
        }

    async def check_before_run(self) -> None:
        """Check before the first post that verdicts can be kept, now or later, and that everything matches its pin."""
        self._registry = await current_registry()
        self._lowered_before = {
            model: turns.lowered for model, turns in self._registry.concurrency.items()
        }
        if self._server_wait.seconds:
            self._registry.server_wait = ServerWait(self._server_wait, self._on_server)
        if self._job.keep is not None:
            from tribunal.docket.record_rows import check_database  # SQLAlchemy, for those who keep

            await check_database(self._job.keep)
        if self._pinned is not None:
            await check_pins(self._job.graph, self._job.context, self._pinned)

    def stop_waiting(self) -> None:
        """Hold no call any more: the run ends."""
        if self._registry is not None and self._registry.server_wait is not None:
            self._registry.server_wait.give_up("interrupted")

    def note_server_answer(self, provider: str) -> None:
        """Note that a server has answered another process."""
        if self._registry is not None and self._registry.server_wait is not None:
            self._registry.server_wait.note_answer(provider, elsewhere=True)

    async def decide_post(
        self, place: int, repeat: int, sample: Sample, max_tokens: int | None = None
    ) -> Outcome:
        """Decide a post in one of the passes over all of them, and write its line; `max_tokens` is its own budget."""
        if needs_likeness(sample):
            preload_hashing()
        started = time.perf_counter()
        try:
            record = await self._judge_post(sample, repeat, max_tokens)
        except BadInput as error:
            return Invalid(str(error))
        except Exception as error:  # noqa: BLE001 (whatever a graph of one's own raises)
            return Stopped(describe_graph_error(self._job.graph, sample, error))
        seconds = time.perf_counter() - started
        keep_text = self._job.keep_text
        if is_unanswered(record) or is_locked_out(record):
            wait = self._registry.server_wait if self._registry is not None else None
            given_up = wait.given_up if wait is not None and is_unanswered(record) else ""
            return Waits(
                record,
                result_line(place, repeat, seconds, record, sample, keep_text),
                given_up=given_up,
            )
        record = await self._keep_record(record, sample)
        return Decided(record, result_line(place, repeat, seconds, record, sample, keep_text))

    async def answer_job(self, job: JSON, body: bytes) -> tuple[JSON, bytes]:
        """Decide a post that another process sent; return its outcome, with the state of this process."""
        try:
            sample = Sample.model_validate(parse_json(body))
            message, line = write_outcome(
                await self.decide_post(job["place"], job["repeat"], sample, job["max_tokens"])
            )
        except BadInput as error:
            message, line = write_outcome(Invalid(str(error)))
        except Exception:  # noqa: BLE001 (its leader ends by it, as a run of one process does)
            return {"broke": traceback.format_exc()}, b""
        return {**message, "unkept": self.unkept_verdicts, "slowed": self.lowest_concurrency}, line

    async def _judge_post(self, sample: Sample, repeat: int, max_tokens: int | None) -> Record:
        graph = self._job.graph
        context = self._job.context
        if sample.problem:
            return record_of_unusable_post(sample, graph, context, sample.problem)
        own = {"repeat": repeat, "max_tokens": max_tokens or context.max_tokens}
        if any(getattr(context, name) != value for name, value in own.items()):
            context = context.model_copy(update=own)
        try:
            database = self._job.keep.database if self._job.keep else None
            return await judge_post(
                **sample.post, graph=graph, context=context, database=database, config=self._job.config,
                author=sample.author,
            )  # fmt: skip
        except WrongState as error:  # of a case that is on its way to a person
            return record_of_unusable_post(
                sample, graph, context, f"{error} (graph {graph})", "wrong_state"
            )
        except BadInput as error:
            if str(error).partition(":")[0] not in POST:
                raise
            return record_of_unusable_post(sample, graph, context, str(error))
        except ModelError as fault:
            calls = tuple(map(Call.model_validate, fault.calls))
            return record_without_graph(sample, graph, context, outcome_of(fault), calls)

    async def _keep_record(self, record: Record, sample: Sample) -> Record:
        """Return the record, kept in the database if wanted."""
        if self._job.keep is None:
            return record
        costs = (
            [self._prices.cost_of_call(call) or 0.0 for call in record.calls]
            if self._prices
            else None
        )
        settings = settings_for_record(self._job.context)
        from tribunal.docket.record_rows import keep_record

        money = None if costs is None else sum(costs)
        kept = await keep_record(
            self._job.keep, record, sample.post, settings, money, sample.author
        )
        self.unkept_verdicts += kept.kept is None
        return kept


def describe_graph_error(graph: str, sample: Sample, error: Exception) -> str:
    """Describe an exception for a graph's author: what, where in their file, at which post, and what to do."""
    own = {path.name for path in code_of(graph).values()}
    frames = extract_tb(error.__traceback__)
    frame = next((each for each in reversed(frames) if Path(each.filename).name in own), frames[-1])
    said = " ".join(str(error).split())[:500]
    return (
        f"graph {graph}: post {sample.id}: {type(error).__name__}: {said} ({Path(frame.filename).name}, line "
        f"{frame.lineno}, in {frame.name}). See to it; with the graph's file changed, take another folder, where "
        "--set cache=FILE spares the calls that were answered"
    )
