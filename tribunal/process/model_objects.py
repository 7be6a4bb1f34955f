"""Models that a caller gives as objects: settings, states and records hold the name of one, and never the object.

An object is a chat model of LangChain's, or any other Runnable from messages to a message: one with fallbacks, retries
or bound settings, or one that `config` chooses. A list of objects and names is asked in this order.

A name is good in this process, as long as the object lives. Whoever gives the object keeps it alive: the run's
`Context` holds it beside its name, and nothing here does.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from itertools import chain, count
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from pydantic import BaseModel, SecretStr

from tribunal.core.text import one_line
from tribunal.errors import BadInput
from tribunal.process.loops import run_in_background

Outcome = TypeVar("Outcome")

PREFIX = "object:"
# Where a graph's config holds the caller's `configurable` for configurable models. Of a name that begins with "__",
# LangGraph writes nothing to checkpoints and LangChain nothing to traces; the values may be keys.
MODEL_SETTINGS = "__tribunal_models"
_OF_LANGGRAPH = (
    "__",
    "checkpoint",
    "thread_id",
    "langgraph_",
    "assistant_id",
    "graph_id",
    "run_id",
)
# The settings that take a model object; `seats` takes one for each seat.
FIELDS = ("model", "judge_model", "aux_model", "triage")
# The classes whose requests are known: by the package and the name, the provider.
_KNOWN = {
    ("langchain_openai", "AzureChatOpenAI"): "azure_openai",
    ("langchain_openai", "ChatOpenAI"): "openai",
    ("langchain_google_genai", "ChatGoogleGenerativeAI"): "google_genai",
    ("langchain_anthropic", "ChatAnthropic"): "anthropic",
    ("langchain_ollama", "ChatOllama"): "ollama",
    ("langchain_groq", "ChatGroq"): "groq",
    ("langchain_mistralai", "ChatMistralAI"): "mistralai",
    ("langchain_deepseek", "ChatDeepSeek"): "deepseek",
    ("langchain_xai", "ChatXAI"): "xai",
}
# Where classes keep the name of their model.
_NAMES = ("model_name", "model", "model_id", "deployment_name")
_SECRET = re.compile(r"key|token|secret|password|credential|authorization", re.I)


_living: WeakValueDictionary[int, Any] = WeakValueDictionary()
_numbers: dict[str, int] = {}  # by name; where the object is gone, the name may be given again
_counter = count(1)
_lock = threading.Lock()


def name_objects(settings: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return settings with the name of each model object in its place, and the objects.

    Raises:
        TypeError: a model is neither text nor a Runnable of LangChain's.
    """
    objects: list[Any] = []

    def name(field: str, value: Any) -> Any:
        if isinstance(value, list | tuple) and any(map(_is_object, value)):
            return ",".join(str(name(field, each)) for each in value)
        if is_model(value):
            objects.append(value)
            return name_object(value)
        if _is_object(value):
            raise TypeError(
                f"{field}: {type(value).__name__}: no model; give a chat model of LangChain's, another Runnable from "
                "messages to a message, or a name as provider:model"
            )
        return value

    named = {
        field: name(field, value) if field in FIELDS else value for field, value in settings.items()
    }
    seats = named.get("seats")
    if isinstance(seats, Mapping):
        named["seats"] = {seat: name(f"seats.{seat}", value) for seat, value in seats.items()}
    return named, tuple(objects)


