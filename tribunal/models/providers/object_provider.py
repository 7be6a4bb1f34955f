"""A model object that the caller gave, as a provider: its class says in which words it is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from tribunal.model_objects import describe_object, models_in, replace_models
from tribunal.models.providers import LENGTHS, LISTS, RANGES, Endpoint, Provider, RequestSettings, openai
from tribunal.models.providers.langchain import LIMITS, has_field, set_fields
from tribunal.schema import JSON

# What a `ChatOllama` sends of its own fields as `options`, unless it is given others.
_OLLAMA = (
    "mirostat", "mirostat_eta", "mirostat_tau", "num_ctx", "num_gpu", "num_thread", "repeat_last_n", "repeat_penalty",
    "seed", "stop", "tfs_z", "top_k", "top_p",
)  # fmt: skip
# Where classes keep the address of their server.
_ADDRESSES = ("azure_endpoint", "openai_api_base", "anthropic_api_url", "base_url")


def wrap_model_object(model: Any, known: Provider | None) -> Provider:
    """Return the provider of one model object.

    It has its own key, address and connections: no key takes turns, and nothing is read from the environment.

    Args:
        model: the object.
        known: the provider whose requests it takes; None: its class is another one. It is then asked by a tool call
            where it takes tools, else in words, and temperature and limit are set in its fields.
    """

    def make(endpoint: Endpoint) -> Any:
        return model

    models = models_in(model)
    url = _server_address(models[0], known)
    if known is None:
        return Provider(
            name=describe_object(model)[0],
            make=make,
            default_url=url,
            forms=("tool_call", "prompt") if all(map(takes_tools, models)) else ("prompt",),
            adjust=set_fields,
            takes_temperature=any(has_field(each, ("temperature",)) for each in models),
            takes_limit=any(has_field(each, LIMITS) for each in models),
            client=model,
        )
    # A server of one's own holds an answer to its schema by a grammar, and takes every bound.
    elsewhere = known.name == "ollama" or (known.name == "openai" and url != openai.OPENAI_URL)
    return replace(
        known,
        make=make,
        options=lambda wanted: _keep_own_fields(models[0], known, known.options(wanted), wanted),
        close=None,
        keys=(),
        read_by_its_client=(),
        base_urls=(),
        default_url=url,
        account=(),
        listing=None,
        embeddings=None,
        bounds=LISTS | RANGES | LENGTHS if elsewhere else known.bounds,
        client=model,
    )


def takes_tools(model: Any) -> bool:
    """Return whether a model can be given tools, as far as its class says."""
    from langchain_core.language_models import BaseChatModel

    if isinstance(model, BaseChatModel):
        return type(model).bind_tools is not BaseChatModel.bind_tools
    return callable(getattr(model, "bind_tools", None))


def bind_form(model: Any, envelope: JSON, *, choose: bool) -> Any:
    """Return a Runnable whose models are given the form of the answer as their only tool; `choose`: and must use it."""
    tool = {
        "type": "function",
        "function": {
            "name": envelope["name"],
            "description": "Give the answer.",
            "parameters": envelope["schema"],
        },
    }
    choice: JSON = {"tool_choice": envelope["name"]} if choose else {}
    return replace_models(model, lambda each: each.bind_tools([tool], **choice))


def _server_address(model: Any, known: Provider | None) -> str | None:
    """Return the address of the server that a model object asks, as far as the object tells."""
    if not isinstance(model, BaseModel):
        return None  # one that can't be seen through yet
    told: Any = next((url for name in _ADDRESSES if isinstance(url := getattr(model, name, None), str) and url), None)
    if told is None and known is not None and known.name == "openai":
        told = getattr(getattr(model, "root_async_client", None), "base_url", None)  # it may read the environment
    if told:
        return str(told).rstrip("/")
    return known.default_url or known.rest_url if known else None


def _keep_own_fields(model: Any, known: Provider, options: JSON, wanted: RequestSettings) -> JSON:
    """Return the settings of a request, with those fields of the object that they would else take the place of."""
    if known.name == "ollama":
        own = {name: value for name in _OLLAMA if (value := getattr(model, name, None)) is not None}
        own |= {name: value for name, value in wanted.extra.items() if name in _OLLAMA}  # the setting `extra_body`
        return {**options, "options": {**options["options"], **own}}
    own_body = getattr(model, "extra_body", None)
    if own_body and "extra_body" in options:
        return {**options, "extra_body": {**own_body, **options["extra_body"]}}
    return options
