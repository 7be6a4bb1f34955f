"""Models of LangChain's: by name through `init_chat_model`, and as objects of the caller's."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from tribunal.errors import BadInput
from tribunal.models.providers import (
    LENGTHS,
    LISTS,
    RANGES,
    Endpoint,
    Provider,
    RequestSettings,
    openai,
)
from tribunal.process.model_objects import describe_object, models_in, replace_models
from tribunal.schema import JSON

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

# Those whose key is handed to the client, so that several take turns: the setting of the key.
KEYS = {
    "deepseek": "DEEPSEEK_API_KEY",
    "fireworks": "FIREWORKS_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistralai": "MISTRAL_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "perplexity": "PPLX_API_KEY",
    "together": "TOGETHER_API_KEY",
    "xai": "XAI_API_KEY",
}
# Those that find their way in by themselves: the settings that they read secrets from.
SECRETS = {
    "anthropic_bedrock": ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
    "azure_ai": ("AZURE_AI_CREDENTIAL", "AZURE_AI_API_KEY"),
    "baseten": ("BASETEN_API_KEY",),
    "bedrock": ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
    "bedrock_converse": ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
    "cohere": ("COHERE_API_KEY",),
    "google_vertexai": ("GOOGLE_API_KEY",),
    "huggingface": ("HUGGINGFACEHUB_API_TOKEN", "HF_TOKEN"),
    "ibm": ("WATSONX_APIKEY", "WATSONX_TOKEN"),
    "nvidia": ("NVIDIA_API_KEY",),
    "upstage": ("UPSTAGE_API_KEY",),
}
# Which take OpenAI's `response_format`: as a setting of their own, or in the body past OpenAI's client.
_BY_SETTING = frozenset({"groq", "mistralai"})
_IN_BODY = frozenset({"deepseek", "xai"})
_TAKES_FORMS = _BY_SETTING | _IN_BODY
# Where clients keep the limit of an answer.
LIMITS = (
    "max_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "max_new_tokens",
    "num_predict",
)
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def find_langchain_provider(name: str, field: str) -> Provider | None:
    """Return the provider that LangChain knows by this name, or None if it knows none.

    Raises:
        BadInput: its package isn't installed.
    """
    if not _NAME.fullmatch(name):
        return None
    from langchain.chat_models import init_chat_model
    from pydantic import ValidationError

    try:
        init_chat_model("any", model_provider=name)
    except ImportError as error:
        command = re.search(r"pip install [\w.\[\]-]+", str(error))
        way_out = f"install its package: {command[0]}" if command else str(error)
        raise BadInput(f"{field}: {name}: {way_out}") from error
    except ValidationError:
        pass  # it is there, and wants a key
    except ValueError as error:
        if str(error).startswith("Unsupported"):
            return None
    except Exception:  # noqa: BLE001, S110 (each package has errors of its own for settings that it lacks)
        pass
    return langchain_provider(name)


def langchain_provider(name: str) -> Provider:
    """Return the provider that LangChain knows by this name, whether or not its package is installed."""

    def make(endpoint: Endpoint) -> BaseChatModel:
        from langchain.chat_models import init_chat_model

        key: JSON = {"api_key": endpoint.key} if endpoint.key else {}
        made: BaseChatModel
        try:
            made = init_chat_model(endpoint.model, model_provider=name, max_retries=0, **key)
        except Exception as error:
            words = " ".join(str(error).split())[:300]
            raise BadInput(f"model: {endpoint.name}: its client can't be made: {words}") from error
        return made

    key_setting = KEYS.get(name)
    knows_forms = name in _TAKES_FORMS
    return Provider(
        name=name,
        make=make,
        options=lambda wanted: _request_options(name, wanted),
        adjust=lambda client, wanted: client if knows_forms else set_fields(client, wanted),
        keys=(key_setting,) if key_setting else (),
        read_by_its_client=SECRETS.get(name, ()),
        forms=("json_schema", "json_object", "prompt") if knows_forms else ("tool_call", "prompt"),
        takes_extra=name in _IN_BODY,
    )


def has_field(model: Any, names: tuple[str, ...]) -> bool:
    """Return whether a client has one of these settings."""
    return any(name in getattr(type(model), "model_fields", ()) for name in names)


def set_fields(model: Any, wanted: RequestSettings) -> Any:
    """Return a Runnable whose models have the temperature and the limit of a request in their own fields."""

    def change(each: Any) -> Any:
        fields = getattr(type(each), "model_fields", ())
        values: JSON = {name: wanted.max_output_tokens for name in LIMITS if name in fields}
        if "temperature" in fields and wanted.temperature is not None:
            values["temperature"] = wanted.temperature
        return each.model_copy(update=values) if values else each

    return replace_models(model, change)


def _request_options(name: str, wanted: RequestSettings) -> JSON:
    """Return the settings of a request to a client that is known to take OpenAI's form; other clients get none."""
    if name not in _TAKES_FORMS:
        return {}
    body = openai.request_options(wanted)["extra_body"]
    options: JSON = {"max_tokens": body.pop("max_tokens", wanted.max_output_tokens)}
    if wanted.temperature is not None:
        options["temperature"] = wanted.temperature
    if name in _BY_SETTING:
        return {**options, **body}
    return {**options, "extra_body": body} if body else options


# What a `ChatOllama` sends of its own fields as `options`, unless it is given others.
_OLLAMA = (
    "mirostat", "mirostat_eta", "mirostat_tau", "num_ctx", "num_gpu", "num_thread", "repeat_last_n", "repeat_penalty",
    "seed", "stop", "tfs_z", "top_k", "top_p",
)  # fmt: skip
# Where classes keep the address of their server.
_ADDRESSES = ("azure_endpoint", "openai_api_base", "anthropic_api_url", "base_url")


def wrap_model_object(model: Any, known: Provider | None) -> Provider:
    """Return the provider of one model object.

    It has its own key, address and connections: keys are not rotated, and nothing is read from the environment.

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
    told: Any = next(
        (url for name in _ADDRESSES if isinstance(url := getattr(model, name, None), str) and url),
        None,
    )
    if told is None and known is not None and known.name == "openai":
        # it may read the environment
        told = getattr(getattr(model, "root_async_client", None), "base_url", None)
    if told:
        return str(told).rstrip("/")
    return known.default_url or known.rest_url if known else None


def _keep_own_fields(model: Any, known: Provider, options: JSON, wanted: RequestSettings) -> JSON:
    """Return the settings of a request without those that would replace the object's own fields."""
    if known.name == "ollama":
        own = {name: value for name in _OLLAMA if (value := getattr(model, name, None)) is not None}
        # the setting `extra_body`
        own |= {name: value for name, value in wanted.extra.items() if name in _OLLAMA}
        return {**options, "options": {**options["options"], **own}}
    own_body = getattr(model, "extra_body", None)
    if own_body and "extra_body" in options:
        return {**options, "extra_body": {**own_body, **options["extra_body"]}}
    return options
