"""The door to chat models: the clients, the keys and what was learned of each model, of one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tribunal.environment import dotenv, environment
from tribunal.loops import PerLoop
from tribunal.models.keys import KeyPool
from tribunal.models.learned import Learned
from tribunal.models.providers import Endpoint, ModelName, Provider, providers_in_use

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class Door:
    """What calls share on one event loop.

    Attributes:
        environment: the settings outside a run, as they were when it last looked around.
        learned: what servers have shown of their models.
        secrets: every key it has held. Of keys that are no longer used too: a call under way may still tell them.
    """

    def __init__(self, beneath: Mapping[str, str]) -> None:
        """`beneath` is what the `.env` file sets."""
        self._beneath = beneath
        self.environment: Mapping[str, str] = environment(beneath)
        self.secrets: set[str] = set()
        self._clients: dict[Endpoint, tuple[Provider, BaseChatModel]] = {}
        self.forget()

    def forget(self) -> None:
        """Begin anew with every key and every model."""
        self._pools: dict[str, KeyPool] = {}
        self.learned = Learned()

    def look_around(self) -> None:
        """Take in the environment as it is now; a new key or address makes new clients (a notebook sets it late)."""
        before, self.environment = self.environment, environment(self._beneath)
        if before == self.environment:
            return
        matters = tuple(name for provider in providers_in_use() for name in (*provider.keys, *provider.base_urls))
        was, now = (
            {name: value for name, value in held.items() if name.startswith(matters)}  # NAME_1, NAME_2, … too
            for held in (before, self.environment)
        )
        if was != now:
            self.forget()

    def keys(self, model: ModelName, provider: Provider) -> KeyPool:
        """The keys of a model's provider."""
        pool = self._pools.get(model.provider)
        if pool is None:
            keys = provider.key_pool(self.environment)
            self.secrets.update(keys)
            pool = self._pools[model.provider] = KeyPool(model.provider, keys)
        return pool

    def client(self, model: ModelName, provider: Provider, key: str | None) -> BaseChatModel:
        """The client of a model, with this key."""
        endpoint = Endpoint(model, provider.base_url(self.environment), key)
        held = self._clients.get(endpoint)
        if held is None:
            held = self._clients[endpoint] = provider, provider.make(endpoint)
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
