"""OpenAI; with OPENAI_BASE_URL, any server that speaks as it does: vLLM, llama.cpp, LM Studio, …"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tribunal.models.providers.provider import LISTS, RANGES, EmbeddingApi, Endpoint, Provider, RequestSettings
from tribunal.schema import JSON

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

URL = "https://api.openai.com/v1"


def client(endpoint: Endpoint) -> BaseChatModel:
    """The client of an OpenAI-compatible endpoint."""
    from tribunal.models.providers.openai_chat import OpenAICompatible

    return OpenAICompatible(
        model=endpoint.model,
        base_url=endpoint.base_url,
        api_key=endpoint.key or "none",
        limit_as_max_tokens=endpoint.base_url != URL,
        use_responses_api=False,
        max_retries=0,
    )


def options(wanted: RequestSettings) -> JSON:
    """The settings of a request to `/chat/completions`."""
    options: JSON = {"max_tokens": wanted.max_output_tokens}
    if wanted.temperature is not None:
        options["temperature"] = wanted.temperature
    if wanted.rung == "json_schema":
        options["response_format"] = {"type": "json_schema", "json_schema": wanted.envelope}
    elif wanted.rung == "json_object":
        options["response_format"] = {"type": "json_object"}
    return {**options, "extra_fields": wanted.extra} if wanted.extra else options


def embeddings(most_texts: int, path: str = "/embeddings") -> EmbeddingApi:
    """An OpenAI-compatible endpoint of vectors, which takes so many texts a request."""
    return EmbeddingApi(path=path, most_texts=most_texts, body=_embedding_body, rows=_embedding_rows)


def _embedding_body(model: str, texts: Sequence[str], use: object) -> JSON:
    return {"model": model, "input": list(texts), "encoding_format": "float"}


def _embedding_rows(reply: Any) -> list[list[float]]:
    # A server that works in parallel may answer out of order.
    numbered = [(each.get("index", place), each["embedding"]) for place, each in enumerate(reply["data"])]
    return [row for _, row in sorted(numbered, key=lambda pair: int(pair[0]))]


OPENAI = Provider(
    name="openai",
    make=client,
    options=options,
    keys=("OPENAI_API_KEY",),
    base_urls=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    default_url=URL,
    where="https://platform.openai.com/api-keys",
    keyless_elsewhere=True,
    listing="/models",
    # Its strict mode takes no bounds of strings.
    bounds=LISTS | RANGES,
    takes_extra=True,
    # OpenAI takes 2,048 texts a request and smaller servers fewer; a quarter of that costs no measurable time.
    embeddings=replace(embeddings(512), keys=("OPENAI_EMBEDDINGS_API_KEY",), base_urls=("OPENAI_EMBEDDINGS_BASE_URL",)),
)
