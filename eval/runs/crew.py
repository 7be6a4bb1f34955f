"""Processes of this machine that decide the posts of one run; the process that leads them writes down what they tell.

Keys go to them by the environment alone. They end with their leader, however it ends.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import cast

from tribunal.context import Context
from tribunal.errors import BadInput
from tribunal.eval.datasets.sample import Sample
from tribunal.eval.runs.deciding import Decided, Order, Stopped
from tribunal.eval.runs.earlier import Told
from tribunal.eval.runs.lines import line, unusable
from tribunal.eval.runs.pipes import LONGEST, message, messages
from tribunal.models.door import Door
from tribunal.schema import JSON

# -P: the working folder is not searched for modules, unless this program searches it too.
_WORKER = ("-P", "-m", "tribunal.eval.runs.worker")
# A post that was under way in so many processes when they ended is decided alone, which shows whether it ended them.
_SUSPECT = 2
# So many in a row mean that something is wrong for all: posts that ended their process, processes that couldn't begin.
_IN_A_ROW = 3
_OF_A_SAMPLE = set(Sample.model_fields)  # what a table's row holds beside stays with its leader
_PATIENCE = 10.0  # seconds for a process to end by itself


class _Ended(Exception):
    """The process that was to decide a post has ended; how."""


class Crew:
    """So many processes, begun when there is a post for them, and begun anew when one ends."""

    def __init__(
        self,
        order: tuple[Order, Mapping[str, str]],
        context: Context,
        door: Door,
        number: int,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            order: what they are told, and what they find in their environment beside this process's.
            context: the settings of the run.
            door: this process's; rests that servers ask for are its too.
            number: how many processes.
            lost: hears of every post that was under way in a process that ended, and is begun once more.
        """
        (self._order, self._secret), self._context, self._door = order, context, door
        self._number, self._on_loss = number, lost
        self._workers: list[_Worker] = []
        self._past: list[_Worker] = []
        self._alone = asyncio.Lock()
        self._loner: _Worker | None = None
        self._crashes = self._stillborn = 0
        self._rests: dict[tuple[str, int], float] = {}
        door.on_rest = self._rest_everywhere

    @property
    def unkept(self) -> int:
        """How many verdicts could not be kept beside the results."""
        return sum(each.unkept for each in self._all())

    @property
    def slowed(self) -> dict[str, int]:
        """By model whose requests timed out beside others: the fewest that a process sent it at a time."""
        lowest: dict[str, int] = {}
        for each in self._all():
            for model, number in each.slowed.items():
                lowest[model] = min(number, lowest.get(model, number))
        return lowest

    async def decide(self, place: int, repeat: int, sample: Sample, max_tokens: int | None = None) -> Decided:
        """Decide a post, in whichever process has the least to do. Arguments and errors as `Decider.decide`."""
        told = {"place": place, "repeat": repeat, "max_tokens": max_tokens}
        given = json.dumps(sample.model_dump(include=_OF_A_SAMPLE)).encode()
        losses = 0
        while losses < _SUSPECT:
            worker = self._least_busy()
            try:
                return self._counted(await worker.decide(told, given))
            except _Ended as ended:
                losses += self._lost(worker, ended)
        while True:
            async with self._alone:
                if self._loner is None or self._loner.ended:
                    self._loner = self._begun()
                worker = self._loner
                try:
                    return self._counted(await worker.decide(told, given))
                except _Ended as ended:
                    if not self._lost(worker, ended):
                        continue
                    return self._crashed(place, repeat, sample, ended)

    async def close(self) -> None:
        """End the processes: at once where posts are under way in them."""
        self._door.on_rest = None
        await asyncio.gather(*(each.close() for each in self._all()))

    def _all(self) -> list[_Worker]:
        return [*self._past, *self._workers, *([self._loner] if self._loner else [])]

    def _least_busy(self) -> _Worker:
        self._past += [each for each in self._workers if each.ended]
        self._workers = [each for each in self._workers if not each.ended]
        while len(self._workers) < self._number:
            self._workers.append(self._begun())
        return min(self._workers, key=lambda each: len(each.posts))

    def _begun(self) -> _Worker:
        worker = _Worker(self._order, self._secret, self._hear_of_rest)
        now = time.monotonic()
        for (provider, number), until in self._rests.items():
            if until > now:
                worker.send({"rest": [provider, number, until - now]})
        return worker

    def _counted(self, decided: Decided) -> Decided:
        self._crashes = 0
        return decided

    def _lost(self, worker: _Worker, ended: _Ended) -> int:
        """Take note that a process has ended with a post under way; 1 where the post may have ended it, else 0.

        Raises:
            Stopped: one after another ends before it has begun.
        """
        if worker.ready:
            self._stillborn = 0
            self._on_loss()
            return 1
        if not worker.counted:
            worker.counted = True
            self._stillborn += 1
        if self._stillborn >= _IN_A_ROW:
            raise Stopped(f"workers: a process that was to decide posts ended before it could begin ({ended})")
        return 0

    def _crashed(self, place: int, repeat: int, sample: Sample, ended: _Ended) -> Decided:
        """The failure of a post that ended its process whenever it was decided."""
        self._crashes += 1
        if self._crashes >= _IN_A_ROW:
            raise Stopped(
                f"{self._crashes} posts in a row ended the process that decided them, the last {sample.id} ({ended}). "
                "See to the machine's memory, or to the graph"
            )
        why = f"the process that decided it ended, {_SUSPECT + 1} times, and at last with no other post in it ({ended})"
        record = unusable(sample, self._order.graph, self._context, why, "crash")
        return Decided(record, line(place, repeat, 0.0, record, sample, self._order.keep_text))

    def _hear_of_rest(self, worker: _Worker, provider: str, number: int, seconds: float) -> None:
        self._door.rest_elsewhere(provider, number, seconds)
        self._rest_everywhere(provider, number, seconds, but=worker)

    def _rest_everywhere(self, provider: str, number: int, seconds: float, but: _Worker | None = None) -> None:
        self._rests[provider, number] = max(time.monotonic() + seconds, self._rests.get((provider, number), 0.0))
        for each in (*self._workers, *([self._loner] if self._loner else [])):
            if each is not but:
                each.send({"rest": [provider, number, seconds]})


