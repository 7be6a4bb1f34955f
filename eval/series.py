"""Evaluations one after another, each in a folder of its own over one cache: what two of them share is asked once.

So ten judges over one aux model pay for one debate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import reduce
from pathlib import Path

from tribunal.context import context_from
from tribunal.errors import BadInput
from tribunal.eval.evaluate import Evaluation, evaluate
from tribunal.eval.runs.engines import EMBEDDED, Engine
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.spending import NO_LIMITS, NOTHING, Limits, Spent, spent_in_all
from tribunal.eval.runs.tally import Tally, Watch
from tribunal.graphs import graph
from tribunal.heeding import names, unheeded, without
from tribunal.line_up import in_force
from tribunal.models.seating import check_models

CACHE = "cache.sqlite"  # in the folder that holds the runs' own


async def fitted(
    evaluation: Evaluation, own: Collection[str], environment: Mapping[str, str]
) -> tuple[Evaluation, dict[str, str]]:
    """One of several evaluations, without those common settings that its graph doesn't heed.

    Args:
        evaluation: with the settings of all and its own.
        own: the settings that are its own.
        environment: the settings outside the runs.

    Returns:
        The evaluation; and by the name of each setting that was left out, how it would be refused.

    Raises:
        BadInput: a graph, a setting or a model is wrong, or it doesn't heed a setting of its own.
    """
    run = evaluation.followed()
    graph(run.graph)
    context = context_from(run.settings)
    check_models(await in_force(context, afresh=True), environment)
    unused = dict(unheeded(run.graph, context))
    for name, refusal in unused.items():
        if name in own or not names(evaluation.settings, name):
            raise BadInput(refusal)
    return replace(evaluation, settings=without(evaluation.settings, unused)), unused


def run_series(
    evaluations: Sequence[tuple[str, Evaluation]],
    out: Path,
    *,
    in_flight: int,
    watch_run: Callable[[str, int, int], Watch],
    warn: Callable[[str], None],
    prices: Prices | None = None,
    retry: Collection[str] = (),
    engine: Engine = EMBEDDED,
    limits: Limits = NO_LIMITS,
) -> list[tuple[str, Tally]]:
    """Run evaluations one after another, or go on with them.

    Args:
        evaluations: each with the name of its folder.
        out: the folder that holds the runs' own.
        in_flight: posts at a time, at most.
        watch_run: is given each name, its number from 1 and how many there are; gives what watches that run.
        warn: is told what a reader of the results should know of the posts.
        prices, retry, engine: as `tribunal.eval.evaluate.evaluate`.
        limits: what all of them may spend together, in all their starts.

    Returns:
        How each run stands, by its name. The last one may have been stopped, and those after it weren't begun.

    Raises:
        BadInput: as `evaluate`.
    """
    done = []
    limits.check(prices)
    spent = {name: spent_in_all(out / name, prices) for name, _ in evaluations} if limits else {}
    with _on(engine):
        for number, (name, evaluation) in enumerate(evaluations, start=1):
            elsewhere = reduce(Spent.and_, (each for of, each in spent.items() if of != name), NOTHING)
            watch = watch_run(name, number, len(evaluations))
            tally = evaluate(
                evaluation, out / name, in_flight=in_flight, retry=retry, prices=prices, watch=watch, warn=warn,
                engine=engine, limits=replace(limits, elsewhere=elsewhere),
            )  # fmt: skip
            if limits:
                spent[name] = spent_in_all(out / name, prices)
            done.append((name, tally))
            if tally.stopped:
                break
    return done


def _on(engine: Engine) -> AbstractContextManager[None]:
    """What all runs of a series are carried out on."""
    if engine.name == "embedded":
        return nullcontext()
    from tribunal.eval.ray.cluster import for_several_runs  # Ray, for those who have it

    return for_several_runs()