def _model_settings(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every setting that may name a model, such as `model` or `seats.judge`, with its value."""
    yield from ((field, settings[field]) for field in FIELDS if field in settings)
    seats = settings.get("seats")
    if isinstance(seats, Mapping):
        yield from ((f"seats.{seat}", value) for seat, value in seats.items())


def run_to_end(
    call: Callable[..., Coroutine[Any, Any, Outcome]], *given: Any, **settings: Any
) -> Outcome:
    """Call an asynchronous function of `tribunal`, and return its result to a caller that can't await.

    A model object has connections of its own, which belong to an event loop, so that all such calls with one share the
    background loop of the process. Without one the call has a loop of its own.

    Args:
        call: the function; its name is the name of the blocking function, with an `a` before it.
        given: its arguments.
        settings: the arguments by name, the settings among them.

    Raises:
        RuntimeError: an event loop runs already, as in a notebook.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        given_models = [value for _, value in _model_settings(settings)]
        given_models += [
            each for value in given_models if isinstance(value, list | tuple) for each in value
        ]
        if any(map(_is_object, given_models)):
            return run_in_background(lambda: call(*given, **settings))
        return asyncio.run(call(*given, **settings))
    name = call.__name__
    raise RuntimeError(
        f"tribunal.{name.removeprefix('a')}() can't wait where an event loop runs, as in a notebook; write: "
        f"await tribunal.{name}(…)"
    )


def _is_object(value: Any) -> bool:
    """Return whether a value is something else than plain data, which the settings check by themselves."""
    return not isinstance(value, str | bytes | int | float | list | tuple | set | Mapping | None)


def is_model(value: object) -> bool:
    """Return whether a value is a LangChain Runnable; a caller that has one has imported the class."""
    core = sys.modules.get("langchain_core.runnables")
    return core is not None and isinstance(value, core.Runnable)


def model_settings_in(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for configurable models in a config's `configurable`, without LangGraph's own keys."""
    configurable = config.get("configurable") or {}
    own = {
        name: value for name, value in configurable.items() if not name.startswith(_OF_LANGGRAPH)
    }
    return configurable.get(MODEL_SETTINGS) or own


def replace_models(model: Any, change: Callable[[Any], Any]) -> Any:
    """Return a Runnable in which each model that can be seen is changed: within bindings, retries and fallbacks."""
    from langchain_core.runnables import RunnableWithFallbacks
    from langchain_core.runnables.base import RunnableBindingBase

    if isinstance(model, RunnableBindingBase):
        return model.model_copy(update={"bound": replace_models(model.bound, change)})
    if isinstance(model, RunnableWithFallbacks):
        others = [replace_models(each, change) for each in model.fallbacks]
        return model.model_copy(
            update={"runnable": replace_models(model.runnable, change), "fallbacks": others}
        )
    return change(model)


def models_in(model: Any) -> list[Any]:
    """Return the models of a Runnable that can be seen, the first to be asked first."""
    found: list[Any] = []

    def note(each: Any) -> Any:
        found.append(each)
        return each

    replace_models(model, note)
    return found


def name_object(model: Any) -> str:
    """Return the name of a model object: the same one each time, and none that another living object has."""
    stem = PREFIX + re.sub(r"[\s,#]+", "-", ":".join(describe_object(model)))
    with _lock:
        for name, number in _numbers.items():
            if _living.get(number) is model:
                return name
        candidates = chain([stem], (f"{stem}#{number}" for number in count(2)))
        name = next(each for each in candidates if _living.get(_numbers.get(each, 0)) is None)
        number = _numbers[name] = next(_counter)
        _living[number] = model
    return name


def is_object_name(name: str) -> bool:
    """Return whether a model's name is that of a model object."""
    return name.strip().startswith(PREFIX)


def object_number(name: str) -> int:
    """Return the number of the model object of this name, or 0 if this process holds none.

    No other object of this process has or had the number.
    """
    with _lock:
        number = _numbers.get(name.strip(), 0)
        return number if number in _living else 0


def object_numbered(number: int) -> Any:
    """Return the model object of this number, or None if it is gone."""
    return _living.get(number)


def object_names(settings: Mapping[str, Any]) -> list[str]:
    """Return the settings that name a model object, such as `model` or `seats.judge`."""
    return [
        each
        for each, name in _model_settings(settings)
        if isinstance(name, str) and is_object_name(name)
    ]


def refuse_objects(settings: Mapping[str, Any]) -> None:
    """Raise `BadInput` where settings that other processes are to have name a model object."""
    named = object_names(settings)
    if named:
        raise BadInput(refusal_elsewhere(named[0]))


def refusal_elsewhere(field: str) -> str:
    """Return the error for a model object that would have to be in another process."""
    return f"{field}: an object can't go to other processes; name it as provider:model, or use workers=1"


def describe_object(model: Any) -> tuple[str, str]:
    """Return the provider and the model of an object, as records name them: of several models, of the first."""
    first = models_in(model)[0]
    kind = type(first).__name__.lstrip("_")
    names = (getattr(first, each, None) for each in _NAMES) if isinstance(first, BaseModel) else ()
    name = next((value for value in names if isinstance(value, str) and value), kind)
    # As LangChain's own tracing calls the provider of a class that it doesn't know.
    bare = kind.removeprefix("Chat") if kind.startswith("Chat") else kind.removesuffix("Chat")
    return known_provider(first) or (bare or kind).lower(), one_line(name).removeprefix("models/")


def is_opaque(model: Any) -> bool:
    """Return whether only the response of a model object tells which model answered."""
    models = models_in(model)
    return len(models) > 1 or not isinstance(models[0], BaseModel)


def known_provider(model: Any) -> str | None:
    """Return the provider whose requests a model object takes, or None if its class is another one."""
    models = models_in(model)
    if len(models) > 1:
        first, *others = map(known_provider, models)
        return first if all(each == first for each in others) else None
    (model,) = models
    if not isinstance(model, BaseModel):
        return None
    if (
        getattr(model, "use_responses_api", None)
        or getattr(model, "output_version", None) == "responses/v1"
    ):
        return None
    kinds = ((each.__module__.partition(".")[0], each.__name__) for each in type(model).__mro__)
    return next((_KNOWN[kind] for kind in kinds if kind in _KNOWN), None)


def fingerprint(model: Any) -> str:
    """Return a hash of a model object's classes and of their fields that are plain data, for the cache of answers.

    What every chat model has, such as callbacks, decides no answer, and is left out. So are the keys.
    """
    from langchain_core.language_models import BaseChatModel

    parts: list[Any] = [getattr(model, "kwargs", None) if isinstance(model, BaseModel) else None]
    for each in models_in(model):
        kind = type(each)
        fields = {
            name: value
            for name in getattr(kind, "model_fields", ())
            if name not in BaseChatModel.model_fields
            and not _SECRET.search(name.replace("max_tokens", ""))
            if _is_plain(value := getattr(each, name, None))
        }
        parts += [kind.__module__, kind.__qualname__, fields]
    told = json.dumps(parts, sort_keys=True, default=lambda value: type(value).__name__)
    return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:16]


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_plain(each) for name, each in value.items())
    return isinstance(value, str | int | float | bool | None)


def secrets_in(model: Any) -> set[str]:
    """Return the keys and passwords in a model object's fields."""
    found: set[str] = set()
    for each in models_in(model):
        names = getattr(type(each), "model_fields", ())
        _collect_secrets(((name, getattr(each, name, None)) for name in names), found)
    return found - {""}


def _collect_secrets(fields: Iterable[tuple[str, Any]], found: set[str]) -> None:
    for name, value in fields:
        if isinstance(value, SecretStr):
            found.add(value.get_secret_value())
        elif isinstance(value, str):
            if _SECRET.search(name):
                found.update((value, value.removeprefix("Bearer ")))
            if "://" in value and "@" in value:
                found.add(_password_in(value))
        elif isinstance(value, Mapping):
            _collect_secrets(((str(key), each) for key, each in value.items()), found)
        elif isinstance(value, BaseModel):
            _collect_secrets(
                ((key, getattr(value, key, None)) for key in type(value).model_fields), found
            )


def _password_in(address: str) -> str:
    try:
        return urlsplit(address).password or ""
    except ValueError:
        return ""
