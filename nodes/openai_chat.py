"""The chat model of every OpenAI-compatible server.

LangChain's own, with one change that was measured (docs/performance.md): a request goes out by the client's plain `post`,
where its typed method would walk the body and the answer and check every part against its types. That takes two thirds
of the processor time of a call. It also keeps LangChain from turning a refused response format into a warning; the door
(`nodes.model`) steps down instead.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI


class OpenAICompatible(ChatOpenAI):
    """A chat model over `/chat/completions`.

    `old_room` sends the limit of the answer as `max_tokens`, which every server but OpenAI's own knows it by.
    """

    old_room: bool = False

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        if self.old_room and "max_completion_tokens" in payload:
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        return payload

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        payload = self._get_request_payload(messages, stop=stop, **kwargs)
        payload.pop("stream", None)
        answer = await self.root_async_client.post("/chat/completions", cast_to=httpx2.Response, body=payload)
        body = json.loads(answer.content)
        if not isinstance(body, dict) or not body.get("choices"):
            raise ValueError("the server's answer has no choices")
        return self._create_chat_result(body)
