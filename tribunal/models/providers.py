"""Models by name: which providers there are, where they are, which keys they take, and how each client is made.

A model is named `provider:model`; several, separated by commas, are asked in turn. Everything that differs between
providers, but for the forms in which they decline or fail (`tribunal.models.diagnosis`), is in this file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel

from tribunal.errors import BadInput
from tribunal.plugins import known, plugin
from tribunal.schema import JSON

# Every client is told to try once: the door retries, and a client that does so too would multiply the tries.


@dataclass(frozen=True, slots=True)
class ModelName:
    """One model of one provider."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a client is made from. `key` is None where the provider takes none."""

    spec: ModelName
    base_url: str | None
    key: str | None = field(repr=False)


Rung = Literal["json_schema", "json_object", "prompt"]


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """What is wanted of one answer: its form (`envelope`: `name`, `strict` and `schema`), heat and room in tokens."""

    rung: Rung
    envelope: JSON
    temperature: float | None
    room: int


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider: the settings its keys and base URL are read from, in order, and how its client is made."""

    name: str
    keys: tuple[str, ...]
    base_urls: tuple[str, ...]
    default_url: str | None
    make: Callable[[Endpoint, Any], BaseChatModel]
    keyless: bool = False
    where: str = ""
    options: Callable[[RequestSettings], JSON] = field(default=lambda wanted: _openai_options(wanted))
    close: Callable[[Any], Awaitable[Any]] | None = None
    sees_question: bool = False  # whether its client is handed the question itself, as the rehearsal model is

    @property
    def shares_http(self) -> bool:
        """Whether its clients are made on the `http_client` of the event loop."""
        return self.make is _openai

    def base_url(self, environment: Mapping[str, str]) -> str | None:
        return next((environment[name] for name in self.base_urls if environment.get(name)), self.default_url)

    def key_pool(self, environment: Mapping[str, str]) -> list[str]:
        """Every key of the provider: NAME, then NAME_1, NAME_2, … of the first of its names that has any."""
        for name in self.keys:
            numbered = sorted(
                (int(tail), value)
                for full, value in environment.items()
                if full.startswith(f"{name}_") and (tail := full.removeprefix(f"{name}_")).isdecimal() and value
            )
            found = [environment[name]] if environment.get(name) else []
            found += [value for _, value in numbered]
            if found:
                return list(dict.fromkeys(found))
        return []

    def listing(self, environment: Mapping[str, str], key: str | None) -> tuple[str, dict[str, str]]:
        """Where a server lists its models, which costs nothing, and the headers to ask with."""
        base = (self.base_url(environment) or "https://generativelanguage.googleapis.com").rstrip("/")
        match self.name:
            case "google_genai":
                return f"{base}/v1beta/models", {"x-goog-api-key": key or ""}
            case "anthropic":
                return f"{base}/v1/models", {"x-api-key": key or "", "anthropic-version": "2023-06-01"}
            case "ollama":
                return f"{base}/api/tags", {}
        return f"{base}/models", {"Authorization": f"Bearer {key or 'none'}"}

    def keys_wanted(self, environment: Mapping[str, str]) -> bool:
        """Whether this provider can't be asked without a key. A server of one's own, named by base URL, can."""
        own_server = self.name == "openai" and self.base_url(environment) != self.default_url
        return not self.keyless and not own_server


def _openai_options(wanted: RequestSettings) -> JSON:
    options: JSON = {"max_tokens": wanted.room}
    if wanted.temperature is not None:
        options["temperature"] = wanted.temperature
    if wanted.rung == "json_schema":
        options["response_format"] = {"type": "json_schema", "json_schema": wanted.envelope}
    elif wanted.rung == "json_object":
        options["response_format"] = {"type": "json_object"}
    return options


def _google_options(wanted: RequestSettings) -> JSON:
    options: JSON = {"max_output_tokens": wanted.room}
    if wanted.temperature is not None:
        options["temperature"] = wanted.temperature
    if wanted.rung != "prompt":
        options["response_mime_type"] = "application/json"
    if wanted.rung == "json_schema":
        options["response_json_schema"] = wanted.envelope["schema"]
    return options


def _anthropic_options(wanted: RequestSettings) -> JSON:
    # There is no bare JSON mode: that rung is the same as the prompt's.
    options: JSON = {"max_tokens": wanted.room}
    if wanted.temperature is not None:
        options["temperature"] = wanted.temperature
    if wanted.rung == "json_schema":
        options["output_config"] = {"format": {"type": "json_schema", "schema": wanted.envelope["schema"]}}
    return options


def _ollama_options(wanted: RequestSettings) -> JSON:
    inner: JSON = {"num_predict": wanted.room}
    if wanted.temperature is not None:
        inner["temperature"] = wanted.temperature
    options: JSON = {"options": inner}
    if wanted.rung != "prompt":
        options["format"] = wanted.envelope["schema"] if wanted.rung == "json_schema" else "json"
    return options


@lru_cache(maxsize=1)
def _trusted() -> Any:
    """The certificates that are trusted: to read them takes longer than to make all the rest of a client."""
    import httpx2

    return httpx2.create_ssl_context()


def http_client() -> Any:
    """The connections of all OpenAI-compatible endpoints of one event loop."""
    from urllib.request import getproxies

    import aiohttp

    # As many as there are calls in flight: the runs bound those. The door bounds the time. A proxy is looked for once,
    # since a session that heeds the environment goes through two threads for it at every request.
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=_trusted()),
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=bool(getproxies()),
    )


@lru_cache(maxsize=1)
def _unused() -> tuple[Any, Any]:
    """LangChain makes clients of its own if it is given none. These are never asked."""
    import httpx2

    return httpx2.Client(verify=_trusted()), httpx2.AsyncClient(verify=_trusted())


def _openai(endpoint: Endpoint, http: Any) -> BaseChatModel:
    from tribunal.models.openai_chat import OpenAICompatible

    waiting, turning = _unused()
    return OpenAICompatible(
        http_client=waiting,
        http_async_client=turning,
        model=endpoint.spec.model,
        base_url=endpoint.base_url,
        api_key=endpoint.key or "none",
        old_room=endpoint.base_url != OPENAI_URL,
        use_responses_api=False,
        disable_streaming=True,
        max_retries=0,
    ).over(http)


def _google(endpoint: Endpoint, http: Any) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    # Its `max_retries` counts attempts, not retries: one is one try.
    return init_chat_model(
        endpoint.spec.model,
        model_provider="google_genai",
        api_key=endpoint.key,
        base_url=endpoint.base_url,
        disable_streaming=True,
        max_retries=1,
    )


def _anthropic(endpoint: Endpoint, http: Any) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    return init_chat_model(
        endpoint.spec.model,
        model_provider="anthropic",
        api_key=endpoint.key,
        base_url=endpoint.base_url,
        disable_streaming=True,
        max_retries=0,
    )


def _ollama(endpoint: Endpoint, http: Any) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    return init_chat_model(
        endpoint.spec.model, model_provider="ollama", base_url=endpoint.base_url, disable_streaming=True
    )


OPENAI_URL = "https://api.openai.com/v1"

PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider(
            "openai",
            ("OPENAI_API_KEY",),
            ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
            OPENAI_URL,
            _openai,
            where="https://platform.openai.com/api-keys",
        ),
        Provider(
            "google_genai",
            ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            ("GOOGLE_GEMINI_BASE_URL",),
            None,
            _google,
            options=_google_options,
            close=lambda model: model.client.aio.aclose(),
            where="https://aistudio.google.com/apikey",
        ),
        Provider(
            "anthropic",
            ("ANTHROPIC_API_KEY",),
            ("ANTHROPIC_BASE_URL",),
            "https://api.anthropic.com",
            _anthropic,
            options=_anthropic_options,
            close=lambda model: model._async_client.close(),
            where="https://platform.claude.com",
        ),
        Provider(
            "ollama",
            (),
            ("OLLAMA_HOST", "OLLAMA_BASE_URL"),
            "http://127.0.0.1:11434",
            _ollama,
            keyless=True,
            options=_ollama_options,
            close=lambda model: model._async_client.close(),
        ),
        Provider(
            "qwen",
            ("DASHSCOPE_API_KEY", "QWEN_API_KEY"),
            ("DASHSCOPE_BASE_URL", "QWEN_BASE_URL"),
            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            _openai,
            where="https://www.alibabacloud.com/help/en/model-studio",
        ),
        Provider(
            "glm",
            ("ZAI_API_KEY", "ZHIPUAI_API_KEY", "GLM_API_KEY"),
            ("GLM_BASE_URL", "ZHIPUAI_BASE_URL"),
            "https://api.z.ai/api/paas/v4",
            _openai,
            where="https://z.ai/model-api",
        ),
    )
}

SETTINGS = ("TRIBUNAL_MODEL", *(name for each in PROVIDERS.values() for name in (*each.keys, *each.base_urls)))


def provider_named(name: str, field: str = "model") -> Provider:
    """A provider of ours, or one that an entry point or `module:object` names (`tribunal.plugins`).

    Raises:
        BadInput: there is none, naming the setting and those there are.
    """
    found = PROVIDERS.get(name) or plugin("tribunal.providers", name, Provider, field)
    if found is None:
        raise BadInput(
            f"{field}: {name!r}: not a model; give provider:model, where provider is one of "
            f"{known(PROVIDERS, 'tribunal.providers')} (a server of your own: openai:NAME and OPENAI_BASE_URL)"
        )
    return found


def specs(names: str, field: str) -> tuple[ModelName, ...]:
    """The models behind a setting: `provider:model`, or several of them separated by commas.

    Raises:
        BadInput: naming the setting, the value and the providers there are.
    """
    found = []
    for name in names.split(","):
        provider, colon, model = name.strip().partition(":")
        if provider == "rehearsal" and not colon:
            colon, model = ":", "court"
        if not model.strip():
            provider = name.strip()
            raise BadInput(
                f"{field}: {provider!r}: not a model; give provider:model, where provider is one of "
                f"{known(PROVIDERS, 'tribunal.providers')} (a server of your own: openai:NAME and OPENAI_BASE_URL)"
            )
        provider_named(provider, field)
        if provider == "rehearsal" and model != "court":
            raise BadInput(f"{field}: {name.strip()!r}: there is one rehearsal model, rehearsal:court")
        found.append(ModelName(provider, model.strip()))
    return tuple(found)


def missing_key(spec: ModelName, field: str) -> BadInput:
    """What to say where a provider's key is missing."""
    provider = provider_named(spec.provider)
    return BadInput(
        f"{field}: {spec}: no key; set {' or '.join(provider.keys)} in the environment or in .env "
        f"(from {provider.where}), or leave --model out to rehearse without one"
    )


def sees_images(model: BaseChatModel) -> bool:
    """Whether a model takes images, as far as its published profile says; an unknown one is taken to."""
    return bool((model.profile or {}).get("image_inputs", True))


def takes_temperature(model: BaseChatModel) -> bool:
    """Whether a model takes a temperature, as far as its published profile says."""
    return bool((model.profile or {}).get("temperature", True))
