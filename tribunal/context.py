"""The settings of a run: one small model whose descriptions, bounds and defaults Studio shows.

What a run sets here beats the environment; the environment beats the defaults (`settings`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Self

from dotenv import dotenv_values
from langgraph.runtime import Runtime
from platformdirs import user_data_dir
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tribunal.errors import BadInput
from tribunal.schema import JSON, Scheme, Task

ANTIHATE_MODES = ("full", "no-knowledge", "no-search", "no-details", "zero-shot")
Mode = Literal[
    "full", "round-1-only", "majority", "single", "base", "leave-out", "criterion-only", "examples-only",
    "no-knowledge", "no-search", "no-details", "zero-shot",
]  # fmt: skip
REHEARSAL = "rehearsal:court"
MAX_ROUNDS = 10
SEATS = (
    "gatekeeper",
    "prosecutor",
    "defender",
    "judge",
    "classifier",
    "perspective",
    "debater",
    "annotator",
    "researcher",
    "triage",
    "reflection",
    "summary",
)
# Seats of which there are several, told apart after a colon: perspective:kold, view:surface, agent:2.
KINDS = ("perspective", "debater", "view", "agent")
# The views of `mv_debate`: a name, and its title; its words are prompts/mv_debate/view_NAME.md.
VIEWS = {
    "surface": "Surface Analyst",
    "deep": "Deep Reasoner",
    "contrast": "Modality Contrast",
    "context": "Social Contextualist",
}
# The shipped policy of each task.
POLICIES: dict[Task, str] = {"hate": "h-vli", "sarcasm": "sarcasm", "misinformation": "misinformation"}


class Context(BaseModel):
    """Who sits in which seat, how long they argue, by which policy, and what a post may cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = Field(
        default=None,
        description="The model of every seat that has none of its own, as provider:model. Several, separated by "
        "commas, are asked in turn when one refuses or fails. Empty: TRIBUNAL_MODEL, else the offline rehearsal model.",
    )
    aux_model: str | None = Field(
        default=None, description="The model of every agent that `judge_model` isn't for; empty: `model`."
    )
    judge_model: str | None = Field(
        default=None,
        description="The model of the judge, of the one-call classifier, and of the Judge, the Reflection and the "
        "Summary of `mv_debate`; empty: `model`.",
    )
    seats: dict[str, str] = Field(
        default_factory=dict, description="A model for one seat by its name: gatekeeper, prosecutor, defender, judge, …"
    )
    temperatures: dict[str, float] = Field(
        default_factory=dict, description="A temperature for one seat by its name, in place of the published one."
    )
    draw_temperature: float = Field(
        default=0.7,
        ge=0,
        le=2,
        description="The temperature of every draw after the first, where a seat is asked several times.",
    )
    task: Task = Field(
        default="hate",
        description="What is decided: hate, sarcasm or misinformation. Of `mv_debate`, `baseline`, `self_consistency` "
        "and `symmetric_debate`; the other graphs decide on hate alone.",
    )
    line_up: str | None = Field(
        default=None,
        description="A TOML file that names a line-up: [seats], [temperatures] and views. What is set here beats it.",
    )
    views: list[str] = Field(
        default_factory=list,
        description=f"Of `mv_debate`: the views that debate, at least two of {', '.join(VIEWS)}; empty: all. Of equal "
        "scores that of the view named first counts as the higher.",
    )
    tau: float = Field(
        default=0.1, ge=0, le=1, description="Of `mv_debate`: τ, the gain from which a reflection is adopted."
    )
    top_k: int | None = Field(
        default=None,
        ge=1,
        description="Of `mv_debate`: k, the best answers that are given again after a reflection; empty: half the "
        "views, rounded down.",
    )
    reflection_mode: Literal["gated", "none", "always"] = Field(
        default="gated",
        description="Of `mv_debate`: gated, a reflection is adopted from a gain of `tau`; none, there is no "
        "reflection; always, every reflection is adopted.",
    )
    history: Literal["best", "all"] = Field(
        default="best", description="Of `mv_debate`: which answers of a round the next ones are shown."
    )
    draws: int = Field(
        default=5, ge=1, le=100, description="Of `self_consistency`: how often the call of `baseline` is made, at most."
    )
    agents: int = Field(default=4, ge=2, le=12, description="Of `symmetric_debate`: how many agents debate.")
    perspectives: list[str] = Field(
        default_factory=list,
        description="The perspectives that are heard, by name or TOML file; all: every one that is built; none: of "
        "`tribunal`, no perspective. None named: of `tribunal`, none; of `predict`, five small examples.",
    )
    mode: Mode = Field(
        default="full",
        description="Of `predict`: full; round-1-only, no answers; majority, a vote and no debate; single, one "
        "perspective decides; base, one annotator without criterion or examples; leave-out, all but `leave_out`; "
        "criterion-only and examples-only, perspectives with one half of what they know. Of `antihate`: full; "
        "no-knowledge, no retrieval; no-search, the model names pages itself; no-details, prompts without the "
        "instructional details; zero-shot, the one-call baseline.",
    )
    leave_out: str | None = Field(default=None, description="A perspective that is not heard.")
    embedding: str | None = Field(
        default=None, description="The embedding that indexes must have been built with; empty: each index's own."
    )
    web: bool = Field(
        default=False, description="Of `tribunal`: look the post up on the web, beside the gatekeeper's scan."
    )
    early_exit: bool | None = Field(
        default=None,
        description="End a deep dive once no cue is in dispute: the defender concedes every one, or the prosecutor "
        "withdraws it. Empty: on in `tribunal`, off elsewhere.",
    )
    triage: str | None = Field(
        default=None, description="Of `tribunal`: the model of a first look, whose clear decisions spare the trial."
    )
    triage_confidence: float = Field(
        default=0.9, ge=0, le=1, description="The confidence from which a first look is taken for clear."
    )
    judge_draws: int = Field(
        default=1, ge=1, le=25, description="How often the judge is asked, at most; the most frequent answer decides."
    )
    threshold: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="The confidence below which a verdict is uncertain. Setting it makes the judge give one. Empty: "
        "that of `threshold_file`, else 0.75 where the judge gives a confidence.",
    )
    threshold_file: str | None = Field(
        default=None, description="A file that `tribunal fit` wrote, whose threshold is used."
    )
    review: bool = Field(
        default=False,
        description="Of `tribunal`: stop for a person where the verdict is uncertain, the model refused, or the case "
        "matches `review_rule`.",
    )
    review_rule: list[str] = Field(
        default_factory=list,
        description="Which cases a person sees besides: hateful, all, or categories by their names in the policy.",
    )
    search: str = Field(
        default="duckduckgo",
        description="Where `antihate` and `tribunal` search: duckduckgo, searxng, langchain:NAME or none; several, "
        "separated by commas, in turn when one fails; replay:FILE, a recorded run with no network.",
    )
    searxng_url: str | None = Field(default=None, description="The base URL of a SearXNG server; empty: SEARXNG_URL.")
    record: str | None = Field(
        default=None,
        description="The SQLite file in which searches, pages and replies are kept; empty: in the data folder.",
    )
    fresh: bool = Field(default=False, description="In a replay: ask the model anew over the recorded pages.")
    max_turns: int = Field(default=3, ge=1, le=10, description="Turns of searching: the first, and reformulations.")
    hits: int = Field(default=5, ge=1, le=20, description="Search results taken of each query.")
    max_pages: int = Field(default=6, ge=1, le=50, description="Pages read a turn.")
    max_windows: int = Field(default=8, ge=1, le=100, description="Reading windows taken of each page.")
    window_tokens: int = Field(default=2000, ge=100, le=100_000, description="The size of a reading window, in tokens.")
    window_overlap: int = Field(default=200, ge=0, description="How far one window reaches into the next, in tokens.")
    max_seconds: float = Field(
        default=600.0, gt=0, description="Seconds of research, after which the verdict rests on what was found."
    )
    rounds: int = Field(
        default=3, ge=1, le=MAX_ROUNDS, description="The most rounds of a debate: K of a deep dive, N of `mv_debate`."
    )
    scheme: Scheme = Field(
        default="fine",
        description="fine: the policy's categories; binary: hateful or not. Tasks other than hate have two labels.",
    )
    policy: str = Field(
        default="",
        description="The policy in force: the name of a shipped one, or a TOML file. Empty: the task's own: "
        f"{', '.join(POLICIES.values())}.",
    )
    max_calls: int | None = Field(
        default=None,
        ge=1,
        description="Requests a post may cost; when they are spent the judge decides on what is there.",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Tokens, in and out, that a post may cost before only the judge is still asked; `self_consistency` "
        "and `symmetric_debate` draw no sample and hold no round that would cost more.",
    )
    max_output_tokens: int = Field(default=2048, ge=16, le=65536, description="The room for one answer, in tokens.")
    max_text: int = Field(
        default=131_072, ge=1, le=1_000_000, description="The longest post that is taken, in characters."
    )
    image_edge: int = Field(
        default=1024, ge=64, le=4096, description="The longest edge, in pixels, that an image is scaled down to."
    )
    timeout: float = Field(default=120.0, gt=0, le=3600, description="Seconds that one request may take.")
    attempts: int = Field(default=4, ge=1, le=20, description="How often one request is tried on a passing fault.")
    cache: str | None = Field(default=None, description="A SQLite file of answers, from which equal calls are served.")
    repeat: int = Field(default=0, ge=0, description="Which repeat this is; each repeat is drawn anew, past the cache.")
    trace: bool = Field(default=False, description="Stream every prompt and every raw answer as custom events.")

    @field_validator("seats", "temperatures")
    @classmethod
    def _seats_exist(cls, by_seat: dict[str, Any]) -> dict[str, Any]:
        unknown = next((seat for seat in by_seat if seat not in SEATS and seat.partition(":")[0] not in KINDS), None)
        if unknown is not None:
            raise ValueError(f"there is no seat {unknown!r}; the seats are {', '.join(SEATS)}")
        for seat in by_seat:
            kind, colon, name = seat.partition(":")
            if kind == "view" and colon and name not in VIEWS:
                raise ValueError(f"there is no seat {seat!r}; the views are {', '.join(VIEWS)}")
        return by_seat

    @field_validator("views")
    @classmethod
    def _views_exist(cls, named: list[str]) -> list[str]:
        unknown = next((name for name in named if name not in VIEWS), None)
        if unknown is not None:
            raise ValueError(f"there is no view {unknown!r}; the views are {', '.join(VIEWS)}")
        if named and (len(named) < 2 or len(set(named)) < len(named)):
            raise ValueError("a debate takes at least two views, each named once")
        return named

    @model_validator(mode="before")
    @classmethod
    def _follow_the_task(cls, given: Any) -> Any:
        """The task's own policy, where none is named; and its one scheme, where there are no categories of hate."""
        if not isinstance(given, Mapping):
            return given
        task = given.get("task", "hate")
        policy = given.get("policy") or POLICIES.get(task, "")
        return {**given, "policy": policy, **({} if task == "hate" else {"scheme": "binary"})}

    @model_validator(mode="after")
    def _windows_go_forward(self) -> Self:
        if self.window_overlap >= self.window_tokens:
            raise ValueError(f"window_overlap: {self.window_overlap} is not below window_tokens, {self.window_tokens}")
        return self

    @field_validator("temperatures")
    @classmethod
    def _temperatures_bounded(cls, by_seat: dict[str, float]) -> dict[str, float]:
        for seat, temperature in by_seat.items():
            if not 0 <= temperature <= 2:
                raise ValueError(f"{seat}: {temperature} is not between 0 and 2")
        return by_seat


