"""The answer that a report begins with: a sentence for each pair of runs, and one picture. Every format shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tribunal.eval.measures.clusters import clusters_of
from tribunal.eval.measures.columns import OUTCOMES, RunColumns
from tribunal.eval.measures.comparison import ALPHA, compare_macro_f1
from tribunal.eval.report.page import Axis, percent_axis, render_template
from tribunal.schema import JSON

BASELINES = {"always_hate": "always hate", "never_hate": "never hate"}
_WIDTH = 50  # characters of a picture in text
_COSTS = ("money", "tokens", "calls")  # the first that is known of both runs is in the sentence


def answer_of_runs(
    runs: Sequence[RunColumns], rows: Sequence[JSON], pairs: Sequence[JSON], cluster: str | None
) -> JSON:
    """Return the answer of a report.

    Args:
        runs: the runs.
        rows: the same as `overview_row` has them.
        pairs: their comparisons (`compare_all_pairs`).
        cluster: the field by which posts belong together.

    Returns:
        `sentences`: one for each pair, and one for each run that is in no pair or is no better than a baseline.
        `pictures`: for each set of posts, the macro-F1 of its runs with intervals, and of the baselines.
    """
    sentences = [_sentence_of_pair(pair, rows, len(pairs)) for pair in pairs]
    paired = {place for pair in pairs for place in pair["places"]}
    for place, (columns, row) in enumerate(zip(runs, rows, strict=True)):
        test = compare_with_baseline(columns, row["measured"]["baselines"], cluster)
        if test is not None and (
            place not in paired or test["difference"] <= 0 or test["p"] >= ALPHA
        ):
            sentences.append(
                _sentence(
                    "run", {"name": row["name"], "test": test, "rehearsed": columns.rehearsed}
                )
            )
    return {"sentences": sentences, "pictures": list(_pictures(rows))}


def compare_with_baseline(columns: RunColumns, baselines: JSON, cluster: str | None) -> JSON | None:
    """Compare a run's macro-F1 with that of the better baseline on the same posts, by the test of two runs.

    Returns:
        As `compare_macro_f1`, with `baseline`, its title, and `n`, the decided results; None without decided posts.
    """
    known = {name: each for name, each in baselines.items() if each["macro_f1"] is not None}
    if not known:
        return None
    best = max(known, key=lambda name: known[name]["macro_f1"])
    constant = replace(
        columns,
        outcome=np.full_like(columns.outcome, OUTCOMES.index("verdict")),
        label=np.full_like(columns.label, known[best]["label"]),
        hateful=np.full_like(columns.hateful, int(best == "always_hate")),
    )
    test = compare_macro_f1(constant, columns, clusters_of(columns, cluster))
    return {"baseline": BASELINES[best], "n": int(columns.is_decided.sum()), **test}


def _sentence_of_pair(pair: JSON, rows: Sequence[JSON], pairs: int) -> str:
    """Return which run is better, by how much, whether by more than chance, and what it costs more."""
    worse, better = (rows[place] for place in pair["places"])
    tests = [each["differences"]["macro_f1"] for each in (pair, pair["counting_errors"])]
    if (tests[0]["difference"] or 0) < 0:
        worse, better = better, worse
        tests = [_reverse(each) for each in tests]
    costs = [row["worth"]["all"]["costs"] for row in (worse, better)]
    known = [
        kind
        for kind in _COSTS
        if all(each[kind] and each[kind]["mean"] is not None for each in costs)
    ]
    kind = None if better["imported"] or worse["imported"] or not known else known[0]
    return _sentence(
        "pair",
        {
            "better": better["name"],
            "worse": worse["name"],
            "test": tests[0],
            "counting": tests[1],
            "n": pair["n"],
            "dropped": pair["counting_errors"]["n"] - pair["n"],
            "pairs": pairs,
            "kind": kind,
            "costs": [each[kind]["mean"] for each in costs] if kind else None,
            "rehearsed": pair["rehearsed"],
        },
    )


def _reverse(test: JSON) -> JSON:
    """Return a difference as the first run's value less the second's."""
    ends = test["interval"] and [-test["interval"][1], -test["interval"][0]]
    return {**test, "difference": test["difference"] and -test["difference"], "interval": ends}


def _sentence(part: str, values: JSON) -> str:
    return " ".join(
        render_template("answer.txt.jinja", {"part": part, "alpha": ALPHA, **values}).split()
    )


def _pictures(rows: Sequence[JSON]) -> list[JSON]:
    groups: dict[object, list[tuple[int, JSON]]] = {}
    for number, row in enumerate(rows, start=1):
        if row["measured"]["macro_f1"] is not None:
            groups.setdefault(row["posts"], []).append((number, row))
    pictures = []
    for together in groups.values():
        first = together[0][1]
        points = [
            {
                "number": number,
                "name": row["name"],
                "value": row["measured"]["macro_f1"],
                "interval": row["measured"]["intervals"]["macro_f1"],
            }
            for number, row in together
        ]
        lines = [
            {"name": title, "value": first["measured"]["baselines"][name]["macro_f1"]}
            for name, title in BASELINES.items()
            if first["measured"]["baselines"][name]["macro_f1"] is not None
        ]
        ends = [end for each in points for end in (each["value"], *(each["interval"] or ()))]
        ends += [each["value"] for each in lines]
        across = percent_axis(min(ends), max(ends))
        picture = {"data": first["data"], "points": points, "lines": lines, "across": across}
        pictures.append({**picture, "text": _text_picture(points, lines, across)})
    return pictures


def _text_picture(points: Sequence[JSON], lines: Sequence[JSON], across: Axis) -> list[str]:
    """Draw points with intervals, and baselines as lines, in characters."""

    def place(value: float) -> int:
        return round(across.share(value) * (_WIDTH - 1))

    drawn = []
    for point in points:
        row = [" "] * _WIDTH
        for line in lines:
            row[place(line["value"])] = ":"
        low, high = (place(end) for end in point["interval"] or (point["value"], point["value"]))
        row[low : high + 1] = "-" * (high - low + 1)
        row[place(point["value"])] = "o"
        drawn.append(f"|{''.join(row)}| {100 * point['value']:.1f}  {point['name']}")
    first, last = (across.label(end) for end in (across.ticks[0], across.ticks[-1]))
    drawn.append(f"|{first}{last:>{_WIDTH - len(first)}}| Macro-F1, %")
    baselines = ", ".join(f"{line['name']} {100 * line['value']:.1f}" for line in lines)
    return [*drawn, f"| : {baselines}"]
