"""The chat model of every OpenAI-compatible server.

LangChain's own, with two changes that were measured (docs/performance.md): a request's body goes to the client as it
is, where the client would walk it and check every part against its types, and the answer is read as the plain JSON it
is. Together they take two thirds of the processor time of a call. It also keeps LangChain from turning a refused
response format into a warning; the door (`nodes.model`) steps down instead.
"""

from __future__ import annotations

import json
from typing import Any

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
        answer = await self.async_client.with_raw_response.create(
            model=payload.pop("model"), messages=[], extra_body=payload
        )
        body = json.loads(answer.http_response.content)
        if not isinstance(body, dict) or not body.get("choices"):
            raise ValueError("the server's answer has no choices")
        return self._create_chat_result(body)
