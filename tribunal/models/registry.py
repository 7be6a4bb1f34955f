"""The registry to chat models: the clients, the keys and what was learned of each model, of one event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from tribunal.calls import REHEARSAL
from tribunal.context import Context
from tribunal.environment import DotEnv, environment, from_dotenv, read_dotenv
from tribunal.errors import BadInput
from tribunal.loops import PerLoop
from tribunal.model_objects import object_numbered, secrets_in
from tribunal.models.model_limits import ModelLimits
from tribunal.models.providers import (
    Endpoint,
    ModelName,
    Provider,
    check_key,
    model_names,
    plugin_place,
    provider_of,
    providers_in_use,
)
from tribunal.models.retry import KeyPool
from tribunal.schema import JSON
from tribunal.shared_settings import screener_path

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class ServerSettings(NamedTuple):
    """A provider in one environment: its address, whether it takes keys, and its bounds of schemas."""

    url: str | None
    keys_wanted: bool
    bounds: frozenset[str]


class ModelRegistry:
    """The clients, keys and limits that calls share on one event loop.

    Attributes:
        environment: the settings outside a run, as they were when it last looked around.
        limits: what servers have shown of their models.
        secrets: every key it has held, and every password of an address. Those that are no longer used too: a call
            under way may still tell them.
        on_rest: is told of every rest that a server asks for: the provider, the key's number, the seconds. None: nobody
            else uses these keys.
    """

    def __init__(self, dotenv: DotEnv) -> None:
        """`dotenv` is what the `.env` file sets."""
        self._dotenv = dotenv
        self.environment: Mapping[str, str] = environment(dotenv)
        self.secrets: set[str] = set()
        self.on_rest: Callable[[str, int, float], None] | None = None
        self._elsewhere: dict[tuple[str, int], float] = {}  # until when others were told to let a key rest
        self._servers: dict[str, ServerSettings] = {}
        self._clients: dict[tuple[ModelName, str | None, str | None], tuple[Provider, BaseChatModel]] = {}
        self.reset_keys()

    def reset_keys(self) -> None:
        """Begin anew with every key and every model."""
        self._pools: dict[str, KeyPool] = {}
        self._object_pools: dict[int, KeyPool] = {}  # by the object's number
        self.limits = ModelLimits()

    def refresh_environment(self) -> None:
        """Take in the environment as it is now; a new key or address makes new clients (a notebook sets it late)."""
        before, self.environment = self.environment, environment(self._dotenv)
        if before == self.environment:
            return
        self._servers = {}
        # Clients of LangChain's read settings of their own. They hold no connections where nothing closes them.
        self._clients = {at: held for at, held in self._clients.items() if held[0].close}
        matters = tuple(name for provider in providers_in_use() for name in (*provider.keys, *provider.base_urls))
        was, now = (
            {name: value for name, value in held.items() if name.startswith(matters)}  # NAME_1, NAME_2, … too
            for held in (before, self.environment)
        )
        if was != now:
            self.reset_keys()

    def key_pool(self, model: ModelName, provider: Provider) -> KeyPool:
        """Return the keys of a model's provider; of a model object, the one that it holds itself."""
        if provider.client is not None:
            pool = self._object_pools.get(model.number)
            if pool is None:
                self._drop_lost_objects()
                pool = self._object_pools[model.number] = KeyPool(str(model), [])
            return pool
        pool = self._pools.get(model.provider)
        if pool is None:
            self.secrets |= provider.all_secrets(self.environment)
            pool = KeyPool(model.provider, provider.key_pool(self.environment), self._report_rest)
            self._pools[model.provider] = pool
            for (name, number), until in self._elsewhere.items():
                if name == model.provider:
                    pool.rest_key(number, until - time.monotonic(), quietly=True)
        return pool

    def _drop_lost_objects(self) -> None:
        """Forget what was learned of model objects that are gone."""
        gone = {number for number in self._object_pools if object_numbered(number) is None}
        self._object_pools = {number: pool for number, pool in self._object_pools.items() if number not in gone}
        self.limits.drop_objects(gone)

    def rest_key_quietly(self, provider: str, number: int, seconds: float) -> None:
        """Another process that uses the same keys was asked to let one rest: so does this one, and tells nobody.

        Args:
            provider: its name.
            number: the key's.
            seconds: how long from now.
        """
        until = time.monotonic() + seconds
        self._elsewhere[provider, number] = max(until, self._elsewhere.get((provider, number), 0.0))
        if pool := self._pools.get(provider):
            pool.rest_key(number, seconds, quietly=True)

    def _report_rest(self, provider: str, number: int, seconds: float) -> None:
        if self.on_rest is not None:
            self.on_rest(provider, number, seconds)

    def server_settings(self, provider: Provider) -> ServerSettings:
        """Return a provider's settings here, worked out once for each environment.

        Raises:
            BadInput: its address stands in a `.env` file, and the key that would be sent there doesn't.
        """
        if provider.client is not None:
            return ServerSettings(provider.default_url, False, provider.bounds)
        held = self._servers.get(provider.name)
        if held is None:
            at = self.environment
            held = ServerSettings(provider.base_url(at), provider.needs_key(at), provider.schema_bounds(at))
            self._servers[provider.name] = held
        return held

    def chat_client(self, model: ModelName, provider: Provider, key: str | None) -> BaseChatModel:
        """Return the client of a model, with this key; a model object is its own."""
        if provider.client is not None:
            self.secrets |= secrets_in(provider.client)
            return provider.client
        at = model, self.server_settings(provider).url, key
        held = self._clients.get(at)
        if held is None:
            held = self._clients[at] = provider, provider.make(Endpoint(*at, self.environment))
        return held[1]

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


