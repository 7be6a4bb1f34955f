"""The board's numbers: what was decided in a time, how fast, at what cost, how often it was changed, what has shifted.

Each is one statement over an index, or over a narrow table, so that they come quickly however many cases there are. The
new trials of appeals and practice are no posts: they count in the cost alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from pydantic import Field
from sqlalchemy import Integer, and_, cast, func, literal_column, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.times import DAY
from tribunal.service.replica.case_queries import waits_for_review
from tribunal.service.replica.desk_figures import (
    DeskFigures,
    SecondOpinionFigures,
    count_desk_work,
    measure_agreement,
)
from tribunal.service.replica.options import Described
from tribunal.store.engine import Store
from tribunal.store.tables import (
    COUNTED,
    PRACTICE,
    appeals,
    audit,
    cases,
    decisions,
    second_opinions,
)


class TimeSpan(Described):
    """A time, in seconds of the epoch: from `since` to just before `until`."""

    since: float = Field(examples=[1795330000.0])
    """start, in seconds of the epoch"""
    until: float = Field(examples=[1797922000.0])
    """end, exclusive, in seconds of the epoch"""

    @property
    def before(self) -> TimeSpan:
        """Return the time of the same length that ends where this one begins."""
        return TimeSpan(since=2 * self.since - self.until, until=self.since)


class DayFigures(Described):
    """What ended on a day (UTC)."""

    day: str = Field(examples=["2026-11-22"])
    """the day"""
    posts: int = 0
    """posts that the models finished, including those to review"""
    outcomes: dict[str, int] = Field(default_factory=dict, examples=[{"verdict": 118}])
    """these by outcome"""
    cost: float = 0.0
    """by the price table, new trials included; where it is known"""
    cost_unknown: int = 0
    """cases whose cost isn't known: a model or the table has no price"""


class AutomationFigures(Described):
    """How much was decided without a person."""

    verdicts: int = Field(examples=[118])
    """posts with a verdict"""
    by_people: int = Field(examples=[12])
    """those whose verdict in force is a person's"""
    share: float | None = Field(examples=[0.898])
    """the fully automated share, from 0 to 1"""


class ChangeFigures(Described):
    """How often a person decided otherwise than what stood before them."""

    decided: int = Field(examples=[12])
    """decisions"""
    turned: int = Field(examples=[3])
    """those with another category than before"""
    rate: float | None = Field(examples=[0.25])
    """their share, from 0 to 1"""
    results: dict[str, int] = Field(examples=[{"accepted": 9, "changed": 3}])
    """decisions by result"""


class Reversals(Described):
    """Decisions that were turned round."""

    reviews: ChangeFigures
    """of cases that the court put before a person"""
    appeals: ChangeFigures
    """of appeals"""
    reopened: ChangeFigures
    """of cases that a lead reopened"""


class DurationFigures(Described):
    """How long it took. Each value is that of a case, and no mean of two."""

    cases: int = Field(default=0, examples=[118])
    """how many cases it is of"""
    median: float | None = Field(default=None, examples=[2.4])
    """seconds"""
    p90: float | None = Field(default=None, examples=[3.6])
    """seconds within which nine of ten were decided"""


class DecisionTimes(Described):
    """How long it took from when a post was taken in, or an appeal was made, to its decision."""

    verdicts: DurationFigures = DurationFigures()
    """of all posts with a verdict"""
    by_people: DurationFigures = DurationFigures()
    """of those that a person decided"""
    appeals: DurationFigures = DurationFigures()
    """of appeals and reopened cases"""


class OpenItems(Described):
    """How many wait, and since when."""

    waiting: int = Field(examples=[3])
    """how many, now"""
    oldest: float | None = Field(examples=[1.79e9])
    """since when the oldest waits, in seconds of the epoch"""


