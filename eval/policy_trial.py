"""Try a policy on posts that people have decided: the verdicts then, the verdicts now, and the decisions of people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tribunal.errors import BadInput
from tribunal.eval.datasets import Dataset, open_dataset
from tribunal.eval.datasets.sampling import SamplePlan, choose_samples
from tribunal.eval.measures.rates import wilson_interval
from tribunal.eval.report.page import render_template
from tribunal.eval.runs.lifecycle import carry_out_run
from tribunal.eval.runs.run_file import describe_run
from tribunal.graphs import GRAPHS, load_own
from tribunal.plugins import names
from tribunal.process.files import write_whole
from tribunal.prompts.policy import load_policy as policy_named
from tribunal.runner.job import AS_USUAL, RunJob, RunOptions
from tribunal.runner.journal import RESULTS, read_line_starts, report_unwritten
from tribunal.runner.results import read_full_line, read_results, read_run_file
from tribunal.runner.tally import RunTally
from tribunal.schema import JSON
from tribunal.settings.contents import keep_files_read
from tribunal.settings.context import Context, context_from, refuse_unused_settings

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
def plan_trial(
    policy: str, on: Path, folder: Path, *, graph: str | None, settings: Mapping[str, Any]
) -> PolicyTrial:
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
    graphs = set[str]()
    calls = 0
    left = 0
    known = True
    for place, sample in enumerate(plan):
        if sample.gold is None or (
            lost := next((name for name in _WANTED if name not in sample.fields), None)
        ):
            lost = "label" if sample.gold is None else lost
            raise BadInput(
                f"on: {on}: has no column {lost}; give what tribunal review export has written"
            )
        graphs.add(str(sample.fields.get("graph")))
        if place not in done:
            left += 1
            took = str(sample.fields.get("calls") or "")
            known = known and took.isdecimal()
            calls += int(took) if took.isdecimal() else 0
    own = graphs.pop() if len(graphs) == 1 else ""
    chosen = graph or (own if own in GRAPHS or own in names("tribunal.graphs") else "tribunal")
    load_own(chosen)
    refuse_unused_settings(chosen, context)
    return PolicyTrial(
        dataset, plan, context, chosen, folder, len(plan), left, calls if known else None
    )


def try_policy(trial: PolicyTrial, options: RunOptions = AS_USUAL) -> RunTally:
    """Judge the posts under the new policy, or go on with it, and write what would change.

    Beside the run's own files lie changes.json, changes.html and changes.md.

    Raises:
        BadInput: a setting or the folder is wrong. No result is lost.
    """
    dataset = trial.dataset
    plan = trial.plan
    folder = trial.folder
    data = {
        "name": "table",
        "files": [path.name for path in dataset.files],
        "sha256": dataset.fingerprint,
    }
    held = describe_run(trial.graph, data, {}, 1, plan, trial.context)
    job = RunJob(trial.graph, trial.context, plan, len(plan))

    def write(tally: RunTally) -> None:
        found = tally.measured = compare_with_decisions(folder)
        with report_unwritten(f"out: {folder}"):
            write_whole(folder / CHANGES, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
            for name, template in PAGES.items():
                write_whole(folder / name, render_template(template, found))

    return carry_out_run(job, folder, held, write, options, warnings=plan.warnings)


_OF_CLAUSE = ("changed", "put_right", "put_wrong")
_OF_CASES = ("policy", "policy_sha", "graph", "models")


def compare_with_decisions(folder: Path) -> JSON:
    """Count and list what changed, of the results so far.

    A share is None of no posts; its interval is Wilson's, at 95 %. Verdicts are compared by category (`changed`) and by
    whether they are hateful (`turned`); with people, by whether they are hateful. Posts without a verdict, then or now,
    are in neither, and are counted. `by_clause` says which verdicts cited a clause then and now, and how many of those
    that cite it changed category.

    Args:
        folder: of a run over what `tribunal review export` has written.

    Raises:
        BadInput: the folder is no run's.
    """
    run = read_run_file(folder)
    then: Counter[tuple[str, ...]] = Counter()
    outcomes: Counter[str] = Counter()
    moves: Counter[tuple[str, str]] = Counter()
    counts: Counter[str] = Counter()
    by_clause: dict[str, Counter[str]] = {}
    listed: list[JSON] = []
    for offset, result in read_results(folder):
        fields = result.fields
        decided = result.outcome == "verdict"
        then[tuple(str(fields.get(name) or "unknown") for name in _OF_CASES)] += 1
        outcomes[result.outcome] += 1
        counts["rehearsed"] += result.rehearsed
        decided_then = fields.get("court_outcome") == "verdict"
        counts["none_before"] += not decided_then
        before = str(fields.get("court_category" if decided_then else "court_outcome") or "unknown")
        now = str(result.category if decided else result.outcome)
        people = result.gold is not None and result.gold.positive
        was = str(fields.get("court_hateful")).casefold() == "true"
        is_now = bool(result.hateful)
        effect: dict[str, int] = {}
        if decided_then and decided and result.gold is not None:
            effect = {
                "both": 1,
                "changed": fields.get("court_category") != result.category,
                "turned": was != is_now,
                "agreed_then": was == people,
                "agrees_now": is_now == people,
                "put_right": was != people == is_now,
                "put_wrong": was == people != is_now,
            }
        counts.update(effect)
        clauses_then = [
            each.strip()
            for each in str(fields.get("court_clause") or "").split(",")
            if each.strip()
        ]
        for clause in dict.fromkeys((*clauses_then, *result.clauses)):
            counted = by_clause.setdefault(clause, Counter())
            counted["then"] += clause in clauses_then
            counted["now"] += clause in result.clauses
            if before != now:
                counted.update({name: effect.get(name, 0) for name in _OF_CLAUSE})
        if before != now:
            moves[before, now] += 1
            whole = read_full_line(folder, offset)
            listed.append(
                {
                    "case": result.post_id,
                    "post_id": fields.get("post_id") or result.post_id,
                    "from": before,
                    "to": now,
                    "clauses_then": clauses_then,
                    "clauses_now": list(result.clauses),
                    "people": fields.get("category"),
                    "people_hateful": people,
                    "hateful_then": was,
                    "hateful_now": result.hateful,
                    "agrees_now": decided and result.hateful == people,
                    "policy_then": fields.get("policy"),
                    "policy_sha_then": fields.get("policy_sha"),
                    "explanation": whole.get("explanation"),
                    "text": whole.get("text"),
                }
            )
    compared = counts["both"]
    shares: JSON = {}
    for name in ("changed", "turned", "agreed_then", "agrees_now"):
        share = counts[name] / compared if compared else None
        interval = None if share is None else wilson_interval(share, compared)
        shares[name] = {"count": counts[name], "of": compared, "share": share, "interval": interval}
    return {
        "policy": run.get("policy"),
        "graph": run.get("graph"),
        "posts": run.get("n"),
        "results": sum(outcomes.values()),
        "outcomes": dict(outcomes),
        "rehearsed": counts["rehearsed"],
        "no_verdict_then": counts["none_before"],
        "compared": compared,
        "then": [
            {**dict(zip(_OF_CASES, key, strict=True)), "posts": number}
            for key, number in then.most_common()
        ],
        **shares,
        "put_right": counts["put_right"],
        "put_wrong": counts["put_wrong"],
        "moves": [
            {"from": old, "to": new, "posts": number} for (old, new), number in moves.most_common()
        ],
        "by_clause": [
            {"clause": clause, **{name: counted[name] for name in ("then", "now", *_OF_CLAUSE)}}
            for clause, counted in sorted(by_clause.items())
        ],
        "changes": listed,
    }
