"""Measure setups on the same decided posts: what each gets wrong, takes and leaves to people, and which one to take.

Of the setups whose accuracy can't be told from the best one's (paired test by clusters, Holm over all pairs), the one
that costs least is recommended: by money where every call has a price, else by tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tribunal.eval.evaluate import CACHE, Evaluation
from tribunal.eval.measures.clusters import Clusters, clusters_of
from tribunal.eval.measures.columns import Bools, RunColumns, read_columns
from tribunal.eval.measures.comparison import compare_all_pairs
from tribunal.eval.measures.costs import cost_of_asking
from tribunal.eval.measures.fit import fit_rule, fitting_of
from tribunal.eval.measures.rates import share_interval
from tribunal.eval.measures.risk_control import AgreementPromise, error_of_attempt
from tribunal.eval.report.page import render_template
from tribunal.eval.runs.journal import RESULTS, report_unwritten
from tribunal.eval.runs.prices import Prices
from tribunal.eval.setups.setups_file import SetupsFile, WantedPromise
from tribunal.files import write_whole
from tribunal.schema import JSON

MEASURED, PAGE = "setups.json", "setups.md"
LEVEL = 0.05


def plan_setups(setups: SetupsFile, wanted: Evaluation, out: Path) -> dict[str, Evaluation]:
    """Return what each setup evaluates, by its name: the same posts with its graph and settings."""
    cache = {"cache": str(out / CACHE)}
    return {
        name: wanted.model_copy(
            update={
                "graph": each.graph,
                "settings": {**cache, **wanted.settings, **setups.settings, **each.settings},
            }
        )
        for name, each in setups.setups.items()
    }


def compare_setups(setups: SetupsFile, out: Path, prices: Prices | None, *, cluster: str | None = None) -> JSON:
    """Compare the runs of setups, as far as they have results.

    Args:
        setups: those that were run.
        out: the folder that holds the runs.
        prices: what calls cost; None where nothing is known.
        cluster: the field by which posts belong together.

    Returns:
        `setups`, by name: agreement, missed hate and wrong removals with their intervals, calls, tokens, money and
        seconds a post, and what is left to people, also under `promise`, where one is wanted; `pairs`, the paired
        tests; `recommended`, with `like_it`, the setups whose accuracy can't be told from the best one's; None and
        empty without gold labels.

    Raises:
        BadInput: a file of a run is broken, or no post has the field.
    """
    there = {name: read_columns(out / name) for name in setups.setups if (out / name / RESULTS).exists()}
    held = {name: _measure_setup(each, setups, prices, cluster) for name, each in there.items()}
    pairs = compare_all_pairs(list(there.values()), cluster=cluster)
    best, like_it = _find_best(held, pairs)
    return {
        "setups": {name: {**setups.setups[name].model_dump(include={"graph", "says"}), **held[name]} for name in held},
        "seconds_per_case": setups.seconds_per_case,
        "promise": setups.promise and setups.promise.model_dump(exclude_none=True),
        "pairs": [
            {
                "first": each["first"], "second": each["second"],
                **{key: each["differences"]["accuracy"].get(key) for key in ("difference", "interval", "p", "p_holm")},
            }
            for each in pairs
        ],
        "best": best,
        "like_it": like_it,
        "recommended": _find_cheapest([best, *like_it], held) if best else None,
        "rehearsed": any(each.rehearsed for each in there.values()),
    }  # fmt: skip


def write_setups(out: Path, held: JSON) -> None:
    """Write a comparison into its folder, as JSON and as a page; raise `OutputUnwritten` if that can't be done."""
    with report_unwritten(f"out: {out}"):
        write_whole(out / MEASURED, json.dumps(held, indent=2, ensure_ascii=False) + "\n")
        write_whole(out / PAGE, render_template("setups.md.jinja", {"c": held}))


def _measure_setup(columns: RunColumns, setups: SetupsFile, prices: Prices | None, cluster: str | None) -> JSON:
    grouped = clusters_of(columns, cluster)
    clusters = grouped.of_post[columns.post]
    decided, hate = columns.is_decided, columns.positive == 1
    to_people = ~columns.has_verdict | (columns.uncertain == 1)
    cost, results = cost_of_asking(columns.folder, columns.ids, prices), max(1, columns.row_count)
    money = None if cost.money is None or prices is None else float(cost.money.sum())

    def rate(hits: Bools, among: Bools) -> JSON:
        n = int(among.sum())
        value = float(hits.sum() / n) if n else None
        return {"n": n, "value": value, "interval": share_interval(clusters, hits, among) if n else None}

    return {
        "posts": len(columns.ids),
        "undecided": int((~columns.has_verdict).sum()),
        "agreement": rate(columns.is_right & decided, decided),
        "missed_hate": rate(decided & hate & (columns.hateful == 0), decided & hate),
        "wrong_removals": rate(decided & ~hate & (columns.hateful == 1), decided & ~hate),
        "calls": float(cost.calls.sum()) / results,
        "tokens": float(cost.tokens.sum()) / results,
        "money_per_1000": None if money is None else 1000 * money / results,
        "seconds": float(np.mean(columns.seconds)) if columns.row_count else None,
        **_work_of_people(float(to_people.mean()) if columns.row_count else None, setups),
        "promised": None if setups.promise is None else _work_under_promise(columns, grouped, setups, setups.promise),
    }


def _work_of_people(share: float | None, setups: SetupsFile) -> JSON:
    hours = None if share is None else share * 1000 * setups.seconds_per_case / 3600
    return {"to_people": share, "hours_per_1000": hours}


def _work_under_promise(columns: RunColumns, clusters: Clusters, setups: SetupsFile, wanted: WantedPromise) -> JSON:
    """Return what is left to people where only verdicts are accepted for which the promise is shown.

    The error is shared out over the setups (Bonferroni), so that the promise holds for whichever is taken.

    Returns:
        `shown`, whether any verdict can be accepted; `to_people` and `hours_per_1000`, None without gold labels.
    """
    rows = np.flatnonzero(columns.is_labelled & (columns.repeat == 0))
    if not len(rows):
        return {"shown": False, **_work_of_people(None, setups)}
    fitting = fitting_of(columns, rows, clusters)
    promise = AgreementPromise(**wanted.model_dump())
    rule = fit_rule(fitting, promise, error_of_attempt(1, wanted.level) / len(setups.setups))
    left = 1 - float(rule.accepts(fitting.posts).mean())
    return {"shown": bool(rule), **_work_of_people(left, setups)}


def _find_best(held: Mapping[str, JSON], pairs: Sequence[JSON]) -> tuple[str | None, list[str]]:
    """Return the setup that agrees most with what was decided, and those that can't be told from it."""
    rated = {name: each["agreement"]["value"] for name, each in held.items() if each["agreement"]["value"] is not None}
    if not rated:
        return None, []
    best = max(rated, key=lambda name: rated[name])
    apart = set()
    for each in pairs:
        tested = each["differences"]["accuracy"]
        if best in (each["first"], each["second"]) and tested["p_holm"] is not None and tested["p_holm"] < LEVEL:
            apart |= {each["first"], each["second"]}
    return best, [name for name in rated if name != best and name not in apart]


def _find_cheapest(names: Sequence[str], held: Mapping[str, JSON]) -> str:
    priced = all(held[name]["money_per_1000"] is not None for name in names)
    return min(names, key=lambda name: held[name]["money_per_1000" if priced else "tokens"])
