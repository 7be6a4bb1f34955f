"""Models by name: `provider:model`; several, separated by commas, are asked in turn.

A provider is one of ours, one file each in this folder; anybody's, named by an entry point of the group
`tribunal.providers`, or by its place, as in `--model package.module:PROVIDER:model` (`tribunal.plugins`); or any other
that LangChain's `init_chat_model` knows, once its package is installed (`langchain.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from tribunal import plugins
from tribunal.calls import REHEARSAL
from tribunal.environment import environment
from tribunal.errors import BadInput
from tribunal.model_objects import (
    describe_object,
    find_object,
    is_object_name,
    known_provider,
    object_numbered,
    refusal_elsewhere,
)
from tribunal.models.providers.anthropic import ANTHROPIC
from tribunal.models.providers.google import GOOGLE
from tribunal.models.providers.langchain import KEYS, SECRETS, find_langchain_provider
from tribunal.models.providers.object_provider import wrap_model_object
from tribunal.models.providers.ollama import OLLAMA
from tribunal.models.providers.openai import AZURE_OPENAI, GLM, OPENAI, QWEN, compatible
from tribunal.models.providers.provider import (
    LENGTHS,
    LISTS,
    RANGES,
    EmbeddingApi,
    Endpoint,
    ModelName,
    Provider,
    RequestSettings,
    ResponseFormat,
)
from tribunal.plugins import require_extra
from tribunal.text import SHORTEST

__all__ = [
    "LENGTHS",
    "LISTS",
    "PROVIDERS",
    "RANGES",
    "EmbeddingApi",
    "Endpoint",
    "ModelName",
    "Provider",
    "RequestSettings",
    "ResponseFormat",
    "check_key",
    "compatible",
    "find_provider",
    "known_secrets",
    "model_names",
    "plugin_place",
    "provider_of",
    "providers_in_use",
    "split_name",
]

PROVIDERS = {each.name: each for each in (OPENAI, GOOGLE, ANTHROPIC, OLLAMA, QWEN, GLM, AZURE_OPENAI)}
_plugged: dict[str, Provider] = {}


def find_provider(name: str, field: str) -> Provider | None:
    """Return the provider of this name: ours, anybody's, or one of LangChain's; None where there is none.

    Raises:
        BadInput: it can't be loaded, is something else, or its package isn't installed.
    """
    found = PROVIDERS.get(name) or _plugged.get(name)
    if found is None:
        found = plugins.plugin("tribunal.providers", name, Provider, field) or find_langchain_provider(name, field)
        if found:
            _plugged[name] = found
    return found


def provider_of(model: ModelName) -> Provider:
    """Return the provider of a model that `model_names` gave.

    Raises:
        BadInput: it was a model object, which is gone.
    """
    if model.number:
        given = object_numbered(model.number)
        if given is None:
            raise BadInput(f"model: {model}: the object is gone; keep it as long as its cases run")
        return wrap_model_object(given, PROVIDERS.get(known_provider(given) or ""))
    return PROVIDERS.get(model.provider) or _plugged[model.provider]


def providers_in_use() -> tuple[Provider, ...]:
    """Return ours, and those of others that a setting has named so far."""
    return *PROVIDERS.values(), *_plugged.values()


_NAMES_A_SECRET = re.compile(r"_API_KEY|_(?:KEYS?|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)


def known_secrets() -> frozenset[str]:
    """Return every key that this program could know: of providers, and of variables that are named like one.

    Those that are short enough to be an ordinary word are left out, as `scrub` does.
    """
    variables = environment()
    found = {value for name, value in variables.items() if _NAMES_A_SECRET.search(name)}
    found |= {secret for provider in providers_in_use() for secret in provider.all_secrets(variables)}
    return frozenset(each for each in found if len(each) >= SHORTEST)


def split_name(name: str) -> tuple[str, str]:
    """Return provider and model of a `provider:model`; the provider may itself be `module:object`."""
    provider, _, model = name.partition(":")
    if provider not in {*PROVIDERS, *KEYS, *SECRETS, *plugins.names("tribunal.providers")}:
        member, colon, rest = model.partition(":")
        if colon:
            return f"{provider}:{member}", rest.strip()
    return provider, model.strip()


def plugin_place(name: str) -> str | None:
    """Return the `module:object` that a model's name begins with, or None if it begins with a provider's name."""
    provider, _ = split_name(name.strip())
    return provider if ":" in provider else None


def model_names(names: str, field: str) -> tuple[ModelName, ...]:
    """Return the models behind a setting: `provider:model`, or several of them separated by commas.

    Raises:
        BadInput: naming the setting, the value and the providers there are.
    """
    return tuple(
        _object_model(name.strip(), field) if is_object_name(name) else _model_name(name.strip(), field)
        for name in names.split(",")
    )


def _object_model(name: str, field: str) -> ModelName:
    """Return the model of this name that the caller gave as an object.

    Raises:
        BadInput: this process has no such object.
    """
    found = find_object(name)
    if found is None:
        raise BadInput(f"{refusal_elsewhere(field)} ({name} isn't in this process)")
    return ModelName(*describe_object(found.model), found.number)


@lru_cache(maxsize=256)  # it is asked at every call
def _model_name(name: str, field: str) -> ModelName:
    provider_name, model = split_name(name)
    may_be_given = (
        f"give provider:model, where provider is one of {plugins.list_known_names(PROVIDERS, 'tribunal.providers')} "
        "(a server of your own: openai:NAME and OPENAI_BASE_URL), or another that LangChain's init_chat_model knows"
    )
    try:
        provider = find_provider(provider_name, field)
        if provider and provider.extra:
            require_extra(f"{field}: {provider_name}", provider.extra)
    except BadInput as error:
        raise BadInput(f"{error}; {may_be_given}") from error
    if provider and provider.only_model and ":" not in name:
        model = provider.only_model
    if not provider or not model:
        raise BadInput(f"{field}: {name!r}: not a model; {may_be_given}")
    if provider.only_model not in (None, model):
        raise BadInput(f"{field}: {name!r}: there is one {provider_name} model, {provider_name}:{provider.only_model}")
    if str(ModelName(provider.name, model)) == REHEARSAL:
        # By its place too: what it takes part in is told by its name.
        _plugged[provider.name], provider_name = provider, provider.name
    return ModelName(provider_name, model)


def check_key(name: ModelName, provider: Provider, environment: Mapping[str, str], field: str, instead: str) -> None:
    """Raise `BadInput` where a provider's address is none, or its key is missing. A model object has its own.

    `instead` is what may be done without a key.
    """
    if provider.client is not None:
        return
    provider.check_address(environment)
    if provider.needs_key(environment) and not provider.key_pool(environment):
        where = f" (from {provider.where})" if provider.where else ""
        keys = " or ".join(provider.keys)
        raise BadInput(f"{field}: {name}: no key; set {keys} in the environment or in .env{where}, or {instead}")
