"""Types of a case's channels as plain JSON, by which editors complete them and type checkers know their fields.

Each is the JSON of a model of `tribunal.schema`; a test compares the two.
"""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict


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
    error: NotRequired[str | None]
