"""The door to chat models: the clients, the keys and what was learned of each model, of one event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tribunal.environment import dotenv, environment
from tribunal.loops import PerLoop
from tribunal.model_objects import object_numbered, secrets_in
from tribunal.models.keys import KeyPool
from tribunal.models.learned import Learned
from tribunal.models.providers import Endpoint, ModelName, Provider, providers_in_use

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class Server(NamedTuple):
    """What a provider is in one environment: its address, whether it takes keys, and which bounds its schemas have."""

    url: str | None
    keys_wanted: bool
    bounds: frozenset[str]


class Door:
    """What calls share on one event loop.

    Attributes:
        environment: the settings outside a run, as they were when it last looked around.
        learned: what servers have shown of their models.
        secrets: every key it has held, and every password of an address. Those that are no longer used too: a call
            under way may still tell them.
        on_rest: is told of every rest that a server asks for: the provider, the key's number, the seconds. None: nobody
            else uses these keys.
    """

    def __init__(self, beneath: Mapping[str, str]) -> None:
        """`beneath` is what the `.env` file sets."""
        self._beneath = beneath
        self.environment: Mapping[str, str] = environment(beneath)
        self.secrets: set[str] = set()
        self.on_rest: Callable[[str, int, float], None] | None = None
        self._elsewhere: dict[tuple[str, int], float] = {}  # until when others were told to let a key rest
        self._servers: dict[str, Server] = {}
        self._clients: dict[tuple[ModelName, str | None, str | None], tuple[Provider, BaseChatModel]] = {}
        self.forget()

    def forget(self) -> None:
        """Begin anew with every key and every model."""
        self._pools: dict[str, KeyPool] = {}
        self._object_pools: dict[int, KeyPool] = {}  # by the object's number
        self.learned = Learned()

    def look_around(self) -> None:
        """Take in the environment as it is now; a new key or address makes new clients (a notebook sets it late)."""
        before, self.environment = self.environment, environment(self._beneath)
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
            self.forget()

    def keys(self, model: ModelName, provider: Provider) -> KeyPool:
        """The keys of a model's provider; of a model object, the one that it holds itself."""
        if provider.client is not None:
            pool = self._object_pools.get(model.number)
            if pool is None:
                self._drop_objects()
                pool = self._object_pools[model.number] = KeyPool(str(model), [])
            return pool
        pool = self._pools.get(model.provider)
        if pool is None:
            self.secrets |= provider.secrets(self.environment)
            pool = KeyPool(model.provider, provider.key_pool(self.environment), self._rests)
            self._pools[model.provider] = pool
            for (name, number), until in self._elsewhere.items():
                if name == model.provider:
                    pool.rest_quietly(number, until - time.monotonic())
        return pool

    def _drop_objects(self) -> None:
        """Forget what was learned of model objects that are gone."""
        gone = {number for number in self._object_pools if object_numbered(number) is None}
        self._object_pools = {number: pool for number, pool in self._object_pools.items() if number not in gone}
        self.learned.drop_objects(gone)

    def rest_elsewhere(self, provider: str, number: int, seconds: float) -> None:
        """Another process that uses the same keys was asked to let one rest: so does this one, and tells nobody.

        Args:
            provider: its name.
            number: the key's.
            seconds: how long from now.
        """
        until = time.monotonic() + seconds
        self._elsewhere[provider, number] = max(until, self._elsewhere.get((provider, number), 0.0))
        if pool := self._pools.get(provider):
            pool.rest_quietly(number, seconds)

    def _rests(self, provider: str, number: int, seconds: float) -> None:
        if self.on_rest is not None:
            self.on_rest(provider, number, seconds)

    def server(self, provider: Provider) -> Server:
        """What a provider is here, worked out once for each environment: every call asks for it, several times.

        Raises:
            BadInput: its address stands in a `.env` file, and the key that would be sent there doesn't.
        """
        if provider.client is not None:
            return Server(provider.default_url, False, provider.bounds)
        held = self._servers.get(provider.name)
        if held is None:
            at = self.environment
            held = Server(provider.base_url(at), provider.keys_wanted(at), provider.bounds_taken(at))
            self._servers[provider.name] = held
        return held

    def client(self, model: ModelName, provider: Provider, key: str | None) -> BaseChatModel:
        """The client of a model, with this key; a model object is its own."""
        if provider.client is not None:
            self.secrets |= secrets_in(provider.client)
            return provider.client
        at = model, self.server(provider).url, key
        held = self._clients.get(at)
        if held is None:
            held = self._clients[at] = provider, provider.make(Endpoint(*at, self.environment))
        return held[1]

    async def close(self) -> None:
        """Close every client."""
        for provider, client in self._clients.values():
            if provider.close:
                await provider.close(client)


async def _open_door() -> Door:
    return Door(await asyncio.to_thread(dotenv))


_doors = PerLoop(_open_door, Door.close)


async def door_here() -> Door:
    """The door of the running event loop, opened at its first use and closed with the loop."""
    return await _doors.here()
