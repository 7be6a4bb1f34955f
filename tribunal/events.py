"""The events that a graph streams as `stream_mode="custom"`, from which a front end draws the trial live.

Each is a JSON object whose `event` names its kind. `event_of` reads one; the table of them is docs/events.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from tribunal.calls import Call
from tribunal.errors import BadInput
from tribunal.notes import Judgement, PageNote, Plan, Round
from tribunal.schema import JSON, Evidence, Failure, Frozen, Opinion, Precedent, Refusal, Review, Turn, Verdict

Listener = Callable[[JSON], None]  # what is told each event


class AskingEvent(Frozen):
    """A model is about to be asked. `call` follows when it has answered, or failed."""

    event: Literal["asking"]
    seat: str
    role: str
    model: str


class CallEvent(Call):
    """A model was asked, and what that cost. `prompt` and `answer` are there with the setting `trace` alone."""

    event: Literal["call"]
    prompt: tuple[tuple[str, str], ...] | None = None
    answer: str | None = None


class TurnEvent(Turn):
    """Somebody spoke. A turn of an `id` that came before takes that one's place."""

    event: Literal["turn"]


class OpinionEvent(Opinion):
    """A perspective took its stance."""

    event: Literal["opinion"]


class TriageEvent(Frozen):
    """Triage decided; `clear` says whether that spares the trial."""

    event: Literal["triage"]
    clear: bool
    category: str
    confidence: float | None
    explanation: str


class RestEvent(Frozen):
    """The sides rest before the last round, since no cue is in dispute."""

    event: Literal["rest"]
    round: int
    rounds: int


class RoundEvent(Round):
    """A round of a debate of views is over."""

    event: Literal["round"]


class PlanEvent(Plan):
    """What the researcher thought before a turn of searching."""

    event: Literal["plan"]


class QueriesEvent(Frozen):
    """What is searched for in this turn."""

    event: Literal["queries"]
    turn: int
    queries: tuple[str, ...]


class SearchEvent(Frozen):
    """The searches of a turn are done; `hits` counts the pages that were not tried before."""

    event: Literal["search"]
    turn: int
    hits: int


class PageEvent(PageNote):
    """A page was read, or `error` says why it wasn't."""

    event: Literal["page"]


class EvidenceEvent(Evidence):
    """A passage was found in the page that was read last."""

    event: Literal["evidence"]


class PrecedentEvent(Precedent):
    """A case that a person decided was brought before the court."""

    event: Literal["precedent"]


class JudgementEvent(Judgement):
    """What the evidence says so far."""

    event: Literal["judgement"]


class SufficiencyEvent(Frozen):
    """Whether the evidence is enough, or what is still missing."""

    event: Literal["sufficiency"]
    turn: int
    sufficient: bool
    missing: str


class ReviewEvent(Review):
    """A person decided."""

    event: Literal["review"]


class VerdictEvent(Verdict):
    """The case ends with a verdict."""

    event: Literal["outcome"]


class RefusalEvent(Refusal):
    """The case ends because a model refused."""

    event: Literal["outcome"]


class FailureEvent(Failure):
    """The case ends for a technical reason."""

    event: Literal["outcome"]


OutcomeEvent = Annotated[VerdictEvent | RefusalEvent | FailureEvent, Field(discriminator="outcome")]
Event = Annotated[
    AskingEvent
    | CallEvent
    | TurnEvent
    | OpinionEvent
    | TriageEvent
    | RestEvent
    | RoundEvent
    | PlanEvent
    | QueriesEvent
    | SearchEvent
    | PageEvent
    | EvidenceEvent
    | PrecedentEvent
    | JudgementEvent
    | SufficiencyEvent
    | ReviewEvent
    | OutcomeEvent,
    Field(discriminator="event"),
]
# In the order in which they may come first.
EVENTS: tuple[type[BaseModel], ...] = (
    AskingEvent, CallEvent, TurnEvent, TriageEvent, OpinionEvent, PlanEvent, QueriesEvent, SearchEvent, PageEvent,
    EvidenceEvent, PrecedentEvent, JudgementEvent, SufficiencyEvent, RestEvent, RoundEvent, VerdictEvent, RefusalEvent,
    FailureEvent, ReviewEvent,
)  # fmt: skip
_READ: TypeAdapter[Event] = TypeAdapter(Event)


def event_of(streamed: Any) -> Event:
    """Return an event as it was streamed, with its fields typed.

    Raises:
        BadInput: it is none of ours, such as one that a piece of your own streams.
    """
    try:
        return _READ.validate_python(streamed)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "event"
        raise BadInput(f"{field}: {first['msg']}; tribunal.events lists the events") from error
