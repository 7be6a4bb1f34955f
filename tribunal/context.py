"""The settings of a run: one small model whose titles, descriptions, bounds and defaults Studio shows.

What a run sets here beats the environment; the environment beats the defaults (`tribunal.environment`). The words are
in `tribunal.settings`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from tribunal.errors import BadInput
from tribunal.model_objects import name_objects
from tribunal.parsed import from_json
from tribunal.schema import JSON, Scheme, Task
from tribunal.seats import VIEWS, seat_exists, seat_names
from tribunal.settings import RENAMED, SETTINGS, description
from tribunal.settings_keywords import Mode, SettingsKeywords
from tribunal.text import meant
from tribunal.trust import check_settings, for_clients

if TYPE_CHECKING:
    from langgraph.runtime import Runtime
    from typing_extensions import Unpack


MAX_ROUNDS = 10
# The shipped policy of each task.
POLICIES: dict[Task, str] = {"hate": "h-vli", "sarcasm": "sarcasm", "misinformation": "misinformation"}


class EveryName(dict[str, Any]):
    """The properties of a form that says of every name that it has it.

    LangGraph's server leaves out, without a word, what a client sets that a graph's form doesn't have. So a wrong name
    arrives, and is refused by it.
    """

    def __contains__(self, name: object) -> bool:
        return True

    @classmethod
    def in_schema(cls, schema: JSON) -> JSON:
        """This JSON schema, with such properties."""
        return {**schema, "properties": cls(schema["properties"])}


def _set(name: str, default: Any, **bounds: Any) -> Any:
    """A field in the words of `tribunal.settings`; as a default, `list` and `dict` mean an empty one."""
    held = {"default_factory": default} if default in (list, dict) else {"default": default}
    return Field(**held, title=SETTINGS[name].title, description=description(name), **bounds)


class Context(BaseModel):
    """Who sits in which seat, how long they argue, by which policy, and what a post may cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: Task = _set("task", "hate")
    policy: str = _set("policy", "")
    policy_language: Literal["policy", "post"] = _set("policy_language", "policy")
    prompts: str | None = _set("prompts", None)
    scheme: Scheme = _set("scheme", "fine")

    model: str | None = _set("model", None)
    judge_model: str | None = _set("judge_model", None)
    aux_model: str | None = _set("aux_model", None)
    seats: dict[str, str] = _set("seats", dict)
    temperatures: dict[str, float] = _set("temperatures", dict)
    draw_temperature: float = _set("draw_temperature", 0.7, ge=0, le=2)
    extra_body: dict[str, dict[str, Any]] = _set("extra_body", dict)
    line_up: str | None = _set("line_up", None)

    perspectives: list[str] = _set("perspectives", list)
    leave_out: str | None = _set("leave_out", None)
    embedding: str | None = _set("embedding", None)
    precedents: str | None = _set("precedents", None)
    precedents_k: int = _set("precedents_k", 3, ge=1, le=20)
    web: bool = _set("web", False)
    search: str = _set("search", "duckduckgo")
    searxng_url: str | None = _set("searxng_url", None)
    archive: str | None = _set("archive", None)
    fresh: bool = _set("fresh", False)
    max_turns: int = _set("max_turns", 3, ge=1, le=10)
    hits: int = _set("hits", 5, ge=1, le=20)
    max_pages: int = _set("max_pages", 6, ge=1, le=50)
    max_windows: int = _set("max_windows", 8, ge=1, le=100)
    window_tokens: int = _set("window_tokens", 2000, ge=100, le=100_000)
    window_overlap: int = _set("window_overlap", 200, ge=0)
    max_seconds: float = _set("max_seconds", 600.0, gt=0)

    triage: str | None = _set("triage", None)
    triage_confidence: float = _set("triage_confidence", 0.9, ge=0, le=1)
    rounds: int = _set("rounds", 3, ge=1, le=MAX_ROUNDS)
    early_exit: bool | None = _set("early_exit", None)
    boxes: bool = _set("boxes", False)
    mode: Mode = _set("mode", "full")
    answer_order: Literal["reason-first", "label-first"] = _set("answer_order", "reason-first")
    views: list[str] = _set("views", list)
    top_k: int | None = _set("top_k", None, ge=1)
    reflection_mode: Literal["gated", "none", "always"] = _set("reflection_mode", "gated")
    tau: float = _set("tau", 0.1, ge=0, le=1)
    history: Literal["best", "all"] = _set("history", "best")
    draws: int = _set("draws", 5, ge=1, le=100)
    agents: int = _set("agents", 4, ge=2, le=12)

    judge_draws: int = _set("judge_draws", 1, ge=1, le=25)
    threshold: float | None = _set("threshold", None, ge=0, le=1)
    threshold_file: str | None = _set("threshold_file", None)

    review: bool = _set("review", False)
    review_rule: list[str] = _set("review_rule", list)

    max_calls: int | None = _set("max_calls", None, ge=1)
    max_tokens: int | None = _set("max_tokens", None, ge=1)

    max_text: int = _set("max_text", 131_072, ge=1, le=1_000_000)
    image_edge: int = _set("image_edge", 1024, ge=64, le=4096)
    max_output_tokens: int = _set("max_output_tokens", 2048, ge=16, le=65536)
    timeout: float = _set("timeout", 120.0, gt=0, le=3600)
    attempts: int = _set("attempts", 4, ge=1, le=20)

    cache: str | None = _set("cache", None)
    repeat: int = _set("repeat", 0, ge=0)
    trace: bool = _set("trace", False)
    stops: list[str] = _set("stops", list)

    if TYPE_CHECKING:

        def __init__(self, **settings: Unpack[SettingsKeywords]) -> None:
            """Take the settings by name; a model may be an object."""

    # The model objects that were given, which live at least as long as these settings; the settings name them.
    _objects: tuple[Any, ...] = PrivateAttr(default=())

    @field_validator("seats", "temperatures")
    @classmethod
    def _seats_exist(cls, by_seat: dict[str, Any]) -> dict[str, Any]:
        unknown = next((seat for seat in by_seat if not seat_exists(seat)), None)
        if unknown is not None:
            raise ValueError(f"there is no seat {unknown!r}; the seats are {', '.join(seat_names())}")
        for seat in by_seat:
            kind, colon, name = seat.partition(":")
            if kind == "view" and colon and name not in VIEWS:
                raise ValueError(f"there is no seat {seat!r}; the views are {', '.join(VIEWS)}")
        return by_seat

    @field_validator("extra_body")
    @classmethod
    def _extra_is_extra(cls, by_model: dict[str, JSON]) -> dict[str, JSON]:
        for model, fields in by_model.items():
            if ours := next((name for name in ("model", "messages", "stream") if name in fields), None):
                raise ValueError(f"{model}: {ours} is what a request is made of, and can't be given beside it")
        return by_model

    @field_validator("views")
    @classmethod
    def _views_exist(cls, named: list[str]) -> list[str]:
        unknown = next((name for name in named if name not in VIEWS), None)
        if unknown is not None:
            raise ValueError(f"there is no view {unknown!r}; the views are {', '.join(VIEWS)}")
        if named and (len(named) < 2 or len(set(named)) < len(named)):
            raise ValueError("a debate takes at least two views, each named once")
        return named

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> JSON:
        """The form that a graph of one's own is set by."""
        return EveryName.in_schema(super().model_json_schema(*args, **kwargs))

    @model_validator(mode="before")
    @classmethod
    def _names_are_known(cls, given: Any) -> Any:
        names = given if isinstance(given, Mapping) else ()
        if unknown := next((str(name) for name in names if name not in (*cls.model_fields, *RENAMED)), None):
            way = meant(unknown, cls.model_fields) or f"the settings are {', '.join(sorted(cls.model_fields))}"
            raise PydanticCustomError("unknown", "{name}: no such setting; {way}", {"name": unknown, "way": way})
        return given

    @model_validator(mode="before")
    @classmethod
    def _old_names_say_the_new_one(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and (old := next((name for name in RENAMED if name in given), None)):
            raise PydanticCustomError("renamed", "{old}: is called {new} now", {"old": old, "new": RENAMED[old]})
        return given

    @model_validator(mode="before")
    @classmethod
    def _follow_the_task(cls, given: Any) -> Any:
        """The task's own policy, where none is named; and its one scheme, where there are no categories of hate."""
        if not isinstance(given, Mapping):
            return given
        task = given.get("task", "hate")
        policy = given.get("policy") or POLICIES.get(task, "")
        return {**given, "policy": policy, **({} if task == "hate" else {"scheme": "binary"})}

    @model_validator(mode="wrap")
    @classmethod
    def _take_model_objects(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Put the name of each model object in its place, so that no state, record or error holds the object."""
        if not isinstance(given, Mapping):
            return handler(given)
        try:
            named, objects = name_objects(given)
        except TypeError as error:
            raise PydanticCustomError("no_model", "{problem}", {"problem": str(error)}) from error
        context = handler(named)
        if objects:
            context._objects = objects
        return context

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
    if first["type"] in ("renamed", "unknown", "no_model"):
        return first["msg"]
    value = repr(first["input"])
    problem = first["msg"].removeprefix("Value error, ")
    return f"{field}: {value if len(value) < 80 else value[:77] + '…'}: {problem}"


def kept_settings(context: Context) -> JSON:
    """What a run sets, as a record keeps it: plain JSON, without defaults. An address with a password stays out."""
    settings = context.model_dump(mode="json", exclude_defaults=True)
    if "@" in (context.searxng_url or ""):
        del settings["searxng_url"]
    return settings


def context_given(runtime: Runtime[Context] | None) -> Context:
    """The context that a run was given. LangGraph has None where a caller gives none, whatever defaults the schema has.

    Raises:
        BadInput: a parent graph's context holds no settings of ours as `tribunal`; or, on a server, its client may not
            set one of them.
    """
    return _permitted((own_context(runtime.context) if runtime else None) or _DEFAULT)


def own_context(given: Any) -> Context | None:
    """Return our settings of the context of a run, or None if it has none.

    Args:
        given: a `Context`; or the context of a parent graph, of any kind, which holds our settings as its key or
            attribute `tribunal`: a `Context`, or settings by name.

    Raises:
        BadInput: what it holds as `tribunal` is neither.
    """
    if given is None or isinstance(given, Context):
        return given
    held = given.get("tribunal") if isinstance(given, Mapping) else getattr(given, "tribunal", None)
    if held is None or isinstance(held, Context):
        return held
    if isinstance(held, Mapping):
        return context_from(dict(held))
    raise BadInput(f"tribunal: {type(held).__name__}: is no settings; give a Context, or a table of settings by name")


def context_of(state: Mapping[str, Any], runtime: Runtime[Context] | None = None) -> Context:
    """The settings in force: those of the case, in its channel `context`, from `receive` on.

    So a router is a function of the state alone, and a case goes on with the settings that it began with, whatever the
    part of a run is given that takes it up again. A piece that runs where nothing received a post has those of the run.

    Raises:
        BadInput: what the case holds are no settings; or, on a server, its client may not set one of them. That is
            checked each time, because a client may edit the state.
    """
    case = state.get("context")
    if case is None:
        return context_given(runtime or _running())
    settings = case.get("settings") if isinstance(case, dict) else None
    if not isinstance(settings, dict):
        raise BadInput('context: holds no settings; give {"settings": {…}}, with the settings by name')
    context = _permitted(_as_context(settings))
    if context.searxng_url is None and "searxng" in context.search:
        # An address with a password lies in no case: it is given to each part of a run.
        address = context_given(runtime or _running()).searxng_url
        return context.model_copy(update={"searxng_url": address}) if "@" in (address or "") else context
    return context


def overruled(state: Mapping[str, Any], runtime: Runtime[Context]) -> list[str]:
    """A warning, where this part of a run was given other settings than the case began with, which stand.

    Raises:
        BadInput: on a server, where its client may not set one of them.
    """
    given = own_context(runtime.context)
    if given is None or state.get("context") is None:
        return []
    held = context_of(state, runtime)
    chosen = [name for name in given.model_fields_set if getattr(given, name) != getattr(held, name)]
    # Stops are of each part of a run. The other two follow the task, so nobody need have given them.
    follow = {"stops"}
    follow |= {"policy"} if given.policy == POLICIES[given.task] else set()
    follow |= {"scheme"} if given.task != "hate" else set()
    differ = sorted(name for name in chosen if name not in follow)
    if not differ:
        return []
    context_given(runtime)
    return [f"the case keeps the settings that it began with; given since, and not heeded: {', '.join(differ)}"]


def _as_context(settings: Mapping[str, Any]) -> Context:
    """Settings of a case as a context. Every call of a case asks for it, several times, and a run has one for all."""
    global _last
    last = _last  # other threads set it, too
    if last is None or last[0] != settings:
        written = json.dumps(settings, sort_keys=True)
        _last = last = from_json(written), _settings(written)  # a copy, which nobody changes
    return last[1]


_last: tuple[JSON, Context] | None = None


@lru_cache(maxsize=256)
def _settings(written: str) -> Context:
    try:
        return context_from(from_json(written))
    except BadInput as error:
        raise BadInput(f"context.settings: {error}") from error


def _permitted(context: Context) -> Context:
    if for_clients():
        check_settings({name: getattr(context, name) for name in context.model_fields_set}, _DEFAULTS)
    return context


def _running() -> Runtime[Context] | None:
    """The runtime of the run that this is called in; None outside of one."""
    from langgraph.runtime import get_runtime

    try:
        return get_runtime(Context)
    except RuntimeError:
        return None


_DEFAULT = Context()
_DEFAULTS = {name: getattr(_DEFAULT, name) for name in Context.model_fields}
