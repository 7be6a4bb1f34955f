"""What somebody else might bring: a provider with a LangChain client, and an embedder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tribunal.models.embeddings import Use, Vectors
from tribunal.models.providers import Endpoint, Provider, RequestSettings


def _client(endpoint: Endpoint) -> ChatOpenAI:
    key = SecretStr(endpoint.key or "none")
    return ChatOpenAI(model=endpoint.model, base_url=endpoint.base_url, api_key=key, max_retries=0)


async def _close(client: ChatOpenAI) -> None:
    client.root_client.close()
    await client.root_async_client.close()


def _options(wanted: RequestSettings) -> dict[str, Any]:
    return {"temperature": wanted.temperature, "max_tokens": wanted.max_output_tokens}


PROVIDER = Provider(
    name="plugged",
    make=_client,
    options=_options,
    close=_close,
    keys=("PLUGGED_API_KEY",),
    base_urls=("PLUGGED_BASE_URL",),
)


class Lengths:
    """A text's vector says whether it is long."""

    dimension = 2

    def __init__(self, name: str) -> None:
        self.name = name

    async def embed(self, texts: Sequence[str], use: Use) -> Vectors:
        """As `Embedder.embed`."""
        return np.array(
            [[len(text) > 20, len(text) <= 20] if text.strip() else [0, 0] for text in texts],
            np.float32,
        )


EMBEDDER = Lengths("tests.models.plugged:EMBEDDER")
MISNAMED = Lengths("lengths")
