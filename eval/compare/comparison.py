"""Measure the entries of a comparison on the same posts, test them against each other, and recommend one.

Of the runs whose accuracy can't be told from the best one's (paired test by clusters, Holm over all pairs), the one
that costs least is recommended: by money where every call has a price, otherwise by tokens.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tribunal.eval.compare.entries import Entries
from tribunal.eval.compare.moderation_log import (
    Decisions,
    ModerationLog,
    compare_with_log,
    read_decisions,
    read_log,
)
from tribunal.eval.compare.plan import ComparisonPlan
from tribunal.eval.measures.clusters import clusters_of
from tribunal.eval.measures.columns import NO_LABEL, OUTCOMES, Bools, RunColumns, read_columns
from tribunal.eval.measures.comparison import ALPHA, compare_accuracy, correct_by_holm, same_data
from tribunal.eval.measures.costs import cost_of_asking
from tribunal.eval.measures.group_swap import measure_group_swap
from tribunal.eval.measures.rates import share_interval
from tribunal.eval.measures.records import measure_records
from tribunal.eval.measures.rule_change import compare_rule_changes
from tribunal.eval.report.overview import court_values
from tribunal.eval.report.page import render_template
from tribunal.eval.runs.ledger import final_look_in_words
from tribunal.process.files import write_whole
from tribunal.review.table_files import CsvWriter
from tribunal.runner.journal import RESULTS, report_unwritten
from tribunal.runner.prices import Prices
from tribunal.runner.results import read_results
from tribunal.schema import JSON

MEASURED = "comparison.json"
PAGE = "comparison.md"
DIFFERENCES = "differences.csv"
DECISIONS = "decisions"  # the row of decisions that exist already
_RATES = ("agreement", "missed_hate", "wrong_removals", "removed")
_COSTS = (
    "undecided",
    "calls",
    "tokens",
    "money_per_1000",
    "seconds",
    "to_people",
    "hours_per_1000",
)
_OF_COURTS = ("explanations", "debate", "group_swap")  # of runs alone


class Answer(NamedTuple):
    """An entry's first answer on a post: its words, whether it is hate (None without a verdict), and its gold label.

    `right` is None without a verdict or a gold label.
    """

    words: str
    hateful: bool | None
    gold: str | None
    right: bool | None


def compare_entries(plan: ComparisonPlan, prices: Prices | None, cluster: str | None) -> JSON:
    """Measure the entries as far as they have results.

    Args:
        plan: the comparison.
        prices: the prices of calls; None: no money is shown.
        cluster: the field by which posts belong together (`tribunal.eval.measures.clusters`).

    Returns:
        The content of comparison.json; and under `differing` the posts that only a log or only we remove.

    Raises:
        BadInput: a file of a run is broken, no post has the field, or a log has none of the decided posts.
    """
    entries = plan.entries
    runs = {
        name: read_columns(plan.out / name)
        for name in entries.runs
        if (plan.out / name / RESULTS).exists()
    }
    compared = _begin(
        entries, [name for name in entries.entries if runs and (name in runs or name in plan.logs)]
    )
    if not runs:
        return compared
    rows = compared["entries"]
    first_name, first = next(iter(runs.items()))
    clusters = clusters_of(first, cluster)
    columns = {
        name: runs[name] if name in runs else _columns_of_log(plan.logs[name], first)
        for name in rows
    }
    for name, each in columns.items():
        rows[name] |= _measure_verdicts(each, cluster)
        if name in runs:
            # What a post takes: calls, tokens, money, seconds, and the hours of reviewers.
            cost = cost_of_asking(each.folder, each.ids, prices)
            results = max(1, each.row_count)
            money = (
                None
                if cost.money is None or prices is None
                else 1000 * float(cost.money.sum()) / results
            )
            to_people = float((~each.has_verdict | (each.uncertain == 1)).sum()) / results
            rows[name] |= {
                "calls": float(cost.calls.sum()) / results,
                "tokens": float(cost.tokens.sum()) / results,
                "money_per_1000": money,
                "seconds": float(each.seconds.sum()) / results,
                "to_people": to_people,
                "hours_per_1000": to_people * 1000 * entries.seconds_per_case / 3600,
            }
            own_clusters = clusters_of(each, cluster)
            rows[name] |= measure_records(each, own_clusters)
            rows[name]["group_swap"] = measure_group_swap(each, own_clusters)
            rows[name]["prompts"] = (
                plan.prompt_sets[name].dump() if name in plan.prompt_sets else None
            )
        else:
            decisions = Decisions(read_decisions(plan.out / first_name), first_name)
            _add_removal(compared, name, plan.logs[name], decisions)
    # The paired test of each two entries over gold-labelled posts; p_holm is corrected for their number.
    pairs: list[JSON] = [
        {"first": first, "second": second, "accuracy": compare_accuracy(one, other, clusters)}
        for (first, one), (second, other) in combinations(columns.items(), 2)
        if same_data(one, other)
    ]
    correct_by_holm([pair["accuracy"] for pair in pairs])
    _add_changes(rows, columns, pairs, set(plan.logs))
    best, like_it = _find_best({name: rows[name] for name in runs}, pairs)
    return {
        **compared,
        "data": plan.data,
        "pairs": pairs,
        "best": best,
        "like_it": like_it,
        "recommended": _find_cheapest([best, *like_it], rows) if best else None,
        "rule_changes": compare_rule_changes(list(runs.values()), cluster=cluster),
        "prompt_differences": plan.prompt_differences(),
        "final": final_look_in_words(first.run, first.folder),
        "rehearsed": sum(each.rehearsed for each in runs.values()),
    }


def compare_with_decisions(entries: Entries, decisions: Decisions) -> JSON:
    """Compare moderation logs with decisions that exist already; nothing is run. Without gold labels most is None.

    Returns:
        As `compare_entries`.

    Raises:
        BadInput: a log can't be read, or has none of the decided posts.
    """
    compared = _begin(entries, list(entries.logs))
    compared["entries"] = {DECISIONS: _blank_row(DECISIONS), **compared["entries"]}
    for name, entry in entries.logs.items():
        _add_removal(compared, name, read_log(entry), decisions)
        removal = compared["removal"][name]
        for row, removals in ((name, removal), (DECISIONS, removal["nearest"])):
            rate = {
                "n": removal["posts"],
                "value": removals["share"],
                "interval": removals["share_interval"],
            }
            compared["entries"][row] |= {"posts": removal["posts"], "removed": rate}
    return compared


def write_comparison(out: Path, compared: JSON) -> None:
    """Write comparison.json, comparison.md and, with a log, differences.csv: posts that only it or only we remove.

    Raises:
        OutputUnwritten: the folder can't be written.
    """
    with report_unwritten(f"out: {out}"):
        out.mkdir(parents=True, exist_ok=True)
        if compared["removal"]:
            text = io.StringIO(newline="")
            columns = ("log", "id", "removed_by", "score", "probability")
            table = CsvWriter(text)
            table.write_row(columns)
            for post in compared["differing"]:
                table.write_row(post[name] for name in columns)
            write_whole(out / DIFFERENCES, text.getvalue())
        measured = [(name, row) for name, row in compared["entries"].items() if row["explanations"]]
        court = court_values(measured, compared["rule_changes"])
        content = {name: value for name, value in compared.items() if name != "differing"}
        write_whole(out / MEASURED, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        write_whole(
            out / PAGE, render_template("compare.md.jinja", {"c": compared, "court": court})
        )


def _begin(entries: Entries, names: Sequence[str]) -> JSON:
    """Return comparison.json before anything is measured."""
    rows = {}
    for name in names:
        entry = entries.entries[name]
        graph = None if entry.kind == "log" else entries.graph_of(entry)
        rows[name] = {**_blank_row(entry.kind), "graph": graph, "says": entry.says}
    return {
        "entries": rows, "seconds_per_case": entries.seconds_per_case, "data": None, "pairs": [], "best": None,
        "like_it": [], "recommended": None, "rule_changes": [], "prompt_differences": {}, "removal": {}, "final": None,
        "rehearsed": 0, "differing": [],
    }  # fmt: skip


def _blank_row(kind: str) -> JSON:
    rates = {name: {"n": 0, "value": None, "interval": None} for name in _RATES}
    beside: JSON = {
        "prompts": None,
        "against_first": None,
        "changes": [],
        **dict.fromkeys(_OF_COURTS),
    }
    return {
        "kind": kind,
        "graph": None,
        "says": "",
        "posts": 0,
        **rates,
        **dict.fromkeys(_COSTS),
        **beside,
    }


def _add_removal(compared: JSON, name: str, log: ModerationLog, decisions: Decisions) -> None:
    removal, posts = compare_with_log(log, decisions)
    compared["removal"][name] = removal
    compared["differing"] += [{"log": name, **each} for each in posts]
    compared["rehearsed"] = max(compared["rehearsed"], removal["rehearsed"])


def _columns_of_log(log: ModerationLog, run: RunColumns) -> RunColumns:
    """Return a log's removals as though they were verdicts of hate, on the posts of a run."""
    removed_by_id = {post.post_id: int(post.removed) for post in log.posts}
    verdicts = np.array([removed_by_id.get(post, NO_LABEL) for post in run.ids], dtype=np.int64)[
        run.post
    ]
    outcomes = np.where(verdicts == NO_LABEL, OUTCOMES.index("pending"), OUTCOMES.index("verdict"))
    return replace(run, outcome=outcomes, label=verdicts, hateful=verdicts, scheme="binary")


