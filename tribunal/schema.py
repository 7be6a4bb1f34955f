"""The currency of the house: what passes between agents, graphs, stores and reports.

Everything here is a frozen pydantic model. In a graph's state it lies as plain JSON (`dump`), so that a person can edit
it in Studio, a checkpoint holds nothing but JSON, and a node reads it back with `Model.model_validate`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tribunal.errors import BadInput

CueType = Literal["Direct", "Socio-cultural", "Metaphor"]
Scheme = Literal["fine", "binary"]
Stance = Literal["hate", "not_hate"]
Task = Literal["hate", "sarcasm", "misinformation"]
Track = Literal["fast_track", "deep_dive", "dismissed", "baseline", "triage"]
ShownPart = Literal["text", "image", "policy"]
JSON = dict[str, Any]
# In every outcome and record: derived from the calls, so that no reader has to look at models.
REHEARSED_FIELD: bool = Field(default=False, description="whether the rehearsal model took part: rules, no moderator")


class Frozen(BaseModel):
    """The base of every model here: frozen, and strict about names it doesn't know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def dump(self) -> JSON:
        """The plain JSON form in which state, checkpoints and records carry this."""
        return self.model_dump(mode="json")


class Image(Frozen):
    """A picture by reference; its bytes are never carried in state."""

    ref: str = Field(description="path, http(s) URL or data URI, as it was given")
    sha256: str = Field(description="of the bytes as they were given")
    mime: str
    width: int
    height: int


class Post(Frozen):
    """One social-media post: text, image, or both."""

    id: str
    text: str = ""
    image: Image | None = None
    language: str | None = Field(default=None, description="a tag: en, ko, pt-BR")
    language_from: Literal["given", "detected"] | None = None
    earlier: tuple[str, ...] = Field(default=(), description="earlier posts of its conversation, the oldest first")


class Cue(Frozen):
    """One sign of hate that the prosecution found (ARCADE, section 4.1)."""

    id: str
    type: CueType
    target_group: str = Field(description="who is attacked, in words: Muslims")
    characteristic: str = Field(
        default="", description="the policy's protected group by which they are picked: religion; empty in old records"
    )
    claim: str
    justification: str
    category: str

    @property
    def whom(self) -> str:
        """Who is attacked, and by which characteristic: Muslims (religion)."""
        return f"{self.target_group} ({self.characteristic})" if self.characteristic else self.target_group


class Argument(Frozen):
    """What one side says of one cue; it restates the cue, since a speaker sees only the round before."""

    cue_id: str
    target_group: str
    claim: str
    stance: Literal["press", "withdraw", "refute", "concede"]
    argument: str
    held: bool = Field(
        default=False, description="the speaker left the cue out of this round, so what was said of it before stands"
    )

    @property
    def says(self) -> str:
        """The stance as what its speaker does: presses, withdraws, refutes, concedes; "as before" where it is held."""
        does = f"{self.stance}es" if self.stance == "press" else f"{self.stance}s"
        return f"{does}, as before" if self.held else does


class Turn(Frozen):
    """One utterance in the transcript. A turn is told from others by `id`, and written again under the same one."""

    id: str
    seat: str
    stage: Literal[
        "scan", "indictment", "investigation", "argument", "rebuttal", "opening", "response",
        "answer", "score", "reflection", "revision",
    ]  # fmt: skip
    round: int = Field(ge=0, description="0 for the gatekeeper's scan")
    cues: tuple[Cue, ...] = ()
    arguments: tuple[Argument, ...] = ()
    stance: str | None = Field(default=None, description="of a response: agree or rebut; of an answer: what it is")
    text: str = Field(default="", description="what was said, where it isn't said cue by cue")


class Example(Frozen):
    """A labelled text near a post. `similarity` is the cosine; `row` is its place in the index, -1 where unknown."""

    text: str
    label: Stance
    label_name: str
    similarity: float
    row: int


class Opinion(Frozen):
    """A perspective's stance and reason, and the examples it saw (PREDICT, section 3.1). `id` is the perspective."""

    id: str
    title: str
    language: str
    stance: Stance
    label_name: str
    reason: str
    examples: tuple[Example, ...] = ()


