"""What the docket holds, read as what it has to be: whatever else lies in the file is told and never passed on."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tribunal.context import Context
from tribunal.errors import WrongState
from tribunal.nodes.state import PostInput, channel_forms
from tribunal.nodes.state_check import Forms, failure_of, find_wrong_channel, find_wrong_outcome
from tribunal.schema import JSON, Frozen, Outcome, Post

# running: a process works on it. cut_off: that process ended in the middle. erased: its words were.
Status = Literal["running", "cut_off", "pending", "decided", "erased"]


class DocketEntry(Frozen):
    """A case as the docket lists it.

    `opened` is in seconds of the epoch; `court` and `decided` are one line each; `holder` says who works on it.
    """

    thread: str
    graph: str
    settings: JSON
    opened: Annotated[float, Field(ge=0, le=1e11)]
    status: Status
    post_id: str | None
    reason: str | None
    court: str | None
    decided: str | None
    holder: str | None


class _Named(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str


_COURT: TypeAdapter[Any] = TypeAdapter(Outcome)
# The channels that a record reads. In others a graph of one's own may hold what it likes.
_RECORDED = (
    "scheme", "track", "question", "review", "cues", "scan", "transcript", "calls", "warnings", "opinions", "evidence",
    "precedents", "saved", "trials",
)  # fmt: skip


@cache
def _forms() -> Forms:
    """Return the forms of the channels that a record reads."""
    plain = dict.fromkeys(("context", "policy", "prompts"), TypeAdapter(JSON))
    recorded = {name: channel_forms()[name] for name in _RECORDED}
    return {"post": TypeAdapter(Post), **plain, **recorded, "debate": TypeAdapter(list[JSON])}


def checked_state(state: JSON) -> JSON:
    """Return the state of a case, every channel of which is what a node and a record read.

    Raises:
        ValueError: one is something else.
    """
    if wrong := find_wrong_channel(state, _forms()):
        raise ValueError(wrong[1])
    if "policy" in state:
        _Named.model_validate(state["policy"])
    if outcome := state.get("outcome"):
        _COURT.validate_python(outcome)
    if review := state.get("review"):
        _COURT.validate_python(review["court"])
    return state


def readable_state(state: JSON, graph: str, context: Context) -> JSON:
    """Return the state of a case that has ended, as a record can be made of it.

    A graph of one's own, or an edit, may leave an outcome that is none, or a channel that nobody can read. The case
    then ends in a failure that says so, and what can't be read is left out.

    Args:
        state: the case, with the node that wrote its outcome (`outcome_from`) where that is known.
        graph: its graph.
        context: its settings.

    Raises:
        WrongState: it holds no post.
    """
    if not isinstance(state.get("post"), dict):
        raise WrongState(f"post: there is none; let the graph {graph} begin with `receive`")
    if (fault := find_wrong_state(state, context)) is None:
        return state
    kind, message = fault
    node = state.get("outcome_from") if kind == "wrong_outcome" else None
    where = f"node {node} of {graph}" if node else f"graph {graph}"
    read = dict(state)
    while wrong := find_wrong_channel(read, _forms()):
        if wrong[0] == "post":
            raise WrongState(wrong[1])
        del read[wrong[0]]
    return {**read, "outcome": failure_of(kind, f"{message} ({where})")}


def find_wrong_state(state: JSON, context: Context) -> tuple[str, str] | None:
    """Return why no record can be made of a case that has ended: the kind of failure, and a line; None if one can.

    Args:
        state: the case.
        context: its settings.
    """
    if wrong := find_wrong_channel(state, _forms()):
        return "wrong_state", wrong[1]
    fault = find_wrong_outcome(state, context)
    return None if fault is None else ("wrong_outcome", fault)


# The post of a case, as the graph is given it.
GIVEN: TypeAdapter[Any] = TypeAdapter(PostInput)


class _Request(BaseModel):
    description: str


def checked_request(asked: Any) -> JSON:
    """What a reviewer is shown, from the one interrupt of a case.

    Raises:
        ValueError, TypeError, LookupError: it is something else.
    """
    [request] = asked
    _Request.model_validate(request)
    shown: JSON = request
    return shown
