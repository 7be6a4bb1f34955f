"""Decide the posts of one run in several processes, of this machine or of a cluster; their leader writes the results.

Keys go to those of this machine by the environment alone. They end with their leader, however it ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import partial

from tribunal.models.registry import ModelRegistry
from tribunal.process.workers import JobWorker, WorkerDied, WorkerProcess
from tribunal.runner.job import RunOrder
from tribunal.runner.outcome import Decided, Invalid, Outcome, Stopped, Waits, read_outcome
from tribunal.runner.result_lines import record_of_unusable_post, result_line
from tribunal.runner.results import Sample
from tribunal.schema import JSON
from tribunal.settings.context import Context

# A post that was under way in so many processes when they ended is decided alone, which shows whether it ended them.
_MOST_LOSSES = 2
# So many in a row mean that something is wrong for all: posts that ended their process, processes that couldn't begin.
_IN_A_ROW = 3
# what a table's row holds beside stays with its leader
_FIELDS_OF_SAMPLE = set(Sample.model_fields)


def start_child(order: RunOrder, secret: Mapping[str, str], *, alone: bool) -> JobWorker:
    """Start a child process that decides posts, with secrets in its environment; `alone` makes no difference here."""
    worker = WorkerProcess(("-m", "tribunal.runner.worker"), environment={**os.environ, **secret})
    worker.send({"order": order.model_dump(mode="json")})
    return worker


class WorkerPool:
    """Decide posts in processes that are started when a post needs one, and again when one ends."""

    def __init__(
        self,
        order: RunOrder,
        context: Context,
        registry: ModelRegistry,
        number: int,
        start: Callable[..., JobWorker],
        on_loss: Callable[[], str] | None,
        on_server: Callable[[str, str], None],
    ) -> None:
        """Make a pool of so many processes; none is started yet.

        `start` starts one, told whether it decides one post at a time, beside the others (`alone`).
        `on_loss` is called for every post that was under way in a process that ended, and is begun once more; it
        returns why the run can't go on, or an empty text. None: nothing is limited.
        `on_server` is told of servers that are away from a process, and that answer one.
        """
        self._order = order
        self._context = context
        self._registry = registry
        self._number = number
        self._start = start
        self._on_loss = on_loss
        self._workers: list[JobWorker] = []  # those that have ended, too
        self._answers: dict[JobWorker, JSON] = {}  # the last of each
        self._alone = asyncio.Lock()
        self._solo_worker: JobWorker | None = None
        self._crashes = 0
        self._wrong_setting = ""
        self._failed_starts: set[JobWorker] = set()  # in a row
        self._rests: dict[tuple[str, int], float] = {}
        self._on_server = on_server
        self._answering = set[str]()
        registry.on_rest = self._announce_rest

    @property
    def unkept_verdicts(self) -> int:
        """Count the verdicts that could not be kept in the database."""
        return sum(answer["unkept"] for answer in self._answers.values())

    @property
    def lowest_concurrency(self) -> dict[str, int]:
        """Return the fewest requests at a time of any process, by model whose requests timed out."""
        lowest: dict[str, int] = {}
        for answer in self._answers.values():
            for model, number in answer["slowed"].items():
                lowest[model] = min(number, lowest.get(model, number))
        return lowest

    async def decide_post(
        self, place: int, repeat: int, sample: Sample, max_tokens: int | None = None
    ) -> Outcome:
        """Decide a post in the process that has the least to do. Arguments as for `PostDecider.decide_post`."""
        job = {"place": place, "repeat": repeat, "max_tokens": max_tokens}
        body = json.dumps(sample.model_dump(include=_FIELDS_OF_SAMPLE)).encode()
        losses = 0
        while losses < _MOST_LOSSES:
            outcome = await self._try_worker(self._least_busy_worker(), job, body)
            if not isinstance(outcome, WorkerDied | None):
                return outcome
            losses += outcome is not None
        async with self._alone:
            while True:
                if self._solo_worker is None or self._solo_worker.ended:
                    self._solo_worker = self._start_worker(alone=True)
                outcome = await self._try_worker(self._solo_worker, job, body)
                if isinstance(outcome, WorkerDied):
                    return self._crashed_post(place, repeat, sample, outcome)
                if outcome is not None:
                    return outcome

    def stop_waiting(self) -> None:
        """Hold no call any more whose server is away: the run ends."""
        self._tell_workers({"stop_waiting": True})

    async def close(self) -> None:
        """End the processes: at once where posts are under way in them."""
        self._registry.on_rest = None
        await asyncio.gather(*(each.close() for each in self._workers))

    def _least_busy_worker(self) -> JobWorker:
        """Return a process that has begun, if there is one: a cluster may have no room for another yet."""
        live = [each for each in self._workers if not each.ended and each is not self._solo_worker]
        live += [self._start_worker() for _ in range(self._number - len(live))]
        return min(
            [each for each in live if each.ready] or live, key=lambda each: len(each.pending)
        )

    def _start_worker(self, *, alone: bool = False) -> JobWorker:
        worker = self._start(alone=alone)
        worker.on_message = partial(self._take_message, worker)
        now = time.monotonic()
        for (provider, number), until in self._rests.items():
            if until > now:
                worker.send({"rest": [provider, number, until - now]})
        for provider in self._answering:
            worker.send({"answers": provider})
        self._workers.append(worker)
        return worker

    async def _try_worker(
        self, worker: JobWorker, job: JSON, sample: bytes
    ) -> Outcome | WorkerDied | None:
        """Have a process decide a post.

        Returns:
            The outcome; or how the process ended, if the post may have ended it; or None if it never began.
        """
        try:
            answer, line = await worker.ask(job, sample)
        except WorkerDied as died:
            return self._note_death(worker, died)
        if "broke" in answer:
            raise RuntimeError(answer["broke"])
        self._answers[worker] = answer
        outcome = read_outcome(answer, line)
        if isinstance(outcome, Decided | Waits):
            self._crashes = 0
        return outcome

    def _note_death(
        self, worker: JobWorker, died: WorkerDied
    ) -> Stopped | Invalid | WorkerDied | None:
        if self._wrong_setting:
            return Invalid(self._wrong_setting)
        if worker.ready:
            self._failed_starts.clear()
            why = self._on_loss() if self._on_loss is not None else ""
            return Stopped(why) if why else died
        self._failed_starts.add(worker)
        if len(self._failed_starts) < _IN_A_ROW:
            return None
        return Stopped(
            f"workers: a process that was to decide posts ended before it could begin ({died})"
        )

    def _crashed_post(self, place: int, repeat: int, sample: Sample, died: WorkerDied) -> Outcome:
        """Return the failure of a post that ended its process whenever it was decided."""
        self._crashes += 1
        if self._crashes >= _IN_A_ROW:
            return Stopped(
                f"{self._crashes} posts in a row ended the process that decided them, the last {sample.id} ({died}). "
                "See to the machine's memory, or to the graph"
            )
        tries = _MOST_LOSSES + 1
        why = f"the process that decided it ended, {tries} times, and at last with no other post in it ({died})"
        record = record_of_unusable_post(sample, self._order.graph, self._context, why, "crash")
        return Decided(
            record, result_line(place, repeat, 0.0, record, sample, self._order.keep_text)
        )

    def _take_message(self, worker: JobWorker, message: JSON) -> None:
        """Take a setting that is wrong as a process sees it, or news of a server, which all are told."""
        if "bad_input" in message:
            self._wrong_setting = message["bad_input"]
        elif "rest" in message:
            provider, number, seconds = message["rest"]
            self._registry.rest_key_quietly(provider, number, seconds)
            self._announce_rest(provider, number, seconds, but=worker)
        elif "server" in message:
            provider, why = message["server"]
            self._on_server(provider, why)
            if not why:
                self._answering.add(provider)
                self._tell_workers({"answers": provider}, but=worker)

    def _announce_rest(
        self, provider: str, number: int, seconds: float, but: JobWorker | None = None
    ) -> None:
        self._rests[provider, number] = max(
            time.monotonic() + seconds, self._rests.get((provider, number), 0.0)
        )
        self._tell_workers({"rest": [provider, number, seconds]}, but)

    def _tell_workers(self, message: JSON, but: JobWorker | None = None) -> None:
        for each in self._workers:
            if each is not but and not each.ended:
                each.send(message)
