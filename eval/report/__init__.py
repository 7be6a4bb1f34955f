"""A report on runs: one HTML page that loads nothing from anywhere, and the same as Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tribunal.eval.datasets.sampling import IN_ORDER, SHUFFLED
from tribunal.eval.measures.agreement import compare_consistency_of_all
from tribunal.eval.measures.columns import RunColumns, count_failures_as_wrong, read_columns
from tribunal.eval.measures.comparison import compare_all_pairs
from tribunal.eval.measures.costs import compare_settings, money_saved
from tribunal.eval.measures.metrics import DETAILED, measure_columns
from tribunal.eval.measures.own_metric import load_metrics, measure_own_metrics
from tribunal.eval.measures.rule_change import compare_rule_changes
from tribunal.eval.report.answer import answer_of_runs
from tribunal.eval.report.cost_fronts import cost_fronts
from tribunal.eval.report.overview import (
    CITATION,
    LONGEST,
    PAPER_POLICY,
    TEST_POSTS,
    baseline_rows,
    court_values,
    dataset_label_words,
    images_in_words,
    missing_images_warning,
    name_labels_by_policy,
    overview_row,
    paper_table,
    reported_posts,
)
from tribunal.eval.report.page import Axis, output_folder, percent_axis, render_template
from tribunal.eval.report.samples import write_samples
from tribunal.eval.runs.ledger import final_look_in_words
from tribunal.process.files import write_whole
from tribunal.runner.prices import Prices, prices_of_run, warn_of_changed_servers
from tribunal.runner.results import find_chain_fault
from tribunal.runner.tally import warn_of_empty_reasons, warn_of_mixed_formats
from tribunal.schema import JSON

PAGE = "report.html"
TEXT = "report.md"
LATEX = "report.tex"
FIGURES = "report.json"
MOST = 50
# what is said of a run, by part
_WORDS = (
    "warnings",
    "notes",
    "cautions",
    "order",
    "outcomes",
    "intervals",
)


def write_report(
    folders: Sequence[Path],
    out: Path,
    *,
    most: int = MOST,
    prices: Prices | None = None,
    cluster: str | None = None,
    metrics: Sequence[str] = (),
) -> tuple[Path, Path, Path, Path, Path]:
    """Write a report on these runs.

    Args:
        folders: the folders of the runs, finished or not.
        out: the folder that report.html, .md, .tex and .json, and samples.html, go into; made where it is missing.
        most: how many wrong posts, and how many uncertain ones, are shown of each run with what was said of them.
        prices: what calls cost; None takes for each run the prices that it was last given, if it was given any.
        cluster: the field by which posts belong together (`tribunal.eval.measures.clusters`).
        metrics: the user's own, as `module:function` (`tribunal.eval.measures.own_metric`).

    Returns:
        Where the page, the Markdown, the LaTeX, the figures and the browser of all samples are.

    Raises:
        BadInput: a folder is no run's, one of its files is broken, or the report can't be written.
    """
    values = _collect_values(folders, most, prices, cluster, metrics)
    page, text, latex, figures = (out / name for name in (PAGE, TEXT, LATEX, FIGURES))
    with output_folder(out):
        for path in (page, text, latex):
            write_whole(path, render_template(f"{path.name}.jinja", values))
        write_whole(
            figures,
            json.dumps(_figures(values), indent=2, ensure_ascii=False, allow_nan=False) + "\n",
        )
    return page, text, latex, figures, write_samples(folders, out, most=most, prices=prices)


def measure_runs(
    folders: Sequence[Path],
    *,
    prices: Prices | None = None,
    cluster: str | None = None,
    metrics: Sequence[str] = (),
) -> JSON:
    """Return what `write_report` writes into report.json, without writing anything.

    Raises:
        BadInput: a folder is no run's, or one of its files is broken.
    """
    return _figures(_collect_values(folders, 0, prices, cluster, metrics))


def _collect_values(
    folders: Sequence[Path],
    most: int,
    prices: Prices | None,
    cluster: str | None,
    metrics: Sequence[str],
) -> JSON:
    """Return the values that the report's templates show."""
    functions = load_metrics(metrics)
    runs = [read_columns(folder) for folder in folders]
    shown = [_run_values(columns, most, prices, cluster) for columns in runs]
    rows = [run["overview"] for run in shown]
    pairs = compare_all_pairs(runs, cluster=cluster)
    rule_changes = compare_rule_changes(runs, cluster=cluster)
    return {
        "runs": shown,
        "warnings": _group_by_text(shown, "warnings"),
        "notes": _group_by_text(shown, "notes"),
        "rows": rows,
        "answer": answer_of_runs(runs, rows, pairs, cluster),
        "baselines": baseline_rows(rows),
        "fronts": cost_fronts(rows, pairs),
        "pairs": pairs,
        "own_metrics": measure_own_metrics(runs, functions, cluster=cluster),
        "spared": [row for run in shown for row in run["spared"]],
        "switches": compare_settings(runs, pairs, prices=prices, cluster=cluster),
        "consistent": compare_consistency_of_all(runs),
        "court": court_values(((run["name"], run["m"]) for run in shown), rule_changes),
        "most": most,
        "longest": LONGEST,
        "citation": CITATION,
        "test_posts": TEST_POSTS,
    }


