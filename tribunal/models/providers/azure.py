"""OpenAI's models on Azure. A model's name is that of its deployment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tribunal.errors import BadInput
from tribunal.models.providers import openai
from tribunal.models.providers.provider import LISTS, RANGES, Endpoint, Provider, RequestSettings
from tribunal.schema import JSON

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def _client(endpoint: Endpoint) -> BaseChatModel:
    version = endpoint.environment.get("OPENAI_API_VERSION")
    for name, value in (("AZURE_OPENAI_ENDPOINT", endpoint.base_url), ("OPENAI_API_VERSION", version)):
        if not value:
            raise BadInput(f"model: {endpoint.name}: set {name} in the environment or in .env")
    return openai.make_client(
        replace(endpoint, base_url=None), "azure_openai", azure_endpoint=endpoint.base_url, api_version=version
    )


def _options(wanted: RequestSettings) -> JSON:
    return openai.options(replace(wanted, base_url=openai.URL))  # it knows the limit by OpenAI's own name


AZURE_OPENAI = Provider(
    name="azure_openai",
    make=_client,
    options=_options,
    keys=("AZURE_OPENAI_API_KEY",),
    base_urls=("AZURE_OPENAI_ENDPOINT",),
    where="https://portal.azure.com",
    headers=lambda key: {"api-key": key} if key else {},
    bounds=LISTS | RANGES,
    takes_extra=True,
)
