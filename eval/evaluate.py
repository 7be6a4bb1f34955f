"""Evaluate a graph on a chosen part of a data set, in a folder of its own, and go on where it stopped."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from tribunal.errors import BadInput
from tribunal.eval.datasets import PLUS, Dataset, DatasetPool, find_dataset, open_datasets
from tribunal.eval.datasets.sampling import IN_ORDER, SHUFFLED, SamplePlan, choose_samples
from tribunal.eval.measures.metrics import measure_run, save_metrics
from tribunal.eval.protocols.following import ProtocolRun, RunRequest, follow_protocol
from tribunal.eval.runs.lifecycle import carry_out_run
from tribunal.eval.runs.run_file import describe_run
from tribunal.graphs import load_own
from tribunal.models.budget import NO_SPENDING, Spending
from tribunal.runner.budget import total_spending
from tribunal.runner.job import AS_USUAL, RunJob, RunOptions, load_ray_engine
from tribunal.runner.results import read_results, read_run_file
from tribunal.runner.tally import RunTally
from tribunal.schema import JSON
from tribunal.settings.contents import keep_files_read
from tribunal.settings.context import (
    Context,
    context_from,
    leave_out_settings,
    refuse_unused_settings,
    setting_is_named,
    settings_of,
)

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig


class Evaluation(RunRequest):
    """Describe what is evaluated on what: for the fields see `tribunal eval --help`.

    What is None or empty is the protocol's, where there is one. `data` is a path; of several sets, one by each name.
    Posts are taken shuffled by the seed, or `in_order` of their files. `extras` None: shown, but not under a protocol.
    `gold`: a table without a label column is refused if `needed`; with `none`, its labels aren't read.
    `final_look` is what run.json notes of a look at a test split (`tribunal.eval.runs.ledger`).
    """

    data: Path | Mapping[str, Path]
    columns: Mapping[str, str] = Field(default_factory=dict)
    labels: Mapping[str, str] = Field(default_factory=dict)
    balance: str | None = None
    protocol: str | None = None
    in_order: bool = False
    skip_missing_images: bool = False
    extras: bool | None = None
    gold: Literal["needed", "optional", "none"] = "needed"
    final_look: JSON | None = None

    def plan_run(self) -> ProtocolRun:
        """Return the run: the request, filled in by the protocol. Errors as `follow_protocol`."""
        return follow_protocol(self.protocol, self)


class PreparedRun(NamedTuple):
    """Hold a run that can begin: its job, data set and posts, the content of its run.json, and its first warnings."""

    job: RunJob
    dataset: Dataset | DatasetPool
    plan: SamplePlan
    held: JSON
    warnings: tuple[str, ...]


@keep_files_read()
def evaluate(
    wanted: Evaluation,
    out: Path,
    options: RunOptions = AS_USUAL,
    *,
    budget_from: Path | None = None,
    config: RunnableConfig | None = None,
) -> RunTally:
    """Run an evaluation, or go on with it, and measure it.

    Args:
        wanted: the graph, the data set and the choice of posts.
        out: the run's folder.
        options: how it is carried out.
        budget_from: the folder of another run; each post may cost the tokens that it cost there.
        config: the callbacks, tags and metadata of each post's run, as LangChain has them. Callbacks take one process.

    Returns:
        The state of the run; `stopped` says why it isn't done.

    Raises:
        BadInput: the data, a setting or the folder is wrong. No result is lost.
    """
    options.outcomes_to_retry()
    job, _, _, held, warnings = prepare_run(wanted, budget_from)
    from tribunal.docket.run_config import config_of_run

    job = replace(job, config=config_of_run(out.name, config))
    return carry_out_run(job, out, held, partial(measure_results, out), options, warnings=warnings)


def measure_results(folder: Path, tally: RunTally) -> None:
    """Measure the results of a run so far; its tally and metrics.json then have the measures."""
    try:
        tally.measured = measure_run(folder)
    except BadInput:
        if not tally.stopped:  # why it stopped, a full disk say, is the better thing to be told
            raise
    else:
        save_metrics(folder, tally.measured)


class ChosenPosts(NamedTuple):
    """The posts of a run, the settings that follow from them, and `data` and `sampling` of its run.json."""

    dataset: Dataset | DatasetPool
    plan: SamplePlan
    context: Context
    data: JSON
    sampling: JSON


def choose_posts(wanted: Evaluation, run: ProtocolRun, graph: str | None) -> ChosenPosts:
    """Open the data set of a run and choose its posts. Errors as `evaluate`.

    Args:
        wanted: the graph, the data set and the choice of posts.
        run: the same, filled in by the protocol.
        graph: refuses the settings that it doesn't use; None: no graph runs.
    """
    own = ("split", "columns", "labels", "samples", "balance")
    wanted = wanted.model_copy(
        update={name: getattr(wanted, name) or getattr(run.part, name) for name in own}
    )
    if wanted.gold == "none":
        if not any(find_dataset(name).mapped for name in run.dataset.split(PLUS)):
            raise BadInput(
                f"--unlabelled works only with tables (--dataset table), not with {run.dataset}; remove it"
            )
        wanted = wanted.model_copy(update={"columns": {**wanted.columns, "label": ""}})
    dataset = open_datasets(
        run.dataset,
        wanted.data,
        split=wanted.split,
        columns=wanted.columns,
        labels=wanted.labels,
        skip_missing_images=wanted.skip_missing_images,
        extras=run.note is None if wanted.extras is None else wanted.extras,
        needs_gold=wanted.gold == "needed",
    )
    settings = run.settings if dataset.task == "hate" else {"task": dataset.task, **run.settings}
    context = context_from(settings)
    if graph is not None:
        refuse_unused_settings(graph, context)
    plan = choose_samples(
        dataset,
        samples=wanted.samples,
        seed=run.seed,
        balance=wanted.balance,
        protocol=run.sample,
        shuffled=not wanted.in_order,
    )
    sampling: JSON = {
        "samples": wanted.samples, "seed": run.seed, "balance": wanted.balance,
        "protocol": run.note and run.note["asked"],
        "order": IN_ORDER if wanted.in_order else SHUFFLED,
    }  # fmt: skip
    data: JSON = {
        "name": dataset.name, "split": dataset.split, "files": [path.name for path in dataset.files],
        "sha256": dataset.fingerprint,
    }  # fmt: skip
    beside = {
        "columns": dict(wanted.columns), "labels": dict(wanted.labels), "extras": dataset.extras,
        "skip_missing_images": wanted.skip_missing_images,
    }  # fmt: skip
    data |= {name: given for name, given in beside.items() if given}
    return ChosenPosts(dataset, plan, context, data, sampling)


def prepare_run(wanted: Evaluation, budget_from: Path | None = None) -> PreparedRun:
    """Check everything that can be known before the first call. Arguments and errors as `evaluate`."""
    run = wanted.plan_run()
    load_own(run.graph)
    dataset, plan, context, data, sampling = choose_posts(wanted, run, run.graph)
    budgets = None
    if budget_from is not None:
        budgets = tokens_by_post(budget_from)
        lost = next((sample.id for sample in plan if sample.id not in budgets), None)
        if lost:
            raise BadInput(
                f"budget_from: {budget_from}: has no result of post {lost!r}; give a finished run over them"
            )
        sha = hashlib.sha256(json.dumps(budgets, sort_keys=True).encode()).hexdigest()[:16]
        sampling["budget_from"] = {"run": budget_from.resolve().name, "sha256": sha}
    held = describe_run(run.graph, data, sampling, run.repeats, plan, context)
    held["protocol"] = run.note
    whole = sum(run.sample.quotas.values()) if run.sample else 0
    if (
        run.note is not None and sampling["samples"] is None and len(plan) < whole
    ):  # fewer posts than the paper took
        departures = {**run.note["departures"], "samples": {"paper": whole, "run": len(plan)}}
        held["protocol"] = {**run.note, "departures": departures}
    held["cluster"] = dataset.cluster
    if wanted.final_look is not None:
        held["final"] = wanted.final_look
    job = RunJob(run.graph, context, plan, len(plan), run.repeats, budgets=budgets)
    warnings = (*run.warnings, *plan.warnings)
    if run.note is not None and dataset.extras:
        warnings = (
            f"extras: posts are shown with their {dataset.extras}, which the paper didn't show",
            *warnings,
        )
    return PreparedRun(job, dataset, plan, held, warnings)


def tokens_by_post(folder: Path) -> dict[str, int]:
    """Return the tokens that each post cost in the first repeat of another run.

    Answers from a cache count as what they cost when they were given.

    Raises:
        BadInput: the folder is no run's.
    """
    read_run_file(folder)
    tokens: dict[str, int] = {}
    for _, result in read_results(folder):
        if not result.repeat:
            spent = sum(call.prompt_tokens + call.completion_tokens for call in result.calls)
            tokens[result.post_id] = max(1, spent)
    return tokens


def summarize_run(tally: RunTally, out: Path) -> JSON:
    """Return the state of a run, as `--json` prints it."""
    return {
        "out": str(out),
        "total": tally.total,
        "done": tally.before + tally.done,
        "now": tally.done,
        "outcomes": dict(tally.outcomes),
        "calls": tally.calls,
        "tokens": tally.tokens,
        "cost": round(tally.cost, 6),
        "unpriced_calls": tally.unpriced,
        "rehearsed": tally.rehearsed,
        "stopped": tally.stopped or None,
        "metrics": tally.measured,
    }


CACHE = "cache.sqlite"  # in the folder that holds the runs' own


def name_folder(text: str, longest: int) -> str:
    """Return a text in letters that any file system takes, with a hash where they don't tell it from others."""
    name = re.sub(r"[^\w.=+-]+", "-", text, flags=re.ASCII)[:longest]
    return (
        name
        if name == re.sub("[:/]", "-", text)
        else f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    )