def _measure_verdicts(columns: RunColumns, cluster: str | None) -> JSON:
    """Return how many posts an entry has, and the rates of its verdicts with their intervals."""
    clusters = clusters_of(columns, cluster).of_post[columns.post]
    decided = columns.is_decided
    hate = columns.positive == 1
    removed = columns.hateful == 1

    def rate(hits: Bools, among: Bools) -> JSON:
        n = int(among.sum())
        interval = share_interval(clusters, hits, among) if n else None
        return {
            "n": n,
            "value": float((hits & among).sum() / n) if n else None,
            "interval": interval,
        }

    rates = {
        "agreement": rate(columns.is_right, decided),
        "missed_hate": rate(~removed & hate & decided, decided & hate),
        "wrong_removals": rate(removed & ~hate & decided, decided & ~hate),
        "removed": rate(removed & columns.has_verdict, columns.has_verdict),
    }
    posts = len(np.unique(columns.post[columns.outcome != OUTCOMES.index("pending")]))
    return {"posts": posts, "undecided": int((~columns.has_verdict).sum()), **rates}


def _add_changes(
    rows: JSON, columns: Mapping[str, RunColumns], pairs: Sequence[JSON], logs: set[str]
) -> None:
    """Add to each row after the first the posts whose verdict it changes, and the paired test against the first."""
    answers = {name: _first_answers(each, is_log=name in logs) for name, each in columns.items()}
    first, *others = columns
    for name in others:
        changes = list[JSON]()
        counts = {"right": 0, "wrong": 0}
        for post in sorted(answers[first].keys() & answers[name].keys()):
            before = answers[first][post]
            after = answers[name][post]
            if before.words == after.words or (
                logs & {first, name} and before.hateful == after.hateful
            ):
                continue
            became = None
            if before.right != after.right:
                became = "right" if after.right else "wrong" if before.right else None
            if became:
                counts[became] += 1
            words = {"from": before.words, "to": after.words}
            changes.append({"post": post, "gold": before.gold, **words, "became": became})
        tests = (
            pair["accuracy"] for pair in pairs if (pair["first"], pair["second"]) == (first, name)
        )
        made = {"changed": len(changes), "put_right": counts["right"], "put_wrong": counts["wrong"]}
        rows[name] |= {"changes": changes, "against_first": {**made, "accuracy": next(tests, None)}}


