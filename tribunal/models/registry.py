"""Models by name, and the resources that the calls of one event loop share: clients, keys and learned facts.

A model's name is `provider:model`; several, separated by commas, are asked in turn. A provider is one of ours
(`tribunal.models.providers`); anybody's, named by an entry point of the group `tribunal.providers`, or by its place, as
in `--model package.module:PROVIDER:model` (`tribunal.plugins`); or any other that LangChain's `init_chat_model` knows,
once its package is installed (`providers/langchain.py`).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tribunal import plugins
from tribunal.core.calls import REHEARSAL
from tribunal.core.text import SHORTEST
from tribunal.errors import BadInput, NotAtHand
from tribunal.models.exam_results import ExamKey, ExamResult, read_exam_results
from tribunal.models.keys import KeyPool
from tribunal.models.ladder import Learnt, forget_learnt, learnt_of
from tribunal.models.providers import Endpoint, ModelName, Provider
from tribunal.models.providers.langchain import (
    KEYS,
    SECRETS,
    find_langchain_provider,
    langchain_provider,
    wrap_model_object,
)
from tribunal.models.providers.openai import AZURE_OPENAI, GLM, OPENAI, QWEN
from tribunal.models.providers.other_apis import ANTHROPIC, GOOGLE, OLLAMA
from tribunal.models.server_wait import ServerWait
from tribunal.models.waits import ConcurrencyLimit
from tribunal.process.loops import PerLoop
from tribunal.process.model_objects import (
    describe_object,
    is_object_name,
    known_provider,
    object_number,
    object_numbered,
    refusal_elsewhere,
    secrets_in,
)
from tribunal.schema import JSON
from tribunal.settings.context import Context
from tribunal.settings.environment import DotEnv, data_folder, environment, from_dotenv, read_dotenv

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

PROVIDERS = {
    each.name: each for each in (OPENAI, GOOGLE, ANTHROPIC, OLLAMA, QWEN, GLM, AZURE_OPENAI)
}
_plugged: dict[str, Provider] = {}


def find_provider(name: str, field: str) -> Provider | None:
    """Return the provider of this name: ours, anybody's, or one of LangChain's; None where there is none.

    Raises:
        BadInput: it can't be loaded, is something else, or its package isn't installed.
    """
    found = PROVIDERS.get(name) or _plugged.get(name)
    if found is None:
        found = plugins.plugin(
            "tribunal.providers", name, Provider, field
        ) or find_langchain_provider(name, field)
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
        name = known_provider(given)
        return wrap_model_object(
            given, (PROVIDERS.get(name) or langchain_provider(name)) if name else None
        )
    return PROVIDERS.get(model.provider) or _plugged[model.provider]


def providers_in_use() -> tuple[Provider, ...]:
    """Return our providers, and other providers that a setting has named so far."""
    return *PROVIDERS.values(), *_plugged.values()


_NAMES_A_SECRET = re.compile(r"_API_KEY|_(?:KEYS?|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)


def known_secrets() -> frozenset[str]:
    """Return every key that this program could know: of providers, and of variables that are named like one.

    Secrets that are short enough to be an ordinary word are left out, as in `scrub`.
    """
    variables = environment()
    found = {value for name, value in variables.items() if _NAMES_A_SECRET.search(name)}
    found |= {
        secret for provider in providers_in_use() for secret in provider.all_secrets(variables)
    }
    return frozenset(each for each in found if len(each) >= SHORTEST)


def split_name(name: str) -> tuple[str, str]:
    """Return provider and model of a `provider:model`; the provider may itself be `module:object`."""
    provider, _, model = name.partition(":")
    if provider not in {*PROVIDERS, *KEYS, *SECRETS, *plugins.names("tribunal.providers")}:
        member, colon, rest = model.partition(":")
        if colon:
            return f"{provider}:{member}", rest.strip()
    return provider, model.strip()


def model_names(names: str, field: str) -> tuple[ModelName, ...]:
    """Return the models behind a setting: `provider:model`, or several of them separated by commas.

    Raises:
        BadInput: naming the setting, the value and the providers there are.
    """
    return tuple(
        _object_model(name.strip(), field)
        if is_object_name(name)
        else _model_name(name.strip(), field)
        for name in names.split(",")
    )


def _object_model(name: str, field: str) -> ModelName:
    """Return the model of this name that the caller gave as an object.

    Raises:
        BadInput: this process has no such object.
    """
    number = object_number(name)
    found = object_numbered(number)
    if found is None:
        raise BadInput(f"{refusal_elsewhere(field)} ({name} isn't in this process)")
    return ModelName(*describe_object(found), number)


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
            plugins.require_extra(f"{field}: {provider_name}", provider.extra)
    except BadInput as error:
        raise BadInput(f"{error}; {may_be_given}") from error
    if provider and provider.only_model and ":" not in name:
        model = provider.only_model
    if not provider or not model:
        raise BadInput(f"{field}: {name!r}: not a model; {may_be_given}")
    if provider.only_model not in (None, model):
        raise BadInput(
            f"{field}: {name!r}: there is one {provider_name} model, {provider_name}:{provider.only_model}"
        )
    if str(ModelName(provider.name, model)) == REHEARSAL:
        # By its place too: what it takes part in is told by its name.
        _plugged[provider.name], provider_name = provider, provider.name
    return ModelName(provider_name, model)


def check_key(
    name: ModelName, provider: Provider, environment: Mapping[str, str], field: str, instead: str
) -> None:
    """Raise `BadInput` where a provider's address is none, or its key is missing. A model object has its own.

    `instead` is what may be done without a key.
    """
    if provider.client is not None:
        return
    provider.check_address(environment)
    if provider.needs_key(environment) and not provider.key_pool(environment):
        where = f" (from {provider.where})" if provider.where else ""
        keys = " or ".join(provider.keys)
        raise NotAtHand(
            f"{field}: {name}: no key; set {keys} in the environment or in .env{where}, or {instead}"
        )


# What a run asks


def models_of_seat(
    context: Context, seat: str, falls_to: str, environment: Mapping[str, str]
) -> tuple[ModelName, ...]:
    """Return the models of a seat, the first to be asked first.

    Args:
        context: the settings.
        seat: who is asked.
        falls_to: the setting that names a model for it where it has none of its own.
        environment: the settings outside the run.

    Raises:
        BadInput: the setting names something else.
    """
    # A seat with a colon is one of a kind: `perspective:kold` falls back to `perspective`.
    own = context.seats.get(seat) or context.seats.get(seat.partition(":")[0])
    if own:
        return model_names(own, f"seats.{seat}")
    general = getattr(context, falls_to)
    if general:
        return model_names(general, falls_to)
    if context.model:
        return model_names(context.model, "model")
    named = environment.get("TRIBUNAL_MODEL")
    return model_names(named, "TRIBUNAL_MODEL") if named else model_names(REHEARSAL, "model")


def check_models(context: Context, environment: Mapping[str, str]) -> set[ModelName]:
    """Return every model that may be asked in this run.

    Raises:
        BadInput: one is no model, its key is missing, it can't be given its `extra_body`, or the rehearsal model would
            take the first look at posts that a real model is to decide.
    """
    named = {
        "aux_model": context.aux_model,
        "judge_model": context.judge_model,
        "model": context.model,
        "triage": context.triage,
    }
    named |= {f"seats.{seat}": names for seat, names in context.seats.items()}
    if not context.model and not (context.aux_model and context.judge_model):
        named |= {"TRIBUNAL_MODEL": environment.get("TRIBUNAL_MODEL") or REHEARSAL}
    models = {
        model
        for field, names in named.items()
        if names
        for model in resolve_models(names, environment, field)
    }
    for model in models:
        fields = extra_fields_for(model, context.extra_body)
        provider = provider_of(model)
        if fields and not provider.takes_extra:
            raise BadInput(
                f"extra_body: {model}: {', '.join(fields)} can't be sent to {provider.name}; only OpenAI-compatible "
                "servers and Ollama take further fields"
            )
    # The rehearsal model's rules may not decide which posts a real model never sees.
    real = sorted(str(model) for model in models if str(model) != REHEARSAL)
    first = context.triage and (context.seats.get("triage") or context.triage)
    if first and real and any(str(model) == REHEARSAL for model in model_names(first, "triage")):
        raise BadInput(
            f"triage: {first}: the rehearsal model can't take the first look where a real model sits ({real[0]}): it "
            "follows a few rules, and would keep posts from that model; name a real model, or leave triage out"
        )
    return models


def resolve_models(names: str, environment: Mapping[str, str], field: str) -> tuple[ModelName, ...]:
    """Return the models behind a setting, each of which has a key where it needs one.

    Raises:
        BadInput: one is no model, or its key is missing; or a `.env` file names code to run.
    """
    if from_dotenv(environment, field):
        # A provider with a colon is `module:object`.
        for code in (
            each.strip() for each in names.split(",") if ":" in split_name(each.strip())[0]
        ):
            raise BadInput(
                f"{field}: {code}: is set in .env, which may not name code to run; set it in the environment"
            )
    models = model_names(names, field)
    for model in models:
        check_key(
            model,
            provider_of(model),
            environment,
            field,
            "leave --model out to rehearse without one",
        )
    return models


def extra_fields_for(model: ModelName, extra_body: Mapping[str, JSON]) -> JSON:
    """Return the fields of every pattern that a model's name or `provider:model` fits; a later one beats an earlier."""
    found: JSON = {}
    for pattern, fields in extra_body.items():
        if fnmatchcase(str(model), pattern) or fnmatchcase(model.model, pattern):
            found |= fields
    return found


