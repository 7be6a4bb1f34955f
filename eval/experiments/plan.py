"""Plan an experiment with what is at hand, say why the rest isn't run, and run the plan."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tribunal.core.calls import REHEARSAL
from tribunal.core.text import one_line, parse_json
from tribunal.errors import BadInput, NotAtHand
from tribunal.eval.evaluate import (
    CACHE,
    Evaluation,
    fit_to_graph,
    prepare_run,
    refuse_if_none_uses,
    run_series,
)
from tribunal.eval.experiments.experiment import (
    ChosenModels,
    Experiment,
    MissingCell,
    PlannedRun,
    RunKey,
    is_at_hand,
)
from tribunal.eval.experiments.table import EXPERIMENT, ExperimentTable, build_table, name_runs
from tribunal.eval.measures.columns import RunColumns, read_columns
from tribunal.eval.protocols.protocol import Protocol
from tribunal.eval.runs.run_file import check_unchanged, read_begun_run
from tribunal.models.registry import check_models, current_registry
from tribunal.process.files import read_regular, write_whole
from tribunal.runner.job import RunJob, RunOptions
from tribunal.runner.journal import RESULTS, RUN, read_line_starts, report_unwritten
from tribunal.runner.pins import collect_pins
from tribunal.runner.tally import RunTally
from tribunal.schema import JSON
from tribunal.settings.contents import apply_line_up, keep_files_read
from tribunal.settings.context import context_from


class ReadyRun(NamedTuple):
    """Hold a run that can begin, how many of its decisions are done, and whether only the rehearsal's rules answer.

    `lacks` names the key or the indexes without which it can't begin; empty if it lacks nothing.
    """

    run: PlannedRun
    evaluation: Evaluation
    job: RunJob
    done: int
    rehearsed: bool
    lacks: str = ""

    @property
    def decision_count(self) -> int:
        """Return how many decisions it takes: posts, each as often as it is decided."""
        return self.job.count * self.job.repeats

    @property
    def decisions_left(self) -> int:
        """Return how many of them are left."""
        return self.decision_count - self.done


@dataclass(frozen=True)
class ExperimentPlan:
    """Hold the runs that can begin, in their order, and why the others can't, by name.

    `ready_runs` holds the runs that lack only a key or an index, too; `without_lacking` leaves them out.
    """

    experiment: Experiment
    out: Path
    ready_runs: tuple[ReadyRun, ...]
    gaps: Mapping[str, str]

    def without_lacking(self) -> ExperimentPlan:
        """Return the plan of the runs that lack nothing.

        Raises:
            NotAtHand: every run lacks a key or an index; the reason that names the most.
        """
        able = tuple(ready for ready in self.ready_runs if not ready.lacks)
        if not able:
            raise NotAtHand(max((ready.lacks for ready in self.ready_runs), key=len))
        return replace(self, ready_runs=able)


@keep_files_read()
def plan_experiment(experiment: Experiment, shared: Evaluation, out: Path) -> ExperimentPlan:
    """Plan an experiment.

    Args:
        experiment: what is to be filled.
        shared: what all runs have in common; its data are one folder, or one by each set.
        out: the folder of the runs.

    Raises:
        BadInput: nothing can be run (why), a set that was given can't be read, or none of the runs heeds a setting.
    """
    folders = data_folders(experiment, shared.data)
    every = experiment.planned_runs(single_datasets(experiment))
    here = [run for run in every if is_at_hand(run.dataset, folders)]
    gaps = {}
    for run in every:
        if run not in here:
            missing = [part for part in run.dataset.split("+") if part not in folders]
            options = " ".join(f"--data {name}=FOLDER" for name in missing)
            gaps[run.name] = f"set not at hand: {' and '.join(missing)} ({options})"
    wanted = []
    for run in here:
        parts = run.dataset.split("+")
        update = {
            "data": folders[run.dataset]
            if len(parts) == 1
            else {part: folders[part] for part in parts},
            "dataset": run.dataset,
            "settings": {"cache": str(out / CACHE), **shared.settings, **run.settings},
            "protocol": run.protocol,
            "paper_models": run.paper_models,
        }
        wanted.append((run, shared.model_copy(update=update)))
    ready, refused = asyncio.run(_ready_runs(wanted, out))
    gaps |= {name: f"not run: {why}" for name, why in refused.items()}
    gaps |= {each.run.name: each.lacks for each in ready if each.lacks}
    if not ready:
        nobody = f"model: no run of {experiment.name} can be had but with the paper's models; add --paper-models"
        raise BadInput(next(iter([*refused.values(), *gaps.values(), nobody])))
    return ExperimentPlan(experiment, out, tuple(ready), gaps)


async def _ready_runs(
    runs: list[tuple[PlannedRun, Evaluation]], out: Path
) -> tuple[list[ReadyRun], dict[str, str]]:
    """Return the runs whose settings are right; and by name, why the others can't be had."""
    environment = (await current_registry()).environment
    fitting = list[tuple[PlannedRun, Evaluation, _CheckedModels]]()
    refused = dict[str, str]()
    left_out = list[JSON]()
    for run, wanted in runs:
        try:
            evaluation, unused = fit_to_graph(wanted, run.settings)
            checked = await _check_models(evaluation, environment)
        except NotAtHand as error:
            checked = _CheckedModels({}, False, str(error))
        except BadInput as error:
            refused[run.name] = str(error)
            continue
        left_out.append(unused)
        fitting.append((run, evaluation, checked))
    refuse_if_none_uses(left_out)
    return [
        _open_ready_run(run, evaluation, out, checked) for run, evaluation, checked in fitting
    ], refused


