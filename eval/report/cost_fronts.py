"""Say which runs over the same posts are worth their cost: the Pareto front, and which runs a test can't tell apart.

A cost is money, tokens, calls or seconds a post; what it buys is accuracy or Macro-F1. All of it is of the results and
the prices alone, for all posts of a data set and for each language and functionality.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

from tribunal.core.text import count_noun
from tribunal.eval.measures.clusters import clusters_of
from tribunal.eval.measures.columns import Ints, RunColumns
from tribunal.eval.measures.comparison import ALPHA
from tribunal.eval.measures.costs import SPANNED, mean_costs, money_by_result
from tribunal.eval.measures.metrics import DETAILED
from tribunal.eval.report.page import CostAndValue, cost_axis, pareto_front, percent_axis
from tribunal.runner.prices import Prices
from tribunal.schema import JSON

# the first that is known of all runs is in the first picture
COSTS = (
    "money",
    "tokens",
    "calls",
    "seconds",
)
VALUES = ("accuracy", "macro_f1")


def costs_and_scores(
    columns: RunColumns, measured: JSON, prices: Prices | None, cluster: str | None
) -> JSON:
    """Return what a run costs a post and how good it is, over all posts (`all`) and by group.

    Returns:
        Of each: `n` results, `costs` by name (`mean`, `interval`; None where a call has no price), `accuracy` and
        `macro_f1`, each with `value` and `interval`.
    """
    money = money_by_result(columns.folder, prices) if prices else None
    of = clusters_of(columns, cluster).of_post[columns.post] if money is not None else columns.post

    def measure_part(part: JSON, rows: Ints | slice) -> JSON:
        """Return the costs and scores of one part of a run."""
        paid = None if money is None else mean_costs({"money": money[rows]}, of[rows])["money"]
        costs = {
            name: {key: part["cost"][name][key] for key in ("mean", "interval")} for name in SPANNED
        }
        scores = {
            name: {"value": part[name], "interval": part["intervals"][name]} for name in VALUES
        }
        return {"n": part["n"], "costs": {**costs, "money": paid}, **scores}

    return {
        "all": measure_part(measured, slice(None)),
        **{
            by: {
                name: measure_part(part, columns.groups[by][name])
                for name, part in measured[by].items()
            }
            for by in DETAILED
        },
    }


def cost_fronts(rows: Sequence[JSON], pairs: Sequence[JSON]) -> list[JSON]:
    """Return costs against scores, for each set of posts that two runs or more are over, in one scheme.

    Args:
        rows: the runs, as `overview_row` has them. Imported ones, whose cost isn't known, are left out.
        pairs: the paired tests of these runs (`compare_all_pairs`).

    Returns:
        Of each such set its `data`, its front (`_front_of_runs`), and `groups`: by language and functionality, for each
        group with verdicts of two runs or more, its name and front.
    """
    runs_by_posts: dict[tuple[Hashable, ...], list[tuple[int, JSON]]] = defaultdict(list)
    for place, row in enumerate(rows):
        if not row["imported"]:
            runs_by_posts[row["posts"]].append((place, row))
    found = []
    for numbered in runs_by_posts.values():
        together = [row for _, row in numbered]
        front = _front_of_runs([(row, row["worth"]["all"]) for row in together])
        if front:
            decided = [
                place
                for place, row in numbered
                if row["worth"]["all"]["accuracy"]["value"] is not None
            ]
            for value in VALUES:
                rivals = _rivals_by_test(decided, pairs, value)
                for run, numbers in zip(front["runs"], rivals, strict=True):
                    run.setdefault("rivals", {})[value] = numbers
            found.append(
                {
                    "data": together[0]["data"],
                    **front,
                    "groups": {by: list(_group_fronts(together, by)) for by in DETAILED},
                }
            )
    return found


def _rivals_by_test(places: Sequence[int], pairs: Sequence[JSON], value: str) -> list[list[int]]:
    """Return, for each run of a front, the numbers of those that the paired test of a score can't tell it from."""
    alike = set[frozenset[int]]()
    for pair in pairs:
        p = pair["differences"][value]["p_holm"]
        if p is None or p >= ALPHA:
            alike.add(frozenset(pair["places"]))
    return [
        [
            number
            for number, other in enumerate(places, start=1)
            if frozenset((place, other)) in alike
        ]
        for place in places
    ]


def _group_fronts(rows: Sequence[JSON], by: str) -> Iterator[JSON]:
    for number, name in enumerate(
        sorted({name for row in rows for name in row["worth"][by]}), start=1
    ):
        front = _front_of_runs(
            [(row, row["worth"][by][name]) for row in rows if name in row["worth"][by]]
        )
        if front:
            yield {"name": name, "number": number, **front}


def _front_of_runs(runs: Sequence[tuple[JSON, JSON]]) -> JSON | None:
    """Return the runs with verdicts, numbered, and a picture for each cost and score; None of fewer than two runs.

    `fronts` of a run are by score and cost: whether it is `on` the front, or why not.
    """
    runs = [(row, part) for row, part in runs if part["accuracy"]["value"] is not None]
    if len(runs) < 2:
        return None
    known = [kind for kind in COSTS if all(part["costs"][kind] for _, part in runs)]
    pictures = [_draw_front(runs, kind, value) for value in VALUES for kind in known]
    return {
        "costs": known,
        "runs": [
            {
                "name": row["name"],
                **part,
                "fronts": {
                    value: {
                        each["cost"]: each["places"][at]
                        for each in pictures
                        if each["value"] == value
                    }
                    for value in VALUES
                },
            }
            for at, (row, part) in enumerate(runs)
        ],
        "pictures": pictures,
    }


def _draw_front(runs: Sequence[tuple[JSON, JSON]], kind: str, value: str) -> JSON:
    """Return the places of the runs by one cost and one score, and the scales that hold them with their intervals."""
    points = []
    for row, part in runs:
        cost = part["costs"][kind]
        score = part[value]
        points.append(
            CostAndValue(
                cost["mean"], score["value"], not row["unseen"], cost["interval"], score["interval"]
            )
        )
    best = pareto_front(points)
    places = []
    for at, (row, _) in enumerate(runs):
        on = (
            f"no: {count_noun(row['unseen'], 'call')} not seen"
            if row["unseen"]
            else "yes"
            if at in best
            else "no"
        )
        places.append({"on": on})
    heights = [end for each in points for end in (each.value, *(each.value_ends or ()))]
    return {
        "cost": kind,
        "value": value,
        "across": cost_axis(
            [end for each in points for end in (each.cost, *(each.cost_ends or ()))]
        ),
        "up": percent_axis(min(heights), max(heights)),
        "front": sorted(points[at][:2] for at in best),
        "points": points,
        "places": places,
    }