class OpenWork(Described):
    """What waits now, whatever time was asked for."""

    court: OpenItems
    """posts waiting for the model"""
    reviews: OpenItems
    """cases waiting for a moderator"""
    appeals: OpenItems
    """appeals that aren't decided"""
    second_opinions: OpenItems
    """second opinions that nobody has given"""
    disagreements: OpenItems
    """second opinions that differ, for a lead"""


class CategoryShare(Described):
    """A category's part of the verdicts, now and before."""

    category: str = Field(examples=["Religious"])
    """its name"""
    posts: int = Field(examples=[20])
    """its posts in this time"""
    share: float | None = Field(examples=[0.17])
    """their part of the verdicts"""
    posts_before: int = Field(examples=[10])
    """its posts in the earlier time"""
    share_before: float | None = Field(examples=[0.09])
    """their part of the verdicts then"""


class CategoryDrift(Described):
    """How far the shares of the categories have moved from those of an earlier time."""

    before: TimeSpan
    """the earlier time"""
    posts: int = Field(examples=[118])
    """verdicts in this time"""
    posts_before: int = Field(examples=[110])
    """verdicts in the earlier time"""
    distance: float | None = Field(
        description="Jensen-Shannon distance with logarithms to the base 2: 0 the same shares, 1 no category in "
        "common; none where one of the two times has no verdict. Few posts move it by chance alone",
        examples=[0.08],
    )
    categories: list[CategoryShare]
    """each category, the most frequent first"""


class Figures(Described):
    """The board's numbers of a time."""

    span: TimeSpan
    """the time"""
    outcomes: dict[str, int] = Field(examples=[{"verdict": 118, "pending": 2}])
    """posts by outcome"""
    left_out: dict[str, int] = Field(examples=[{"tried on /try": 3}])
    """posts that count only in the cost, by reason"""
    days: list[DayFigures]
    """the days on which something ended, the earliest first"""
    automated: AutomationFigures
    """how much was decided without a person"""
    reversals: Reversals
    """how often a decision was turned round"""
    to_decision: DecisionTimes
    """how long it took"""
    waiting: OpenWork
    """what waits now"""
    cost: float = Field(examples=[4.2])
    """all that is known to have been spent, by the price table"""
    cost_unknown: int = Field(examples=[0])
    """cases whose cost isn't known"""
    drift: CategoryDrift
    """how the shares of the categories have moved"""
    agreement: SecondOpinionFigures
    """of second opinions"""
    desk: DeskFigures
    """the work at the desk"""


async def count_figures(store: Store, span: TimeSpan, before: TimeSpan | None = None) -> Figures:
    """Return the board's numbers of a time.

    Its category shares are held against those of the time `before`; by default the one just before, as long.
    """
    earlier = before or span.before
    async with store.reading() as connection:
        left_out = await _count_practice(connection, span)
        days, by_people = await _count_days(connection, span, postgres=store.postgres)
        reversals = await _count_reversals(connection, span)
        times = await _measure_decisions(connection, span)
        waiting = await _count_open_work(connection)
        categories = (
            await _count_categories(connection, span),
            await _count_categories(connection, earlier),
        )
        opinions = second_opinions.c
        given = select(
            opinions.first, opinions.second, opinions.first_category, opinions.second_category
        )
        of_log = and_(is_within(audit.c.at, span), of_counted_case(audit.c.subject))
        desk = await count_desk_work(connection, of_log)
        of_opinions = is_within(opinions.given, span), of_counted_case(opinions.case_id)
        pairs = (await connection.execute(given.where(*of_opinions))).all()
    # Off the event loop: scipy and statsmodels take a second to import.
    drift = await asyncio.to_thread(_measure_drift, *categories, earlier)
    agreement = await asyncio.to_thread(measure_agreement, pairs)
    outcomes = sum((Counter(day.outcomes) for day in days), Counter[str]())
    verdicts = outcomes["verdict"]
    return Figures(
        span=span,
        outcomes=outcomes,
        left_out=left_out,
        days=days,
        automated=AutomationFigures(
            verdicts=verdicts, by_people=by_people, share=_share_of(verdicts - by_people, verdicts)
        ),
        reversals=reversals,
        to_decision=times,
        waiting=waiting,
        cost=sum(day.cost for day in days),
        cost_unknown=sum(day.cost_unknown for day in days),
        drift=drift,
        agreement=agreement,
        desk=desk,
    )


