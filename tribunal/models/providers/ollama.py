"""Models that Ollama serves on this machine, or on another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tribunal.models.providers import openai
from tribunal.models.providers.provider import Endpoint, Provider, RequestSettings
from tribunal.schema import JSON

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def _client(endpoint: Endpoint) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    return init_chat_model(endpoint.model, model_provider="ollama", base_url=endpoint.base_url, disable_streaming=True)


def _options(wanted: RequestSettings) -> JSON:
    inner: JSON = {"num_predict": wanted.max_output_tokens}
    if wanted.temperature is not None:
        inner["temperature"] = wanted.temperature
    options: JSON = {"options": inner}
    if wanted.rung != "prompt":
        options["format"] = wanted.envelope["schema"] if wanted.rung == "json_schema" else "json"
    return options


OLLAMA = Provider(
    name="ollama",
    make=_client,
    options=_options,
    close=lambda client: client._async_client.close(),
    base_urls=("OLLAMA_HOST", "OLLAMA_BASE_URL"),
    default_url="http://127.0.0.1:11434",
    listing="/api/tags",
    embeddings=openai.embeddings(128, "/v1/embeddings"),
)