def models_of_seat(context: Context, seat: str, falls_to: str, environment: Mapping[str, str]) -> tuple[ModelName, ...]:
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
    named = {"aux_model": context.aux_model, "judge_model": context.judge_model, "model": context.model}
    named |= {"triage": None if context.triage and screener_path(context.triage) else context.triage}
    named |= {f"seats.{seat}": names for seat, names in context.seats.items()}
    if not context.model and not (context.aux_model and context.judge_model):
        named |= {"TRIBUNAL_MODEL": environment.get("TRIBUNAL_MODEL") or REHEARSAL}
    models = {model for field, names in named.items() if names for model in resolve_models(names, environment, field)}
    for model in models:
        check_extra_fields(model, provider_of(model), context.extra_body)
    _check_triage(context, models)
    return models


def _check_triage(context: Context, models: set[ModelName]) -> None:
    """Refuse settings by which the rehearsal model's rules decide which posts a real model never sees."""
    real = sorted(str(model) for model in models if str(model) != REHEARSAL)
    first = context.triage and (context.seats.get("triage") or context.triage)
    if (
        first
        and not screener_path(first)
        and real
        and any(str(model) == REHEARSAL for model in model_names(first, "triage"))
    ):
        raise BadInput(
            f"triage: {first}: the rehearsal model can't take the first look where a real model sits ({real[0]}): it "
            "follows a few rules, and would keep posts from that model; name a real model, or leave triage out"
        )


def resolve_models(names: str, environment: Mapping[str, str], field: str) -> tuple[ModelName, ...]:
    """Return the models behind a setting, each of which has a key where it needs one.

    Raises:
        BadInput: one is no model, or its key is missing; or a `.env` file names code to run.
    """
    if from_dotenv(environment, field) and (place := next(filter(plugin_place, names.split(",")), None)):
        raise BadInput(
            f"{field}: {place.strip()}: stands in .env, which may not name code to run; set it in the environment"
        )
    models = model_names(names, field)
    for model in models:
        check_key(model, provider_of(model), environment, field, "leave --model out to rehearse without one")
    return models


def extra_fields_for(model: ModelName, extra_body: Mapping[str, JSON]) -> JSON:
    """Return the fields of every pattern that a model's name or `provider:model` fits; a later one beats an earlier."""
    found: JSON = {}
    for pattern, fields in extra_body.items():
        if fnmatchcase(str(model), pattern) or fnmatchcase(model.model, pattern):
            found |= fields
    return found


def check_extra_fields(model: ModelName, provider: Provider, extra_body: Mapping[str, JSON]) -> None:
    """Raise `BadInput` where a model is given fields that its provider's client can't send."""
    if not provider.takes_extra and (fields := extra_fields_for(model, extra_body)):
        raise BadInput(
            f"extra_body: {model}: {', '.join(fields)} can't be sent to {provider.name}; only OpenAI-compatible "
            "servers and Ollama take further fields"
        )
