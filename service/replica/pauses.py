"""Pauses of a trial that somebody steps through: told as events, and answered from any replica, as rows of a case."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from tribunal.cases.case_store import CaseStore
from tribunal.cases.problem import Problem
from tribunal.cases.stepping import StepAnswer
from tribunal.errors import BadInput
from tribunal.schema import JSON

_LONGEST_SECONDS = 900.0  # for which a trial keeps its place
_POLL_SECONDS = 0.2


async def wait_at_pause(
    case_store: CaseStore, case_id: str, tell: Callable[[JSON], None], numbers: Iterator[int], pause: JSON
) -> StepAnswer:
    """Tell of a pause, and return how somebody goes on.

    Raises:
        BadInput: nobody does.
    """
    number = next(numbers)  # of the answer; the pause itself is told under a later one
    tell({**pause, "number": number})
    for _ in range(int(_LONGEST_SECONDS / _POLL_SECONDS)):
        for at, event in await case_store.events_after(case_id, number - 1):
            if at == number:
                return StepAnswer.model_validate(event["answer"])
        await asyncio.sleep(_POLL_SECONDS)
    raise BadInput(f"nobody went on with it for {_LONGEST_SECONDS / 60:.0f} minutes; try the post anew")


async def answer_pause(case_store: CaseStore, row: JSON, answer: StepAnswer) -> None:
    """Go on from a pause of a case.

    Raises:
        Problem: the case isn't at this pause, or nobody said what is to be edited.
    """
    number = answer.number
    told = dict(await case_store.events_after(row["id"], number - 1))
    pause = next((each for each in told.values() if each.get("number") == number), None)
    if row["status"] != "running" or pause is None or number in told:
        raise Problem("conflict", f"number: {number}: the trial isn't at this pause; look at it once more")
    said = {(each["channel"], each["id"], each["field"]) for each in pause["said"]}
    for each in answer.edits:
        if each.key not in said:
            raise Problem("bad_input", f"edits: {each.id} {each.field}: nobody has said this that can be edited now")
    event = {"event": "go_on", "answer": answer.model_dump()}
    await case_store.write_events([{"case_id": row["id"], "number": number, "attempt": row["attempt"], "event": event}])
