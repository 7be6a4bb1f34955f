"""A report on runs: one HTML page that loads nothing from anywhere, and the same as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tribunal.errors import BadInput
from tribunal.eval.datasets.sampling import IN_ORDER, SHUFFLED
from tribunal.eval.measures.columns import read_columns
from tribunal.eval.measures.comparison import compare_all_pairs
from tribunal.eval.measures.consistency import compare_consistency_of_all
from tribunal.eval.measures.costs import savings_of_run
from tribunal.eval.measures.metrics import fitted_on_in_words, measure_columns
from tribunal.eval.measures.switches import compare_settings
from tribunal.eval.report.charts import reliability_chart, risk_coverage_chart
from tribunal.eval.report.overview import (
    CITATION,
    HEADLINE,
    TEST_POSTS,
    baseline_rows,
    cost_trades,
    overview_row,
    paper_table,
)
from tribunal.eval.report.page import render_template
from tribunal.eval.report.posts import LONGEST, uncertain_posts, wrong_posts
from tribunal.eval.report.wording import (
    dataset_label_words,
    images_in_words,
    missing_images_warning,
    name_labels_by_policy,
)
from tribunal.eval.runs.prices import prices_of_run
from tribunal.eval.runs.tally import warn_of_mixed_formats
from tribunal.eval.view.rendering import flatten_settings
from tribunal.eval.view.samples_file import write_samples
from tribunal.files import write_whole

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import RunColumns
    from tribunal.eval.runs.prices import Prices
    from tribunal.schema import JSON

PAGE, TEXT = "report.html", "report.md"
MOST = 50
_HEADLINE = {
    "accuracy": "Accuracy",
    "macro_f1": "Macro-F1",
    "weighted_f1": "Weighted-F1",
    "precision": "Precision",
    "recall": "Recall",
    "f1": "F1",
}
_GROUPS = {
    "by_difficulty": "difficulty",
    "by_pattern": "SMI pattern",
    "by_functionality": "functionality",
    "by_target": "target group",
    "by_implicit": "implicit",
}
_COST = {
    "calls": "calls",
    "tokens": "tokens",
    "prompt_tokens": "tokens in",
    "completion_tokens": "tokens out",
    "seconds": "seconds",
    "from_cache": "answers from the cache",
    "cached_tokens": "tokens in, from the provider's cache",
}
_OF_CONFIDENCE = {
    "ece": "expected calibration error",
    "ece_debiased": "the same, without what chance adds",
    "brier": "Brier score",
    "aurc": "area under the risk–coverage curve",
    "auroc": "AUROC, right against wrong",
    "auroc_hate": "AUROC, hate against not",
}
_FEW = 8  # groups that stand open; more are folded


def write_report(
    folders: Sequence[Path], out: Path, *, most: int = MOST, prices: Prices | None = None, cluster: str | None = None
) -> tuple[Path, Path, Path]:
    """Write a report on these runs.

    Args:
        folders: the folders of the runs, finished or not.
        out: the folder that report.html, report.md and samples.html go into; made where it is missing.
        most: how many wrong posts, and how many uncertain ones, are shown of each run with what was said of them.
        prices: what calls cost; None takes for each run the prices that it was last given, if it was given any.
        cluster: the field by which posts belong together (`tribunal.eval.measures.clusters`).

    Returns:
        Where the page, the Markdown and the browser of all samples are.

    Raises:
        BadInput: a folder is no run's, one of its files is broken, or the report can't be written.
    """
    runs = [read_columns(folder) for folder in folders]
    shown = [_run_values(columns, most, prices, cluster) for columns in runs]
    rows = [run["overview"] for run in shown]
    pairs = compare_all_pairs(runs, cluster=cluster)
    held = {
        "names": _HEADLINE,
        "first": HEADLINE,
        "scores": _OF_CONFIDENCE,
        "runs": shown,
        "warnings": _group_by_text(shown, "warnings"),
        "notes": _group_by_text(shown, "notes"),
        "rows": rows,
        "baselines": baseline_rows(rows),
        "trades": cost_trades(rows),
        "pairs": pairs,
        "spared": [
            row
            for columns, run in zip(runs, shown, strict=True)
            for row in savings_of_run(columns, run["m"], prices or prices_of_run(columns.folder))
        ],
        "switches": compare_settings(runs, pairs, prices=prices, cluster=cluster),
        "consistent": compare_consistency_of_all(runs),
        "most": most,
        "few": _FEW,
        "longest": LONGEST,
        "citation": CITATION,
        "test_posts": TEST_POSTS,
    }
    page, text = out / PAGE, out / TEXT
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(page, render_template("report.html.jinja", held))
        write_whole(text, render_template("report.md.jinja", held))
    except OSError as error:
        raise BadInput(f"out: {out}: {error.strerror}; give a folder that can be written") from error
    return page, text, write_samples(folders, out, most=most, prices=prices)


def _run_values(read: RunColumns, most: int, prices: Prices | None, cluster: str | None) -> JSON:
    columns = name_labels_by_policy(read)
    measured = measure_columns(columns, cluster=cluster)
    calibration = measured["calibration"]
    return {
        "name": columns.folder.resolve().name,
        "overview": overview_row(columns, measured, prices),
        "settings": list(flatten_settings(_as_run(columns))),
        "warnings": _run_words("warnings", columns, measured),
        "notes": _run_words("notes", columns, measured),
        "order": " ".join(_run_words("order", columns, measured)),
        "outcomes": " ".join(_run_words("outcomes", columns, measured)),
        "intervals": " ".join(_run_words("intervals", columns, measured)),
        "words_of_the_set": dataset_label_words(read, columns),
        "m": measured,
        "groups": [
            (title, _groups_with_posts(measured[name]))
            for name, title in _GROUPS.items()
            if _groups_with_posts(measured[name])
        ],
        "cost": [(title, measured["cost"][name]) for name, title in _COST.items() if name in measured["cost"]],
        "reliability": reliability_chart(calibration) if calibration["n"] else None,
        "risk_coverage": risk_coverage_chart(calibration) if calibration["n"] else None,
        "paper": paper_table(columns.run, measured),
        "reported": [
            ("Wrong verdicts", "the most confident first", wrong_posts(columns, most)),
            ("Uncertain posts", "the least confident first", uncertain_posts(columns, most)),
        ],
    }


def _as_run(columns: RunColumns) -> JSON:
    """Return run.json, without a policy that no model was shown."""
    if columns.row_count and not columns.shown_policy and columns.run.get("policy"):
        return {**columns.run, "policy": "none was shown to a model"}
    return columns.run


def _run_words(part: str, columns: RunColumns, measured: JSON) -> list[str]:
    """Return a part of what is said of a run before its figures, a sentence or several a line."""
    values = {
        "part": part,
        "m": measured,
        "sampling": columns.run.get("sampling") or {},
        "mixed": warn_of_mixed_formats(measured["rungs"]),
        "fitted_on": fitted_on_in_words(measured),
        "images": images_in_words(measured["images"]),
        "text_alone": missing_images_warning(measured["images"]),
        "in_order": IN_ORDER,
        "shuffled": SHUFFLED,
    }
    return render_template("run_words.txt.jinja", values).splitlines()


def _group_by_text(runs: Sequence[JSON], kind: str) -> list[tuple[list[str], str]]:
    """Return each text once, with the names of the runs that it is about."""
    held: dict[str, list[str]] = {}
    for run in runs:
        for said in run[kind]:
            held.setdefault(said, []).append(run["name"])
    return [(names, said) for said, names in held.items()]


def _groups_with_posts(groups: JSON) -> JSON:
    return {name: group for name, group in groups.items() if group["n"]}