def is_within(column: Any, span: TimeSpan) -> Any:
    """Return the condition that a moment lies in this time."""
    return and_(column >= span.since, column < span.until)


def ended_within(span: TimeSpan, *, trials: bool = False) -> Any:
    """Return the condition that a case ended in this time, as `cases_by_end` has it.

    New trials of appeals and practice only with `trials`.
    """
    ended = and_(cases.c.outcome.is_not(None), is_within(cases.c.finished, span))
    return ended if trials else and_(ended, COUNTED)


def of_counted_case(case_id: Any) -> Any:
    """Return the condition that a row is about a case that counts; `case_id` is its column."""
    return case_id.not_in(select(cases.c.id).where(cases.c.practice.is_not(None)))


def select_verdict_times(span: TimeSpan, name: Any) -> Any:
    """Return the query of how long each verdict took, under a name, where it is known.

    A command writes its cases down when they are over, so that nobody knows when they began.
    """
    took = (cases.c.finished - cases.c.created).label("took")
    is_known = cases.c.finished > cases.c.created
    return select(name.label("name"), took).where(
        ended_within(span), cases.c.outcome == "verdict", is_known
    )


async def measure_durations(
    connection: AsyncConnection, durations: Any
) -> dict[str | None, DurationFigures]:
    """Return how long it took, by the names in the first column of a query; the second one holds the seconds."""
    name, took = durations.subquery().c
    rank = func.row_number().over(partition_by=name, order_by=took).label("rank")
    many = func.count().over(partition_by=name).label("many")
    ranked = select(name.label("name"), took.label("took"), rank, many).subquery().c
    is_asked_for = ranked.rank.in_(((ranked.many + 1) // 2, (9 * ranked.many + 9) // 10))
    query = select(ranked.name, ranked.many, func.min(ranked.took), func.max(ranked.took)).where(
        is_asked_for
    )
    rows = await connection.execute(query.group_by(ranked.name, ranked.many))
    return {
        name: DurationFigures(cases=many, median=median, p90=p90)
        for name, many, median, p90 in rows
    }


async def _count_days(
    connection: AsyncConnection, span: TimeSpan, *, postgres: bool
) -> tuple[list[DayFigures], int]:
    """Return what ended day by day, and how many of the verdicts are a person's."""
    part = cases.c.finished / literal_column(str(DAY))
    # SQLite cuts off, PostgreSQL would round
    day = func.floor(part) if postgres else cast(part, Integer)
    groups = (day, cases.c.outcome, COUNTED)
    counts = (
        func.count(),
        func.count(cases.c.reviewer),
        func.count(cases.c.money),
        func.sum(cases.c.money),
    )
    query = select(*groups, *counts).where(ended_within(span, trials=True)).group_by(*groups)
    days: dict[int, dict[str, Any]] = {}
    by_people = 0
    for number, outcome, is_post, count, reviewed, priced, cost in await connection.execute(query):
        figures = days.setdefault(
            int(number), {"posts": 0, "outcomes": {}, "cost": 0.0, "cost_unknown": 0}
        )
        figures["cost"] += cost or 0.0
        figures["cost_unknown"] += count - priced
        if is_post:
            figures["posts"] += count
            figures["outcomes"][outcome] = count
            by_people += reviewed if outcome == "verdict" else 0
    named = [
        (datetime.fromtimestamp(number * DAY, UTC).strftime("%Y-%m-%d"), days[number])
        for number in sorted(days)
    ]
    return [DayFigures(day=day, **figures) for day, figures in named], by_people


async def _count_practice(connection: AsyncConnection, span: TimeSpan) -> dict[str, int]:
    practised = and_(
        ended_within(span, trials=True), cases.c.practice.is_not(None), cases.c.appeal_id.is_(None)
    )
    query = select(cases.c.practice, func.count()).where(practised).group_by(cases.c.practice)
    return {PRACTICE[str(name)]: int(count) for name, count in await connection.execute(query)}


async def _count_reversals(connection: AsyncConnection, span: TimeSpan) -> Reversals:
    within = is_within(decisions.c.at, span), of_counted_case(decisions.c.case_id)
    query = select(decisions.c.kind, decisions.c.result, func.count()).where(*within)
    results: dict[str, dict[str, int]] = {"review": {}, "appeal": {}, "reopened": {}}
    for kind, result, count in await connection.execute(
        query.group_by(decisions.c.kind, decisions.c.result)
    ):
        results[kind][result] = count

    def changes_of(kind: str) -> ChangeFigures:
        decided = sum(results[kind].values())
        turned = decided - results[kind].get("accepted", 0) - results[kind].get("upheld", 0)
        return ChangeFigures(
            decided=decided, turned=turned, rate=_share_of(turned, decided), results=results[kind]
        )

    return Reversals(
        reviews=changes_of("review"), appeals=changes_of("appeal"), reopened=changes_of("reopened")
    )


async def _measure_decisions(connection: AsyncConnection, span: TimeSpan) -> DecisionTimes:
    of_verdicts = select_verdict_times(span, literal_column("'verdicts'"))
    by_people = (
        select(literal_column("'by_people'"), decisions.c.at - cases.c.created)
        .join(cases, cases.c.id == decisions.c.case_id)
        .where(decisions.c.kind == "review", is_within(decisions.c.at, span), COUNTED)
    )
    of_appeals = select(literal_column("'appeals'"), appeals.c.decided - appeals.c.created).where(
        is_within(appeals.c.decided, span), of_counted_case(appeals.c.case_id)
    )
    measured = await measure_durations(connection, union_all(of_verdicts, by_people, of_appeals))
    return DecisionTimes.model_validate(measured)


async def _count_open_work(connection: AsyncConnection) -> OpenWork:
    opinions = second_opinions.c
    conditions = {
        "court": (cases.c.created, cases.c.status.in_(("queued", "running", "waiting"))),
        "reviews": (cases.c.created, waits_for_review()),
        "appeals": (appeals.c.created, appeals.c.status.in_(("waiting", "trying", "tried"))),
        "second_opinions": (opinions.created, opinions.status == "waiting"),
        "disagreements": (opinions.given, opinions.status == "disagreed"),
    }
    work = {}
    for name, (since, where) in conditions.items():
        count, oldest = (
            await connection.execute(select(func.count(), func.min(since)).where(where))
        ).one()
        work[name] = OpenItems(waiting=count, oldest=oldest)
    return OpenWork.model_validate(work)


async def _count_categories(connection: AsyncConnection, span: TimeSpan) -> Counter[str]:
    is_verdict = (ended_within(span), cases.c.outcome == "verdict", cases.c.category.is_not(None))
    query = select(cases.c.category, func.count()).where(*is_verdict).group_by(cases.c.category)
    return Counter({str(name): int(count) for name, count in await connection.execute(query)})


def _share_of(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _measure_drift(now: Counter[str], then: Counter[str], earlier: TimeSpan) -> CategoryDrift:
    names = sorted({*now, *then}, key=lambda name: (-now[name], -then[name], name))
    posts = now.total()
    posts_before = then.total()
    distance = None
    if posts and posts_before:
        from scipy.spatial.distance import jensenshannon

        counts = [[each[name] for name in names] for each in (now, then)]
        distance = round(float(jensenshannon(*counts, base=2)), 6)
    shares = [
        CategoryShare(
            category=name,
            posts=now[name],
            share=_share_of(now[name], posts),
            posts_before=then[name],
            share_before=_share_of(then[name], posts_before),
        )
        for name in names
    ]
    return CategoryDrift(
        before=earlier, posts=posts, posts_before=posts_before, distance=distance, categories=shares
    )