def context_from(values: dict[str, Any]) -> Context:
    """A context of these values.

    Raises:
        BadInput: naming the first field that is wrong, its value, and what it may be.
    """
    try:
        return Context(**values)
    except ValidationError as error:
        raise BadInput(describe(error)) from error


def describe(error: ValidationError) -> str:
    """A validation error as one line: field, value, what was expected."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "settings"
    if first["type"] == "extra_forbidden":
        near = get_close_matches(field, Context.model_fields, n=3, cutoff=0.4) or sorted(Context.model_fields)
        return f"{field}: no such setting; did you mean {', '.join(near)}?"
    value = repr(first["input"])
    problem = first["msg"].removeprefix("Value error, ")
    return f"{field}: {value if len(value) < 80 else value[:77] + '…'}: {problem}"


def kept_settings(context: Context) -> JSON:
    """What a run sets, as a record keeps it: plain JSON, without defaults. An address with a password stays out."""
    settings = context.model_dump(mode="json", exclude_defaults=True)
    if "@" in (context.searxng_url or ""):
        del settings["searxng_url"]
    return settings


def context_of(runtime: Runtime[Context]) -> Context:
    """The context of a run; LangGraph gives None when a caller passes none, whatever defaults the schema has."""
    return runtime.context or _DEFAULT


_DEFAULT = Context()


def dotenv() -> dict[str, str]:
    """What the `.env` file of the working directory sets. Reads files: call it off the event loop."""
    return {name: value for name, value in dotenv_values(Path.cwd() / ".env").items() if value}


def environment(beneath: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings outside a run: the environment, and beneath it a `.env` file. Empty ones count as unset.

    Args:
        beneath: what `dotenv` gave, if it has been read; else it is read now.
    """
    held = dotenv() if beneath is None else beneath
    return {**held, **{name: value for name, value in os.environ.items() if value}}


def setting(name: str) -> str | None:
    """One setting of the `environment`; None where it is unset or empty."""
    return environment().get(name)


def data_folder() -> Path:
    """Where this project keeps what it makes: TRIBUNAL_DATA, else the platform's own place for it. Not created here."""
    named = setting("TRIBUNAL_DATA")
    return Path(named).expanduser() if named else Path(user_data_dir("tribunal", appauthor=False))
