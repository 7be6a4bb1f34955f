"""Anthropic's Claude models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tribunal.models.providers.provider import LISTS, RANGES, Endpoint, Provider, RequestSettings
from tribunal.schema import JSON

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def _client(endpoint: Endpoint) -> BaseChatModel:
    from tribunal.models.providers.anthropic_chat import Claude

    return Claude(
        model=endpoint.model,
        api_key=endpoint.key,
        base_url=endpoint.base_url,
        max_retries=0,
    )


def _options(wanted: RequestSettings) -> JSON:
    # There is no bare JSON mode: that rung is the same as the prompt's.
    options: JSON = {"max_tokens": wanted.max_output_tokens}
    if wanted.temperature is not None:
        options["temperature"] = wanted.temperature
    if wanted.rung == "json_schema":
        from anthropic import transform_schema

        # A bound that it refuses, which is nearly every one, is said in the field's description instead.
        schema = transform_schema(wanted.envelope["schema"])
        options["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return options


ANTHROPIC = Provider(
    name="anthropic",
    make=_client,
    options=_options,
    close=lambda client: client._async_client.close(),
    keys=("ANTHROPIC_API_KEY",),
    base_urls=("ANTHROPIC_BASE_URL",),
    default_url="https://api.anthropic.com",
    where="https://platform.claude.com",
    headers=lambda key: {"x-api-key": key or "", "anthropic-version": "2023-06-01"},
    listing="/v1/models",
    bounds=LISTS | RANGES,
)
