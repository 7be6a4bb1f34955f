"""What a worker of a cluster does: it decides batches of posts, and writes each as a part of the run."""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import platform
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from tribunal.environment import data_folder
from tribunal.errors import BadInput
from tribunal.eval.ray.purse import Purse
from tribunal.eval.ray.source import unpacked
from tribunal.eval.runs.deciding import Decider, Order, Stopped
from tribunal.eval.runs.earlier import read_earlier
from tribunal.eval.runs.journal import RESULTS, DiskFull, Journal, line_starts, shows_rehearsal
from tribunal.eval.runs.outage import LOCKED_OUT, answered_by, kind_of_failure, no_answer, unanswered
from tribunal.eval.runs.parts import Parts, Row, Shape, part_name, part_of, spooled
from tribunal.eval.runs.spending import spent_on
from tribunal.eval.runs.tally import Tally
from tribunal.models.door import door_here
from tribunal.opened import opened_once
from tribunal.schema import JSON


@dataclass(frozen=True)
class WorkOrder:
    """What a worker is told of its run. Nothing secret is in it: keys are those of its own environment.

    Attributes:
        order: by which posts are decided.
        parts: where the parts are written: a path that all machines share, or a URL.
        spool: where lines lie that are in no part yet; None: in the data folder of each machine.
        shape: the columns of a part.
        attempt: which start of the run this is.
        in_flight: posts at a time of one worker, at most.
        limited: whether what the run spends is limited, so that each post is asked for.
        folder: where relative paths begin.
        version: of this package, as the driver has it.
        run: a name of the run's own.
    """

    order: Order
    parts: str
    spool: str | None
    shape: Shape
    attempt: int
    in_flight: int
    limited: bool
    folder: str
    version: str
    run: str


@dataclass
class _Batch:
    """A batch under way: what it has come to."""

    name: str
    journal: Journal | None
    rows: dict[tuple[int, int], Row] = field(default_factory=dict)
    tally: Tally = field(default_factory=lambda: Tally(total=0))


def own_spool(run: str) -> Path:
    """Where lines of a run lie on a machine whose disk is its own."""
    return data_folder() / "spool" / run


