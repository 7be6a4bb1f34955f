"""The first table of a report: a row a run, with its models, its outcomes, its headline, and what it cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tribunal.eval.report.charts import Chart, Traded, trade
from tribunal.eval.runs.prices import Prices, kept_prices
from tribunal.eval.runs.spent import Money, Used, money

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Columns
    from tribunal.schema import JSON

HEADLINE = {"accuracy": "accuracy", "macro_f1": "Macro-F1", "f1": "F1"}
_DECIDING = frozenset({"judge", "classifier", "reflection", "summary"})


class Model(NamedTuple):
    """A model as the run names it, the seats that asked it, and what its provider calls it, where that is otherwise."""

    name: str
    seats: str
    served: str


class Costs(NamedTuple):
    """What a run cost, in all and a result; `unpriced` calls are of models without a price, and cost more."""

    total: float
    each: float | None
    unpriced: int


class Overview(NamedTuple):
    """A run in one row."""

    name: str
    what: str  # its graph and data
    data: str
    posts: tuple[str, str, int]  # by which runs over the same posts are told: data, the hash of its files, how many
    models: list[Model]
    measured: JSON
    costs: Costs | None  # None where no prices are known
    calls: float | None  # a result
    tokens: float | None
    unseen: int = 0  # calls that its graph made past `ask`, in all


class Baseline(NamedTuple):
    """What one answer to every post scores, over all labelled ones."""

    title: str
    what: str
    posts: int
    measured: JSON


class Trade(NamedTuple):
    """Runs over the same data: what each cost against how good it is."""

    data: str
    by: str  # what a post costs is counted in
    chart: Chart
    runs: list[tuple[str, float, JSON, str]]  # name, cost, measures, whether it is on the front and why not


def overview(columns: Columns, measured: JSON, prices: Prices | None) -> Overview:
    """One run, at these prices; at those that lie beside its results where none are given.

    Raises:
        BadInput: the prices beside the results are broken.
    """
    cost, data = measured["cost"], data_of(columns.run)
    known = prices or kept_prices(columns.folder)
    return Overview(
        name=columns.folder.resolve().name,
        what=", ".join(part for part in (str(columns.run.get("graph") or ""), data) if part),
        data=data,
        posts=(data, str((columns.run.get("data") or {}).get("sha256")), measured["posts"]),
        models=list(_models(columns)),
        measured=measured,
        costs=_costs(money(columns.spent, known), columns) if known else None,
        calls=cost["calls"]["mean"],
        tokens=cost["tokens"]["mean"],
        unseen=cost["unseen_calls"]["total"] if "unseen_calls" in cost else 0,
    )


def data_of(run: JSON) -> str:
    """The data set of a run, and which part of it."""
    held = run.get("data")
    split = held.get("split") if isinstance(held, dict) else None
    return " ".join(str(part) for part in (run.get("dataset"), split) if part)


def baselines(rows: Sequence[Overview]) -> list[Baseline]:
    """What "always hate" and "never hate" score on each set of posts that runs are over."""
    of = {row.posts: row for row in rows if row.measured["accuracy"] is not None}
    return [
        Baseline(
            title=title,
            what=row.data,
            posts=row.measured["posts"],
            measured=row.measured["baselines"][name]["counting_errors"],
        )
        for row in of.values()
        for name, title in (("always_hate", "always hate"), ("never_hate", "never hate"))
    ]


def trades(rows: Sequence[Overview]) -> list[Trade]:
    """For each data set that two runs or more are over: their costs against their accuracy.

    Costs are money where every call of every run has a price, else tokens.
    """
    held: dict[tuple[str, str], list[Overview]] = defaultdict(list)
    for row in rows:
        if row.measured["accuracy"] is not None and row.tokens is not None:
            held[row.posts[:2]].append(row)
    return [_trade(data, together) for (data, _), together in held.items() if len(together) > 1]


def _trade(data: str, rows: list[Overview]) -> Trade:
    priced = all(row.costs is not None and row.costs.each is not None and not row.costs.unpriced for row in rows)
    costs = [(row.costs.each or 0.0) if priced and row.costs else (row.tokens or 0.0) for row in rows]
    chart = trade(
        [
            Traded(cost, row.measured["accuracy"], row.measured["intervals"]["accuracy"], whole=not row.unseen)
            for cost, row in zip(costs, rows, strict=True)
        ]
    )
    return Trade(
        data=data,
        by="cost a post" if priced else "tokens a post",
        chart=chart,
        runs=[
            (row.name, cost, row.measured, _place_on_front(point.best, row.unseen))
            for row, cost, point in zip(rows, costs, chart.points, strict=True)
        ],
    )


def _place_on_front(best: bool, unseen: int) -> str:
    """Return whether a run is on the front, in a word, and why not where its cost isn't known whole."""
    if unseen:
        return f"no: {unseen:,} call{'s' if unseen > 1 else ''} not seen"
    return "yes" if best else "no"


def _models(columns: Columns) -> Iterator[Model]:
    """The models that were asked, those that decide first; of a run without a call, those that it names."""
    spent = sorted(columns.spent.items(), key=lambda each: (_DECIDING.isdisjoint(each[1].seats), each[0]))
    for name, used in spent:
        seats = ", ".join(seat for seat in used.seats if seat) if len(spent) > 1 else ""
        yield Model(name, seats, _served(name, used))
    if not spent:
        settings = columns.run.get("settings") or {}
        named = [settings.get(name) for name in ("model", "judge_model", "aux_model")]
        yield from (Model(str(name), "", "") for name in dict.fromkeys(named) if name)


def _served(name: str, used: Used) -> str:
    return ", ".join(each for each in used.served if each != name.partition(":")[2])


def _costs(cost: Money, columns: Columns) -> Costs | None:
    if cost.unpriced and cost.unpriced == sum(used.calls for used in columns.spent.values()):
        return None
    return Costs(total=cost.total, each=cost.total / columns.n if columns.n else None, unpriced=cost.unpriced)
