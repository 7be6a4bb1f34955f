"""`/try`: whoever may judge tries a post in the browser, and sees its trial drawn while it is told.

The page is open, and holds nothing of anybody; what it sends is held to its sender's key as `POST /v1/judge` is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, get_args

from anyio import CancelScope
from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse
from sse_starlette import EventSourceResponse, ServerSentEvent

from tribunal.core.calls import DEMO_NOTICE, REHEARSAL, Call
from tribunal.core.text import make_visible
from tribunal.errors import BadInput, Problem
from tribunal.explanations.case_drawing import line_of_case, mark_cues
from tribunal.explanations.case_view import TextSegment
from tribunal.explanations.deciders import PriceOfCall
from tribunal.explanations.quotations import cut_segments
from tribunal.explanations.view_maker import safe_link
from tribunal.graphs import named_graphs
from tribunal.prompts.policy import list_shipped_policies, load_policy
from tribunal.review.explain import case_from_row, view_with_image
from tribunal.schema import JSON, Cue, Turn
from tribunal.service.desk.pages import HEADERS, render_page
from tribunal.service.replica.case_intake import OpenCase
from tribunal.service.replica.keys import has_keys
from tribunal.service.replica.replica import Replica
from tribunal.service.routes.access import (
    CurrentReplica,
    Judge,
    KeyFirst,
    may_be_operator,
    replica_of,
)
from tribunal.service.routes.cases import iter_trial_events
from tribunal.service.routes.judge import JudgeRequest, make_case, read_judge_request
from tribunal.service.routes.parameters import JSON_TYPE
from tribunal.settings.environment import setting
from tribunal.settings.names import POLICIES, VIEWS

router = APIRouter(route_class=KeyFirst)
_SECURITY = "Content-Security-Policy"
# The script asks the service, and the page shows the image that somebody chose.
_ALLOWED = (
    HEADERS[_SECURITY].replace("img-src 'self'", "img-src 'self' data:") + "; connect-src 'self'"
)
_HOLD_SECONDS = 60.0  # for which a post waits while no model answers: somebody sits before it


@router.get("/try")
async def show_try_page(request: Request) -> HTMLResponse:
    """Show the page, with the graphs, policies and models that it offers."""
    replica = replica_of(request)
    operator = may_be_operator(request)
    settings = replica.options.settings
    model = str(settings.get("model") or setting("TRIBUNAL_MODEL") or "")
    graphs, policies = await asyncio.to_thread(_list_choices)
    page = render_page(
        request, "try.html.jinja", title="Try it", graphs=graphs, policies=policies, words=_list_words(),
        graph=replica.options.graph, policy=str(settings.get("policy") or POLICIES[settings.get("task") or "hate"]),
        free=operator and not await has_keys(replica.store), models=[*(_own_models() if operator else ()), REHEARSAL],
        model=model if operator or not model else "", rehearsal="" if model else DEMO_NOTICE,
        root=request.scope.get("root_path", ""),
    )  # fmt: skip
    page.headers[_SECURITY] = _ALLOWED
    return page


@router.post("/try", openapi_extra={"requestBody": {"content": {JSON_TYPE: {}}}})
async def try_post(
    replica: CurrentReplica,
    who: Judge,
    body: Annotated[JudgeRequest, Depends(read_judge_request)],
) -> EventSourceResponse:
    """Decide on a post, and send the trial as it is told; it ends when its reader goes away.

    Raises:
        Problem: the request can't be taken in.
        BadInput: as `make_case`.
    """
    if not body.keep:
        raise Problem("bad_input", "keep: false: a trial that is to be seen is kept; leave it out")
    new = await make_case(body, replica)
    # A post that is tried is no moderator's work, and counts nowhere.
    settings = {
        name: value for name, value in new.settings.items() if name not in ("review", "review_rule")
    }
    new = new.model_copy(update={"settings": settings, "practice": "tried"})
    opening = asyncio.create_task(
        replica.intake.open_case(new, who, deadline_s=body.deadline_s or _HOLD_SECONDS)
    )
    opened = await asyncio.shield(opening)
    return EventSourceResponse(_stream_trial(replica, opened, body.text or ""))


async def _stream_trial(
    replica: Replica, opened: OpenCase, text: str
) -> AsyncIterator[ServerSentEvent]:
    """Yield the events of a trial with what a page needs beside them, and end the trial if nobody reads on."""
    marks = _PostMarks(text)
    price = replica.prices.cost_of_call if replica.prices else None
    try:
        yield _event({"event": "case", "id": opened.id})
        async for _, event in iter_trial_events(replica.case_store, opened.id):
            yield _event(_with_links_and_cost(event, price))
            if event.get("event") == "turn" and marks.add_turn(event):
                yield _event(marks.as_event())
        yield _event(await _end_event(replica, opened.id, price))
    finally:
        with CancelScope(shield=True):
            await opened.abandon()


class _PostMarks:
    """The words of the post that cues quote, as far as the trial has been told."""

    def __init__(self, text: str) -> None:
        """Begin with a text that nobody has quoted."""
        self._text = text
        self._turns = dict[str, Turn]()
        self._cues = dict[str, Cue]()

    def add_turn(self, event: JSON) -> bool:
        """Take the event of a turn in; return whether it brings cues."""
        turn = Turn.model_validate(
            {name: value for name, value in event.items() if name in Turn.model_fields}
        )
        self._turns[turn.id] = turn
        if turn.stage != "scan":
            self._cues |= {cue.id: cue for cue in turn.cues}
        return bool(turn.cues)

    def as_event(self) -> JSON:
        """Return the text in pieces, and the cues by the numbers that mark them."""
        marked = mark_cues(list(self._turns.values()), list(self._cues.values()), self._text)
        segments: tuple[TextSegment, ...] = cut_segments(self._text, marked) if self._text else ()
        cues = {
            each.number: f"gate {each.cue.id}" if each.by_gate else each.cue.id for each in marked
        }
        return {
            "event": "marks",
            "segments": [each.model_dump(mode="json") for each in segments],
            "cues": cues,
        }


def _with_links_and_cost(event: JSON, price: PriceOfCall | None) -> JSON:
    """Return an event with the address that a page may link to, or with the cost of its call."""
    if event.get("event") in ("evidence", "page"):
        return {**event, "href": safe_link(str(event.get("url") or ""))}
    if event.get("event") == "call" and price is not None:
        fields = {name: value for name, value in event.items() if name in Call.model_fields}
        return {**event, "cost": price(Call.model_validate(fields))}
    return event


async def _end_event(replica: Replica, case_id: str, price: PriceOfCall | None) -> JSON:
    """Return how a case ended, in the words of its explanation."""
    row = await replica.case_store.case(case_id)
    try:
        view = await view_with_image(await case_from_row(replica.store, row), price, files=False)
    except BadInput as error:
        return {"event": "end", "why": str(error)}
    told = view.model_dump(
        mode="json", include={"title", "tone", "first", "track", "reasons", "banners", "warnings"}
    )
    segments = [each.model_dump(mode="json") for each in view.post.segments]
    return {**told, "event": "end", "segments": segments, "cost": view.cost.model_dump(mode="json")}


def _event(event: JSON) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(_visible(event)))


def _visible(value: Any) -> Any:
    """Return a value with all of its texts visible, so that nothing hides or turns around what is read."""
    if isinstance(value, dict):
        return {name: _visible(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_visible(each) for each in value]
    return make_visible(value) if isinstance(value, str) else value


def _list_choices() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the graphs with what they do, and the shipped policies with their task."""
    return named_graphs(), [(name, load_policy(name).task) for name in list_shipped_policies()]


def _own_models() -> list[str]:
    """Return the models that the operator's environment names."""
    return [each.strip() for each in (setting("TRIBUNAL_MODEL") or "").split(",") if each.strip()]


def _list_words() -> JSON:
    """Return how speakers and stages are called wherever a case is drawn."""
    stages = get_args(Turn.model_fields["stage"].annotation)
    seats = [*(f"view:{name}" for name in VIEWS), "debater:hate", "debater:not_hate"]
    return {
        "stages": {each: line_of_case("stage", each) for each in stages},
        "speakers": {each: line_of_case("speaker", each) for each in seats},
    }
