"""A policy tried on posts that people have decided: which verdicts would change, and which way."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tribunal.context import Context, context_from
from tribunal.errors import BadInput
from tribunal.eval.datasets import Dataset, open_dataset
from tribunal.eval.datasets.sampling import Plan, choose
from tribunal.eval.lifecycle import carry_out, outcomes_of
from tribunal.eval.measures.changes import changes
from tribunal.eval.report.page import rendered
from tribunal.eval.runs.engine import Job
from tribunal.eval.runs.journal import RESULTS, Unwritten, line_starts
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.runfile import describe
from tribunal.eval.runs.tally import Tally, Watch
from tribunal.files import write_whole
from tribunal.graphs import GRAPHS
from tribunal.graphs import graph as graph_named
from tribunal.heeding import refuse_unheeded
from tribunal.opened import opened_once
from tribunal.plugins import names
from tribunal.prompts.policy import policy as policy_named
from tribunal.schema import JSON

CHANGES = "changes.json"
PAGES = {"changes.html": "changes.html.jinja", "changes.md": "changes.md.jinja"}
_WANTED = ("category", "court_outcome", "court_category", "policy_sha")


@dataclass(frozen=True)
class PolicyTrial:
    """What is to be tried, opened and checked.

    Attributes:
        posts: how many there are.
        left: how many of them have no result in the folder yet.
        calls: how many calls the cases of those that are left took; None where it isn't known.
    """

    dataset: Dataset
    plan: Plan
    context: Context
    graph: str
    folder: Path
    posts: int
    left: int
    calls: int | None


@opened_once()
def plan_trial(policy: str, on: Path, folder: Path, *, graph: str | None, settings: Mapping[str, Any]) -> PolicyTrial:
    """Look at what a trial of a policy takes, before anything is spent.

    Args:
        policy: the new one: a shipped policy's name, or a TOML file.
        on: what `tribunal review export` has written.
        folder: of the run, new or begun.
        graph: None is the one that the cases were tried by.
        settings: of the run, without a policy.

    Raises:
        BadInput: one of them is wrong.
    """
    if settings.get("policy") is not None:
        raise BadInput("policy: is the one that is tried; leave --policy out")
    policy_named(policy)
    context = context_from({**settings, "policy": policy})
    dataset = open_dataset("table", on)
    plan = choose(dataset)
    done = {start.place for start in line_starts(folder / RESULTS)}
    graphs, calls, left = Counter[str](), 0, 0
    known = True
    for place, sample in enumerate(plan):
        if sample.gold is None or (lost := next((name for name in _WANTED if name not in sample.fields), None)):
            lost = "label" if sample.gold is None else lost
            raise BadInput(f"on: {on}: has no column {lost}; give what tribunal review export has written")
        graphs[str(sample.fields.get("graph"))] += 1
        if place not in done:
            left += 1
            took = str(sample.fields.get("calls") or "")
            known = known and took.isdecimal()
            calls += int(took) if took.isdecimal() else 0
    own = next(iter(graphs)) if len(graphs) == 1 and _has_name(next(iter(graphs))) else "tribunal"
    chosen = graph or own
    graph_named(chosen)
    refuse_unheeded(chosen, context)
    return PolicyTrial(dataset, plan, context, chosen, folder, len(plan), left, calls if known else None)


def _has_name(graph: str) -> bool:
    return graph in GRAPHS or graph in names("tribunal.graphs")


def try_policy(
    trial: PolicyTrial,
    *,
    in_flight: int = 16,
    retry: Collection[str] = (),
    prices: Prices | None = None,
    keep_text: bool = False,
    watch: Watch | None = None,
    warn: Callable[[str], None] = lambda warning: None,
) -> Tally:
    """Judge the posts under the new policy, or go on with it, and write down what would change.

    Beside the run's own files lie changes.json, changes.html and changes.md. The arguments are those of
    `tribunal.eval.evaluate`.

    Raises:
        BadInput: a setting or the folder is wrong. No result is lost.
    """
    dataset, plan, folder = trial.dataset, trial.plan, trial.folder
    data = {"name": "table", "files": [path.name for path in dataset.files], "sha256": dataset.fingerprint}
    held = describe(trial.graph, data, {}, 1, plan, trial.context)
    job = Job(
        graph=trial.graph, context=trial.context, samples=plan, count=len(plan), in_flight=in_flight,
        keep_text=keep_text,
    )  # fmt: skip

    def write(tally: Tally) -> None:
        tally.measured = changes(folder)
        _write(folder, tally.measured)

    return carry_out(
        job, folder, held, write, retried=outcomes_of(retry), prices=prices, watch=watch, warnings=plan.warnings,
        warn=warn,
    )  # fmt: skip


def _write(folder: Path, found: JSON) -> None:
    try:
        write_whole(folder / CHANGES, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
        for name, template in PAGES.items():
            write_whole(folder / name, rendered(template, found))
    except OSError as error:
        raise Unwritten(f"out: {folder}: can't be written: {error.strerror or error}; make room") from error
