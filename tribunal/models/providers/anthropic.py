"""Anthropic's Claude models."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tribunal.models.providers import LISTS, RANGES, Endpoint, Provider, RequestSettings
from tribunal.schema import JSON

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def _make_client(endpoint: Endpoint) -> BaseChatModel:
    import anthropic
    from langchain.chat_models import init_chat_model

    from tribunal.models.providers.http import make_clients, make_transport

    transport = make_transport("httpx2", endpoint.key, proxy=os.environ.get("ANTHROPIC_PROXY"))
    _, connections = make_clients(transport)
    own = anthropic.AsyncAnthropic(
        api_key=endpoint.key, base_url=endpoint.base_url, max_retries=0, http_client=connections
    )
    made = init_chat_model(
        endpoint.model, model_provider="anthropic", api_key=endpoint.key, base_url=endpoint.base_url, max_retries=0
    )
    # It takes no client by a public name yet (langchain#36056). Its own would follow a redirect, give the key back to
    # those who listen, and be shared by every event loop of the process. Tests of the wire hold this line up.
    return made.model_copy(update={"_async_client": own})


def _request_options(wanted: RequestSettings) -> JSON:
    options: JSON = {"max_tokens": wanted.max_output_tokens}
    if wanted.temperature is not None:
        options["temperature"] = wanted.temperature
    if wanted.response_format == "json_schema":
        from anthropic import transform_schema

        # A bound that it refuses, which is nearly every one, is said in the field's description instead.
        schema = transform_schema(wanted.envelope["schema"])
        options["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return options


ANTHROPIC = Provider(
    name="anthropic",
    extra="anthropic",
    make=_make_client,
    options=_request_options,
    keys=("ANTHROPIC_API_KEY",),
    base_urls=("ANTHROPIC_BASE_URL",),
    default_url="https://api.anthropic.com",
    where="https://platform.claude.com",
    forms=("json_schema", "tool_call", "prompt"),  # it has no bare JSON mode
    headers=lambda key: {"x-api-key": key or "", "anthropic-version": "2023-06-01"},
    listing="/v1/models",
    bounds=LISTS | RANGES,
)
