"""The settings as keywords of `judge` and its sisters, so that editors complete them and type checkers refuse others.

They are the fields of `Context`; a test compares the two. A model may be an object here; `Context` then holds its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union

from typing_extensions import TypedDict

from tribunal.schema import Scheme, Task

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

Model: TypeAlias = Union[str, "BaseChatModel"]


Mode = Literal[
    "full", "round-1-only", "majority", "single", "base", "leave-out", "criterion-only", "examples-only",
    "no-knowledge", "no-search", "no-details", "zero-shot",
]  # fmt: skip


class CallKeywords(TypedDict, total=False):
    """The settings other than the policy."""

    task: Task
    policy_language: Literal["policy", "post"]
    prompts: str | None
    scheme: Scheme
    model: Model | None
    judge_model: Model | None
    aux_model: Model | None
    seats: Mapping[str, Model]
    temperatures: dict[str, float]
    draw_temperature: float
    extra_body: dict[str, dict[str, Any]]
    line_up: str | None
    perspectives: list[str]
    leave_out: str | None
    embedding: str | None
    precedents: str | None
    precedents_k: int
    web: bool
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
    triage: Model | None
    triage_confidence: float
    rounds: int
    early_exit: bool | None
    boxes: bool
    mode: Mode
    answer_order: Literal["reason-first", "label-first"]
    views: list[str]
    top_k: int | None
    reflection_mode: Literal["gated", "none", "always"]
    tau: float
    history: Literal["best", "all"]
    draws: int
    agents: int
    judge_draws: int
    threshold: float | None
    threshold_file: str | None
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
