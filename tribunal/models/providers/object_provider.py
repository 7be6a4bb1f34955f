"""A model object that the caller gave, as a provider: its class says in which words it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tribunal.model_objects import describe_object
from tribunal.models.providers import LENGTHS, LISTS, RANGES, Endpoint, Provider, RequestSettings, openai
from tribunal.schema import JSON

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

# What a `ChatOllama` sends of its own fields as `options`, unless it is given others.
_OLLAMA = (
    "mirostat", "mirostat_eta", "mirostat_tau", "num_ctx", "num_gpu", "num_thread", "repeat_last_n", "repeat_penalty",
    "seed", "stop", "tfs_z", "top_k", "top_p",
)  # fmt: skip
# Where classes keep the address of their server.
_ADDRESSES = ("azure_endpoint", "openai_api_base", "anthropic_api_url", "base_url")


def wrap_model_object(model: BaseChatModel, known: Provider | None) -> Provider:
    """Return the provider of one model object.

    It has its own key, address and connections: no key takes turns, and nothing is read from the environment.

    Args:
        model: the object.
        known: the provider whose requests it takes; None: its class is another one. It is then sent the words alone,
            which say what form is wanted, and keeps its own temperature and limit.
    """

    def make(endpoint: Endpoint) -> BaseChatModel:
        return model

    url = _server_address(model, known)
    if known is None:
        return Provider(
            name=describe_object(model)[0],
            make=make,
            default_url=url,
            takes_schema=False,
            takes_temperature=False,
            client=model,
        )
    # A server of one's own holds an answer to its schema by a grammar, and takes every bound.
    elsewhere = known.name == "ollama" or (known.name == "openai" and url != openai.OPENAI_URL)
    return Provider(
        name=known.name,
        make=make,
        options=lambda wanted: _keep_own_fields(model, known, known.options(wanted), wanted),
        default_url=url,
        bounds=LISTS | RANGES | LENGTHS if elsewhere else known.bounds,
        takes_schema=known.takes_schema,
        takes_extra=known.takes_extra,
        client=model,
    )


def _server_address(model: BaseChatModel, known: Provider | None) -> str | None:
    """Return the address of the server that a model object asks, as far as the object tells."""
    told: Any = next((url for name in _ADDRESSES if (url := getattr(model, name, None))), None)
    if told is None and known is not None and known.name == "openai":
        told = getattr(getattr(model, "root_async_client", None), "base_url", None)  # it may read the environment
    if told:
        return str(told).rstrip("/")
    return known.default_url or known.rest_url if known else None


def _keep_own_fields(model: BaseChatModel, known: Provider, options: JSON, wanted: RequestSettings) -> JSON:
    """Return the settings of a request, with those fields of the object that they would else take the place of."""
    if known.name == "ollama":
        own = {name: value for name in _OLLAMA if (value := getattr(model, name, None)) is not None}
        return {**options, "options": {**options["options"], **own, **_only_options(wanted)}}
    own_body = getattr(model, "extra_body", None)
    if own_body and "extra_body" in options:
        return {**options, "extra_body": {**own_body, **options["extra_body"]}}
    return options


def _only_options(wanted: RequestSettings) -> JSON:
    """Return the options that the setting `extra_body` names: it beats the object's own fields."""
    return {name: value for name, value in wanted.extra.items() if name in _OLLAMA}