def _figures(values: JSON) -> JSON:
    """Return the content of report.json: each run's measures and costs, the fronts, paired tests and rule changes."""
    parts = ("costs", "runs")
    return {
        "answer": values["answer"]["sentences"],
        "runs": [
            {"name": row["name"], "worth": row["worth"], "measured": row["measured"]}
            for row in values["rows"]
        ],
        "fronts": [
            {
                "data": front["data"],
                **{part: front[part] for part in parts},
                "groups": {
                    by: [
                        {"name": each["name"], **{part: each[part] for part in parts}}
                        for each in groups
                    ]
                    for by, groups in front["groups"].items()
                },
            }
            for front in values["fronts"]
        ],
        "pairs": values["pairs"],
        "rule_changes": values["court"]["rule_changes"],
        "own_metrics": values["own_metrics"],
    }


def _run_values(read: RunColumns, most: int, prices: Prices | None, cluster: str | None) -> JSON:
    columns = name_labels_by_policy(read)
    measured = measure_columns(columns, cluster=cluster)
    known = prices or prices_of_run(columns.folder)
    name = columns.folder.resolve().name
    run = columns.run
    if (
        columns.row_count
        and not columns.shown_policy
        and run.get("policy")
        and not run.get("predictions")
    ):
        run = {**run, "policy": "none was shown to a model"}
    paper = paper_table(run, measured)
    if paper is not None and measured["failures"]:
        as_paper = measure_columns(count_failures_as_wrong(columns), cluster=cluster)
        paper = paper_table(run, measured, as_paper)
    return {
        "name": name,
        "overview": overview_row(columns, measured, prices, cluster),
        **{part: _run_words(part, columns, measured) for part in _WORDS},
        "words_of_the_set": dataset_label_words(read, columns),
        "m": measured,
        "risks": _risk_axis(measured),
        "detailed": {
            by: {name: _risk_axis(part) for name, part in measured[by].items()} for by in DETAILED
        },
        "spared": [
            {
                "run": name,
                "what": each,
                "held": held,
                "money": money_saved(columns, each, known) if known else None,
            }
            for each, held in measured["saved"].items()
        ],
        "paper": paper,
        "reported": reported_posts(columns, most),
    }


def _risk_axis(measured: JSON) -> Axis:
    """Return the scale of the risk–coverage curve."""
    risks = [each["risk"] for each in measured["calibration"]["risk_coverage"]]
    return percent_axis(0.0, max(risks, default=0.0) or 0.05)


def _run_words(part: str, columns: RunColumns, measured: JSON) -> list[str]:
    """Return a part of what is said of a run before its figures, a sentence or several a line."""
    policy = columns.run.get("policy")
    values = {
        "part": part,
        "m": measured,
        "refused_by_label": [
            (name, refused, each["n"])
            for name, refused, each in zip(
                measured["confusion"]["names"],
                measured["confusion"]["refusals"],
                measured["by_label"].values(),
                strict=True,
            )
            if refused
        ],
        "policy": policy.get("name") if isinstance(policy, dict) else None,
        "paper_policy": PAPER_POLICY,
        "test_posts": TEST_POSTS,
        "sampling": columns.run.get("sampling") or {},
        "empty_reasons": warn_of_empty_reasons(measured["empty_reasons"]),
        "mixed": warn_of_mixed_formats(measured["rungs"]),
        "changed_servers": warn_of_changed_servers(
            {name: dict(sorted(used.served.items())) for name, used in columns.spent.items()}
        ),
        "chain_fault": find_chain_fault(columns.folder) if part == "warnings" else "",
        "imported": columns.run.get("predictions"),
        "final_look": final_look_in_words(columns.run, columns.folder),
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
