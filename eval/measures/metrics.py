"""All the measures of a run, under stable names: what `metrics.json` holds. docs/measures.md defines each."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tribunal.eval.measures import rates as bootstrap
from tribunal.eval.measures.agreement import (
    measure_consistency,
    measure_perspectives,
    measure_repeats,
)
from tribunal.eval.measures.calibration import CELLS_OF_GROUP, POINTS_OF_GROUP, measure_calibration
from tribunal.eval.measures.clusters import Clusters, clusters_of
from tribunal.eval.measures.columns import MEASURED_GROUPS, RunColumns, read_columns
from tribunal.eval.measures.costs import measure_cost, measure_group_cost, measure_savings
from tribunal.eval.measures.group_swap import measure_group_swap
from tribunal.eval.measures.rates import LEVEL
from tribunal.eval.measures.records import measure_records
from tribunal.eval.measures.scores import (
    binary_accuracy,
    binary_scores,
    confusion_as_json,
    count_without_verdict,
    score_baselines,
    score_rows,
    scores_by_label,
)  # fmt: skip
from tribunal.process.files import write_whole
from tribunal.runner.journal import report_unwritten
from tribunal.runner.tally import count_empty_reasons, response_format_shares
from tribunal.schema import JSON

METRICS = "metrics.json"
BEYOND_EASY = "Normal + Hard"
DIFFICULTIES = ("Easy", "Normal", "Hard", BEYOND_EASY)
PATTERNS = ("000", "001", "010", "011", "100", "101", "110", "111")
# Named in every metrics.json, with nothing in them where the set has no such posts.
_ALWAYS = {"by_difficulty": DIFFICULTIES, "by_pattern": PATTERNS}
MOST_GROUPS = 100
# In whose groups confidence and cost are measured, too.
DETAILED = ("by_functionality", "by_language")


def measure_run(folder: Path, *, cluster: str | None = None) -> JSON:
    """Measure a run, finished or not.

    Args:
        folder: the run's.
        cluster: the field by which posts belong together (`clusters_of`).

    Returns:
        Fractions, never percent; None where a measure isn't defined. `counting_errors` beside the headline, and in each
        group, takes every labelled post without a verdict for a wrong answer.

    Raises:
        BadInput: the folder is no run's, one of its files is broken, or no post has the field.
    """
    return measure_columns(read_columns(folder), cluster=cluster)


def save_metrics(folder: Path, measured: JSON) -> JSON:
    """Write measures into a run's folder; returns them.

    Raises:
        Unwritten: the file can't be written.
    """
    path = folder / METRICS
    with report_unwritten(path):
        write_whole(
            path, json.dumps(measured, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        )
    return measured


def measure_columns(columns: RunColumns, *, cluster: str | None = None) -> JSON:
    """Measure results that have been read; as `measure_run`."""
    clusters = clusters_of(columns, cluster)
    planned = columns.planned_count
    return {
        "graph": columns.run.get("graph"),
        "dataset": columns.run.get("dataset"),
        "scheme": columns.scheme,
        "n": columns.row_count,
        "posts": len(columns.ids),
        "missing": None if planned is None else max(0, planned - columns.row_count),
        "verdicts": columns.count_outcome("verdict"),
        **count_without_verdict(columns, np.arange(columns.row_count)),
        "uncertain": int(columns.uncertain[columns.has_verdict].sum()),
        "unlabelled": int((~columns.is_labelled).sum()),
        "decided": int(columns.is_decided.sum()),
        "rehearsed": columns.rehearsed,
        "unfit": columns.unfit,
        "clusters": clusters.as_json(),
        **score_rows(columns, clusters=clusters),
        "baselines": score_baselines(columns),
        "bootstrap": {"resamples": bootstrap.RESAMPLES, "level": LEVEL, "seed": bootstrap.SEED},
        "binary": binary_scores(columns),
        "confusion": confusion_as_json(columns),
        "by_label": scores_by_label(columns, clusters),
        **{name: _measure_groups(columns, clusters, name) for name in MEASURED_GROUPS},
        "images": {
            **columns.images._asdict(),
            "left_out": (columns.run.get("images") or {}).get("left_out", 0),
            "labels": columns.run.get("images_left_out"),
        },
        "clauses": {clause: counts._asdict() for clause, counts in columns.cited_clauses.items()},
        "empty_reasons": count_empty_reasons(columns.calls_by_reason),
        "rungs": response_format_shares(columns.calls_by_format),
        "over_repeats": measure_repeats(columns, clusters),
        "over_agents": measure_perspectives(columns, clusters),
        "consistency": measure_consistency(columns),
        "group_swap": measure_group_swap(columns, clusters),
        **measure_records(columns, clusters),
        "calibration": measure_calibration(columns, clusters),
        "cost": measure_cost(columns, clusters),
        "saved": measure_savings(columns, clusters),
    }


def _measure_groups(columns: RunColumns, clusters: Clusters, name: str) -> JSON:
    held = dict(columns.groups[name])
    if name == "by_difficulty":  # both at once, as H-VLI's own table has it
        held[BEYOND_EASY] = np.sort(
            np.concatenate([held.get(each, np.arange(0)) for each in DIFFICULTIES[1:3]])
        )
    largest = sorted(held, key=lambda value: (-len(held[value]), value))[:MOST_GROUPS]
    named = [*_ALWAYS.get(name, ()), *sorted(set(largest) - set(_ALWAYS.get(name, ())))]
    measured = {}
    for value in named:
        rows = held.get(value, np.arange(0))
        share, interval = binary_accuracy(columns, clusters, rows)
        scores = score_rows(columns, rows, clusters)
        scores["intervals"]["binary_accuracy"] = interval
        counts = count_without_verdict(columns, rows)
        measured[value] = {"n": len(rows), **counts, **scores, "binary_accuracy": share}
        if name in DETAILED:
            measured[value]["calibration"] = measure_calibration(
                columns, clusters, rows, points=POINTS_OF_GROUP, cells=CELLS_OF_GROUP
            )
            measured[value]["cost"] = measure_group_cost(columns, clusters, rows)
    return measured
