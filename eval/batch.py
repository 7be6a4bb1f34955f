"""Unlabelled posts: every row of a file decided, and written out again with its outcome."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tribunal.cases.run_config import config_of_run
from tribunal.context import context_from
from tribunal.errors import BadInput
from tribunal.eval.datasets.given import remove_copies, tables_of
from tribunal.eval.lifecycle import carry_out, outcomes_of
from tribunal.eval.runs.engine import Job
from tribunal.eval.runs.engines import EMBEDDED, Engine
from tribunal.eval.runs.every_row import EveryRow
from tribunal.eval.runs.outputs import output_of
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.runfile import alone_in, describe
from tribunal.eval.runs.spending import NO_LIMITS, Limits
from tribunal.eval.runs.tally import Tally, Watch
from tribunal.extras import wants
from tribunal.graphs import graph as graph_named
from tribunal.heeding import refuse_unheeded
from tribunal.kept.wanted import Wanted
from tribunal.locations import located
from tribunal.opened import opened_once

if TYPE_CHECKING:
    from tribunal.kept.keeping import Keeper

_COPIES = "input"  # of what lies in a store, in the run's folder


@opened_once()
def batch(
    posts: str | Path,
    out: str | Path,
    *,
    graph: str,
    settings: Mapping[str, Any],
    columns: Mapping[str, str] | None = None,
    in_flight: int = 16,
    retry: Collection[str] = (),
    prices: Prices | None = None,
    watch: Watch | None = None,
    keep: Wanted | None = None,
    warn: Callable[[str], None] = lambda warning: None,
    run_folder: Path | None = None,
    engine: Engine = EMBEDDED,
    limits: Limits = NO_LIMITS,
) -> Tally:
    """Decide every row of a table, or go on with it, and write the rows out with their outcomes once all are decided.

    A row that waited for a person carries their decision once they have made it (`tribunal review`). A row that can't
    be judged is a failure of kind `input`, which says why, and costs no call.

    Args:
        posts: CSV, TSV, JSONL or Parquet, with a column of texts or images: a file or a folder of them, by its path or
            URL. What lies in a store is copied into the run's folder for as long as it goes on.
        out: the file to write, by its path or URL.
        columns: which column is what (`tribunal.eval.datasets.table`).
        keep: keeps every verdict in the service's database as well.
        warn: is told, before the first post, how many rows can't be judged.
        run_folder: where results are kept until then, and after. None: `OUT.run`, or for a URL the one that
            `tribunal.eval.runs.outputs.output_of` says.
        engine: by what it is carried out.
        limits: what it may spend, in all its starts.

    Raises:
        BadInput: the file, a setting or the output is wrong. No result is lost.
    """
    place, output = located(posts), output_of(out, run_folder)
    if output.is_folder:
        output.check_apart(place)
        _check_for_folder(str(output), engine, retry, settings)
    else:
        output.check(place)
    folder, copies = output.folder, output.folder / _COPIES
    graph_named(graph)
    retried, context = outcomes_of(retry), context_from(dict(settings))
    refuse_unheeded(graph, context)
    tables = tables_of(place, copies, warn)
    dataset = EveryRow(tables, columns)
    plan = dataset.plan()
    data = {"name": "table", "files": [tables.name], "sha256": dataset.fingerprint, "columns": dict(columns or {})}
    held = describe(graph, data, {}, 1, plan, context)
    keeper = _keeper(keep)
    job = Job(
        graph=graph,
        context=context,
        samples=plan,
        count=len(plan),
        in_flight=in_flight,
        keeper=keeper,
        config=config_of_run(output.folder.name),
    )

    if output.is_folder:
        from tribunal.eval.ray.corpus import decide_into  # Ray, for those who name it

        with alone_in(folder):
            tally = decide_into(
                job, dataset, str(out), held, engine, prices=prices, watch=watch, warn=warn, limits=limits
            )
        if not tally.stopped:
            remove_copies(copies)
        return tally

    def write(tally: Tally) -> None:
        if not tally.stopped:
            output.write(dataset, len(plan))
            remove_copies(copies)

    return carry_out(
        job, folder, held, write, retried=retried, prices=prices, watch=watch, warnings=plan.warnings, warn=warn,
        decided_since=True, engine=engine, limits=limits,
    )  # fmt: skip


def _check_for_folder(out: str, engine: Engine, retry: Collection[str], settings: Mapping[str, Any]) -> None:
    """See that a folder can be the output.

    Raises:
        BadInput: this engine writes none, or what is wanted takes a table that is written at the end.
    """
    if engine.name != "ray":
        raise BadInput(
            f"out: {out}: is a folder, into which a cluster writes; give a file, or --engine ray (without --address it "
            "is this machine's own)"
        )
    wants("engine ray", "ray", ("ray",))
    for name, asked in (("retry", retry), ("review", settings.get("review") or settings.get("review_rule"))):
        if asked:
            raise BadInput(f"{name}: can't be had with a folder as OUT ({out}); give a file")


def _keeper(keep: Wanted | None) -> Keeper | None:
    if keep is None:
        return None
    from tribunal.kept.keeping import Keeper  # SQLAlchemy, for those who keep

    return Keeper(keep)
