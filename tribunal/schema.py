"""The currency of the house: what passes between agents, graphs, stores and reports.

Everything here is a frozen pydantic model. In a graph's state it lies as plain JSON (`dump`), so that a person can edit
it in Studio, a checkpoint holds nothing but JSON, and a node reads it back with `Model.model_validate`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tribunal.boxes import Box
from tribunal.exhibit import JSON as JSON
from tribunal.exhibit import Evidence as Evidence
from tribunal.exhibit import EvidenceStance as EvidenceStance
from tribunal.exhibit import Example as Example
from tribunal.exhibit import Frozen as Frozen
from tribunal.exhibit import Opinion as Opinion
from tribunal.exhibit import Precedent as Precedent
from tribunal.exhibit import Stance as Stance

CueType = Literal["Direct", "Socio-cultural", "Metaphor"]
Scheme = Literal["fine", "binary"]
Task = Literal["hate", "sarcasm", "misinformation"]
Track = Literal["fast_track", "deep_dive", "dismissed", "baseline", "triage"]
ShownPart = Literal["text", "image", "policy"]
# In every outcome and record: derived from the calls, so that no reader has to look at models.
REHEARSED_FIELD: bool = Field(default=False, description="whether the rehearsal model took part: rules, no moderator")


class Image(Frozen):
    """A picture by reference; its bytes are never carried in state."""

    ref: str = Field(description="path, http(s) URL or data URI, as it was given")
    sha256: str = Field(description="of the bytes as they were given")
    mime: str
    width: int
    height: int


class Appeal(Frozen):
    """What is said against an earlier verdict on a post. In its new trial every seat but the gatekeeper reads it."""

    reason: str = Field(description="why the verdict is wrong, as the one who appeals says")
    context: str = Field(default="", description="what the first trial didn't know")


class Post(Frozen):
    """One social-media post: text, image, or both."""

    id: str
    text: str = ""
    image: Image | None = None
    language: str | None = Field(default=None, description="a tag: en, ko, pt-BR")
    language_from: Literal["given", "detected"] | None = None
    earlier: tuple[str, ...] = Field(default=(), description="earlier posts of its conversation, the oldest first")
    appeal: Appeal | None = Field(default=None, description="of a new trial: what is said against the verdict")


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
    box: Box | None = Field(default=None, description="where in the image it is seen; where that was asked for")

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
    model_class: str | None = Field(
        default=None, description="the class of the model where it was given as an object; None where it was named"
    )
    served: str | None = Field(default=None, description="the model that answered, as its provider calls it")
    temperature: float | None
    wanted_temperature: float | None = None
    prompt_sha: str
    prompt_tokens: int = 0
    cached_tokens: int = Field(default=0, description="of the prompt's tokens, those the provider's own cache served")
    completion_tokens: int = 0
    seconds: float = 0.0
    attempts: int = 1
    cached: bool = False
    format: str = Field(default="", description="the rung of the ladder that answered: json_schema, json_object, …")
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
    first_look: str | None = Field(default=None, description="the hash of the fitted first look that decided")


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


class Appealed(Frozen):
    """A decision that was opened again, and what came of it. The decision before it stands here as it was."""

    id: str = Field(description="the appeal's")
    kind: Literal["appeal", "reopened"] = Field(description="an appeal, or a lead who reopened the case")
    at: str = Field(description="when it was made, ISO 8601 in UTC")
    appellant: str = Field(description="who appealed, as the platform calls them; or the lead")
    reason: str
    context: str = ""
    before: JSON = Field(description="the outcome that it was about")
    decided_by: str | None = Field(default=None, description="the person behind that outcome; None: the court alone")
    trial: Trial | None = Field(default=None, description="the new trial that was ordered, as it ended")
    result: Literal["upheld", "reversed", "changed"]
    reviewer: str
    decided: str = Field(description="when, ISO 8601 in UTC")
    note: str = ""


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
    unseen_calls: int = Field(
        default=0, description="calls to models that the graph made by itself, past `ask`: not in `calls` or `usage`"
    )
    shown: tuple[Literal["text", "image"], ...] | None = Field(
        default=None, description="what of the post at least one model was shown; None in old records"
    )
    policy: JSON = Field(description="the policy that a model was shown: name and sha; empty where none was")
    prompts: JSON = Field(default_factory=dict, description="the set of prompts in force: name and sha")
    protocol: str | None = Field(default=None, description="the hash of how it was tried: version, graph, settings")
    language: str | None = Field(default=None, description="of the post, as a tag; None where it isn't known")
    language_from: Literal["given", "detected"] | None = None
    image_sha256: str | None = Field(default=None, description="of the bytes of the post's image, as they were given")
    warnings: tuple[str, ...]
    tie: bool = False
    confidence: float | None = None
    uncertain: bool = False
    votes: tuple[Vote, ...] = ()
    steps: tuple[Step, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    precedents: tuple[Precedent, ...] = Field(
        default=(), description="the cases that people decided which the court was shown, the most similar first"
    )
    research: JSON | None = Field(default=None, description="of a verdict on evidence: turns, queries, pages, record")
    fault: JSON | None = Field(default=None, description="of a refusal or failure: seat, role, model and kind")
    saved: tuple[Saving, ...] = ()
    first_look: str | None = Field(
        default=None, description="the hash of the fitted first look in force; it decided where the track is triage"
    )
    review: Review | None = Field(default=None, description="of a case that was, or is to be, decided by a person")
    trials: tuple[Trial, ...] = Field(default=(), description="earlier trials, which a person sent back")
    appeals: tuple[Appealed, ...] = Field(default=(), description="decisions that were opened again, the oldest first")
    thread: str | None = Field(default=None, description="where a case that can be reviewed lies: its thread")
    kept: str | None = Field(default=None, description="the case that it is kept as (tribunal cases show)")
    debate: tuple[JSON, ...] = Field(
        default=(),
        description="of a debate of views: each round's answers, scores, gain, dropouts; of a vote: how it was cast",
    )

    def _repr_html_(self) -> str:
        """The case as a notebook shows it."""
        from tribunal.case_page import case_page

        return case_page(self)
