"""From a drop-in request to its verdicts: each post is a case like any other, and the answer waits for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import Request

from tribunal.errors import BadInput
from tribunal.schema import Record
from tribunal.service.replica.caseload import NewCase
from tribunal.service.replica.house import House
from tribunal.service.replica.judging import Opened
from tribunal.service.replica.keys import Caller
from tribunal.service.replica.problems import Problem
from tribunal.service.routes.leaving import gone

# Seconds. The clients of the Perspective API hang up after 60, and would never see what went wrong.
PATIENCE = 55.0
# Seconds for which a verdict is given again to the same request of the same key: clients send a request again by
# themselves when it took too long or the connection broke.
AGAIN = 60.0


class _Asked:
    """One post of a request, and the case that it is."""

    def __init__(self, new: NewCase, opened: Opened) -> None:
        self.new, self.opened = new, opened


async def verdicts(request: Request, here: House, who: Caller, posts: Sequence[NewCase]) -> list[tuple[str, Record]]:
    """Decide on posts, at the same time.

    A post that is kept and under way already, for the same key and under the same settings, is waited for and not
    decided twice. When the client goes away, the trials that it began end. When it takes too long, those of posts that
    are kept go on, so that the same request, sent again, finds them.

    Returns:
        the id and the record of each case, in order.

    Raises:
        Problem: too many wait, it took too long, or a post was given no verdict.
        BadInput: a post can't be judged.
    """
    asked: list[_Asked] = []
    late = False
    try:
        for new in posts:
            asked.append(_Asked(new, await _open(here, who, new)))
        until = asyncio.get_running_loop().time() + min(here.options.longest_wait, PATIENCE)
        outcomes = asyncio.gather(*(_outcome(here, who, each, until) for each in asked))
        left = asyncio.create_task(gone(request))
        try:
            waiting: list[asyncio.Future[Any]] = [outcomes, left]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            late = outcomes.done() and not outcomes.exception() and None in outcomes.result()
            records = outcomes.result() if outcomes.done() else []
        finally:
            left.cancel()
            outcomes.cancel()
    finally:
        for each in asked:
            if not (late and each.new.keep):
                await each.opened.abandon()
    decided = [record for record in records if record is not None]
    if len(decided) < len(asked):
        raise Problem("late", "this takes longer than the service waits; send it again to have what it comes to")
    for each, record in zip(asked, decided, strict=True):
        _see_to(each.opened.id, record)
    return [(each.opened.id, record) for each, record in zip(asked, decided, strict=True)]


async def _open(here: House, who: Caller, new: NewCase) -> Opened:
    return await here.judging.open(new, who, again=AGAIN if new.keep else None)


async def _outcome(here: House, who: Caller, asked: _Asked, until: float) -> Record | None:
    clock = asyncio.get_running_loop().time
    while True:
        try:
            record = await asked.opened.outcome(max(0.0, until - clock()))
        except BadInput:
            if not asked.opened.found:
                raise
            asked.opened = await _open(here, who, asked.new)  # whoever it was begun for has gone away
            continue
        further = asked.opened.elsewhere
        if record is not None or further is None or clock() >= until or here.judging.stopping:
            return record
        asked.opened = further  # the trial here came to nothing, and another replica may go on with it


def _see_to(case_id: str, record: Record) -> None:
    """Raises:
    Problem: there is no verdict on hate. What isn't decided is given no score.
    """
    if record.outcome == "failure":
        raise Problem("unavailable", f"no verdict: {record.explanation} (case {case_id})", retry_after=5)
    if record.outcome == "refusal":
        raise Problem("undecided", f"no verdict: a model declined to judge this post (case {case_id})")
    if record.outcome == "pending":
        raise Problem("undecided", f"no verdict yet: a person has to decide; ask for /v1/cases/{case_id} later")
    if record.hateful is None:
        raise Problem("undecided", f"no verdict on hate: this service decides on {record.task}")
