"""The currency of the house: what passes between agents, graphs, stores and reports.

Everything here is a frozen pydantic model. In a graph's state it lies as plain JSON (`dump`), so that a person can edit
it in Studio, a checkpoint holds nothing but JSON, and a node reads it back with `Model.model_validate`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tribunal.core.calls import JSON as JSON
from tribunal.core.calls import Call as Call
from tribunal.core.calls import Frozen as Frozen
from tribunal.core.calls import ShownPart as ShownPart
from tribunal.core.calls import Usage as Usage
from tribunal.exhibit import Box as Box
from tribunal.exhibit import Evidence as Evidence
from tribunal.exhibit import EvidenceStance as EvidenceStance
from tribunal.exhibit import Example as Example
from tribunal.exhibit import Opinion as Opinion
from tribunal.exhibit import Precedent as Precedent
from tribunal.exhibit import Stance as Stance
from tribunal.settings.names import ProbabilitySource as ProbabilitySource
from tribunal.settings.names import Scheme as Scheme
from tribunal.settings.names import Task as Task

CueType = Literal["Direct", "Socio-cultural", "Metaphor"]
Track = Literal["fast_track", "deep_dive", "dismissed", "baseline", "triage"]
# In every outcome and record: derived from the calls, so that no reader has to look at models.
REHEARSED_FIELD: bool = Field(
    default=False, description="whether the rehearsal model took part: rules, no moderator"
)


def _is_empty(held: object) -> bool:
    """Return whether a field that the release before doesn't know is left out, so that it can read the rest."""
    return not held


def _clauses_field(description: str) -> Any:
    return Field(
        default=(), exclude_if=_is_empty, description=f"{description}, by their ids; absent: none"
    )


def without_former_fields(stored: Any) -> Any:
    """Return a stored outcome or record without the fields that only earlier versions wrote."""
    if isinstance(stored, dict) and "first_look" in stored:
        return {name: value for name, value in stored.items() if name != "first_look"}
    return stored


class Image(Frozen):
    """A picture by reference; its bytes are never carried in state."""

    ref: str = Field(description="path, http(s) URL or data URI, as it was given")
    sha256: str = Field(description="of the bytes as they were given")
    mime: str
    width: int
    height: int


class Appeal(Frozen):
    """The appeal against an earlier verdict. In the new trial every seat but the gatekeeper reads it."""

    reason: str = Field(description="why the verdict is wrong, as the one who appeals says")
    context: str = Field(default="", description="what the first trial didn't know")


class Post(Frozen):
    """One social-media post: text, image, or both."""

    id: str
    text: str = ""
    image: Image | None = None
    language: str | None = Field(default=None, description="a tag: en, ko, pt-BR")
    language_from: Literal["given", "detected"] | None = None
    earlier: tuple[str, ...] = Field(
        default=(), description="earlier posts of its conversation, the oldest first"
    )
    appeal: Appeal | None = Field(
        default=None, description="of a new trial: what is said against the verdict"
    )


class Cue(Frozen):
    """One sign of hate that the prosecution found (ARCADE, section 4.1)."""

    id: str = Field(description="its id within the record")
    type: CueType = Field(description="explicit, or how it is hidden")
    target_group: str = Field(description="who is attacked, in words: Muslims")
    characteristic: str = Field(
        default="",
        description="the policy's protected group by which they are picked: religion; empty in old records",
    )
    claim: str = Field(description="what the post says of the group")
    justification: str = Field(description="why that is a sign of hate")
    category: str = Field(description="of the policy")
    box: Box | None = Field(
        default=None, description="where in the image it is seen; where that was asked for"
    )
    clause: str = Field(
        default="",
        exclude_if=_is_empty,
        description="the clause of the policy that it breaks, by its id; absent: none",
    )

    @property
    def attacked_group(self) -> str:
        """Who is attacked, and by which characteristic: Muslims (religion)."""
        return (
            f"{self.target_group} ({self.characteristic})"
            if self.characteristic
            else self.target_group
        )


