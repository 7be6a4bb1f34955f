"""The settings of a run: one model that has the settings of every graph (`tribunal.settings`).

What a run sets here takes precedence over the environment, and the environment over defaults (`tribunal.environment`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from tribunal.errors import BadInput
from tribunal.files import read_regular
from tribunal.model_objects import name_objects
from tribunal.schema import JSON
from tribunal.settings import RENAMED, SETTINGS, EverySetting, describe_setting
from tribunal.shared_settings import VIEWS, Setting, Task
from tribunal.systems import is_settable_seat, seat_names
from tribunal.text import parse_json, parse_toml, shorten_repr, suggest_name
from tribunal.trust import check_request, settings_come_from_clients

if TYPE_CHECKING:
    from langgraph.runtime import Runtime
    from typing_extensions import Unpack

    from tribunal.typed_names import SettingsKeywords

Model = TypeVar("Model", bound=BaseModel)
# The shipped policy of each task.
POLICIES: dict[Task, str] = {"hate": "h-vli", "sarcasm": "sarcasm", "misinformation": "misinformation"}


class EveryName(dict[str, Any]):
    """The properties of a form that says of every name that it has it.

    LangGraph's server leaves out, without a word, what a client sets that a graph's form doesn't have. So a wrong name
    arrives, and is refused by `Context`.
    """

    def __contains__(self, name: object) -> bool:
        """Return True."""
        return True


class SettingsForm(BaseModel):
    """The base of `Context` and of each graph's form."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> JSON:
        """Return the form as a server tells it, which has every name."""
        schema = super().model_json_schema(*args, **kwargs)
        return {**schema, "properties": EveryName(schema["properties"])}


def _field(setting: Setting) -> Any:
    """Return the field of a setting, with its words, default and bounds."""
    default = "default_factory" if isinstance(setting.value, type) else "default"
    more: dict[str, Any] = {default: setting.value, "ge": setting.ge, "gt": setting.gt, "le": setting.le}
    return Field(title=setting.title, description=describe_setting(setting.name), **more)


if TYPE_CHECKING:

    class _Fields(EverySetting, SettingsForm):
        """The settings of every graph as fields."""

else:
    _TYPES = get_type_hints(EverySetting)
    _Fields = create_model(
        "_Fields", __base__=SettingsForm, **{name: (_TYPES[name], _field(each)) for name, each in SETTINGS.items()}
    )


def _bad_settings(line: str) -> PydanticCustomError:
    """Return a validation error that is said as this line."""
    return PydanticCustomError("settings", "{line}", {"line": line})


