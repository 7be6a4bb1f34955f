"""The chat model of every OpenAI-compatible server.

LangChain's own, with one change that was measured (docs/performance.md): a request goes out by the client's plain
`post`, where its typed method would walk the body and the answer and check every part against its types. That takes two
thirds of the processor time of a call. It also keeps LangChain from turning a refused response format into a warning;
the door (`nodes.model`) steps down instead.
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


class NoAnswer(Exception):
    """HTTP says OK, and the body holds no answer: another page, or an error that some gateways send with status 200.

    `body` is what the error says, and `code` its status, where there is one.
    """

    def __init__(self, body: Any) -> None:
        super().__init__("the server's answer is not JSON" if body is None else "the server's answer has no choices")
        told = body.get("error") if isinstance(body, dict) else None
        self.body = told
        self.code = told.get("code") if isinstance(told, dict) else None


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
        try:
            body = json.loads(answer.content)
        except ValueError as error:
            raise NoAnswer(None) from error
        if not isinstance(body, dict) or not body.get("choices"):
            raise NoAnswer(body)
        result = self._create_chat_result(body)
        for choice, generation in zip(body["choices"], result.generations, strict=False):
            # LangChain reads it off the client's typed answer alone.
            if refusal := (choice.get("message") or {}).get("refusal"):
                generation.message.additional_kwargs["refusal"] = refusal
        return result