class Argument(Frozen):
    """What one side says of one cue; it restates the cue, since a speaker sees only the round before."""

    cue_id: str = Field(description="the cue that it is about")
    target_group: str = Field(description="who is attacked")
    claim: str = Field(description="what the cue claims")
    stance: Literal["press", "withdraw", "refute", "concede"] = Field(
        description="what the speaker does with the cue"
    )
    argument: str = Field(description="the speaker's words")
    held: bool = Field(
        default=False,
        description="the speaker left the cue out of this round, so what was said of it before stands",
    )

    @property
    def says(self) -> str:
        """The stance as what its speaker does: presses, withdraws, refutes, concedes; "as before" where it is held."""
        does = f"{self.stance}es" if self.stance == "press" else f"{self.stance}s"
        return f"{does}, as before" if self.held else does


class Turn(Frozen):
    """One utterance in the transcript. A turn is told from others by `id`, and written again under the same one."""

    id: str = Field(description="its id within the record")
    seat: str = Field(description="who speaks")
    stage: Literal[
        "scan", "indictment", "investigation", "argument", "rebuttal", "opening", "response",
        "answer", "score", "reflection", "revision",
    ] = Field(description="at which stage")  # fmt: skip
    round: int = Field(ge=0, description="0 for the gatekeeper's scan")
    cues: tuple[Cue, ...] = Field(default=(), description="the cues that it brings")
    arguments: tuple[Argument, ...] = Field(default=(), description="what it says cue by cue")
    stance: str | None = Field(
        default=None, description="of a response: agree or rebut; of an answer: what it is"
    )
    text: str = Field(default="", description="what was said, where it isn't said cue by cue")
    clauses: tuple[str, ...] = _clauses_field(
        "of an equal's answer: the clauses of the policy that decide it"
    )


def standing_cues(cues: Iterable[Cue], transcript: Iterable[Turn]) -> list[Cue]:
    """Return the cues that the prosecution has not withdrawn, by its last argument on each."""
    stances = {
        argument.cue_id: argument.stance
        for turn in transcript
        for argument in turn.arguments
        if argument.stance in ("press", "withdraw")
    }
    return [cue for cue in cues if stances.get(cue.id) != "withdraw"]


class Step(Frozen):
    """One step of a rationale, and the ids of the evidence that it rests on."""

    claim: str = Field(description="what is claimed")
    evidence: tuple[str, ...] = Field(
        default=(), description="the ids of the evidence that it rests on"
    )


class Vote(Frozen):
    """One of several draws of the judge."""

    label: int = Field(description="the category by its number")
    category: str = Field(description="the category by its name")
    confidence: float | None = Field(default=None, ge=0, le=1, description="of this draw")
    explanation: str = Field(description="why")


class Saving(Frozen):
    """Calls or prompt tokens that a shortcut spared a post, at least so many. `id` is the shortcut."""

    id: Literal["early_exit", "judge_draws", "triage", "prompt_cache"] = Field(
        description="the shortcut"
    )
    calls: int = Field(default=0, description="calls saved, at least")
    tokens: int = Field(default=0, description="prompt tokens saved, at least")
    how: str = Field(description="in words")


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
    tie: bool = Field(
        default=False, description="of a vote: no side had more than half, and non-hate was taken"
    )
    confidence: float | None = Field(default=None, ge=0, le=1)
    uncertain: bool = Field(
        default=False,
        description="a tied vote, a reason that says nothing, or a confidence that is missing or below the threshold",
    )
    votes: tuple[Vote, ...] = Field(
        default=(), description="the judge's draws, where there were several"
    )
    steps: tuple[Step, ...] = Field(
        default=(), description="of a verdict on evidence: the rationale, cited"
    )
    clauses: tuple[str, ...] = _clauses_field("the clauses of the policy that decide it")


class Refusal(Frozen):
    """The provider declined. Never a label, and never counted as a failure."""

    outcome: Literal["refusal"] = "refusal"
    seat: str
    role: str
    model: str
    form: str = Field(
        description="how it was recognised: refusal_field, content_filter, safety_error, plain_text, ..."
    )
    explanation: str
    rehearsed: bool = REHEARSED_FIELD


