"""Numbers of a periodic transparency report (Digital Services Act, articles 15 and 24), and no post.

The totals are the board's (`tribunal.service.replica.figures`); by category, by language and by clause of the policy
they are counted by the same conditions. What isn't known is counted as unknown.
"""

from __future__ import annotations

import io
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pydantic import Field
from sqlalchemy import distinct, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.times import format_date, format_duration
from tribunal.eval.report.page import render_template
from tribunal.review.table_files import CsvWriter
from tribunal.schema import JSON, Frozen
from tribunal.service.replica.figures import (
    AutomationFigures,
    DecisionTimes,
    Reversals,
    TimeSpan,
    count_figures,
    ended_within,
    is_within,
    measure_durations,
    of_counted_case,
    select_verdict_times,
)
from tribunal.service.replica.options import Described
from tribunal.store.engine import Store
from tribunal.store.tables import COUNTED, appeals, cases, decisions, statements

FORMATS = ("html", "markdown", "json", "csv")
UNKNOWN = "unknown"


class VerdictGroup(Described):
    """The verdicts of a category, of a language, or that cite a clause. None: suppressed, or not known."""

    name: str
    posts: int | None = 0
    """verdicts"""
    hateful: int | None = 0
    by_people: int | None = 0
    """of the posts, those that a person decided"""
    automated_share: float | None = None
    """the fully automated share, from 0 to 1"""
    changed: int | None = 0
    """decisions of people that put another category in its place"""
    appeals: int | None = 0
    """appeals that were decided"""
    turned: int | None = 0
    """of these, those that turned the decision round or changed it"""
    median_seconds: float | None = None
    """from when a post was taken in to its verdict"""


class AppealCounts(Frozen):
    """Appeals (article 20): how many were made in this time, and how many are open now."""

    made: int
    waiting: int


class StatementCounts(Frozen):
    """Statements of reasons that were made in this time, by what became of them."""

    made: int
    by_status: dict[str, int]


class TransparencyNumbers(Described):
    """The numbers of a report.

    `by_clause`: a verdict counts in the group of each clause that it cites, and in none if it cites none.
    `suppressed_below`: in the tables by category, language and clause, a count from 1 to one less than this is left
    out, and with it what would give it away; None: all are shown.
    """

    span: TimeSpan
    posts: int
    """posts whose trial ended"""
    outcomes: dict[str, int]
    hateful: int
    """verdicts by which a post is hateful"""
    left_out: dict[str, int]
    """posts that are counted nowhere here, by reason"""
    automated: AutomationFigures
    reversals: Reversals
    to_decision: DecisionTimes
    complaints: AppealCounts
    statements: StatementCounts
    by_category: list[VerdictGroup]
    by_language: list[VerdictGroup]
    by_clause: list[VerdictGroup] = Field(default_factory=list)
    suppressed_below: int | None = None


async def count_transparency(
    store: Store, span: TimeSpan, suppress_below: int | None = None
) -> TransparencyNumbers:
    """Return the numbers of a report; its tables leave out counts below `suppress_below`."""
    board = await count_figures(store, span)
    counting = select(func.count()).where(ended_within(span), cases.c.hateful.is_(True))
    complaints = (
        is_within(appeals.c.created, span),
        appeals.c.kind == "appeal",
        of_counted_case(appeals.c.case_id),
    )
    complained = select(func.count()).where(*complaints)
    stated = select(statements.c.status, func.count()).where(is_within(statements.c.created, span))
    async with store.reading() as connection:
        groups = [
            await _count_groups(connection, span, each)
            for each in (cases.c.category, cases.c.language)
        ]
        groups.append(await _count_clauses(connection, span))
        hateful = (await connection.execute(counting)).scalar_one()
        made = (await connection.execute(complained)).scalar_one()
        rows = await connection.execute(stated.group_by(statements.c.status))
        by_status = {str(status): int(count) for status, count in rows}
    if suppress_below is not None:
        groups = [suppress_small(each, suppress_below) for each in groups]
    return TransparencyNumbers(
        span=span,
        posts=sum(board.outcomes.values()),
        outcomes=board.outcomes,
        hateful=hateful,
        left_out=board.left_out,
        automated=board.automated,
        reversals=board.reversals,
        to_decision=board.to_decision,
        complaints=AppealCounts(made=made, waiting=board.waiting.appeals.waiting),
        statements=StatementCounts(made=sum(by_status.values()), by_status=by_status),
        by_category=groups[0],
        by_language=groups[1],
        by_clause=groups[2],
        suppressed_below=suppress_below,
    )


