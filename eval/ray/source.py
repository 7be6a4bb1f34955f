"""The posts that are left of a run, as Ray Data reads them: one batch a row, in one task, in the run's own order."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import ray
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from tribunal.eval.datasets.sample import Sample
from tribunal.eval.runs.left import posts_left
from tribunal.opened import opened_once
from tribunal.parsed import from_json
from tribunal.schema import JSON


@dataclass(frozen=True)
class Left:
    """What is to be decided, as the task that reads it is told.

    Attributes:
        samples: of the run, in its order.
        count: how many these are.
        repeats: how often each is decided.
        done: of every post and repeat, 1 where there is a result: a reference to the bytes.
        budgets: tokens by post.
        batch: how many posts one has.
        cells: whether the rows' own cells go along.
        folder: where relative paths begin.
        clerk: of the run, who is asked before each batch whether it goes on.
    """

    samples: Iterable[Sample]
    count: int
    repeats: int
    done: ray.ObjectRef[bytes]
    budgets: Mapping[str, int] | None
    batch: int
    cells: bool
    folder: str
    clerk: Any


class Posts(Datasource):
    """Rows of `batch`, its number, and `posts`, as `packed`. Only a batch at a time is in memory."""

    def __init__(self, left: Left) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = left

    @property
    def supports_distributed_reads(self) -> bool:
        """The driver's own machine reads them: there its files are, and there what was read outlives a lost node."""
        return False

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, parallelism: int, *given: Any, **more: Any) -> list[ReadTask]:
        left = self._left
        told = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(lambda: batches(left), told)]


def batches(left: Left) -> Iterator[pa.Table]:
    """The batches of what is left, a row each."""
    with suppress(OSError):
        os.chdir(left.folder)
    done = ray.get(left.done)
    with opened_once():
        posts = posts_left(left.samples, left.count, left.repeats, done)
        number = 0
        while held := list(islice(posts, left.batch)):
            if ray.get(left.clerk.standing.remote()).stopped:
                return
            packed = [
                (place, repeat, (left.budgets or {}).get(sample.id), _told(sample, left.cells))
                for place, repeat, sample in held
            ]
            yield pa.table({"batch": [number], "posts": [json.dumps(packed, ensure_ascii=True).encode()]})
            number += 1


def _told(sample: Sample, cells: bool) -> JSON:
    told = sample.dump()
    row = told.pop("cells", None)
    return {**told, "cells": row} if cells else told


def unpacked(posts: bytes) -> Iterator[tuple[int, int, int | None, Sample, JSON]]:
    """Of a batch: place, repeat, tokens it may cost, the post, and the cells of its row."""
    for place, repeat, budget, told in from_json(posts):
        cells = told.pop("cells", None) or {}
        yield place, repeat, budget, Sample.model_validate(told), cells