class Worker:
    """Decides batch after batch, several at a time, so that the last posts of one don't keep the others waiting.

    Ray Data makes one in each of its actors. The door, the graph and the indexes are opened with the first batch.
    """

    def __init__(self, work: WorkOrder, clerk: Any) -> None:
        self._work, self._clerk = work, clerk
        self._name = f"{platform.node()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._opening: asyncio.Task[None] | None = None
        self._around: contextvars.Context
        self._decider: Decider
        self._purse: Purse
        self._parts: Parts
        self._prices = work.order.prices
        self._turns = asyncio.Semaphore(work.in_flight)
        self._under_way: set[asyncio.Task[None]] = set()
        self._before: dict[tuple[int, int], bytes] = {}
        self._unkept = 0

    async def __call__(self, batch: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Decide a batch; what it came to is a row of JSON, `told`."""
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        number = int(batch["batch"][0])
        try:
            await self._opening
            within = self._decided(number, bytes(batch["posts"][0]))
            told = await asyncio.create_task(within, context=self._around)
        except (BadInput, DiskFull, Stopped) as error:
            why = f"{error}. Make room" if isinstance(error, DiskFull) else str(error)
            await self._clerk.halt.remote(why, isinstance(error, BadInput))
            told = {}
        yield {"told": [json.dumps(told)]}

    async def _open(self) -> None:
        """Open what all batches share.

        Raises:
            BadInput: this machine can't take part in the run.
        """
        with suppress(OSError):
            os.chdir(self._work.folder)
        here = f"machine {platform.node()}"
        if (ours := version("tribunal")) != self._work.version:
            raise BadInput(
                f"{here}: has tribunal {ours}, and the run was started with {self._work.version}; install the same "
                "version on every machine"
            )
        self._parts = Parts(self._work.parts)
        if self._parts.manifest().attempt != self._work.attempt:
            raise BadInput(
                f"{here}: doesn't see {self._parts.at}, where the parts of the run belong; give OUT on a path that all "
                "machines share, or as a URL"
            )
        await asyncio.to_thread(self._parts.join, self._work.attempt, self._name)
        with opened_once():
            self._around = contextvars.copy_context()
        self._decider = self._around.run(Decider.of, self._work.order)
        await asyncio.create_task(self._decider.check(), context=self._around)
        door = await door_here()
        self._purse = Purse(self._clerk, self._name, self._work.limited)
        self._purse.listen(door, self._left_at_once)
        self._spool().mkdir(parents=True, exist_ok=True)
        for spool in spooled(self._spool()):  # of an earlier start, on this machine
            if not spool.name.startswith(f"{self._work.attempt:05}-"):
                self._before |= {(start.place, start.repeat): start.line for start in line_starts(spool / RESULTS)}

    def _spool(self) -> Path:
        if self._work.spool is not None:
            return Path(self._work.spool)
        return own_spool(self._work.run)

    def _left_at_once(self) -> None:
        for post in self._under_way:
            post.cancel()

    async def _decided(self, number: int, posts: bytes) -> JSON:
        """Decide what no earlier try of this batch has, write the part, and say what it came to."""
        name = part_name(self._work.attempt, number)
        wanted = list(unpacked(posts))
        if self._parts.has(name):  # it was written, and who was told so is gone
            batch = _Batch(name, None)
            for row in self._parts.lines(name):
                self._again(batch, row.place, row.repeat, row.line, {})
            return _told(batch, len(wanted))
        if self._purse.stopped:
            return {}
        return await self._new(_Batch(name, None), number, wanted)

    async def _new(self, batch: _Batch, number: int, wanted: list[Any]) -> JSON:
        begin = f"{self._work.attempt:05}-{number:08}-"
        earlier = spooled(self._spool(), begin)  # a worker was killed at it
        held = dict(self._before)
        for spool in earlier:
            held |= {(start.place, start.repeat): start.line for start in line_starts(spool / RESULTS)}
        own = self._spool() / f"{begin}{uuid4().hex[:8]}"
        own.mkdir(parents=True)
        with Journal(own) as batch.journal:
            left = []
            for place, repeat, budget, sample, cells in wanted:
                if (line := held.get((place, repeat))) is not None:
                    self._again(batch, place, repeat, line, cells)
                else:
                    left.append(asyncio.ensure_future(self._one(batch, place, repeat, budget, sample, cells)))
            self._under_way.update(left)
            try:
                ended = await asyncio.gather(*left, return_exceptions=True)
            finally:
                self._under_way.difference_update(left)
            if batch.rows:
                content = await asyncio.to_thread(part_of, list(batch.rows.values()), self._work.shape)
                try:
                    await asyncio.to_thread(self._parts.write, batch.name, content)
                except OSError as error:
                    raise DiskFull(f"{self._parts.at}/{batch.name}: can't be written: {error}") from error
        for spool in (own, *earlier):
            shutil.rmtree(spool, ignore_errors=True)
        for each in ended:
            if isinstance(each, Exception):
                raise each
        batch.tally.unkept, self._unkept = self._decider.unkept - self._unkept, self._decider.unkept
        return _told(batch, len(wanted))

    async def _one(self, batch: _Batch, place: int, repeat: int, budget: int | None, sample: Any, cells: JSON) -> None:
        async with self._turns:
            if not await self._purse.take():
                return
            spent = None
            try:
                decided = await self._decider.decide(place, repeat, sample, budget)
                spent = spent_on(decided.record.calls, self._prices)
            finally:
                self._purse.settle(spent)
        record = decided.record
        if kind_of_failure(record) in LOCKED_OUT:
            raise Stopped(f"{record.explanation}. See to the key")
        if unanswered(record):
            self._purse.lost(*no_answer(record))
            return
        self._purse.answered(answered_by(record))
        assert batch.journal is not None  # noqa: S101 (it is open while posts are under way)
        await batch.journal.append(decided.line)
        batch.rows[place, repeat] = Row(place, repeat, decided.line, cells)
        batch.tally.add(record, self._prices)

    def _again(self, batch: _Batch, place: int, repeat: int, line: bytes, cells: JSON) -> None:
        """Count a result that an earlier try has left."""
        batch.rows[place, repeat] = Row(place, repeat, line, cells)
        batch.tally.done += 1
        batch.tally.rehearsed += shows_rehearsal(line)
        if (result := read_earlier(line, priced=self._prices is not None)) is not None:
            batch.tally.count(result, self._prices)


def _told(batch: _Batch, wanted: int) -> JSON:
    tally = batch.tally
    return {
        "wanted": wanted, "done": tally.done, "outcomes": dict(tally.outcomes), "calls": tally.calls,
        "tokens": tally.tokens, "cost": tally.cost, "unpriced": tally.unpriced, "rehearsed": tally.rehearsed,
        "unkept": tally.unkept, "asked": [[*asked, number] for asked, number in tally.asked.items()],
    }  # fmt: skip


def heard(tally: Tally, told: JSON) -> None:
    """Add what a batch came to."""
    for name in ("done", "calls", "tokens", "cost", "unpriced", "rehearsed", "unkept"):
        setattr(tally, name, getattr(tally, name) + told[name])
    tally.outcomes.update(told["outcomes"])
    for model, role, rung, number in told["asked"]:
        tally.asked[model, role, rung] += number