class _CheckedModels(NamedTuple):
    """The pins of a run (`collect_pins`), whether only the rehearsal's rules answer in it, and what it lacks."""

    pins: JSON
    rehearsed: bool
    lacks: str = ""


async def _check_models(evaluation: Evaluation, environment: Mapping[str, str]) -> _CheckedModels:
    """Check the models of a run; raise `BadInput` if one is wrong."""
    run = evaluation.plan_run()
    context = context_from(run.settings)
    asked = check_models(await apply_line_up(context, afresh=True), environment)
    return _CheckedModels(
        await collect_pins(run.graph, context), {str(model) for model in asked} == {REHEARSAL}
    )


def _open_ready_run(
    run: PlannedRun, evaluation: Evaluation, out: Path, checked: _CheckedModels
) -> ReadyRun:
    """Return a run that can begin in its folder within `out`, or go on there.

    Raises:
        BadInput: its folder holds another run; or as `prepare_run`.
    """
    folder = out / run.name
    prepared = prepare_run(evaluation)
    if (
        not checked.lacks
        and (folder / RUN).exists()
        and (begun := read_begun_run(folder)) is not None
    ):
        check_unchanged(begun, {**prepared.held, **checked.pins}, folder)
    done = sum(1 for _ in read_line_starts(folder / RESULTS))
    return ReadyRun(run, evaluation, prepared.job, done, checked.rehearsed, checked.lacks)


# ------------------------------------------------------------------------------------------------------------ data sets


def single_datasets(experiment: Experiment) -> list[str]:
    """Return the sets that the experiment's cells are of, those of a pool one by one."""
    return list(
        dict.fromkeys(part for dataset in experiment.dataset_names for part in dataset.split("+"))
    )


def data_folders(experiment: Experiment, data: Path | Mapping[str, Path]) -> dict[str, Path]:
    """Return where each set lies: as is given here, else as the table's file says.

    Of one folder, these are the folders in it that are called as the sets are, else the folder itself, for the one set
    whose place the file doesn't say.

    Raises:
        BadInput: a set is none of the experiment's, one folder is given for several sets, or nothing says where any is.
    """
    sets = single_datasets(experiment)
    parts = experiment.protocol.datasets
    own = {
        name: part.data for name, part in parts.items() if name in sets and part.data is not None
    }
    request = " ".join(f"--data {name}=FOLDER" for name in sets)
    if not isinstance(data, Path):
        unknown = next((name for name in data if name not in sets), None)
        if unknown:
            raise BadInput(
                f"data: {unknown}: {experiment.name} is of {', '.join(sets)}; give {request}"
            )
        if not data and not own:
            raise BadInput(
                f"data: the data sets' files aren't named; give {request}, as many as you have"
            )
        return {**own, **data}
    found = {name: data / name for name in sets if (data / name).exists()}
    if found:
        return {**own, **found}
    placeless = [name for name in sets if name not in own] or sets
    if len(placeless) == 1:
        return {**own, placeless[0]: data}
    raise BadInput(
        f"data: {data}: holds no folder called {' or '.join(sets)}; give {request}, as many as you have"
    )


