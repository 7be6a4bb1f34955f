"""Measure what two prompt sets change: accuracy, verdicts, tokens and cost, and which prompt changed which verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tribunal.eval.measures.clusters import Clusters, clusters_of
from tribunal.eval.measures.columns import RunColumns, read_columns
from tribunal.eval.measures.comparison import compare_accuracy, compare_groups, compare_runs, correct_by_holm, same_data
from tribunal.eval.measures.costs import cost_of_asking
from tribunal.eval.prompt_sets.differences import list_differences
from tribunal.eval.prompt_sets.plan import ComparisonPlan
from tribunal.eval.report.page import render_template
from tribunal.eval.runs.final_looks import final_look_in_words
from tribunal.eval.runs.journal import RESULTS, report_unwritten
from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.results import read_results
from tribunal.files import write_whole
from tribunal.prompts.catalogue import CATALOGUE
from tribunal.schema import JSON

MEASURED, PAGE = "comparison.json", "comparison.md"


class Answer(NamedTuple):
    """The outcome of a post in its first repeat: its category or why it has none, and whether that is its gold."""

    words: str
    gold: str | None
    right: bool | None  # None without a gold label or a verdict


def compare_prompt_sets(plan: ComparisonPlan, prices: Prices | None, *, cluster: str | None = None) -> JSON:
    """Compare the runs of a plan, as far as they have results.

    Args:
        plan: the comparison.
        prices: what calls cost; None where nothing is known.
        cluster: the field by which posts belong together (`tribunal.eval.measures.clusters`).

    Returns:
        `overall` as `compare_runs`, and `groups` as `compare_groups`, None and empty if the posts have no gold label;
        `changes`, the posts whose verdict differs; `by_prompt`, for every prompt that was exchanged alone, what it
        changed; `costs`, what asking takes with each set, answers from the cache included.

    Raises:
        BadInput: a file of a run is broken, or no post has the field.
    """
    first, second, *others = (
        read_columns(plan.out / ready.run.name) if (plan.out / ready.run.name / RESULTS).exists() else None
        for ready in plan.ready_runs
    )
    held: JSON = {
        "graph": plan.ready_runs[0].job.graph,
        "data": plan.data,
        "posts": plan.ready_runs[0].job.count,
        "sets": {
            side: {"tuned_for": None, **one.dump(), "run": ready.run.name}
            for side, one, ready in zip("AB", (plan.first, plan.second), plan.ready_runs, strict=False)
        },
        "differences": [each.as_json() for each in list_differences(plan.first, plan.second)],
        "final": final_look_in_words(first.run, first.folder) if first else None,
        "rehearsed": 0, "overall": None, "groups": {}, "costs": {}, "changes": [], "by_prompt": [],
    }  # fmt: skip
    if first is None or second is None:
        return held
    rehearsed = sum(each.rehearsed for each in (first, second, *others) if each is not None)
    compared = compare_runs(first, second, cluster=cluster)
    before, after = _answers_of_run(first), _answers_of_run(second)
    exchanged = {name: each for name, each in zip(plan.exchanged.values(), others, strict=True) if each is not None}
    clusters = clusters_of(first, cluster)
    by_prompt = [_effect_of_prompt(name, first, each, before, clusters) for name, each in exchanged.items()]
    correct_by_holm([each["accuracy"] for each in by_prompt if each["accuracy"] is not None])
    changed_by: dict[str, list[str]] = {}
    for each in by_prompt:
        for change in each["changes"]:
            changed_by.setdefault(change["post"], []).append(each["prompt"])
    changes = _list_changes(before, after)
    return {
        **held,
        "rehearsed": rehearsed,
        "overall": compared,
        "groups": compare_groups(first, second, cluster=cluster) if compared else {},
        "costs": {side: _cost_of_set(each, prices) for side, each in zip("AB", (first, second), strict=True)},
        "changes": [{**each, "changed_by": changed_by.get(each["post"], [])} for each in changes],
        "by_prompt": by_prompt,
    }


def write_comparison(out: Path, held: JSON) -> None:
    """Write a comparison into its folder, as JSON and as a page; raise `OutputUnwritten` if that can't be done."""
    with report_unwritten(f"out: {out}"):
        write_whole(out / MEASURED, json.dumps(held, indent=2, ensure_ascii=False) + "\n")
        write_whole(out / PAGE, render_template("prompts.md.jinja", {"c": held}))


def _answers_of_run(columns: RunColumns) -> dict[str, Answer]:
    found = {}
    for (_, result), right in zip(read_results(columns.folder), columns.is_right.tolist(), strict=True):
        if not result.repeat:
            decided = result.outcome == "verdict"
            found[result.post_id] = Answer(
                words=str(result.category if decided else result.outcome),
                gold=result.gold.name if result.gold else None,
                right=right if decided and result.gold else None,
            )
    return found


def _list_changes(before: Mapping[str, Answer], after: Mapping[str, Answer]) -> list[JSON]:
    """Return the posts of both whose outcome differs, with both outcomes and what became of them."""
    changes = []
    for post in sorted(before.keys() & after.keys()):
        one, other = before[post], after[post]
        if one.words != other.words:
            became = None if one.right == other.right else "right" if other.right else "wrong" if one.right else None
            changes.append({"post": post, "gold": one.gold, "from": one.words, "to": other.words, "became": became})
    return changes


def _effect_of_prompt(
    name: str, first: RunColumns, exchanged: RunColumns, before: Mapping[str, Answer], clusters: Clusters
) -> JSON:
    """Return what one exchanged prompt changed: the posts, and the accuracy, None if the posts have no gold label."""
    changes = _list_changes(before, _answers_of_run(exchanged))
    part = CATALOGUE.get(name)
    became = [each["became"] for each in changes]
    return {
        "prompt": name,
        "seat": part.seat if part else "",
        "run": exchanged.folder.name,
        "changed": len(changes),
        "put_right": became.count("right"),
        "put_wrong": became.count("wrong"),
        "accuracy": compare_accuracy(first, exchanged, clusters) if same_data(first, exchanged) else None,
        "changes": changes,
    }


def _cost_of_set(columns: RunColumns, prices: Prices | None) -> JSON:
    """Return what asking about the posts of a run takes: in all, and a result in the mean."""
    cost = cost_of_asking(columns.folder, columns.ids, prices)
    results = max(1, int(cost.results.sum()))
    totals = {"calls": cost.calls.sum(), "tokens": cost.tokens.sum()}
    totals |= {} if cost.money is None or prices is None else {"money": cost.money.sum()}
    return {name: {"total": float(total), "mean": float(total) / results} for name, total in totals.items()}