class Failure(Frozen):
    """No decision for a technical reason. Never counted as a refusal."""

    outcome: Literal["failure"] = "failure"
    seat: str
    role: str
    model: str
    error: str = Field(
        description="the kind: authentication, rate_limit, timeout, connection, server, bad_output, ..."
    )
    explanation: str
    rehearsed: bool = REHEARSED_FIELD


Outcome = Annotated[Verdict | Refusal | Failure, Field(discriminator="outcome")]


class Review(Frozen):
    """A person's review. While `action` is None the case waits.

    `court` is the outcome that the agents came to; the outcome of the case is the person's.
    """

    reason: str = Field(description="why the case was put before a person")
    court: JSON = Field(description="the outcome before the review")
    action: Literal["accept", "edit"] | None = Field(
        default=None, description="the reviewer's action; null while the case waits"
    )
    reviewer: str | None = Field(default=None, description="who decided")
    at: str | None = Field(default=None, description="when it was decided, ISO 8601 in UTC")
    note: str = Field(default="", description="why")
    clauses: tuple[str, ...] = _clauses_field("the clauses of the policy that the reviewer named")


class Trial(Frozen):
    """A trial that a person sent back with a question, as it ended."""

    id: str = Field(description="its id within the record")
    question: str = Field(description="what the person asked")
    reviewer: str | None = Field(description="who asked")
    at: str = Field(description="when, ISO 8601 in UTC")
    outcome: JSON = Field(description="the outcome of that trial")
    cues: tuple[Cue, ...] = Field(description="its cues")
    transcript: tuple[Turn, ...] = Field(description="what was said in it")


class Appealed(Frozen):
    """A reopened decision and its result, with the earlier decision unchanged."""

    id: str = Field(description="the appeal's")
    kind: Literal["appeal", "reopened"] = Field(
        description="an appeal, or a lead who reopened the case"
    )
    at: str = Field(description="when it was made, ISO 8601 in UTC")
    appellant: str = Field(description="who appealed, as the platform calls them; or the lead")
    reason: str = Field(description="why, in the words of the one who appealed")
    context: str = Field(
        default="", description="context that was unknown when the case was decided"
    )
    before: JSON = Field(description="the outcome that it was about")
    decided_by: str | None = Field(
        default=None, description="the person behind that outcome; None: the court alone"
    )
    trial: Trial | None = Field(
        default=None, description="the new trial that was ordered, as it ended"
    )
    result: Literal["upheld", "reversed", "changed"] = Field(
        description="upheld: it stands; reversed: hateful or not is turned round; changed: another category"
    )
    reviewer: str = Field(description="who decided on the appeal")
    decided: str = Field(description="when, ISO 8601 in UTC")
    note: str = Field(default="", description="why")
    clauses: tuple[str, ...] = _clauses_field("the clauses of the policy that the reviewer named")