def _first_answers(columns: RunColumns, *, is_log: bool) -> dict[str, Answer]:
    """Return the answer on each post in its first repeat; of a log, on the posts that it has."""
    answers = {}
    for row, (_, result) in enumerate(read_results(columns.folder)):
        has_verdict = bool(columns.has_verdict[row])
        hateful = bool(columns.hateful[row] == 1)
        if result.repeat or (is_log and not has_verdict):
            continue
        words = str(result.category if has_verdict else result.outcome)
        answers[result.post_id] = Answer(
            words=("removed" if hateful else "kept") if is_log else words,
            hateful=hateful if has_verdict else None,
            gold=result.gold.name if result.gold else None,
            right=bool(columns.is_right[row]) if has_verdict and result.gold else None,
        )
    return answers


def _find_best(rows: Mapping[str, JSON], pairs: Sequence[JSON]) -> tuple[str | None, list[str]]:
    """Return the run that agrees most with the gold labels, and the runs that can't be told from it."""
    rated = {
        name: row["agreement"]["value"]
        for name, row in rows.items()
        if row["agreement"]["value"] is not None
    }
    if not rated:
        return None, []
    best = max(rated, key=lambda name: rated[name])
    differing = set()
    for pair in pairs:
        p = pair["accuracy"]["p_holm"]
        if best in (pair["first"], pair["second"]) and p is not None and p < ALPHA:
            differing |= {pair["first"], pair["second"]}
    return best, [name for name in rated if name != best and name not in differing]


def _find_cheapest(names: Sequence[str], rows: Mapping[str, JSON]) -> str:
    priced = all(rows[name]["money_per_1000"] is not None for name in names)
    return min(names, key=lambda name: rows[name]["money_per_1000" if priced else "tokens"])
