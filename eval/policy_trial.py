"""Try a policy on posts that people have decided: which verdicts would change, and how."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tribunal.contents import keep_files_read
from tribunal.context import Context, context_from, refuse_unused_settings
from tribunal.errors import BadInput
from tribunal.eval.datasets import Dataset, open_dataset
from tribunal.eval.datasets.sampling import SamplePlan, choose_samples
from tribunal.eval.measures.changes import compare_with_decisions
from tribunal.eval.report.page import render_template
from tribunal.eval.runs.lifecycle import carry_out_run
from tribunal.eval.runs.run_file import describe_run
from tribunal.files import write_whole
from tribunal.graphs import GRAPHS
from tribunal.graphs import graph as graph_named
from tribunal.plugins import names
from tribunal.prompts.policy import load_policy as policy_named
from tribunal.runner.job import AS_USUAL, RunJob, RunOptions
from tribunal.runner.journal import RESULTS, read_line_starts, report_unwritten
from tribunal.runner.tally import RunTally

CHANGES = "changes.json"
PAGES = {"changes.html": "changes.html.jinja", "changes.md": "changes.md.jinja"}
_WANTED = ("category", "court_outcome", "court_category", "policy_sha")


@dataclass(frozen=True)
class PolicyTrial:
    """Hold the trial of a policy, opened and checked.

    `left` are posts without a result in the folder; `calls` is what their cases took, None where it isn't known.
    """

    dataset: Dataset
    plan: SamplePlan
    context: Context
    graph: str
    folder: Path
    posts: int
    left: int
    calls: int | None


@keep_files_read()
def plan_trial(policy: str, on: Path, folder: Path, *, graph: str | None, settings: Mapping[str, Any]) -> PolicyTrial:
    """Return what the trial of a policy takes, before any money is spent.

    Args:
        policy: the new one: a shipped policy's name, or a TOML file.
        on: what `tribunal review export` has written.
        folder: of the run, new or begun.
        graph: None is the one that the cases were tried by.
        settings: of the run, without a policy.
    """
    if settings.get("policy") is not None:
        raise BadInput("policy: is the one that is tried; leave --policy out")
    policy_named(policy)
    context = context_from({**settings, "policy": policy})
    dataset = open_dataset("table", on)
    plan = choose_samples(dataset)
    done = {start.place for start in read_line_starts(folder / RESULTS)}
    graphs, calls, left, known = set[str](), 0, 0, True
    for place, sample in enumerate(plan):
        if sample.gold is None or (lost := next((name for name in _WANTED if name not in sample.fields), None)):
            lost = "label" if sample.gold is None else lost
            raise BadInput(f"on: {on}: has no column {lost}; give what tribunal review export has written")
        graphs.add(str(sample.fields.get("graph")))
        if place not in done:
            left += 1
            took = str(sample.fields.get("calls") or "")
            known = known and took.isdecimal()
            calls += int(took) if took.isdecimal() else 0
    own = graphs.pop() if len(graphs) == 1 else ""
    chosen = graph or (own if own in GRAPHS or own in names("tribunal.graphs") else "tribunal")
    graph_named(chosen)
    refuse_unused_settings(chosen, context)
    return PolicyTrial(dataset, plan, context, chosen, folder, len(plan), left, calls if known else None)


def try_policy(trial: PolicyTrial, options: RunOptions = AS_USUAL) -> RunTally:
    """Judge the posts under the new policy, or go on with it, and write what would change.

    Beside the run's own files lie changes.json, changes.html and changes.md.

    Raises:
        BadInput: a setting or the folder is wrong. No result is lost.
    """
    dataset, plan, folder = trial.dataset, trial.plan, trial.folder
    data = {"name": "table", "files": [path.name for path in dataset.files], "sha256": dataset.fingerprint}
    held = describe_run(trial.graph, data, {}, 1, plan, trial.context)
    job = RunJob(trial.graph, trial.context, plan, len(plan))

    def write(tally: RunTally) -> None:
        found = tally.measured = compare_with_decisions(folder)
        with report_unwritten(f"out: {folder}"):
            write_whole(folder / CHANGES, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
            for name, template in PAGES.items():
                write_whole(folder / name, render_template(template, found))

    return carry_out_run(job, folder, held, write, options, warnings=plan.warnings)
