"""A report on runs: one HTML page that loads nothing from anywhere, and the same as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tribunal.errors import BadInput
from tribunal.eval.datasets.sampling import IN_ORDER, SHUFFLED
from tribunal.eval.measures.columns import read_columns
from tribunal.eval.measures.compare import compare_all
from tribunal.eval.measures.consistency import compare_every
from tribunal.eval.measures.metrics import fitted_on_in_words, measures
from tribunal.eval.measures.switches import switches
from tribunal.eval.report.charts import reliability, risk_coverage
from tribunal.eval.report.images import images_in_words, lacking
from tribunal.eval.report.names import named_by_the_policy, words_of_the_set
from tribunal.eval.report.overview import HEADLINE, baselines, overview, trades
from tribunal.eval.report.page import html, markdown
from tribunal.eval.report.posts import LONGEST, uncertain, wrong
from tribunal.eval.report.published import CITATION, TEST_POSTS, paper_table
from tribunal.eval.report.savings import spared
from tribunal.eval.runs.prices import kept_prices
from tribunal.eval.runs.rungs import mixed_in_words
from tribunal.eval.view.single import write_samples
from tribunal.files import write_whole

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Columns
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
_LONGEST_SETTING = 300
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
    shown = [_run(columns, most, prices, cluster) for columns in runs]
    rows = [run["overview"] for run in shown]
    pairs = compare_all(runs, cluster=cluster)
    held = {
        "names": _HEADLINE,
        "first": HEADLINE,
        "scores": _OF_CONFIDENCE,
        "runs": shown,
        "warnings": _together(shown, "warnings"),
        "notes": _together(shown, "notes"),
        "rows": rows,
        "baselines": baselines(rows),
        "trades": trades(rows),
        "pairs": pairs,
        "spared": [
            row
            for columns, run in zip(runs, shown, strict=True)
            for row in spared(columns, run["m"], prices or kept_prices(columns.folder))
        ],
        "switches": switches(runs, pairs, prices=prices, cluster=cluster),
        "consistent": compare_every(runs),
        "most": most,
        "few": _FEW,
        "longest": LONGEST,
        "citation": CITATION,
        "test_posts": TEST_POSTS,
    }
    page, text = out / PAGE, out / TEXT
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(page, html(held))
        write_whole(text, markdown(held))
    except OSError as error:
        raise BadInput(f"out: {out}: {error.strerror}; give a folder that can be written") from error
    return page, text, write_samples(folders, out, most=most, prices=prices)


def _run(read: Columns, most: int, prices: Prices | None, cluster: str | None) -> JSON:
    columns = named_by_the_policy(read)
    measured = measures(columns, cluster=cluster)
    calibration = measured["calibration"]
    return {
        "name": columns.folder.resolve().name,
        "overview": overview(columns, measured, prices),
        "settings": list(_flat(_as_run(columns))),
        "warnings": list(_warnings(measured, columns.run)),
        "notes": _notes(measured),
        "order": _order(columns.run),
        "outcomes": _outcomes(measured),
        "intervals": _intervals(measured["clusters"]),
        "words_of_the_set": words_of_the_set(read, columns),
        "m": measured,
        "groups": [(title, _present(measured[name])) for name, title in _GROUPS.items() if _present(measured[name])],
        "cost": [(title, measured["cost"][name]) for name, title in _COST.items() if name in measured["cost"]],
        "reliability": reliability(calibration) if calibration["n"] else None,
        "risk_coverage": risk_coverage(calibration) if calibration["n"] else None,
        "paper": paper_table(columns.run, measured),
        "reported": [
            ("Wrong verdicts", "the most confident first", wrong(columns, most)),
            ("Uncertain posts", "the least confident first", uncertain(columns, most)),
        ],
    }


def _as_run(columns: Columns) -> JSON:
    """run.json, with no policy that no model was shown."""
    if columns.n and not columns.told and columns.run.get("policy"):
        return {**columns.run, "policy": "none was shown to a model"}
    return columns.run


def _order(run: JSON) -> str:
    """In which order the posts were taken, which measures of an unfinished run rest on."""
    sampling = run.get("sampling") or {}
    order = sampling.get("order")
    if not order:
        return ""
    seed = f" ({sampling.get('seed')})" if order == SHUFFLED else ""
    return f"posts taken {order}{seed}"


def _outcomes(measured: JSON) -> str:
    told = [f"{measured[name]:,} {name}" for name in ("verdicts", "refusals", "failures", "pending")]
    rest = {"uncertain": "uncertain", "unlabelled": "without gold"}
    return ", ".join([*told, *(f"{measured[name]:,} {title}" for name, title in rest.items() if measured[name])])


def _intervals(clusters: JSON) -> str:
    """What intervals rest on: posts that hang together are drawn together."""
    if clusters["by"] == "post" or clusters["largest"] <= 1:
        return "Intervals at 95 %, over posts."
    kind = "with nearly the same text" if clusters["by"] == "near-duplicates" else f"of one {clusters['by']}"
    said = "as the data set declares" if clusters["declared"] else "as was found"
    return (
        f"Intervals at 95 %, over clusters: posts {kind} are taken together, {said}; {clusters['n']:,} clusters, the "
        f"largest of {clusters['largest']:,} posts."
    )


def _warnings(measured: JSON, run: JSON) -> Iterator[str]:
    """What a reader has to know before any figure."""
    if measured["rehearsed"]:
        yield (
            f"The rehearsal model took part in {measured['rehearsed']:,} of {measured['n']:,} results. It follows a "
            "few written rules and is no moderator: these figures say nothing of any model or method."
        )
    if unseen := measured["cost"].get("unseen_calls"):
        yield (
            f"The graph made {unseen['total']:,} calls to models by itself, past `ask`: no figure of calls, tokens or "
            "cost has them, and the run stays off the front of cost and accuracy."
        )
    if measured["missing"]:
        yield f"This run isn't finished: {measured['missing']:,} results are missing."
        if (run.get("sampling") or {}).get("order") == IN_ORDER:
            yield "Its posts were taken as in their files, which are often sorted: these figures are of the first ones."
    if mixed := mixed_in_words(measured["rungs"]):
        yield f"{mixed}."
    if fitted_on := fitted_on_in_words(measured):
        yield f"{fitted_on[0].upper()}{fitted_on[1:]}."
    if (text_alone := lacking(measured["images"])) is not None:
        yield text_alone
    if not measured["n"]:
        yield "There are no results yet."
    elif measured["unlabelled"] == measured["n"]:
        yield "No post has a gold label: there is nothing to measure verdicts against."
    if measured["failures"]:
        yield (
            f"{measured['failures']:,} of {measured['n']:,} results are technical failures: read the headline beside "
            "the column that counts errors."
        )


def _notes(measured: JSON) -> list[str]:
    images = images_in_words(measured["images"])
    return [f"{images}."] if images and lacking(measured["images"]) is None else []


def _together(runs: Sequence[JSON], kind: str) -> list[tuple[list[str], str]]:
    """What is said of runs, once each, with the names of those that it is said of."""
    held: dict[str, list[str]] = {}
    for run in runs:
        for said in run[kind]:
            held.setdefault(said, []).append(run["name"])
    return [(names, said) for said, names in held.items()]


def _present(groups: JSON) -> JSON:
    return {name: group for name, group in groups.items() if group["n"]}


def _flat(held: Any, under: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings, a line each, such as settings.judge_model."""
    if isinstance(held, dict) and (held or not under):
        for name, value in held.items():
            yield from _flat(value, f"{under}.{name}" if under else str(name))
        return
    shown = held if isinstance(held, str) else json.dumps(held, ensure_ascii=False)
    yield under, shown if len(shown) <= _LONGEST_SETTING else f"{shown[:_LONGEST_SETTING]} …"
