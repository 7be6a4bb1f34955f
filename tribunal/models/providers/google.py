"""Google's Gemini models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from tribunal.models.providers import LISTS, RANGES, EmbeddingApi, Endpoint, Provider, RequestSettings
from tribunal.schema import JSON

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def _make_client(endpoint: Endpoint) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    from tribunal.models.providers.http import make_transport

    # Its library asks by whichever HTTP library this setting names, and by aiohttp where it is given no transport.
    chosen = os.environ.get("GOOGLE_GENAI_HTTP_CLIENT", "").strip().lower()
    transport = make_transport("httpx2" if chosen == "httpx2" else "httpx", endpoint.key)
    return init_chat_model(
        endpoint.model,
        model_provider="google_genai",
        api_key=endpoint.key,
        base_url=endpoint.base_url,
        client_args={"transport": transport},
        max_retries=1,  # it counts attempts, not retries
    )


def _request_options(wanted: RequestSettings) -> JSON:
    # None is said too: its client has a temperature of its own.
    options: JSON = {"max_output_tokens": wanted.max_output_tokens, "temperature": wanted.temperature}
    if wanted.response_format != "prompt":
        options["response_mime_type"] = "application/json"
    if wanted.response_format == "json_schema":
        options["response_json_schema"] = wanted.envelope["schema"]
    return options


def _embedding_body(model: str, texts: Sequence[str], use: Literal["query", "passage"]) -> JSON:
    task = "RETRIEVAL_QUERY" if use == "query" else "RETRIEVAL_DOCUMENT"
    one = {"model": f"models/{model}", "taskType": task}
    return {"requests": [{**one, "content": {"parts": [{"text": text}]}} for text in texts]}


def _embedding_rows(reply: Any) -> list[list[float]]:
    return [each["values"] for each in reply["embeddings"]]


GOOGLE = Provider(
    name="google_genai",
    make=_make_client,
    options=_request_options,
    keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    base_urls=("GOOGLE_GEMINI_BASE_URL",),
    rest_url="https://generativelanguage.googleapis.com",
    where="https://aistudio.google.com/apikey",
    headers=lambda key: {"x-goog-api-key": key} if key else {},
    listing="/v1beta/models",
    bounds=LISTS | RANGES,
    embeddings=EmbeddingApi(
        path="/v1beta/models/{model}:batchEmbedContents", most_texts=100, body=_embedding_body, rows=_embedding_rows
    ),
)
