"""Plan the comparison of two prompt sets: a run of each, and one for every prompt that is exchanged alone; run it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tribunal.contents import keep_files_read
from tribunal.errors import BadInput
from tribunal.eval.evaluate import CACHE, Evaluation, name_folder, prepare_run, run_series
from tribunal.eval.experiments.plan import ReadyRun, open_evaluations
from tribunal.eval.prompt_sets.differences import (
    SHIPPED,
    exchange_prompt,
    list_exchangeable,
    open_prompt_set,
    write_prompt_set,
)
from tribunal.eval.prompt_sets.locked_split import find_test_split, list_tuning_notes
from tribunal.eval.runs.final_looks import count_look
from tribunal.eval.runs.job import RunOptions
from tribunal.eval.runs.tally import RunTally
from tribunal.graphs import graph as load_graph
from tribunal.prompts.sets import PromptSet
from tribunal.schema import JSON
from tribunal.systems import system_of

_LONGEST = 80  # letters of a run's folder
_SETS = "sets"  # holds the folders of the sets with one prompt exchanged


@dataclass(frozen=True)
class ComparisonPlan:
    """Hold the comparison of two prompt sets, opened and checked.

    Attributes:
        first: the set A.
        second: the set B.
        out: the folder of the comparison, which holds those of the runs.
        ready_runs: the run of A, that of B, and one of A with each prompt of B in turn.
        exchanged: by the name of a run, the prompt that was exchanged in it.
        data: what run.json says of the data.
        test_split: the test split that is looked at; None if the posts may be tuned on.
        tuning_notes: what has to be known of prompts that are tuned on the posts.
    """

    first: PromptSet
    second: PromptSet
    out: Path
    ready_runs: tuple[ReadyRun, ...]
    exchanged: Mapping[str, str]
    data: JSON
    test_split: str | None
    tuning_notes: tuple[str, ...]


@keep_files_read()
def plan_comparison(
    first: str, second: str, wanted: Evaluation, out: Path, *, by_seat: bool = False, final: bool = False
) -> ComparisonPlan:
    """Plan the comparison of two prompt sets over the same posts.

    Args:
        first: the folder of the set A, or `shipped`.
        second: the same of B.
        wanted: what is run, but for its prompts.
        out: the folder of the comparison, new or begun.
        by_seat: exchange each prompt in which they differ alone, too.
        final: the posts may be a test split, and count as one.

    Raises:
        BadInput: the sets say the same, one has a fault, the posts are a test split and `final` isn't given, or as
            `prepare_run`.
    """
    if "prompts" in wanted.settings:
        raise BadInput("prompts: A and B are the prompts that are compared; leave --prompts out")
    run = wanted.plan_run()
    load_graph(run.graph)
    system = found.name if (found := system_of(run.graph)) else None
    one, other = open_prompt_set(first, system), open_prompt_set(second, system)
    if one.sha == other.sha:
        raise BadInput(f"prompts: {first} and {second}: are the same (hash {one.sha}); there is nothing to compare")
    prepared = prepare_run(wanted)
    test_split = find_test_split(prepared.dataset, prepared.plan)
    if test_split is not None and not final:
        raise BadInput(
            f"data: {prepared.dataset.name}: {test_split} is a test split: prompts that are chosen on it fit it. Tune "
            "on another (--split), and look at the test once, at the end, with --final"
        )
    if final and test_split is None:
        test_split = prepared.dataset.split  # the user calls it one
    folders: dict[str, str | None] = {
        _run_name(side, prompts.name): None if named == SHIPPED else named
        for side, named, prompts in (("A", first, one), ("B", second, other))
    }
    exchanged: dict[str, str] = {}
    for name in list_exchangeable(one, other) if by_seat else ():
        exchanged[called := _run_name("A with B", name)] = name
        write_prompt_set(out / _SETS / called, exchange_prompt(one, other, name, system))
        folders[called] = str(out / _SETS / called)
    ready = asyncio.run(
        open_evaluations({name: _with_prompts(wanted, out, each) for name, each in folders.items()}, out)
    )
    notes = () if test_split is not None else tuple(list_tuning_notes(prepared.dataset))
    return ComparisonPlan(one, other, out, ready, exchanged, prepared.held["data"], test_split, notes)


def _run_name(side: str, name: str) -> str:
    return name_folder(f"{side.replace(' ', '_')}_{name.replace('/', '-')}", _LONGEST)


def _with_prompts(wanted: Evaluation, out: Path, prompts: str | None) -> Evaluation:
    settings = {"cache": str(out / CACHE), **wanted.settings, **({"prompts": prompts} if prompts else {})}
    return wanted.model_copy(update={"settings": settings})


@keep_files_read()
def run_comparison(
    plan: ComparisonPlan, options: RunOptions, announce: Callable[[str], None]
) -> list[tuple[str, RunTally]]:
    """Run a plan, or go on with it; a look at a test split is counted first.

    Returns:
        The state of each run, by its name. The last one may have been stopped, and those after it weren't begun.

    Raises:
        BadInput: as `tribunal.eval.evaluate.run_series`, or the looks can't be counted.
    """
    noted = None
    if plan.test_split is not None:
        noted = count_look(
            plan.out,
            {**plan.data, "split": plan.test_split},
            {"graph": plan.ready_runs[0].job.graph, "prompts": [plan.first.dump(), plan.second.dump()]},
        )
    evaluations = [
        (each.run.name, each.evaluation.model_copy(update={"final_look": noted})) for each in plan.ready_runs
    ]
    return run_series(evaluations, plan.out, options, announce)
