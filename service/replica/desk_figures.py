"""Count the work at the desk from the audit log, and measure the agreement of second opinions."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.eval.measures.agreement import RaterAgreement, cohen_kappa
from tribunal.schema import JSON, Frozen
from tribunal.service.replica.options import Described
from tribunal.store.audit import readable
from tribunal.store.tables import audit

BREAK_SECONDS = (
    600.0  # without a decision or a claim, after which somebody wasn't at work on the case
)
_KINDS = ("case.claimed", "case.answered", "case.undone")


class ReviewerWork(Described):
    """The decisions of one reviewer, and how long they took: from the claim, or from the decision before it."""

    name: str = Field(examples=["kim (desk)"])
    """who"""
    cases: int = Field(examples=[118])
    """decisions that stood"""
    median: float | None = Field(examples=[24.0])
    """seconds a case"""
    p90: float | None = Field(examples=[61.0])
    """seconds within which nine of ten were decided"""
    breaks: int = Field(examples=[3])
    """pauses of over ten minutes, which count for no case"""


class DeskFigures(Described):
    """The work at the desk and over the API in a time."""

    all: ReviewerWork
    """of all reviewers together"""
    reviewers: list[ReviewerWork]
    """by reviewer"""
    undone: int = Field(examples=[2])
    """decisions that were taken back at once"""
    blind: RaterAgreement
    """of the model and whoever decided without having seen its verdict; decisions taken back don't count"""


class NamedAgreement(Described):
    """The agreement of a reviewer, or about a category."""

    name: str = Field(examples=["kim (desk)"])
    """a reviewer, or a category; court: no person decided first"""
    agreement: RaterAgreement
    """of a category: whether both gave it or neither did"""


class SecondOpinionFigures(Described):
    """Second opinions that were given in this time."""

    all: RaterAgreement
    """of who decided, and who gave the second opinion"""
    reviewers: list[NamedAgreement]
    """by reviewer: of all pairs that they are one of"""
    categories: list[NamedAgreement]
    """by category"""


class _Decision(Frozen):
    reviewer: str
    case: str
    seconds: float | None
    blind: tuple[str, str] | None  # the model's category, and theirs


async def count_desk_work(connection: AsyncConnection, within: Any) -> DeskFigures:
    """Return what was done in a time; `within` is the condition on the log's entries."""
    columns = audit.c.seq, audit.c.at, audit.c.kind, audit.c.subject, audit.c.details
    wanted = select(*columns).where(audit.c.kind.in_(_KINDS), within).order_by(audit.c.seq)
    entries = [readable(dict(row)) for row in (await connection.execute(wanted)).mappings()]
    return await asyncio.to_thread(_summarise, entries)


def _summarise(entries: Sequence[JSON]) -> DeskFigures:
    decisions, breaks, undone = _replay_log(entries)
    by_name = dict[str, list[_Decision]]()
    for each in decisions:
        by_name.setdefault(each.reviewer, []).append(each)
    blind = [each.blind for each in decisions if each.blind]
    return DeskFigures(
        all=_work_of("all", decisions, sum(breaks.values())),
        reviewers=[
            _work_of(name, theirs, breaks.get(name, 0)) for name, theirs in sorted(by_name.items())
        ],
        undone=undone,
        blind=cohen_kappa(blind),
    )


def _replay_log(entries: Iterable[JSON]) -> tuple[list[_Decision], dict[str, int], int]:
    """Return the decisions that stood, how many breaks each reviewer took, and how many decisions were undone."""
    decisions = dict[tuple[str, str], _Decision]()
    breaks = dict[str, int]()
    undone = 0
    last: dict[str, float] = {}  # when each reviewer last claimed or decided something
    for entry in entries:
        details: Mapping[str, Any] = entry["details"] or {}
        who = str(details.get("reviewer") or "unnamed")
        case = str(entry["subject"])
        at = float(entry["at"])
        if entry["kind"] == "case.undone":
            undone += decisions.pop((who, case), None) is not None
            continue
        pause = at - last.get(who, at)
        if pause > BREAK_SECONDS:
            breaks[who] = breaks.get(who, 0) + 1
        if (
            entry["kind"] == "case.answered" and details.get("action") != "ask"
        ):  # a question decides nothing
            court = details.get("court")
            chosen = details.get("category") or court
            blind = (str(court), str(chosen)) if details.get("blind") and court else None
            first = who in last and pause <= BREAK_SECONDS and _is_first_of_group(details, case)
            seconds = pause if first else None
            decisions[who, case] = _Decision(reviewer=who, case=case, seconds=seconds, blind=blind)
        last[who] = at
    return list(decisions.values()), breaks, undone


def _is_first_of_group(details: Mapping[str, Any], case: str) -> bool:
    """Return whether time was spent on a case by itself: of those decided together the first stands for all."""
    together = details.get("together")
    return not together or together[0] == case


def _work_of(name: str, decisions: Sequence[_Decision], breaks: int) -> ReviewerWork:
    took = [each.seconds for each in decisions if each.seconds is not None]
    return ReviewerWork(
        name=name,
        cases=len(decisions),
        median=round(statistics.median_low(took), 1) if took else None,
        p90=round(float(np.quantile(took, 0.9, method="inverted_cdf")), 1) if took else None,
        breaks=breaks,
    )


def measure_agreement(pairs: Sequence[Any]) -> SecondOpinionFigures:
    """Return the agreement of pairs: who decided first and second, and the categories that they gave."""
    reviewers = sorted({name for one, other, _, _ in pairs for name in (one, other)})
    categories = sorted({name for _, _, one, other in pairs for name in (one, other)})
    given = [(one, other) for _, _, one, other in pairs]
    by_reviewer = {name: [(c, d) for a, b, c, d in pairs if name in (a, b)] for name in reviewers}
    by_category = {
        name: [(str(c == name), str(d == name)) for c, d in given] for name in categories
    }
    return SecondOpinionFigures(
        all=cohen_kappa(given),
        reviewers=[
            NamedAgreement(name=name, agreement=cohen_kappa(by_reviewer[name]))
            for name in reviewers
        ],
        categories=[
            NamedAgreement(name=name, agreement=cohen_kappa(by_category[name]))
            for name in categories
        ],
    )
