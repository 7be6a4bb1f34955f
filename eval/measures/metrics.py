"""All the measures of a run, under stable names: what `metrics.json` holds. docs/measures.md defines each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.measures import bootstrap
from tribunal.eval.measures.baselines import baselines
from tribunal.eval.measures.calibration import calibration
from tribunal.eval.measures.clusters import Clusters, clusters_of
from tribunal.eval.measures.columns import GROUPS, Columns, read_columns
from tribunal.eval.measures.consistency import consistency
from tribunal.eval.measures.cost import cost
from tribunal.eval.measures.intervals import intervals
from tribunal.eval.measures.rates import LEVEL
from tribunal.eval.measures.repeats import over_agents, over_repeats
from tribunal.eval.measures.saved import saved
from tribunal.eval.measures.scores import (
    binary_accuracy,
    binary_accuracy_interval,
    binary_scores,
    by_label,
    confusion,
    scores,
    without_verdict,
)  # fmt: skip
from tribunal.eval.runs.journal import Unwritten
from tribunal.eval.runs.rungs import rungs
from tribunal.files import write_whole

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Ints
    from tribunal.schema import JSON

METRICS = "metrics.json"
BEYOND_EASY = "Normal + Hard"
DIFFICULTIES = ("Easy", "Normal", "Hard", BEYOND_EASY)
PATTERNS = ("000", "001", "010", "011", "100", "101", "110", "111")
# Named in every metrics.json, with nothing in them where the set has no such posts.
_ALWAYS = {"by_difficulty": DIFFICULTIES, "by_pattern": PATTERNS}
MOST_GROUPS = 100


def metrics(folder: Path, *, cluster: str | None = None) -> JSON:
    """The measures of a run, finished or not.

    Args:
        folder: the run's.
        cluster: the field by which posts belong together (`clusters_of`).

    Returns:
        Fractions, never percent; None where a measure isn't defined. `counting_errors` beside the headline, and in each
        group, takes every labelled post without a verdict for a wrong answer.

    Raises:
        BadInput: the folder is no run's, one of its files is broken, or no post has the field.
    """
    return measures(read_columns(folder), cluster=cluster)


def write_metrics(folder: Path, *, cluster: str | None = None) -> JSON:
    """Write metrics.json into a run's folder; returns what it holds.

    Raises:
        BadInput: as `metrics`.
        Unwritten: the file can't be written.
    """
    return keep_metrics(folder, metrics(folder, cluster=cluster))


def keep_metrics(folder: Path, measured: JSON) -> JSON:
    """Write measures into a run's folder; returns them.

    Raises:
        Unwritten: the file can't be written.
    """
    path = folder / METRICS
    try:
        write_whole(path, json.dumps(measured, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    except OSError as error:
        raise Unwritten(
            f"{path}: can't be written: {error.strerror}; make room, or let the folder be written"
        ) from error
    return measured


def measures(columns: Columns, *, cluster: str | None = None) -> JSON:
    """The measures of results that have been read; as `metrics`."""
    clusters = clusters_of(columns, cluster)
    headline, spans = scores(columns), intervals(columns, clusters)
    counting, counting_spans = headline.pop("counting_errors"), spans.pop("counting_errors")
    return {
        "graph": columns.run.get("graph"),
        "dataset": columns.run.get("dataset"),
        "scheme": columns.scheme,
        **_counts(columns),
        "clusters": clusters.described(),
        **headline,
        "intervals": spans,
        "counting_errors": {**counting, "intervals": counting_spans},
        "baselines": baselines(columns),
        "bootstrap": {"resamples": bootstrap.RESAMPLES, "level": LEVEL, "seed": bootstrap.SEED},
        "binary": binary_scores(columns),
        "confusion": confusion(columns),
        "by_label": by_label(columns, clusters),
        **{name: _by_group(columns, clusters, name) for name in GROUPS},
        "images": {**columns.images._asdict(), "left_out": (columns.run.get("images") or {}).get("left_out", 0)},
        "rungs": rungs(columns.asked),
        "over_repeats": over_repeats(columns, clusters),
        "over_agents": over_agents(columns, clusters),
        "consistency": consistency(columns),
        "calibration": calibration(columns, clusters),
        "cost": cost(columns),
        "saved": saved(columns, clusters),
        **_fitted_on(columns),
    }


def _fitted_on(columns: Columns) -> JSON:
    """Of a run with a fitted first look: on how many of its labelled posts that was fitted; None: it isn't known."""
    if not columns.run.get("first_look"):
        return {}
    from tribunal.eval.measures.cascade_first_look import fitted_on_by_run, signed

    known = fitted_on_by_run(columns.run, columns.folder)
    if isinstance(known, str):
        return {"fitted_on": None}
    posts = sorted({*columns.post[columns.labelled].tolist()})
    try:
        ids, written = zip(*((columns.ids[post], columns.signatures[post]) for post in posts), strict=True)
        return {"fitted_on": int(known.holds(signed(columns.folder, ids, written, None)).sum())}
    except (BadInput, ValueError):  # there are neither signatures nor texts, or no post is labelled
        return {"fitted_on": None}


def fitted_on_in_words(measured: JSON) -> str | None:
    """A warning where a first look of the run was fitted on its posts; None where it wasn't, or there is none."""
    if not (many := measured.get("fitted_on")):
        return None
    return (
        f"the first look was fitted on {many:,} of these posts, or on nearly the same, so that the figures flatter it; "
        "give a run over other posts (tribunal first-look fit --hold-out)"
    )


def _counts(columns: Columns) -> JSON:
    chosen, repeats = columns.run.get("n"), columns.run.get("repeats", 1)
    whole = chosen * repeats if isinstance(chosen, int) and isinstance(repeats, int) else None
    return {
        "n": columns.n,
        "posts": len(columns.ids),
        "missing": None if whole is None else max(0, whole - columns.n),
        "verdicts": columns.count("verdict"),
        **without_verdict(columns, np.arange(columns.n)),
        "uncertain": int(columns.uncertain.sum()),
        "unlabelled": int((~columns.labelled).sum()),
        "decided": int(columns.decided.sum()),
        "rehearsed": columns.rehearsed,
    }


def _by_group(columns: Columns, clusters: Clusters, name: str) -> JSON:
    held = dict(columns.groups[name])
    if name == "by_difficulty":  # both at once, as H-VLI's own table has it
        held[BEYOND_EASY] = np.sort(np.concatenate([held.get(each, np.arange(0)) for each in DIFFICULTIES[1:3]]))
    largest = sorted(held, key=lambda value: (-len(held[value]), value))[:MOST_GROUPS]
    named = [*_ALWAYS.get(name, ()), *sorted(set(largest) - set(_ALWAYS.get(name, ())))]
    return {value: _of_group(columns, clusters, held.get(value, np.arange(0))) for value in named}


def _of_group(columns: Columns, clusters: Clusters, rows: Ints) -> JSON:
    headline, spans = scores(columns, rows), intervals(columns, clusters, rows)
    counting, counting_spans = headline.pop("counting_errors"), spans.pop("counting_errors")
    return {
        "n": len(rows),
        **without_verdict(columns, rows),
        **headline,
        "intervals": {**spans, "binary_accuracy": binary_accuracy_interval(columns, clusters, rows)},
        "counting_errors": {**counting, "intervals": counting_spans},
        "binary_accuracy": binary_accuracy(columns, rows),
    }