class _Worker:
    """One process.

    Attributes:
        posts: what is under way in it, by number.
        ready: whether it has begun.
        ended: whether it has ended.
        counted: whether it was counted among those that ended before they began.
    """

    def __init__(self, order: Order, secret: Mapping[str, str], on_rest: Callable[..., None]) -> None:
        self.posts: dict[int, asyncio.Future[Decided]] = {}
        self.ready = self.ended = self.counted = False
        self.unkept, self.slowed = 0, dict[str, int]()
        self._numbers = itertools.count()
        self._on_rest = on_rest
        self._wrong = ""  # with its settings, as it sees them
        self._process: asyncio.subprocess.Process | None = None
        self._stdin: asyncio.StreamWriter | None = None
        self._unsent = [message({"order": order.model_dump(mode="json")})]
        self._life = asyncio.ensure_future(self._live(secret))

    async def decide(self, told: JSON, sample: bytes) -> Decided:
        """Have it decide a post.

        Raises:
            BadInput: a setting is wrong.
            Stopped: the graph broke.
            _Ended: the process ended first.
        """
        number = next(self._numbers)
        self.posts[number] = asyncio.get_running_loop().create_future()
        self.send({"post": number, **told}, sample)
        return await self.posts[number]

    def send(self, told: JSON, beside: bytes = b"") -> None:
        """Tell it something, once it is there to be told."""
        if self._stdin is None:
            self._unsent.append(message(told, beside))
        elif not self._stdin.is_closing():
            self._stdin.write(message(told, beside))

    async def close(self) -> None:
        """End it; at once where posts are under way."""
        if self._stdin is None:
            self._life.cancel()
        elif self.posts:
            self._kill()
        else:
            self._stdin.close()
        try:
            await asyncio.wait_for(asyncio.wait([self._life]), _PATIENCE)
        except TimeoutError:
            self._kill()
            await asyncio.wait([self._life])

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            if self._process is not None:
                self._process.kill()

    async def _live(self, secret: Mapping[str, str]) -> None:
        how = "it was not begun"
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *_WORKER,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **secret},
                limit=LONGEST,
                start_new_session=True,  # Ctrl-C is for its leader
            )
            self._stdin = cast(asyncio.StreamWriter, self._process.stdin)
            self._stdin.writelines(self._unsent)
            async for told, beside in messages(cast(asyncio.StreamReader, self._process.stdout)):
                self._hear(told, beside)
            how = _ending(await self._process.wait())
        except OSError as error:
            how = f"it could not be begun: {error}"
        finally:
            self.ended = True
            for post in self.posts.values():
                if not post.done():
                    post.set_exception(BadInput(self._wrong) if self._wrong else _Ended(how))
            self.posts.clear()

    def _hear(self, told: JSON, beside: bytes) -> None:
        if "ready" in told:
            self.ready = True
        elif "rest" in told:
            self._on_rest(self, *told["rest"])
        elif "post" not in told:
            self._wrong = told["bad_input"]
        else:
            post = self.posts.pop(told["post"])
            if post.done():  # nobody waits for it any more
                return
            if "bad_input" in told:
                post.set_exception(BadInput(told["bad_input"]))
            elif "stopped" in told:
                post.set_exception(Stopped(told["stopped"]))
            elif "broke" in told:
                post.set_exception(RuntimeError(told["broke"]))
            else:
                self.unkept, self.slowed = told["unkept"], told["slowed"]
                post.set_result(Decided(Told.model_validate_json(beside), beside))


def _ending(status: int) -> str:
    """How a process has ended, in words."""
    if status >= 0:
        return f"exit status {status}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-status).name}"
    return f"killed by signal {-status}"