def fit_to_graph(evaluation: Evaluation, own: Collection[str]) -> tuple[Evaluation, dict[str, str]]:
    """Remove from an evaluation the shared settings that its graph does not use; `own` are the settings of its own.

    Returns:
        The evaluation; and by the name of each setting that was left out, how it would be refused.

    Raises:
        BadInput: a graph or a setting is wrong, or it doesn't heed a setting of its own.
    """
    run = evaluation.plan_run()
    load_own(run.graph)
    context = context_from(run.settings)
    unused = dict(settings_of(run.graph).find_unused(context))
    for name, refusal in unused.items():
        if name in own or not setting_is_named(evaluation.settings, name):
            raise BadInput(refusal)
    return evaluation.model_copy(
        update={"settings": leave_out_settings(evaluation.settings, unused)}
    ), unused


def refuse_if_none_uses(unused: Sequence[Mapping[str, str]]) -> None:
    """Refuse a shared setting that `fit_to_graph` left out of every evaluation."""
    for name, refusal in unused[0].items() if unused else ():
        if all(name in each for each in unused):
            raise BadInput(refusal)


def run_series(
    evaluations: Sequence[tuple[str, Evaluation]],
    out: Path,
    options: RunOptions,
    announce: Callable[[str], None] = lambda text: None,
) -> list[tuple[str, RunTally]]:
    """Run evaluations one after another, each in its folder within `out`, or go on with them. Errors as `evaluate`.

    Limits are of all together; `announce` is told which run begins.

    Returns:
        The state of each run, by its name. The last one may have been stopped, and those after it weren't begun.
    """
    done: list[tuple[str, RunTally]] = []
    limits = options.limits
    prices = options.prices
    limits.check_prices(prices)
    spent = {name: total_spending(out / name, prices) for name, _ in evaluations} if limits else {}
    shared = (
        nullcontext() if options.engine.name == "embedded" else load_ray_engine().share_cluster()
    )
    with shared:
        for number, (name, evaluation) in enumerate(evaluations, start=1):
            elsewhere = reduce(
                Spending.add, (each for of, each in spent.items() if of != name), NO_SPENDING
            )
            announce(f"{number} of {len(evaluations)}: {name}")
            tally = evaluate(
                evaluation,
                out / name,
                replace(options, limits=replace(limits, elsewhere=elsewhere)),
            )
            if limits:
                spent[name] = total_spending(out / name, prices)
            done.append((name, tally))
            if tally.stopped:
                break
    return done
