"""How much a run's repeats differ: mean ± standard deviation, Fleiss' kappa, and how often a label flips (PREDICT)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tribunal.eval.measures.agreement import fleiss_kappa
from tribunal.eval.measures.columns import NO_LABEL
from tribunal.eval.measures.confusion import MEASURES
from tribunal.eval.measures.scores import scores

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Columns, Ints
    from tribunal.schema import JSON


def over_repeats(columns: Columns) -> JSON:
    """The measures of each repeat, and what repeats agree on.

    `std` is the sample standard deviation (ddof = 1), None of fewer than two repeats in which the measure is defined.
    `kappa` and `flip_rate` are over the posts that every repeat gave a verdict on, labelled or not: the share of them
    whose label isn't the same in all. Counting errors, having no verdict is an answer of its own, and the posts are all
    those that stand in every repeat.
    """
    repeats = np.unique(columns.repeat).tolist()
    each = [scores(columns, np.flatnonzero(columns.repeat == repeat)) for repeat in repeats]
    table = _answers(columns, repeats)
    complete = [row for row in table if None not in row]
    decided = [row for row in complete if NO_LABEL not in row]
    return {
        "repeats": len(repeats),
        **{name: _spread([measured[name] for measured in each]) for name in MEASURES},
        "posts": len(decided),
        "kappa": fleiss_kappa(decided),
        "flip_rate": _flips(decided) if len(repeats) > 1 else None,
        "counting_errors": {
            **{name: _spread([measured["counting_errors"][name] for measured in each]) for name in MEASURES},
            "posts": len(complete),
            "flip_rate": _flips(complete) if len(repeats) > 1 else None,
        },
    }


def over_agents(columns: Columns) -> JSON:
    """Fleiss' kappa over the perspectives of a panel, and how many results all of them took a stance on."""
    agents = sorted({agent for row in set(columns.stances) for agent, _ in row})
    heard = [dict(row) for row in columns.stances if len(row) == len(agents) > 1]
    return {
        "agents": agents,
        "n": len(heard),
        "kappa": fleiss_kappa([[row[agent] for agent in agents] for row in heard]),
    }


def _answers(columns: Columns, repeats: list[int]) -> list[list[int | None]]:
    """For each post its answer in every repeat: NO_LABEL without a verdict, None where the repeat hasn't come to it."""
    table: list[list[int | None]] = [[None] * len(repeats) for _ in columns.ids]
    place = {repeat: at for at, repeat in enumerate(repeats)}
    for post, repeat, answer in zip(*_lists(columns.post, columns.repeat, columns.answer), strict=True):
        table[post][place[repeat]] = answer
    return table


def _lists(*arrays: Ints) -> list[list[int]]:
    return [values.tolist() for values in arrays]


def _flips(rows: list[list[int | None]]) -> float | None:
    return sum(len(set(row)) > 1 for row in rows) / len(rows) if rows else None


def _spread(values: list[float | None]) -> JSON:
    defined = [value for value in values if value is not None]
    return {
        "mean": float(np.mean(defined)) if defined else None,
        "std": float(np.std(defined, ddof=1)) if len(defined) > 1 else None,
        "values": values,
    }