class EvidenceStance(StrEnum):
    """Which way a passage speaks: for the post being hateful, against it, or neither, as what explains a word does."""

    SUPPORTS = "supports"
    REFUTES = "refutes"
    NEUTRAL = "neutral"

    @classmethod
    def of(cls, word: str) -> EvidenceStance:
        """The stance of this name.

        Raises:
            BadInput: there is none.
        """
        try:
            return cls(word)
        except ValueError as error:
            raise BadInput(f"stance: {word!r}: is none; give {', '.join(cls)}") from error


class Evidence(Frozen):
    """A passage of a page, word for word, and which way it speaks (AntiHateAgent, section 3, phase 2).

    `start` and `end` are its place in the page's text, in characters; `window` is the reading window it came from.
    """

    id: str
    query: str
    url: str
    page_id: str
    title: str
    passage: str
    stance: EvidenceStance
    window: int
    start: int
    end: int

    @classmethod
    def of(
        cls,
        id: str,
        passage: str,
        stance: EvidenceStance | Literal["supports", "refutes", "neutral"],
        title: str,
        url: str = "",
    ) -> JSON:
        """A passage from a source of one's own, as state carries it.

        Args:
            id: a capital letter and a number, by which the court cites it: G1.
            passage: its words.
            stance: which way it speaks of the post.
            title: of what it is taken from.
            url: its address, where it has one.

        Raises:
            BadInput: the id, the passage or the stance is wrong.
        """
        if not re.fullmatch("[A-Z][0-9]+", id):
            raise BadInput(f"id: {id!r}: can't be cited; give a capital letter and a number, such as G1")
        if not passage.strip():
            raise BadInput(f"passage: of {id}: is empty; leave the evidence out")
        return cls(
            id=id, query="", url=url, page_id="", title=title, passage=passage, stance=EvidenceStance.of(stance),
            window=0, start=0, end=len(passage),
        ).dump()  # fmt: skip


class Step(Frozen):
    """One step of a rationale, and the ids of the evidence that it rests on."""

    claim: str
    evidence: tuple[str, ...] = ()


class Call(Frozen):
    """One request to a chat model, its re-asks and retries included. `temperature` is None where none was sent."""

    id: str
    role: str
    seat: str
    model: str
    temperature: float | None
    wanted_temperature: float | None = None
    prompt_sha: str
    prompt_tokens: int = 0
    cached_tokens: int = Field(default=0, description="of the prompt's tokens, those the provider's own cache served")
    completion_tokens: int = 0
    seconds: float = 0.0
    attempts: int = 1
    cached: bool = False
    format: str = Field(
        default="", description="the rung of the ladder that answered: json_schema, json_object, prompt"
    )
    key: int | None = Field(default=None, description="which key of the provider's pool, by number")
    shown: tuple[ShownPart, ...] | None = Field(
        default=None, description="what of the case stood in the request that was answered; None in old records"
    )
    repeat: int = Field(default=0, description="which repeat of a run this call belongs to")
    draw: int = Field(default=0, description="which of several draws of the same call this is")
    error: str | None = None


class Vote(Frozen):
    """One of several draws of the judge."""

    label: int
    category: str
    confidence: float | None = Field(default=None, ge=0, le=1)
    explanation: str


class Saving(Frozen):
    """Calls or prompt tokens that a shortcut spared a post, at least so many. `id` is the shortcut."""

    id: Literal["early_exit", "judge_draws", "triage", "prompt_cache"]
    calls: int = 0
    tokens: int = 0
    how: str


class Verdict(Frozen):
    """A decision. `label` and `category` follow the scheme in force; `hateful` is None where that wasn't the task."""

    outcome: Literal["verdict"] = "verdict"
    task: Task = "hate"
    label: int
    category: str
    hateful: bool | None
    explanation: str
    rehearsed: bool = REHEARSED_FIELD
    track: Track | None = None
    tie: bool = Field(default=False, description="of a vote: no side had more than half, and non-hate was taken")
    confidence: float | None = Field(default=None, ge=0, le=1)
    uncertain: bool = Field(
        default=False, description="a tied vote, or a confidence that is missing or below the threshold in force"
    )
    votes: tuple[Vote, ...] = Field(default=(), description="the judge's draws, where there were several")
    steps: tuple[Step, ...] = Field(default=(), description="of a verdict on evidence: the rationale, cited")


