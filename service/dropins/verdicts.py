"""Scores for drop-ins: a request's posts are decided as cases like any other, and a verdict becomes a score."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request

from tribunal.cases.leases import NewCase
from tribunal.cases.problem import Problem
from tribunal.context import context_from
from tribunal.errors import BadInput
from tribunal.nodes.verdict import USUAL_THRESHOLD, confidence_wanted, describe_misfits, fitted_threshold
from tribunal.schema import JSON, Record
from tribunal.service.replica.case_intake import OpenCase
from tribunal.service.replica.keys import Caller
from tribunal.service.replica.replica import Replica
from tribunal.service.routes.judge import wait_while_connected
from tribunal.settings import SETTINGS
from tribunal.threshold import Threshold

# Seconds. The clients of the Perspective API hang up after 60, and would never see what went wrong.
MAX_SECONDS = 55.0
# Seconds for which a verdict is given again to the same request of the same key: clients send a request again by
# themselves when it took too long or the connection broke.
REPEAT_SECONDS = 60.0


@dataclass
class _OpenedPost:
    """One post of a request, and the case that it is."""

    new: NewCase
    opened: OpenCase


async def _decide_posts(
    request: Request, replica: Replica, who: Caller, posts: Sequence[NewCase]
) -> tuple[list[str], list[Record]]:
    """Decide on posts, at the same time.

    A post that is kept and under way already, for the same key and under the same settings, is waited for and not
    decided twice. When the client goes away, the trials that it began end. When it takes too long, those of posts that
    are kept go on, so that the same request, sent again, finds them.

    Returns:
        the ids and the records of the cases, in order.

    Raises:
        Problem: too many wait, it took too long, or a post was given no verdict.
        BadInput: a post can't be judged.
    """
    opened_posts: list[_OpenedPost] = []
    outcomes: asyncio.Future[list[Record | None]] | None = None
    is_late = False
    try:
        for new in posts:
            opened_posts.append(_OpenedPost(new, await _open_case(replica, who, new)))
        deadline = asyncio.get_running_loop().time() + min(replica.options.longest_wait, MAX_SECONDS)
        outcomes = asyncio.gather(*(_wait_for_outcome(replica, who, each, deadline) for each in opened_posts))
        found = outcomes.result() if await wait_while_connected(request, outcomes) else [None]
        is_late = outcomes.done() and None in found
    finally:
        if outcomes is not None:
            outcomes.cancel()
        for each in opened_posts:
            if not (is_late and each.new.keep):
                await each.opened.abandon()
    records = [record for record in found if record is not None]
    if len(records) < len(opened_posts):
        raise Problem("late", "this takes longer than the service waits; send it again to get its outcome")
    case_ids = [each.opened.id for each in opened_posts]
    for case_id, record in zip(case_ids, records, strict=True):
        _check_verdict(case_id, record)
    return case_ids, records


async def _open_case(replica: Replica, who: Caller, new: NewCase) -> OpenCase:
    return await replica.intake.open_case(new, who, again=REPEAT_SECONDS if new.keep else None)


async def _wait_for_outcome(replica: Replica, who: Caller, post: _OpenedPost, deadline: float) -> Record | None:
    clock = asyncio.get_running_loop().time
    while True:
        try:
            return await post.opened.outcome(max(0.0, deadline - clock()))
        except BadInput:
            if not post.opened.found:
                raise
            post.opened = await _open_case(replica, who, post.new)  # whoever it was begun for has gone away


def _check_verdict(case_id: str, record: Record) -> None:
    """Refuse what is no verdict on hate: what isn't decided is given no score; raise Problem if it is none."""
    if record.outcome == "failure":
        raise Problem("unavailable", f"no verdict: {record.explanation} (case {case_id})", retry_after=5)
    why = {
        "refusal": f"no verdict: a model declined to judge this post (case {case_id})",
        "pending": f"no verdict yet: a person has to decide; ask for /v1/cases/{case_id} later",
        "verdict": f"no verdict on hate: this service decides on {record.task}",
    }
    if record.outcome != "verdict" or record.hateful is None:
        raise Problem("undecided", why[record.outcome])


class ScoredPosts:
    """Posts that were decided, and how much speaks for a statement about each, from 0 to 1.

    The judge's confidence is in the category that it chose. The map of a fitted threshold turns it into the share of
    such verdicts that were right. If no confidence was stated (a post that was dismissed before it reached a judge,
    the rehearsal model, a graph without a judge), the score is the verdict itself: 1 or 0.
    """

    def __init__(
        self, case_ids: Sequence[str], records: Sequence[Record], settings: JSON, fitted: Threshold | None
    ) -> None:
        """Make one with `score_posts`."""
        self.case_ids, self.records = case_ids, records
        self._context, self._fitted = context_from(settings), fitted

    def score(self, record: Record, holds: bool) -> float:
        """Return the score of a statement; `holds`: whether the verdict makes it."""
        confidence = record.confidence
        if confidence is None:
            return float(holds)
        if (fitted := self._map_for(record)) is not None:
            confidence = fitted.calibrated(confidence)
        return confidence if holds else round(1 - confidence, 6)

    def _map_for(self, record: Record) -> Threshold | None:
        """Return the map if it is of this graph, scheme, policy and line-up of models; for others it means nothing."""
        fitted = self._fitted
        if fitted is None or not fitted.calibration:
            return None
        policy_sha = str(record.policy.get("sha", ""))
        return None if describe_misfits(fitted, record.graph, self._context, policy_sha) else fitted

    @property
    def headers(self) -> dict[str, str]:
        """Return what neither API has a field for, one value a result, in order."""
        return {
            "Tribunal-Case": ", ".join(self.case_ids),
            "Tribunal-Score": ", ".join(self._score_kind(each) for each in self.records),
            "Tribunal-Uncertain": ", ".join(str(each.uncertain).lower() for each in self.records),
            "Tribunal-Rehearsed": ", ".join(str(each.rehearsed).lower() for each in self.records),
        }

    def _score_kind(self, record: Record) -> str:
        if record.confidence is None:
            return "verdict"
        return "confidence" if self._map_for(record) is None else "calibrated"


async def score_posts(
    request: Request, replica: Replica, who: Caller, posts: Sequence[JSON], settings: JSON, *, keep: bool = True
) -> ScoredPosts:
    """Decide on posts by the operator's graph, whose judge states a confidence if it can, and return their scores.

    Raises:
        Problem: too many wait, it took too long, or a post was given no verdict.
        BadInput: a post can't be judged, or the file of the fitted threshold can't be read.
    """
    for post in posts:
        await replica.intake.check_image(post.get("image"))
    graph = replica.options.graph
    if graph in SETTINGS["threshold"].graphs and not confidence_wanted(context_from(settings)):
        settings = {**settings, "threshold": USUAL_THRESHOLD}
    new = [NewCase(graph=graph, post=post, settings=settings, keep=keep) for post in posts]
    case_ids, records = await _decide_posts(request, replica, who, new)
    # A threshold beside the file takes the place of the file's threshold, and not of its map.
    fitted = await fitted_threshold(context_from(settings).model_copy(update={"threshold": None}))
    return ScoredPosts(case_ids, records, settings, fitted)
