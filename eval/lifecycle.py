"""The life of a run: begun in its folder or gone on with, alone, and finished once everything is decided."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from tribunal.context import kept_settings
from tribunal.errors import BadInput
from tribunal.eval.runs.elsewhere import fitted_elsewhere
from tribunal.eval.runs.engine import Job, order_of, run
from tribunal.eval.runs.engines import EMBEDDED, Engine
from tribunal.eval.runs.journal import RESULTS, DiskFull, Unwritten, line_starts, set_aside
from tribunal.eval.runs.parts import gather
from tribunal.eval.runs.pins import pinned, pins
from tribunal.eval.runs.prices import Prices, keep_prices
from tribunal.eval.runs.rejoined import rejoin
from tribunal.eval.runs.runfile import alone_in, begin, finish, found_in
from tribunal.eval.runs.spending import NO_LIMITS, Limits
from tribunal.eval.runs.tally import Tally, Watch
from tribunal.extras import wants
from tribunal.loops import run_many
from tribunal.model_objects import refuse_objects
from tribunal.opened import opened_once
from tribunal.schema import JSON

RETRIED = ("failures", "refusals")


def carry_out(
    job: Job,
    folder: Path,
    wanted: JSON,
    write_out: Callable[[Tally], None],
    *,
    retried: Collection[str],
    prices: Prices | None,
    watch: Watch | None,
    warnings: Collection[str],
    warn: Callable[[str], None],
    decided_since: bool = False,
    engine: Engine = EMBEDDED,
    limits: Limits = NO_LIMITS,
) -> Tally:
    """Begin a run in its folder, or go on with it, alone.

    Args:
        job: what is decided.
        folder: the run's.
        wanted: what its run.json holds beside the pins (`tribunal.eval.runs.runfile.describe`).
        write_out: makes of the results what is made of them; called when the run has ended, however it has.
        retried: the outcomes that are to be decided anew (`outcomes_of`).
        prices: for the running cost; kept in the folder, for its reports.
        watch: is told how the run stands after every post.
        warnings: what `warn` is told before the first post.
        decided_since: put what people have decided meanwhile in the place of results that waited for them.
        engine: by what it is carried out.
        limits: what it may spend, in all its starts.

    Returns:
        How it stands; `stopped` says why it did, where it isn't done.

    Raises:
        BadInput: the folder holds another run, another process is at it, or a setting is wrong.
    """
    limits.check(prices)
    if engine.name != "embedded" or (engine.workers or 1) > 1:
        refuse_objects(kept_settings(job.context))

    async def carried_out() -> Tally:
        found_in(folder)
        described = {**wanted, **await pins(job.graph, job.context)}
        held = begin(folder, described)
        for warning in (*warnings, *fitted_elsewhere(job.context, wanted["data"])):
            warn(warning)
        rejoined = waiting = 0
        if prices is not None:
            keep_prices(folder, prices)
        try:
            await gather(folder)
            if decided_since:
                rejoined, waiting = await rejoin(folder)
            if retried and (folder / RESULTS).exists():
                set_aside(folder, lambda start: start.outcome in retried)
            tally = await _run(job, folder, pinned(described), prices, watch, engine, limits)
        except DiskFull as full:
            before = sum(1 for _ in line_starts(folder / RESULTS))
            tally = Tally(total=job.count * job.repeats, before=before, stopped=str(full))
        tally.rejoined, tally.waiting = rejoined, waiting + tally.outcomes["pending"]
        try:
            write_out(tally)
            if not tally.stopped:
                finish(folder, held)
        except Unwritten as unwritten:
            tally.stopped = tally.stopped or str(unwritten)  # why it stopped before is the better thing to be told
        return tally

    with alone_in(folder), opened_once():
        return run_many(carried_out())


async def _run(
    job: Job,
    folder: Path,
    pinned: JSON,
    prices: Prices | None,
    watch: Watch | None,
    engine: Engine,
    limits: Limits,
) -> Tally:
    """Decide what is left, by the engine that is wanted."""
    if engine.name == "embedded":
        workers = engine.workers or 1
        return await run(job, folder, prices=prices, watch=watch, workers=workers, limits=limits, pinned=pinned)
    wants("engine ray", "ray", ("ray",))
    from tribunal.eval.ray.driver import run_on_ray  # Ray, for those who name it

    order, _ = order_of(job, prices, pinned)
    return await run_on_ray(job, folder, order, engine, prices=prices, watch=watch, ledger_limits=limits)


def outcomes_of(retry: Collection[str]) -> set[str]:
    """The outcomes that are to be decided anew.

    Raises:
        BadInput: a word is none of `RETRIED`.
    """
    if unknown := next((each for each in retry if each not in RETRIED), None):
        raise BadInput(f"retry: {unknown!r}: what can be retried is {', '.join(RETRIED)}")
    return {each.removesuffix("s") for each in retry}
