"""Read what a llama.cpp server says of itself: how many requests it answers at a time, and how long each may be."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import AliasPath, BaseModel, Field

from tribunal.models.providers import Provider
from tribunal.models.providers.http import fetch
from tribunal.text import parse_json


class ServerSlots(BaseModel):
    """The slots of a server, and the tokens that each has room for, prompt and answer together."""

    total_slots: int
    context: int = Field(validation_alias=AliasPath("default_generation_settings", "n_ctx"))


async def read_server_slots(provider: Provider, environment: Mapping[str, str]) -> ServerSlots | None:
    """Return the slots of a server whose address somebody has set, or None if it doesn't tell of any."""
    if provider.listing is None or not provider.address_setting(environment):
        return None
    keys = provider.key_pool(environment)
    root = (provider.base_url(environment) or "").partition("?")[0].rstrip("/").removesuffix("/v1")
    try:
        status, _, raw = await fetch("GET", f"{root}/props", provider.headers(keys[0] if keys else None), keys=keys)
        return ServerSlots.model_validate(parse_json(raw)) if status == 200 else None
    except (OSError, ValueError):
        return None