async def _count_clauses(connection: AsyncConnection, span: TimeSpan) -> list[VerdictGroup]:
    """Return the verdicts that cite each clause, under the names of its policy and its own: `h-vli 1.1`."""
    cited = select(cases.c.policy_name, cases.c.cited).where(
        cases.c.outcome == "verdict", cases.c.cited.is_not(None)
    )
    cited = cited.where(cases.c.policy_name.is_not(None), COUNTED)
    rows = (await connection.execute(cited.distinct())).all()
    groups = []
    for policy, clause in sorted(
        {(policy, clause) for policy, ids in rows for clause in ids.split()}
    ):
        theirs = (
            cases.c.policy_name == policy,
            cases.c.cited.contains(f" {clause} ", autoescape=True),
        )
        counted = await _count_groups(connection, span, cases.c.policy_name, *theirs)
        groups += [each.model_copy(update={"name": f"{policy} {clause}"}) for each in counted]
    return groups


async def _count_groups(
    connection: AsyncConnection, span: TimeSpan, column: Any, *conditions: Any
) -> list[VerdictGroup]:
    """Return the verdicts by the values of a column, the largest group first; of cases that fulfil the conditions."""
    groups: dict[str, JSON] = defaultdict(lambda: {"changed": 0, "appeals": 0, "turned": 0})
    hated = func.count().filter(cases.c.hateful.is_(True))
    counted = select(column, func.count(), hated, func.count(cases.c.reviewer))
    counted = counted.where(ended_within(span), cases.c.outcome == "verdict", *conditions).group_by(
        column
    )
    for name, posts, hateful, by_people in await connection.execute(counted):
        share = max(0, posts - by_people) / posts
        groups[name or UNKNOWN].update(
            posts=posts, hateful=hateful, by_people=by_people, automated_share=share
        )
    durations = select_verdict_times(span, column).where(*conditions)
    for name, times in (await measure_durations(connection, durations)).items():
        groups[name or UNKNOWN]["median_seconds"] = times.median
    parts = (column, decisions.c.kind, decisions.c.result)
    decided = select(*parts, func.count(distinct(decisions.c.case_id))).where(
        is_within(decisions.c.at, span)
    )
    decided = (
        decided.join(cases, cases.c.id == decisions.c.case_id)
        .where(COUNTED, *conditions)
        .group_by(*parts)
    )
    for name, kind, result, number in await connection.execute(decided):
        group = groups[name or UNKNOWN]
        changed = 0 if result in ("accepted", "upheld") else number
        if kind == "review":
            group["changed"] += changed
        elif kind == "appeal":
            group["appeals"] += number
            group["turned"] += changed
    made = [VerdictGroup(name=name, **group) for name, group in groups.items()]
    return sorted(made, key=lambda group: (group.name == UNKNOWN, -(group.posts or 0), group.name))


def suppress_small(groups: Sequence[VerdictGroup], least: int) -> list[VerdictGroup]:
    """Leave small counts out: a group of few posts has no numbers at all, and elsewhere a small count has none.

    Where just one group is left out, its posts would follow from the total: so the next smallest goes with it.
    """
    small = {group.name for group in groups if 0 < (group.posts or 0) < least}
    others = [group for group in groups if group.name not in small and group.posts]
    if len(small) == 1 and others:
        small.add(min(others, key=lambda group: group.posts or 0).name)
    shown = []
    for group in groups:
        counts = group.model_dump()
        if group.name in small:
            counts = {**dict.fromkeys(counts), "name": group.name}
        for name in ("hateful", "by_people", "changed", "appeals", "turned"):
            rest = (
                (counts["posts"] or 0) - (counts[name] or 0)
                if name in ("hateful", "by_people")
                else 0
            )
            if 0 < (counts[name] or 0) < least or 0 < rest < least:
                counts[name] = None
        if counts["by_people"] is None:
            counts["automated_share"] = None
        shown.append(VerdictGroup.model_validate(counts))
    return shown


def render_transparency(report: TransparencyNumbers, form: str) -> str:
    """Return the report in a format of `FORMATS`."""
    if form == "json":
        return report.model_dump_json(indent=2) + "\n"
    if form == "csv":
        output = io.StringIO(newline="")
        table = CsvWriter(output)
        table.write_row(("table", "group", "measure", "value"))
        whole = report.model_dump(mode="json", exclude={"by_category", "by_language", "by_clause"})
        for measure, value in _flat_fields("", whole):
            table.write_row(("total", "", measure, value))
        tables = (
            ("category", report.by_category),
            ("language", report.by_language),
            ("clause", report.by_clause),
        )
        for title, groups in tables:
            for group in groups:
                for measure, value in group.model_dump(exclude={"name"}).items():
                    table.write_row((title, group.name, measure, value))
        return output.getvalue()
    template = "transparency.html.jinja" if form == "html" else "transparency.md.jinja"
    begin, end = (
        format_date(each).removesuffix(", 00:00 UTC")
        for each in (report.span.since, report.span.until)
    )
    shown = {
        "it": report,
        "begin": begin,
        "end": end,
        "written": format_date(time.time()),
        "took": format_duration,
    }
    return render_template(template, shown)


def _flat_fields(name: str, value: object) -> list[tuple[str, object]]:
    if not isinstance(value, dict):
        return [(name, value)]
    return [
        each
        for key, part in value.items()
        for each in _flat_fields(f"{name}.{key}".lstrip("."), part)
    ]
