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
    task: Literal["hate", "sarcasm", "misinformation"]
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
