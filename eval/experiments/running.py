"""An experiment as it is run: its runs one after another, and the table that they come to, finished or not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from tribunal.eval.experiments.planning import Plan
from tribunal.eval.experiments.table import Table, table_of
from tribunal.eval.measures.columns import Columns, read_columns
from tribunal.eval.runs.engines import EMBEDDED, Engine
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.runfile import RUN
from tribunal.eval.runs.spending import NO_LIMITS, Limits
from tribunal.eval.runs.tally import Tally, Watch
from tribunal.eval.series import run_series
from tribunal.opened import opened_once


class Ran(NamedTuple):
    """How each run that was begun stands, by its name; the last one may have been stopped. And the table."""

    tallies: list[tuple[str, Tally]]
    table: Table


@opened_once()
def run_plan(
    plan: Plan,
    *,
    in_flight: int,
    watch_run: Callable[[str, int, int], Watch],
    warn: Callable[[str], None],
    prices: Prices | None = None,
    retry: Collection[str] = (),
    engine: Engine = EMBEDDED,
    limits: Limits = NO_LIMITS,
) -> Ran:
    """Run a plan, or go on with it. Arguments and errors as `tribunal.eval.series.run_series`."""
    evaluations = [(ready.run.name, ready.evaluation) for ready in plan.ready]
    tallies = run_series(
        evaluations,
        plan.wanted.out,
        in_flight=in_flight,
        watch_run=watch_run,
        warn=warn,
        prices=prices,
        retry=retry,
        engine=engine,
        limits=limits,
    )
    return Ran(tallies, table_here(plan))


def table_here(plan: Plan) -> Table:
    """The table of what the runs of a plan have come to by now."""
    wanted = plan.wanted
    columns: dict[str, Columns | None] = {}
    for ready in plan.ready:
        folder = wanted.out / ready.run.name
        columns[ready.run.name] = read_columns(folder) if (folder / RUN).exists() else None
    return table_of(wanted.experiment, columns, wanted.models, plan.gaps)