class Context(_Fields):
    """The settings of a case: who sits in which seat, how long they argue, by which policy, and what a post may cost.

    It has the settings of every graph (`tribunal.settings`). A graph refuses those that it doesn't use.
    """

    model_config = ConfigDict(frozen=True, defer_build=False)

    if TYPE_CHECKING:

        def __init__(self, **settings: Unpack[SettingsKeywords]) -> None:
            """Take the settings by name; a model may be an object."""

    # The model objects that were given, which live at least as long as these settings; the settings name them.
    _objects: tuple[Any, ...] = PrivateAttr(default=())

    @model_validator(mode="wrap")
    @classmethod
    def _take_settings(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse unknown names, put the name of each model object in its place, and follow the task.

        No state, record or error holds an object. Where no policy is named, the task's own is in force; and where there
        are no categories of hate, its one scheme.
        """
        if not isinstance(given, Mapping):
            return handler(given)
        for name in given:
            if name in RENAMED:
                raise _bad_settings(f"{name}: is called {RENAMED[name]} now")
            if name not in cls.model_fields:
                all_names = f"the settings are {', '.join(sorted(cls.model_fields))}"
                raise _bad_settings(f"{name}: no such setting; {suggest_name(name, cls.model_fields) or all_names}")
        try:
            named, objects = name_objects(given)
        except TypeError as error:
            raise _bad_settings(str(error)) from error
        task = named.get("task", "hate")
        named["policy"] = named.get("policy") or POLICIES.get(task, "")
        if task != "hate":
            named["scheme"] = "binary"
        context = handler(named)
        if objects:
            context._objects = objects
        return context

    @field_validator("seats", "temperatures")
    @classmethod
    def _seats_exist(cls, by_seat: dict[str, Any]) -> dict[str, Any]:
        for seat in by_seat:
            kind, colon, name = seat.partition(":")
            if not is_settable_seat(seat):
                raise ValueError(f"there is no seat {seat!r}; the seats are {', '.join(seat_names())}")
            if kind == "view" and colon and name not in VIEWS:
                raise ValueError(f"there is no seat {seat!r}; the views are {', '.join(VIEWS)}")
        return by_seat

    @field_validator("temperatures")
    @classmethod
    def _temperatures_bounded(cls, by_seat: dict[str, float]) -> dict[str, float]:
        for seat, temperature in by_seat.items():
            if not 0 <= temperature <= 2:
                raise ValueError(f"{seat}: {temperature} is not between 0 and 2")
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

    @model_validator(mode="after")
    def _windows_go_forward(self) -> Self:
        if self.window_overlap >= self.window_tokens:
            raise ValueError(f"window_overlap: {self.window_overlap} is not below window_tokens, {self.window_tokens}")
        return self


def context_from(values: Mapping[str, Any]) -> Context:
    """Return the context of these values.

    Raises:
        BadInput: naming the first field that is wrong, its value, and what it may be.
    """
    try:
        return Context.model_validate(values)
    except ValidationError as error:
        raise BadInput(describe_validation_error(error)) from error


def describe_validation_error(error: ValidationError) -> str:
    """Return a validation error as one line: field, value, what was expected."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "settings":
        return first["msg"]
    field = ".".join(str(part) for part in first["loc"]) or "settings"
    return f"{field}: {shorten_repr(first['input'])}: {first['msg'].removeprefix('Value error, ')}"


def read_toml_model(model: type[Model], path: Path, called: str) -> Model:
    """Return what a TOML file holds, as a model; raise `BadInput` if it can't be read, or a field is wrong."""
    try:
        return model.model_validate(parse_toml(read_regular(path)))
    except OSError as error:
        raise BadInput(f"{called}: {path}: {error.strerror or error}") from error
    except ValidationError as error:
        raise BadInput(f"{called}: {path}: {describe_validation_error(error)}") from error
    except ValueError as error:
        raise BadInput(f"{called}: {path}: is not TOML: {error}") from error


def settings_for_record(context: Context) -> JSON:
    """Return what a run sets, as a record keeps it: plain JSON, without defaults or an address with a password."""
    settings = context.model_dump(mode="json", exclude_defaults=True)
    if "@" in (context.searxng_url or ""):
        del settings["searxng_url"]
    return settings


def context_of_run(runtime: Runtime[Context] | None) -> Context:
    """Return the context that a run was given; the defaults if its caller gave none, where LangGraph has None.

    Raises:
        BadInput: a parent graph's context holds no settings of ours as `tribunal`; or, on a server, its client may not
            set one of them.
    """
    return _check_client_settings((own_context(runtime.context) if runtime else None) or _DEFAULT)


def own_context(given: Any) -> Context | None:
    """Return our settings of the context of a run, or None if it has none.

    Args:
        given: a `Context`; or the context of a parent graph, of any kind, which holds our settings as its key or
            attribute `tribunal`: a `Context`, or settings by name.

    Raises:
        BadInput: what it holds as `tribunal` is neither.
    """
    held = given
    if not isinstance(given, Context):
        held = given.get("tribunal") if isinstance(given, Mapping) else getattr(given, "tribunal", None)
    if held is None or isinstance(held, Context):
        return held
    if isinstance(held, Mapping):
        return context_from(held)
    raise BadInput(f"tribunal: {type(held).__name__}: is no settings; give a Context, or a table of settings by name")


def context_of(state: Mapping[str, Any], runtime: Runtime[Context] | None = None) -> Context:
    """Return the settings in force: those of the case, in its channel `context`, from `receive` on.

    So a router is a function of the state alone, and a case goes on with the settings that it began with, whatever the
    part of a run is given that takes it up again. A piece that runs where nothing received a post has those of the run.

    Raises:
        BadInput: what the case holds are no settings; or, on a server, its client may not set one of them. That is
            checked each time, because a client may edit the state.
    """
    case = state.get("context")
    if case is None:
        return context_of_run(runtime or _current_runtime())
    settings = case.get("settings") if isinstance(case, dict) else None
    if not isinstance(settings, dict):
        raise BadInput('context: holds no settings; give {"settings": {…}}, with the settings by name')
    context = _check_client_settings(_context_from_text(json.dumps(settings, sort_keys=True)))
    if context.searxng_url is None and "searxng" in context.search:
        # An address with a password lies in no case: it is given to each part of a run.
        address = context_of_run(runtime or _current_runtime()).searxng_url
        return context.model_copy(update={"searxng_url": address}) if "@" in (address or "") else context
    return context


@lru_cache(maxsize=256)  # every call of a case asks for its settings, several times
def _context_from_text(written: str) -> Context:
    try:
        return context_from(parse_json(written))
    except BadInput as error:
        raise BadInput(f"context.settings: {error}") from error


def warn_of_overruled_settings(state: Mapping[str, Any], runtime: Runtime[Context]) -> list[str]:
    """Return a warning if this part of a run was given other settings than the case began with, which stand.

    Raises:
        BadInput: on a server, where its client may not set one of them.
    """
    given = own_context(runtime.context)
    if given is None or state.get("context") is None:
        return []
    held = context_of(state, runtime)
    # Stops are of each part of a run. The other two follow the task, so nobody need have given them.
    follow = {"stops"}
    follow |= {"policy"} if given.policy == POLICIES[given.task] else set()
    follow |= {"scheme"} if given.task != "hate" else set()
    chosen = given.model_fields_set - follow
    differ = sorted(name for name in chosen if getattr(given, name) != getattr(held, name))
    if not differ:
        return []
    context_of_run(runtime)
    return [f"the case keeps the settings that it began with; given since, and not heeded: {', '.join(differ)}"]


def _check_client_settings(context: Context) -> Context:
    if settings_come_from_clients():
        check_request({name: getattr(context, name) for name in context.model_fields_set})
    return context


def _current_runtime() -> Runtime[Context] | None:
    """Return the runtime of the run that this is called in; None outside of one."""
    from langgraph.runtime import get_runtime

    try:
        return get_runtime(Context)
    except RuntimeError:
        return None


_DEFAULT = Context()