class ExperimentProgress(NamedTuple):
    """Hold the state of each run that was begun, by its name, and the table. The last run may have been stopped."""

    tallies: list[tuple[str, RunTally]]
    table: ExperimentTable


@keep_files_read()
def run_plan(
    plan: ExperimentPlan, options: RunOptions, announce: Callable[[str], None]
) -> ExperimentProgress:
    """Run a plan, or go on with it. Arguments and errors as `tribunal.eval.evaluate.run_series`."""
    evaluations = [(ready.run.name, ready.evaluation) for ready in plan.ready_runs]
    _save_experiment(plan)
    tallies = run_series(evaluations, plan.out, options, announce)
    columns = {name: _read_run(plan.out / name) for name, _ in evaluations}
    return ExperimentProgress(tallies, build_table(plan.experiment, columns, plan.gaps))


def _read_run(folder: Path) -> RunColumns | None:
    return read_columns(folder) if (folder / RUN).exists() else None


def _save_experiment(plan: ExperimentPlan) -> None:
    """Write which table its folder is of, so that the table can be made again, however far the runs have come."""
    experiment = plan.experiment
    path = plan.out / EXPERIMENT
    held = {
        "table": experiment.protocol.model_dump(mode="json")
        | {"shape": experiment.shape.model_dump(mode="json")},
        "models": asdict(experiment.models),
        "runs": [
            {
                **key._asdict(),
                "name": name if isinstance(name, str) else None,
                "gap": "" if isinstance(name, str) else str(name),
            }
            for key, name in name_runs(experiment).items()
        ],
        "gaps": dict(plan.gaps),
    }
    with report_unwritten(f"out: {path}"):
        plan.out.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(held, indent=2, ensure_ascii=False) + "\n")


def read_experiment_table(folder: Path) -> ExperimentTable:
    """Return the table of an experiment's folder, of the results that are there. No graph of it is loaded.

    Raises:
        BadInput: the folder is no experiment's, or a file of it is broken.
    """
    path = folder / EXPERIMENT
    try:
        held = parse_json(read_regular(path))
        models = ChosenModels(**{**held["models"], "own": tuple(held["models"]["own"])})
        experiment = Experiment(Protocol.model_validate(held["table"]), models)
        names = {
            RunKey(each["condition"], each["dataset"], each["model"]): each["name"]
            or MissingCell(each["gap"])
            for each in held["runs"]
        }
        gaps = dict(held["gaps"])
        columns = {
            name: _read_run(folder / Path(name).name)
            for name in names.values()
            if isinstance(name, str)
        }
    except FileNotFoundError as error:
        raise BadInput(
            f"folder: {folder}: has no {EXPERIMENT}; give the folder (--out) of `tribunal experiment run`"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"folder: {path}: can't be read: {one_line(str(error))}; give the command that began the experiment again"
        ) from error
    return build_table(experiment, columns, gaps, names)


async def open_evaluations(
    evaluations: Mapping[str, Evaluation], out: Path
) -> tuple[ReadyRun, ...]:
    """Return the run of each evaluation, checked, in its folder within `out`, so that what it takes can be estimated.

    Raises:
        BadInput: a graph, a model, a setting or the data is wrong.
    """
    environment = (await current_registry()).environment
    ready = []
    for name, evaluation in evaluations.items():
        planned = PlannedRun(name, "", evaluation.plan_run().dataset, "", "", {})
        ready.append(
            _open_ready_run(planned, evaluation, out, await _check_models(evaluation, environment))
        )
    return tuple(ready)