class Record(Frozen):
    """A post's outcome and all that led to it: what `tribunal judge --json` prints and a run keeps, one a post."""

    outcome: Literal["verdict", "refusal", "failure", "pending"] = Field(
        description="verdict; refusal: a model declined; failure: a technical reason; pending: a person decides"
    )
    post_id: str = Field(description="the post's id, as it was given, or made from what it holds")
    graph: str = Field(description="which system decided")
    task: Task = Field(default="hate", description="what was decided on")
    scheme: Scheme = Field(description="binary, or the policy's categories")
    label: int | None = Field(
        description="the category by its number in the scheme; null without a verdict"
    )
    category: str | None = Field(description="the category by its name; null without a verdict")
    hateful: bool | None = Field(
        description="whether the post is hate speech; null where that was not decided"
    )
    clauses: tuple[str, ...] = _clauses_field("the clauses of the policy that the outcome rests on")
    explanation: str = Field(description="why, in a model's or a person's words")
    rehearsed: bool = REHEARSED_FIELD
    track: Track | None = Field(description="the track: fast_track or deep_dive")
    rounds: int = Field(description="rounds of debate that were held")
    transcript: tuple[Turn, ...] = Field(description="what was said, in order")
    cues: tuple[Cue, ...] = Field(description="the signs of hate that the prosecution found")
    opinions: tuple[Opinion, ...] = Field(default=(), description="the stances of the perspectives")
    calls: tuple[Call, ...] = Field(description="the requests to models")
    usage: Usage = Field(description="calls and tokens of the post")
    unseen_calls: int = Field(
        default=0,
        description="calls to models that the graph made by itself, past `ask`: not in `calls` or `usage`",
    )
    shown: tuple[Literal["text", "image"], ...] | None = Field(
        default=None,
        description="what of the post at least one model was shown; None in old records",
    )
    policy: JSON = Field(
        description="the policy that a model was shown: name and sha; empty where none was"
    )
    prompts: JSON = Field(
        default_factory=dict, description="the set of prompts in force: name and sha"
    )
    protocol: str | None = Field(
        default=None, description="the hash of how it was tried: version, graph, settings"
    )
    language: str | None = Field(
        default=None, description="of the post, as a tag; None where it isn't known"
    )
    language_from: Literal["given", "detected"] | None = Field(
        default=None, description="where the language is from"
    )
    image_sha256: str | None = Field(
        default=None, description="of the bytes of the post's image, as they were given"
    )
    warnings: tuple[str, ...] = Field(description="warnings: what did not go as expected")
    tie: bool = Field(
        default=False,
        description="true: no label had a majority, so the post counts as not hateful",
    )
    confidence: float | None = Field(
        default=None,
        description="from 0 to 1, or of a vote the winner's share; null where none was stated; of a pending case the "
        "models'",
    )
    probability: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="that the post is hate speech: 0.5 or more exactly if it is decided so",
    )
    probability_from: ProbabilitySource | None = Field(
        default=None,
        description="calibrated: a fitted file; confidence: the judge's; verdict: that alone, 1 or 0; person: 1 or 0",
    )
    uncertain: bool = Field(
        default=False,
        description="a tied vote, a reason that says nothing, or a confidence that is missing or below the threshold; "
        "of a pending case as the models left it, and false once a person has decided",
    )
    votes: tuple[Vote, ...] = Field(
        default=(), description="the judge's draws, where there were several"
    )
    steps: tuple[Step, ...] = Field(
        default=(), description="the rationale of a verdict on evidence"
    )
    evidence: tuple[Evidence, ...] = Field(default=(), description="the passages that were found")
    precedents: tuple[Precedent, ...] = Field(
        default=(),
        description="the cases that people decided which the court was shown, the most similar first",
    )
    research: JSON | None = Field(
        default=None, description="of a verdict on evidence: turns, queries, pages, record"
    )
    fault: JSON | None = Field(
        default=None, description="of a refusal or failure: seat, role, model and kind"
    )
    saved: tuple[Saving, ...] = Field(default=(), description="what shortcuts saved")
    review: Review | None = Field(
        default=None, description="of a case that was, or is to be, decided by a person"
    )
    trials: tuple[Trial, ...] = Field(
        default=(), description="earlier trials, which a person sent back"
    )
    appeals: tuple[Appealed, ...] = Field(
        default=(), description="decisions that were opened again, the oldest first"
    )
    thread: str | None = Field(
        default=None, description="where a case that can be reviewed lies: its thread"
    )
    kept: str | None = Field(
        default=None, description="the case that it is kept as (tribunal cases show)"
    )
    debate: tuple[JSON, ...] = Field(
        default=(),
        description="of a debate of views: each round's answers, scores, gain, dropouts; of a vote: how it was cast",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_versions(cls, stored: Any) -> Any:
        return without_former_fields(stored)

    def _repr_html_(self) -> str:
        """Return the case as a notebook shows it."""
        from tribunal import draw_for_notebook, view_case

        return draw_for_notebook(view_case(self))