class Refusal(Frozen):
    """The provider declined. Never a label, and never counted as a failure."""

    outcome: Literal["refusal"] = "refusal"
    seat: str
    role: str
    model: str
    form: str = Field(description="how it was recognised: refusal_field, content_filter, safety_error, plain_text, ...")
    explanation: str
    rehearsed: bool = REHEARSED_FIELD


class Failure(Frozen):
    """No decision for a technical reason. Never counted as a refusal."""

    outcome: Literal["failure"] = "failure"
    seat: str
    role: str
    model: str
    error: str = Field(description="the kind: authentication, rate_limit, timeout, connection, server, bad_output, ...")
    explanation: str
    rehearsed: bool = REHEARSED_FIELD


Outcome = Annotated[Verdict | Refusal | Failure, Field(discriminator="outcome")]


class Review(Frozen):
    """What a person made of a case. While `action` is None the case waits for them.

    `court` is the outcome that the agents came to; the outcome of the case is the person's.
    """

    reason: str = Field(description="why the case was put before a person")
    court: JSON
    action: Literal["accept", "edit"] | None = None
    reviewer: str | None = None
    at: str | None = Field(default=None, description="when it was decided, ISO 8601 in UTC")
    note: str = ""


class Trial(Frozen):
    """A trial that a person sent back with a question, as it ended."""

    id: str
    question: str
    reviewer: str | None
    at: str
    outcome: JSON
    cues: tuple[Cue, ...]
    transcript: tuple[Turn, ...]


class Usage(Frozen):
    """What a post cost: answers served from the cache cost nothing. `seconds` is summed over calls, not wall time."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    cached_tokens: int = 0

    @classmethod
    def of(cls, calls: list[JSON]) -> Usage:
        paid = [call for call in calls if not call["cached"]]
        return cls(
            calls=len(paid),
            prompt_tokens=sum(call["prompt_tokens"] for call in paid),
            completion_tokens=sum(call["completion_tokens"] for call in paid),
            seconds=round(sum(call["seconds"] for call in paid), 3),
            cached_tokens=sum(call["cached_tokens"] for call in paid),
        )


class Record(Frozen):
    """A post's outcome and all that led to it: what `tribunal judge --json` prints and a run keeps, one a post."""

    outcome: Literal["verdict", "refusal", "failure", "pending"]
    post_id: str
    graph: str
    task: Task = "hate"
    scheme: Scheme
    label: int | None
    category: str | None
    hateful: bool | None
    explanation: str
    rehearsed: bool = REHEARSED_FIELD
    track: Track | None
    rounds: int = Field(description="rounds of debate that were held")
    transcript: tuple[Turn, ...]
    cues: tuple[Cue, ...]
    opinions: tuple[Opinion, ...] = ()
    calls: tuple[Call, ...]
    usage: Usage
    shown: tuple[Literal["text", "image"], ...] | None = Field(
        default=None, description="what of the post at least one model was shown; None in old records"
    )
    policy: JSON = Field(description="the policy that a model was shown: name and sha; empty where none was")
    prompts: JSON = Field(default_factory=dict, description="the set of prompts in force: name and sha")
    language: str | None = Field(default=None, description="of the post, as a tag; None where it isn't known")
    language_from: Literal["given", "detected"] | None = None
    warnings: tuple[str, ...]
    tie: bool = False
    confidence: float | None = None
    uncertain: bool = False
    votes: tuple[Vote, ...] = ()
    steps: tuple[Step, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    research: JSON | None = Field(default=None, description="of a verdict on evidence: turns, queries, pages, record")
    fault: JSON | None = Field(default=None, description="of a refusal or failure: seat, role, model and kind")
    saved: tuple[Saving, ...] = ()
    review: Review | None = Field(default=None, description="of a case that was, or is to be, decided by a person")
    trials: tuple[Trial, ...] = Field(default=(), description="earlier trials, which a person sent back")
    thread: str | None = Field(default=None, description="where a case that can be reviewed lies: its thread")
    debate: tuple[JSON, ...] = Field(
        default=(),
        description="of a debate of views: each round's answers, scores, gain, dropouts; of a vote: how it was cast",
    )

    def _repr_html_(self) -> str:
        """The case as a notebook shows it."""
        from tribunal.case_page import case_page

        return case_page(self)
