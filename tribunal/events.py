"""The events of a case and the notes that nodes write, as plain JSON and as types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tribunal.core.calls import Call
from tribunal.errors import BadInput
from tribunal.schema import (
    JSON,
    Evidence,
    Failure,
    Frozen,
    Opinion,
    Precedent,
    Refusal,
    Review,
    Turn,
    Verdict,
)


class Named(Frozen):
    """A policy or a set of prompts, by its name and the hash of its words; empty where no model was shown it."""

    name: str = ""
    sha: str = ""


class NamedPrompts(Named):
    """A set of prompts; `tuned_for` is the model family that it was tuned for, if it names one."""

    tuned_for: str = ""


class Terms(Frozen):
    """What a case began with and keeps: the settings that were given, by name, and the texts that these name.

    `graph` is the one whose class the settings are of; empty: `Context`. `line_up` and `threshold_file` are whole
    files; `prompts` are those of a folder of one's own, by name. `case` is the id that it is kept under, where a server
    keeps its cases.
    """

    settings: JSON
    policy: str
    graph: str = ""
    case: str | None = None
    line_up: str | None = None
    threshold_file: str | None = None
    prompts: dict[str, str] | None = None


class Message(BaseModel):
    """A message of a conversation, of LangChain's form. The post is a person's; the outcome is the answer to it."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    type: str = Field(description="whose it is: human or ai")
    id: str = ""
    content: str | list[str | JSON] = Field(description="its words, or blocks of text and images")


class PerspectiveBrief(Frozen):
    """What an agent is told of its perspective: its criterion, and its words for the two labels."""

    id: str
    title: str
    language: str
    criterion: str
    hate: str
    not_hate: str


class Fault(Frozen):
    """A refusal or a failure of one seat. `form` is of a refusal, `error` of a failure."""

    outcome: Literal["refusal", "failure"]
    seat: str
    role: str
    model: str
    explanation: str
    form: str | None = None
    error: str | None = None
    rehearsed: bool = False


class Absence(Fault):
    """A perspective that couldn't be heard, by its name, and why."""

    id: str


class Dropout(Fault):
    """Who fell out of a round of a debate, at which stage, and why."""

    id: str
    round: int
    stage: str


class Gone(Frozen):
    """A dropout, as its round names it."""

    seat: str
    stage: str
    outcome: Literal["refusal", "failure"]
    explanation: str


class Round(Frozen):
    """A round of a debate of views or of equals: the answers, and of views their scores and what the gate made of them.

    `answers`, `scores` and `new_scores` go by view, or by seat. `delta` is the gain of the second answers.
    """

    id: str
    round: int
    answers: dict[str, str | None]
    consensus: bool = False
    dropped: tuple[Gone, ...] = ()
    scores: dict[str, float] | None = None
    top: tuple[str, ...] = Field(
        default=(), description="whose answers were revised after the reflection"
    )
    new_scores: dict[str, float] | None = None
    delta: float | None = None
    adopted: bool | None = Field(
        default=None, description="whether the second answers took the place of the first"
    )
    best: str | None = None
    kept: tuple[str, ...] = Field(default=(), description="whose answers the next rounds are shown")
    calls: int | None = Field(
        default=None, description="how many calls the round took, among equals"
    )


class Ballot(Frozen):
    """How a vote was cast: votes by answer, the draws that were wanted, and those that were spared."""

    id: Literal["vote"]
    votes: dict[str, int]
    draws: int | None = None
    spared: int | None = None
    tie: bool | None = None


class Plan(Frozen):
    """What was thought before a turn of searching, and what has to be verified."""

    id: str
    turn: int
    thought: str
    entities: tuple[str, ...]
    claims: tuple[str, ...]


class FoundPage(Frozen):
    """A page that a search found, as it is judged by."""

    query: str
    url: str
    title: str
    snippet: str


class Target(Frozen):
    """A page that is to be read, and the query that found it; the query is empty where the model named the page."""

    url: str
    query: str
    title: str


class PageNote(Frozen):
    """A page that was read, or why it wasn't. Its text lies in the archive under `page_id`."""

    id: str
    url: str
    turn: int
    page_id: str | None = None
    title: str = ""
    language: str | None = None
    date: str | None = None
    error: str | None = None
    rejected: int = Field(
        default=0, description="passages that the model gave and the page doesn't hold"
    )
    evidence: tuple[str, ...] = Field(default=(), description="the ids of its passages")


class ReadPage(PageNote):
    """A page with the passages that were found in it."""

    passages: tuple[Evidence, ...] = Field(default=(), description="they have no id yet")


class Judgement(Frozen):
    """What the evidence says after a page, and why."""

    id: str
    url: str
    turn: int
    reasoning: str
    judgement: str


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
    """An agent spoke. A turn replaces an earlier turn of the same `id`."""

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
