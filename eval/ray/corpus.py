"""A corpus decided by a cluster into a folder of Parquet parts, on a shared disk or in an object store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tribunal.errors import BadInput
from tribunal.eval.ray.driver import decided_on_ray
from tribunal.eval.ray.kept import AsParts
from tribunal.eval.runs.engine import Job, order_of
from tribunal.eval.runs.engines import Engine
from tribunal.eval.runs.every_row import EveryRow
from tribunal.eval.runs.parts import Parts, Shape
from tribunal.eval.runs.pins import pinned, pins
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.runfile import begun_otherwise, changes, finished, with_code
from tribunal.eval.runs.spending import NO_LIMITS, Limits
from tribunal.eval.runs.tally import Tally, Watch
from tribunal.loops import run_many
from tribunal.opened import opened_once
from tribunal.parsed import from_json
from tribunal.schema import JSON

RUN = "_run.json"


def decide_into(
    job: Job,
    dataset: EveryRow,
    out: str,
    wanted: JSON,
    engine: Engine,
    *,
    prices: Prices | None = None,
    watch: Watch | None = None,
    warn: Callable[[str], None] = lambda warning: None,
    limits: Limits = NO_LIMITS,
) -> Tally:
    """Decide a table into a folder, or go on with it.

    The folder holds the parts, `_run.json`, by which the run can go on from any machine, and `_manifest.json`, which
    lists the parts that count.

    Args:
        job: what is decided, of `dataset`.
        dataset: the table.
        out: the folder, by a path that all machines share, or by its URL.
        wanted: what the run depends on (`tribunal.eval.runs.runfile.describe`).
        engine: which cluster, and how many workers.
        prices: for the running cost.
        watch: is told how the run stands.
        warn: is told what is to be known before the first post.
        limits: what the run may spend, in all its starts.

    Returns:
        how it stands; `stopped` says why it did, where it isn't done.

    Raises:
        BadInput: the folder holds something else, or a setting is wrong.
    """
    limits.check(prices)
    parts = Parts(out if "://" in out else Path(out).absolute())

    async def carried_out() -> Tally:
        described = {**wanted, **await pins(job.graph, job.context)}
        held = _begun(parts, described)
        for warning in dataset.warnings:
            warn(warning)
        order, _ = order_of(job, prices, pinned(described))
        kept = AsParts(job, prices, parts, shape_of(dataset))
        tally = await decided_on_ray(job, kept, order, engine, watch=watch, limits=limits)
        if not tally.stopped:
            _write(parts, finished(held))
        return tally

    with opened_once():
        return run_many(carried_out())


def _begun(parts: Parts, wanted: JSON) -> JSON:
    """The run of a folder as it was begun, or begins now.

    Raises:
        BadInput: it was begun otherwise, or the folder holds something else.
    """
    names = parts.names()
    if parts.has(RUN) and (held := from_json(parts.content(RUN))) is not None:
        held = with_code(held, wanted)
        changed = list(changes(held, wanted))
        if changed and names:
            raise begun_otherwise(parts.at, changed)
        if not changed:
            return dict(held)
    elif names:
        raise BadInput(f"out: {parts.at}: has parts and no {RUN}; take another folder")
    _write(parts, wanted)
    return wanted


def _write(parts: Parts, run: JSON) -> None:
    parts.write(RUN, (json.dumps(run, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace"))


def shape_of(dataset: EveryRow) -> Shape:
    """The columns of a table. Those of a Parquet file keep the types that JSON has too; the others are texts."""
    names = dict.fromkeys(name for cells in dataset.cells() for name in cells)
    kinds: dict[str, Any] = {}
    if all(table.suffix == ".parquet" for table in dataset.tables.files):
        import pyarrow as pa
        import pyarrow.parquet as pq

        for field in pq.read_schema(dataset.files[0]):
            plain = pa.types.is_signed_integer(field.type) or pa.types.is_boolean(field.type)
            if plain or pa.types.is_floating(field.type):
                kinds[field.name] = str(field.type).replace("halffloat", "float")
    return Shape(tuple((name, kinds.get(name, "string")) for name in names))