# What the calls of one event loop share


class ModelRegistry:
    """The clients, keys and limits that calls share on one event loop.

    Attributes:
        environment: the settings outside a run, as they were when it last looked around.
        concurrency: how many requests to each model may be under way.
        exams: the last exam of each model at each address.
        secrets: every key and password of an address so far: a running call may still mention an old one.
        on_rest: called with the provider, the key's number and the seconds of every pause that a server wants, or None.
        server_wait: holds calls while their server is away; None: they fail.
    """

    def __init__(self, dotenv: DotEnv) -> None:
        """Take the settings of the `.env` file as `dotenv`."""
        self._dotenv = dotenv
        self.environment: Mapping[str, str] = environment(dotenv)
        self.secrets: set[str] = set()
        self.exams: dict[ExamKey, ExamResult] = {}
        self.on_rest: Callable[[str, int, float], None] | None = None
        self.server_wait: ServerWait | None = None
        self._elsewhere: dict[
            tuple[str, int], float
        ] = {}  # until when others were told to let a key rest
        self._clients: dict[
            tuple[ModelName, str | None, str | None], tuple[Provider, BaseChatModel]
        ] = {}
        self.reset_keys()

    def reset_keys(self) -> None:
        """Begin anew with every key and every model."""
        self._pools: dict[
            str | int, KeyPool
        ] = {}  # by the provider's name, or the number of a model object
        self.concurrency: defaultdict[ModelName, ConcurrencyLimit] = defaultdict(ConcurrencyLimit)

    def refresh_environment(self) -> None:
        """Take in the environment as it is now; a new key or address makes new clients (a notebook sets it late)."""
        before = self.environment
        self.environment = environment(self._dotenv)
        if before == self.environment:
            return
        # Clients of LangChain's read settings of their own. They hold no connections where nothing closes them.
        self._clients = {at: held for at, held in self._clients.items() if held[0].close}
        matters = tuple(
            name
            for provider in providers_in_use()
            for name in (*provider.keys, *provider.base_urls)
        )
        changed = {name for name, _ in before.items() ^ self.environment.items()}
        if any(name.startswith(matters) for name in changed):  # NAME_1, NAME_2, … too
            self.reset_keys()

    async def refresh_exams(self) -> None:
        """Take in what exams have come to since."""
        self.exams = await asyncio.to_thread(read_exam_results, data_folder(self.environment))

    def key_pool(self, model: ModelName, provider: Provider) -> KeyPool:
        """Return the keys of a model's provider; for a model object, the key of the object."""
        pool = self._pools.get(model.number or model.provider)
        if pool is not None:
            return pool
        if provider.client is not None:
            self._drop_lost_objects()
            pool = self._pools[model.number] = KeyPool(str(model), [])
            return pool
        self.secrets |= provider.all_secrets(self.environment)
        keys = provider.key_pool(self.environment)
        pool = KeyPool(model.provider, keys, lambda *rest: self.on_rest and self.on_rest(*rest))
        self._pools[model.provider] = pool
        for (name, number), until in self._elsewhere.items():
            if name == model.provider:
                pool.rest_key(number, until - time.monotonic(), quietly=True)
        return pool

    def _drop_lost_objects(self) -> None:
        """Forget the facts learned about model objects that no longer exist."""
        gone = {
            each for each in self._pools if isinstance(each, int) and object_numbered(each) is None
        }
        self._pools = {name: pool for name, pool in self._pools.items() if name not in gone}
        for model in [each for each in self.concurrency if each.number in gone]:
            del self.concurrency[model]
        forget_learnt(gone)

    def lessons_of(self, model: ModelName, provider: Provider) -> Learnt:
        """Return what this process knows of a model at the address that it is asked at."""
        return learnt_of(str(model), provider.base_url(self.environment), model.number)

    def rest_key_quietly(self, provider: str, number: int, seconds: float) -> None:
        """Let a provider's key of this number rest for so many seconds, as another process was asked; tell nobody."""
        until = time.monotonic() + seconds
        self._elsewhere[provider, number] = max(until, self._elsewhere.get((provider, number), 0.0))
        pool = self._pools.get(provider)
        if pool:
            pool.rest_key(number, seconds, quietly=True)

    def retry_keys(self, provider: str) -> None:
        """Let keys of a provider be tried again that it has declined: somebody may have seen to them."""
        pool = self._pools.get(provider)
        if pool:
            pool.restore_keys()

    def chat_client(self, model: ModelName, provider: Provider, key: str | None) -> Any:
        """Return the client of a model, with this key: a chat model of LangChain's, or the object that the caller gave.

        Raises:
            BadInput: its address is set in a `.env` file that isn't trusted.
        """
        if provider.client is not None:
            self.secrets |= secrets_in(provider.client)
            return provider.client
        at = model, provider.base_url(self.environment), key
        if at not in self._clients:
            self._clients[at] = provider, provider.make(Endpoint(*at, self.environment))
        return self._clients[at][1]

    async def close(self) -> None:
        """Close every client."""
        for provider, client in self._clients.values():
            if provider.close:
                await provider.close(client)


async def _open_registry() -> ModelRegistry:
    return ModelRegistry(await asyncio.to_thread(read_dotenv))


_registries = PerLoop(_open_registry, ModelRegistry.close)


async def current_registry() -> ModelRegistry:
    """Return the registry of the running event loop, opened at its first use and closed with the loop."""
    return await _registries.get()
