"""What editors and type checkers know: the keywords of `judge`, the channels, and the JSON in them.

Written by .ci/write_typed_names.py, from the settings of all graphs, `tribunal.schema` and the state `Case`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from langchain_core.runnables import Runnable

# provider:model, a chat model or another Runnable of LangChain's from messages to a message, or several in order.
Model: TypeAlias = str | Runnable[Any, Any] | Sequence[str | Runnable[Any, Any]]

class CallKeywords(TypedDict, total=False):
    """The settings other than the policy."""

    policy_language: Literal["policy", "post"]
    prompts: str | None
    prompt_texts: dict[str, str]
    task: Literal["hate", "sarcasm", "misinformation"]
    policy_definition: str | None
    policy_examples: bool | None
    policy_clauses: bool | None
    scheme: Literal["fine", "binary"]
    model: Model | None
    seats: Mapping[str, Model]
    temperatures: dict[str, float]
    extra_body: dict[str, dict[str, Any]]
    line_up: str | None
    judge_model: Model | None
    aux_model: Model | None
    draw_temperature: float
    perspectives: list[str]
    leave_out: str | None
    examples_k: int
    embedding: str | None
    search: str
    searxng_url: str | None
    archive: str | None
    fresh: bool
    max_turns: int
    hits: int
    max_pages: int
    max_windows: int
    window_tokens: int
    window_overlap: int
    max_seconds: float
    precedents: str | None
    precedents_k: int
    web: bool
    answer_order: Literal["reason-first", "label-first"] | None
    mode: Literal[
        "full",
        "round-1-only",
        "majority",
        "single",
        "base",
        "leave-out",
        "criterion-only",
        "examples-only",
        "no-knowledge",
        "no-search",
        "no-details",
        "zero-shot",
    ]
    rounds: int
    early_exit: bool | None
    turns_shown: Literal["previous", "none"]
    cue_limit: int
    judge_rejects: Literal["fast-track", "both-tracks"]
    boxes: bool
    triage: Model | None
    triage_confidence: float
    debate_memory: Literal["whole", "arguments"]
    views: list[str]
    top_k: int | None
    reflection_mode: Literal["gated", "none", "always"]
    tau: float
    history: Literal["best", "all"]
    draws: int
    agents: int
    threshold: float | None
    threshold_file: str | None
    judge_draws: int
    review: bool
    review_rule: list[str]
    max_calls: int | None
    max_tokens: int | None
    max_text: int
    image_edge: int
    max_output_tokens: int
    timeout: float
    attempts: int
    cache: str | None
    repeat: int
    trace: bool
    stops: list[str]

class SettingsKeywords(CallKeywords, total=False):
    """Every setting."""

    policy: str

# The channels of `Case`. Your own state may have others.
Channel = Literal[
    "text",
    "image",
    "post_id",
    "language",
    "earlier",
    "appeal",
    "messages",
    "post",
    "context",
    "policy",
    "prompts",
    "reading",
    "scan",
    "cues",
    "transcript",
    "round",
    "track",
    "calls",
    "warnings",
    "budget_spent",
    "outcome",
    "evidence",
    "opinions",
    "precedents",
    "question",
    "early_exit",
    "policy_examples",
    "saved",
    "reserved",
    "budget_from",
    "panel",
    "examples",
    "absent",
    "scheme",
    "run",
    "turn",
    "started",
    "queries",
    "tried",
    "hits",
    "pending",
    "crawl",
    "read_pages",
    "page",
    "pages",
    "plans",
    "judgements",
    "exhausted",
    "sufficient",
    "missing",
    "review",
    "trials",
]

class BoxData(TypedDict):
    """A `Box` as JSON."""

    x0: float
    y0: float
    x1: float
    y1: float

class ExampleData(TypedDict):
    """An `Example` as JSON."""

    text: str
    label: Literal["hate", "not_hate"]
    label_name: str
    similarity: float
    row: int

class ImageData(TypedDict):
    """An `Image` as JSON."""

    ref: str
    sha256: str
    mime: str
    width: int
    height: int

class AppealData(TypedDict):
    """An `Appeal` as JSON."""

    reason: str
    context: NotRequired[str]

class PostData(TypedDict):
    """A `Post` as JSON."""

    id: str
    text: NotRequired[str]
    image: NotRequired[ImageData | None]
    language: NotRequired[str | None]
    language_from: NotRequired[Literal["given", "detected"] | None]
    earlier: NotRequired[list[str]]
    appeal: NotRequired[AppealData | None]

class CueData(TypedDict):
    """A `Cue` as JSON."""

    id: str
    type: Literal["Direct", "Socio-cultural", "Metaphor"]
    target_group: str
    characteristic: NotRequired[str]
    claim: str
    justification: str
    category: str
    box: NotRequired[BoxData | None]
    clause: NotRequired[str]

class ArgumentData(TypedDict):
    """An `Argument` as JSON."""

    cue_id: str
    target_group: str
    claim: str
    stance: Literal["press", "withdraw", "refute", "concede"]
    argument: str
    held: NotRequired[bool]

class TurnData(TypedDict):
    """A `Turn` as JSON."""

    id: str
    seat: str
    stage: Literal[
        "scan",
        "indictment",
        "investigation",
        "argument",
        "rebuttal",
        "opening",
        "response",
        "answer",
        "score",
        "reflection",
        "revision",
    ]
    round: int
    cues: NotRequired[list[CueData]]
    arguments: NotRequired[list[ArgumentData]]
    stance: NotRequired[str | None]
    text: NotRequired[str]
    clauses: NotRequired[list[str]]

class OpinionData(TypedDict):
    """An `Opinion` as JSON."""

    id: str
    title: str
    language: str
    stance: Literal["hate", "not_hate"]
    label_name: str
    reason: str
    examples: NotRequired[list[ExampleData]]

class EvidenceData(TypedDict):
    """An `Evidence` as JSON."""

    id: str
    query: str
    url: str
    page_id: str
    title: str
    passage: str
    stance: str
    window: int
    start: int
    end: int

class PrecedentData(TypedDict):
    """A `Precedent` as JSON."""

    id: str
    case: str
    text: NotRequired[str]
    category: str
    here: str | None
    hateful: bool | None
    how: Literal["accepted", "changed", "appealed"]
    note: NotRequired[str]
    at: NotRequired[str]
    policy: NotRequired[str]
    policy_sha: NotRequired[str]
    same_policy: bool
    similarity: float
    cited_by: NotRequired[list[str]]

class CallData(TypedDict):
    """A `Call` as JSON."""

    id: str
    role: str
    seat: str
    model: str
    model_class: NotRequired[str | None]
    served: NotRequired[str | None]
    temperature: float | None
    wanted_temperature: NotRequired[float | None]
    prompt_sha: str
    prompt_tokens: NotRequired[int]
    cached_tokens: NotRequired[int]
    completion_tokens: NotRequired[int]
    seconds: NotRequired[float]
    attempts: NotRequired[int]
    cached: NotRequired[bool]
    format: NotRequired[str]
    key: NotRequired[int | None]
    shown: NotRequired[list[Literal["text", "image", "policy"]] | None]
    repeat: NotRequired[int]
    draw: NotRequired[int]
    emptied: NotRequired[list[str]]
    estimated: NotRequired[bool]
    error: NotRequired[str | None]

class NamedData(TypedDict):
    """A `Named` as JSON."""

    name: NotRequired[str]
    sha: NotRequired[str]

class NamedPromptsData(TypedDict):
    """A `NamedPrompts` as JSON."""

    name: NotRequired[str]
    sha: NotRequired[str]
    tuned_for: NotRequired[str]

class VoteData(TypedDict):
    """A `Vote` as JSON."""

    label: int
    category: str
    confidence: NotRequired[float | None]
    explanation: str

class StepData(TypedDict):
    """A `Step` as JSON."""

    claim: str
    evidence: NotRequired[list[str]]

class VerdictData(TypedDict):
    """A `Verdict` as JSON."""

    outcome: Literal["verdict"]
    task: NotRequired[Literal["hate", "sarcasm", "misinformation"]]
    label: int
    category: str
    hateful: bool | None
    explanation: str
    rehearsed: NotRequired[bool]
    track: NotRequired[Literal["fast_track", "deep_dive", "dismissed", "baseline", "triage"] | None]
    tie: NotRequired[bool]
    confidence: NotRequired[float | None]
    uncertain: NotRequired[bool]
    votes: NotRequired[list[VoteData]]
    steps: NotRequired[list[StepData]]
    clauses: NotRequired[list[str]]

class RefusalData(TypedDict):
    """A `Refusal` as JSON."""

    outcome: Literal["refusal"]
    seat: str
    role: str
    model: str
    form: str
    explanation: str
    rehearsed: NotRequired[bool]

class FailureData(TypedDict):
    """A `Failure` as JSON."""

    outcome: Literal["failure"]
    seat: str
    role: str
    model: str
    error: str
    explanation: str
    rehearsed: NotRequired[bool]

class MessageData(TypedDict):
    """A `Message` as JSON."""

    type: str
    id: NotRequired[str]
    content: str | list[str | dict[str, Any]]

class SavingData(TypedDict):
    """A `Saving` as JSON."""

    id: Literal["early_exit", "judge_draws", "triage", "prompt_cache"]
    calls: NotRequired[int]
    tokens: NotRequired[int]
    how: str

class AbsenceData(TypedDict):
    """An `Absence` as JSON."""

    outcome: Literal["refusal", "failure"]
    seat: str
    role: str
    model: str
    explanation: str
    form: NotRequired[str | None]
    error: NotRequired[str | None]
    rehearsed: NotRequired[bool]
    id: str

class PageNoteData(TypedDict):
    """A `PageNote` as JSON."""

    id: str
    url: str
    turn: int
    page_id: NotRequired[str | None]
    title: NotRequired[str]
    language: NotRequired[str | None]
    date: NotRequired[str | None]
    error: NotRequired[str | None]
    rejected: NotRequired[int]
    evidence: NotRequired[list[str]]

class PlanData(TypedDict):
    """A `Plan` as JSON."""

    id: str
    turn: int
    thought: str
    entities: list[str]
    claims: list[str]

class JudgementData(TypedDict):
    """A `Judgement` as JSON."""

    id: str
    url: str
    turn: int
    reasoning: str
    judgement: str

class GoneData(TypedDict):
    """A `Gone` as JSON."""

    seat: str
    stage: str
    outcome: Literal["refusal", "failure"]
    explanation: str

class RoundData(TypedDict):
    """A `Round` as JSON."""

    id: str
    round: int
    answers: dict[str, str | None]
    consensus: NotRequired[bool]
    dropped: NotRequired[list[GoneData]]
    scores: NotRequired[dict[str, float] | None]
    top: NotRequired[list[str]]
    new_scores: NotRequired[dict[str, float] | None]
    delta: NotRequired[float | None]
    adopted: NotRequired[bool | None]
    best: NotRequired[str | None]
    kept: NotRequired[list[str]]
    calls: NotRequired[int | None]

class BallotData(TypedDict):
    """A `Ballot` as JSON."""

    id: Literal["vote"]
    votes: dict[str, int]
    draws: NotRequired[int | None]
    spared: NotRequired[int | None]
    tie: NotRequired[bool | None]

class DropoutData(TypedDict):
    """A `Dropout` as JSON."""

    outcome: Literal["refusal", "failure"]
    seat: str
    role: str
    model: str
    explanation: str
    form: NotRequired[str | None]
    error: NotRequired[str | None]
    rehearsed: NotRequired[bool]
    id: str
    round: int
    stage: str

class ReviewData(TypedDict):
    """A `Review` as JSON."""

    reason: str
    court: dict[str, Any]
    action: NotRequired[Literal["accept", "edit"] | None]
    reviewer: NotRequired[str | None]
    at: NotRequired[str | None]
    note: NotRequired[str]
    clauses: NotRequired[list[str]]

class TrialData(TypedDict):
    """A `Trial` as JSON."""

    id: str
    question: str
    reviewer: str | None
    at: str
    outcome: dict[str, Any]
    cues: list[CueData]
    transcript: list[TurnData]

class PerspectiveBriefData(TypedDict):
    """A `PerspectiveBrief` as JSON."""

    id: str
    title: str
    language: str
    criterion: str
    hate: str
    not_hate: str

# How a case ends.
OutcomeData: TypeAlias = VerdictData | RefusalData | FailureData

class CourtOutput(TypedDict, total=False):
    """What a graph gives back."""

    calls: list[CallData]
    warnings: list[str]
    post: PostData
    policy: NamedData
    prompts: NamedPromptsData
    outcome: VerdictData | RefusalData | FailureData | None
    messages: list[MessageData] | None
    track: Literal["fast_track", "deep_dive", "dismissed", "baseline", "triage"] | None
    round: int
    transcript: list[TurnData]
    cues: list[CueData] | None
    saved: list[SavingData]

class BaselineOutput(TypedDict, total=False):
    """What a graph gives back."""

    calls: list[CallData]
    warnings: list[str]
    post: PostData
    policy: NamedData
    prompts: NamedPromptsData
    outcome: VerdictData | RefusalData | FailureData | None
    messages: list[MessageData] | None
    track: Literal["fast_track", "deep_dive", "dismissed", "baseline", "triage"] | None
    round: int
    transcript: list[TurnData]
    cues: list[CueData] | None
    saved: list[SavingData]
    scheme: Literal["fine", "binary"]

class PredictOutput(TypedDict, total=False):
    """What a graph gives back."""

    calls: list[CallData]
    warnings: list[str]
    post: PostData
    policy: NamedData
    prompts: NamedPromptsData
    outcome: VerdictData | RefusalData | FailureData | None
    messages: list[MessageData] | None
    track: Literal["fast_track", "deep_dive", "dismissed", "baseline", "triage"] | None
    transcript: list[TurnData]
    opinions: list[OpinionData]
    absent: list[AbsenceData]
    scheme: Literal["fine", "binary"]

class ResearchOutput(TypedDict, total=False):
    """What a graph gives back."""

    calls: list[CallData]
    warnings: list[str]
    run: str
    turn: int
    tried: list[str]
    pages: list[PageNoteData]
    evidence: list[EvidenceData]
    plans: list[PlanData]
    judgements: list[JudgementData]
    sufficient: bool | None
    post: PostData
    policy: NamedData
    prompts: NamedPromptsData
    outcome: VerdictData | RefusalData | FailureData | None
    messages: list[MessageData] | None
    track: Literal["fast_track", "deep_dive", "dismissed", "baseline", "triage"] | None
    scheme: Literal["fine", "binary"]

class DebateOutput(TypedDict, total=False):
    """What a graph gives back."""

    calls: list[CallData]
    warnings: list[str]
    post: PostData
    policy: NamedData
    prompts: NamedPromptsData
    outcome: VerdictData | RefusalData | FailureData | None
    messages: list[MessageData] | None
    scheme: Literal["fine", "binary"]
    round: int
    debate: list[RoundData | BallotData]
    dropped: list[DropoutData]
    transcript: list[TurnData]

class Ruling(TypedDict, total=False):
    """What a graph gives back."""

    calls: list[CallData]
    warnings: list[str]
    post: PostData
    policy: NamedData
    prompts: NamedPromptsData
    outcome: VerdictData | RefusalData | FailureData | None
    messages: list[MessageData] | None
    track: Literal["fast_track", "deep_dive", "dismissed", "baseline", "triage"] | None
    round: int
    transcript: list[TurnData]
    cues: list[CueData] | None
    saved: list[SavingData]
    run: str
    turn: int
    tried: list[str]
    pages: list[PageNoteData]
    evidence: list[EvidenceData]
    plans: list[PlanData]
    judgements: list[JudgementData]
    sufficient: bool | None
    opinions: list[OpinionData]
    precedents: list[PrecedentData]
    absent: list[AbsenceData]
    review: ReviewData | None
    trials: list[TrialData]

class PerspectivesOutput(TypedDict, total=False):
    """What a graph gives back."""

    calls: list[CallData]
    warnings: list[str]
    panel: list[PerspectiveBriefData]
    opinions: list[OpinionData]
    absent: list[AbsenceData]
    budget_spent: bool

class WebOutput(TypedDict, total=False):
    """What a graph gives back."""

    calls: list[CallData]
    warnings: list[str]
    run: str
    turn: int
    tried: list[str]
    pages: list[PageNoteData]
    evidence: list[EvidenceData]
    plans: list[PlanData]
    judgements: list[JudgementData]
    sufficient: bool | None

class RoundOutput(TypedDict, total=False):
    """What a graph gives back."""

    calls: list[CallData]
    warnings: list[str]
    round: int
    debate: list[RoundData | BallotData]
    dropped: list[DropoutData]
    transcript: list[TurnData]
    budget_spent: bool
    outcome: VerdictData | RefusalData | FailureData | None
    messages: list[MessageData] | None

class TrackOutput(TypedDict, total=False):
    """What a graph gives back."""

    calls: list[CallData]
    warnings: list[str]
    cues: list[CueData] | None
    transcript: list[TurnData]
    round: int
    track: Literal["fast_track", "deep_dive", "dismissed", "baseline", "triage"] | None
    saved: list[SavingData]
    budget_spent: bool
    outcome: VerdictData | RefusalData | FailureData | None
    messages: list[MessageData] | None

class ArguedOutput(TypedDict, total=False):
    """What a graph gives back."""

    calls: list[CallData]
    warnings: list[str]
    transcript: list[TurnData]
    budget_spent: bool
    outcome: VerdictData | RefusalData | FailureData | None
    messages: list[MessageData] | None
