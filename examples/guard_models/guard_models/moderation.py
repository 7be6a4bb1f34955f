"""OpenAI's moderation endpoint as a model of one's own: its scores are its answer, as JSON.

LangChain has no chat model for it, so this one asks it by OpenAI's own client. Tribunal sends what may pass again, and
so many requests at a time as the run allows.
"""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from tribunal.models.providers import Endpoint, Provider

OPENAI_URL = "https://api.openai.com/v1"


class ModerationEndpoint(BaseChatModel):
    """OpenAI's moderation endpoint, asked about the last message: a text, an image or both."""

    model: str
    api: Any  # the client, an AsyncOpenAI

    @property
    def _llm_type(self) -> str:
        return "openai-moderation"

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        content = messages[-1].content
        parts: Any = [{"type": "text", "text": content}] if isinstance(content, str) else content
        filled = [each for each in parts if each["type"] != "text" or each["text"]]
        answered = await self.api.moderations.create(model=self.model, input=filled)
        message = AIMessage(
            answered.results[0].model_dump_json(by_alias=True),
            response_metadata={"model_name": answered.model},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError("the moderation endpoint is asked by ainvoke alone")


def _make(endpoint: Endpoint) -> ModerationEndpoint:
    client = AsyncOpenAI(
        api_key=endpoint.key or "none",
        base_url=endpoint.base_url,
        max_retries=0,  # Tribunal retries
        # a redirect would carry the key elsewhere
        http_client=DefaultAsyncHttpxClient(follow_redirects=False),
    )
    return ModerationEndpoint(model=endpoint.model, api=client)


PROVIDER = Provider(
    name="openai_moderation",
    make=_make,
    close=lambda client: client.api.close(),
    keys=("OPENAI_API_KEY",),
    # Its own first: OPENAI_BASE_URL may be a chat server of one's own.
    base_urls=("OPENAI_MODERATION_BASE_URL", "OPENAI_BASE_URL"),
    default_url=OPENAI_URL,
    where="https://platform.openai.com/api-keys",
    keyless_elsewhere=True,
    forms=("prompt",),
    takes_temperature=False,
)
