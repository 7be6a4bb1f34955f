"""Where a run on a cluster keeps its results: in the folder of a run, or as the parts themselves."""

from __future__ import annotations

import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.eval.datasets.sample import Sample
from tribunal.eval.runs.earlier import read_earlier
from tribunal.eval.runs.engine import Job, posts_done, run
from tribunal.eval.runs.journal import RESULTS, shows_rehearsal
from tribunal.eval.runs.left import posts_left
from tribunal.eval.runs.parts import PARTS, SPOOL, Manifest, Part, Parts, Row, Shape, gather, part_name, part_of
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.spending import Limits, Spent, spent_before, spent_on
from tribunal.eval.runs.tally import Counts, Tally, Watch

# The batch of what the driver itself has decided.
_OWN_BATCH = 99_999_999
_PLACE = re.compile(rb'^\{"place":\d+,"repeat":\d+,')


class Kept(ABC):
    """What there is of a run, and where its parts go.

    Attributes:
        parts: where workers write.
        shape: the columns of the parts.
        spool: where lines lie that are in no part yet; None: in the data folder of each machine.
    """

    parts: Parts
    shape: Shape
    spool: str | None = None

    def __init__(self, job: Job, prices: Prices | None) -> None:
        self._job, self._prices = job, prices

    @abstractmethod
    async def taken_in(self) -> tuple[Tally, bytearray]:
        """What there is by now: counted as `earlier`, and in a byte a post and repeat.

        Raises:
            BadInput: it holds what the run has not.
            DiskFull: there is no room to put it where it belongs.
        """

    @abstractmethod
    def spent(self) -> Iterable[Spent]:
        """What each result has cost."""

    @abstractmethod
    async def last(self, done: bytearray, limits: Limits, watch: Watch | None) -> Tally:
        """Decide the few that are left in this process, which finds out whose fault it is that nobody answers them."""

    def begin(self, in_flight: int) -> Manifest:
        """Note that another attempt begins, each worker of which has so many posts in flight at most."""
        return self.parts.begin(in_flight)

    def end(self, lost: int, finished: bool) -> None:
        """Note that the attempt under way has ended well.

        Args:
            lost: how many posts were under way when workers of it were killed.
            finished: whether all posts are decided.
        """
        self.parts.end(lost)


class InRunFolder(Kept):
    """The folder of a run on this machine, or on a disk that all machines share: parts end in its results.jsonl."""

    def __init__(self, job: Job, prices: Prices | None, folder: Path) -> None:
        super().__init__(job, prices)
        self._folder = folder
        self.parts, self.shape = Parts.of_run(folder), Shape()
        self.spool = f"{self.parts.at.path.removesuffix(PARTS)}{SPOOL}"

    async def taken_in(self) -> tuple[Tally, bytearray]:
        await gather(self._folder)
        tally = Tally(total=self._job.count * self._job.repeats)
        return tally, posts_done(self._folder, self._job, tally, self._prices)

    def spent(self) -> Iterable[Spent]:
        return spent_before(self._folder, self._prices)

    async def last(self, done: bytearray, limits: Limits, watch: Watch | None) -> Tally:
        return await run(self._job, self._folder, prices=self._prices, watch=watch, limits=limits)


class AsParts(Kept):
    """A folder of parts, which are the output: in an object store, or on a disk that all machines share."""

    def __init__(self, job: Job, prices: Prices | None, parts: Parts, shape: Shape) -> None:
        super().__init__(job, prices)
        self.parts, self.shape = parts, shape
        self._read: set[str] = set()
        self._tally = Tally(total=job.count * job.repeats)
        self._done = bytearray(job.count * job.repeats)
        self._attempt = 0

    async def taken_in(self) -> tuple[Tally, bytearray]:
        tally, job = self._tally, self._job
        self._check_alone()
        for name in self.parts.counted():
            if name in self._read:
                continue
            self._read.add(name)
            for row in self.parts.lines(name):
                held = f"{self.parts.at}/{name}: holds post {row.place}"
                if row.place >= job.count or row.repeat >= job.repeats:
                    raise BadInput(f"{held}, which this run has not; remove the file, or take another folder")
                if self._done[at := row.repeat * job.count + row.place]:
                    raise BadInput(f"{held}, which another part holds too; remove one of them")
                self._done[at] = 1
                tally.before += 1
                tally.rehearsed += shows_rehearsal(row.line)
                if (result := read_earlier(row.line, priced=self._prices is not None)) is not None:
                    tally.earlier.count(result, self._prices)
        return replace(tally, earlier=tally.earlier + Counts()), self._done

    def spent(self) -> Iterator[Spent]:
        for name in self.parts.counted():
            for row in self.parts.lines(name):
                if (result := read_earlier(row.line, priced=True)) is not None:
                    yield spent_on(result.calls, self._prices)

    async def last(self, done: bytearray, limits: Limits, watch: Watch | None) -> Tally:
        job = self._job
        left = list(posts_left(job.samples, job.count, job.repeats, done))
        samples = [sample for _, _, sample in left]
        with tempfile.TemporaryDirectory(prefix="tribunal-") as folder:
            if (answered := self._answered()) is not None:  # it is put to the models again, to see whether they answer
                line, sample = answered
                Path(folder, RESULTS).write_bytes(_placed(line, len(samples), 0))  # noqa: ASYNC240
                samples.append(sample)
            few = replace(job, samples=samples, count=len(samples), repeats=1)
            tally = await run(few, Path(folder), prices=self._prices, watch=None, limits=limits)
            rows = []
            for line in Path(folder, RESULTS).read_bytes().splitlines(keepends=True):  # noqa: ASYNC240
                at = int(line[len(b'{"place":') : line.index(b",")])
                if at < len(left):
                    place, repeat, sample = left[at]
                    rows.append(Row(place, repeat, _placed(line, place, repeat), getattr(sample, "cells", {})))
        if rows:
            name = part_name(self.parts.manifest().attempt, _OWN_BATCH)
            self.parts.write(name, part_of(rows, self.shape))
        return tally

    def _answered(self) -> tuple[bytes, Sample] | None:
        """A result that models have answered for, and its post."""
        for name in sorted(self._read):
            for row in self.parts.lines(name):
                if b'"outcome":"verdict"' in row.line[:200]:
                    return row.line, next(
                        sample for place, sample in enumerate(self._job.samples) if place == row.place
                    )
        return None

    def begin(self, in_flight: int) -> Manifest:
        manifest = self.parts.begin(in_flight, self._listed())
        self._attempt = manifest.attempt
        return manifest

    def end(self, lost: int, finished: bool) -> None:
        self._check_alone()
        listed = self._listed()
        self.parts.end(lost, listed)
        if finished:
            for name in set(self.parts.names()) - {part.name for part in listed}:
                self.parts.remove(name)  # a worker of an earlier attempt went on

    def _check_alone(self) -> None:
        """See that no driver of another cluster has begun to go on with the run, of which this cluster knows nothing.

        Raises:
            BadInput: one has.
        """
        if self._attempt and self.parts.manifest().attempt != self._attempt:
            raise BadInput(
                f"out: {self.parts.at}: another command has begun to go on with this run; wait for it, or stop it and "
                "run this one again"
            )

    def _listed(self) -> list[Part]:
        """The parts that count, as the manifest lists them."""
        known = {part.name: part for part in self.parts.manifest().parts}
        return [known.get(name) or self.parts.part(name) for name in sorted(self.parts.counted())]


def _placed(line: bytes, place: int, repeat: int) -> bytes:
    return _PLACE.sub(b'{"place":%d,"repeat":%d,' % (place, repeat), line, count=1)
