"""One evaluation: a graph over a chosen part of a data set, in a folder of its own, that goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig

from tribunal.cases.run_config import config_of_run
from tribunal.context import context_from
from tribunal.errors import BadInput
from tribunal.eval.datasets.dataset import Dataset
from tribunal.eval.datasets.pool import Pool, open_posts
from tribunal.eval.datasets.sampling import IN_ORDER, SHUFFLED, choose
from tribunal.eval.lifecycle import carry_out, outcomes_of
from tribunal.eval.measures.metrics import keep_metrics, metrics
from tribunal.eval.protocols.following import Asked, Followed, follow
from tribunal.eval.runs.engine import Job
from tribunal.eval.runs.engines import EMBEDDED, Engine
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.results import read_results, read_run, read_whole
from tribunal.eval.runs.runfile import describe
from tribunal.eval.runs.spending import NO_LIMITS, Limits
from tribunal.eval.runs.tally import Tally, Watch
from tribunal.graphs import graph as graph_named
from tribunal.heeding import refuse_unheeded
from tribunal.opened import opened_once
from tribunal.schema import JSON


@dataclass(frozen=True)
class Evaluation:
    """What is evaluated on what. `settings` are fields of `Context`; the rest is as `tribunal eval --help` tells.

    What is None is the protocol's, where there is one. `data` is a path; of several sets, one by each name. Posts
    are taken shuffled by the seed, or `in_order` of their files. `extras` None: shown, but not under a protocol.
    """

    data: Path | Mapping[str, Path]
    dataset: str | None = None
    graph: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    split: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    samples: int | None = None
    seed: int | None = None
    balance: str | None = None
    protocol: str | None = None
    paper_models: bool = False
    repeats: int | None = None
    in_order: bool = False
    skip_missing_images: bool = False
    extras: bool | None = None

    def followed(self) -> Followed:
        """What is run: what is wanted here, filled in by the protocol.

        Raises:
            BadInput: as `tribunal.eval.protocols.following.follow`.
        """
        asked = Asked(
            dataset=self.dataset,
            graph=self.graph,
            settings=self.settings,
            repeats=self.repeats,
            seed=self.seed,
            samples=self.samples,
            paper_models=self.paper_models,
        )
        return follow(self.protocol, asked)


class Prepared(NamedTuple):
    """A run that can be begun: what is decided, what its run.json holds, and what is said before the first post."""

    job: Job
    held: JSON
    warnings: tuple[str, ...]


@opened_once()
def evaluate(
    wanted: Evaluation,
    out: Path,
    *,
    in_flight: int = 16,
    retry: Collection[str] = (),
    budget_from: Path | None = None,
    prices: Prices | None = None,
    keep_text: bool = False,
    watch: Watch | None = None,
    warn: Callable[[str], None] = lambda warning: None,
    engine: Engine = EMBEDDED,
    limits: Limits = NO_LIMITS,
    config: RunnableConfig | None = None,
) -> Tally:
    """Run an evaluation, or go on with it, and measure it.

    Args:
        wanted: what is evaluated.
        out: the run's folder.
        in_flight: posts at a time, at most.
        retry: which results to decide anew: of `failures`, `refusals`.
        budget_from: the folder of another run; each post may cost the tokens that it cost there.
        prices: for the running cost.
        keep_text: write each post's text into its result.
        watch: is told how the run stands after every post.
        warn: is told, before the first post, what a reader of the results should know of the posts.
        engine: by what it is carried out.
        limits: what it may spend, in all its starts.
        config: the callbacks, tags and metadata of each post's run, as LangChain has them. Callbacks take one process.

    Returns:
        how it stands; `stopped` says why it did, where it isn't done.

    Raises:
        BadInput: the data, a setting or the folder is wrong. No result is lost.
    """
    retried = outcomes_of(retry)
    job, held, warnings = prepared(wanted, in_flight=in_flight, budget_from=budget_from, keep_text=keep_text)
    job = replace(job, config=config_of_run(out.name, config))

    def measure(tally: Tally) -> None:
        try:
            tally.measured = metrics(out)
        except BadInput:
            if not tally.stopped:  # why it stopped, a full disk say, is the better thing to be told
                raise
        else:
            keep_metrics(out, tally.measured)

    return carry_out(
        job, out, held, measure, retried=retried, prices=prices, watch=watch, warnings=warnings, warn=warn,
        engine=engine, limits=limits,
    )  # fmt: skip


def prepared(
    wanted: Evaluation, *, in_flight: int = 16, budget_from: Path | None = None, keep_text: bool = False
) -> Prepared:
    """Everything that can be known of an evaluation before its first call. Arguments and errors as `evaluate`."""
    run = wanted.followed()
    graph_named(run.graph)
    dataset = open_posts(
        run.dataset,
        wanted.data,
        split=wanted.split,
        columns=wanted.columns,
        labels=wanted.labels,
        skip_missing_images=wanted.skip_missing_images,
        extras=run.note is None if wanted.extras is None else wanted.extras,
    )
    settings = run.settings if dataset.task == "hate" else {"task": dataset.task, **run.settings}
    context = context_from(settings)
    refuse_unheeded(run.graph, context)
    plan = choose(
        dataset,
        samples=wanted.samples,
        seed=run.seed,
        balance=wanted.balance,
        protocol=run.sample,
        shuffled=not wanted.in_order,
    )
    sampling: JSON = {
        "samples": wanted.samples, "seed": run.seed, "balance": wanted.balance, "protocol": wanted.protocol,
        "order": IN_ORDER if wanted.in_order else SHUFFLED,
    }  # fmt: skip
    budgets = None
    if budget_from is not None:
        budgets = tokens_by_post(budget_from)
        if lost := next((sample.id for sample in plan if sample.id not in budgets), None):
            raise BadInput(f"budget_from: {budget_from}: has no result of post {lost!r}; give a finished run over them")
        sampling["budget_from"] = {"run": budget_from.resolve().name, "sha256": _hash(budgets)}
    held = describe(run.graph, _described(dataset, wanted), sampling, run.repeats, plan, context)
    held["protocol"] = run.note
    held["cluster"] = dataset.cluster
    job = Job(
        graph=run.graph,
        context=context,
        samples=plan,
        count=len(plan),
        repeats=run.repeats,
        in_flight=in_flight,
        budgets=budgets,
        keep_text=keep_text,
    )
    warnings = (*run.warnings, *plan.warnings)
    if run.note is not None and dataset.extras:
        warnings = (f"extras: posts are shown with their {dataset.extras}, which the paper didn't show", *warnings)
    return Prepared(job, held, warnings)


def _described(dataset: Dataset | Pool, wanted: Evaluation) -> JSON:
    mapped = {"columns": dict(wanted.columns), "labels": dict(wanted.labels)}
    mapped = {name: given for name, given in mapped.items() if given}
    shown: JSON = {"extras": dataset.extras} if dataset.extras else {}
    if wanted.skip_missing_images:
        shown["skip_missing_images"] = True
    files = [path.name for path in dataset.files]
    held = {"name": dataset.name, "split": dataset.split, "files": files, "sha256": dataset.fingerprint}
    return {**held, **mapped, **shown}


def tokens_by_post(folder: Path) -> dict[str, int]:
    """What each post cost in another run, in tokens, the first repeat's where there are several.

    Answers from a cache count as what they cost when they were given.

    Raises:
        BadInput: the folder is no run's.
    """
    read_run(folder)
    tokens: dict[str, int] = {}
    for offset, result in read_results(folder):
        if result.repeat:
            continue
        spent = result.usage.prompt_tokens + result.usage.completion_tokens
        if any(call.cached for call in result.calls):
            calls = read_whole(folder, offset)["calls"]
            spent = sum(call["prompt_tokens"] + call["completion_tokens"] for call in calls)
        tokens[result.post_id] = max(1, spent)
    return tokens


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def summary(tally: Tally, out: Path) -> JSON:
    """How a run stands, as `--json` prints it."""
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
