"""The chat model of every OpenAI-compatible server.

LangChain's own, but for the wire: a request goes out by aiohttp, as plain JSON, and is read as plain JSON. OpenAI's
typed client walks every body against its types, and even its untyped `post` costs twice what the request itself does;
at 64 posts in flight that is the difference between keeping up with the models and not (docs/performance.md). It also
keeps LangChain from turning a refused response format into a warning: the door steps down instead.
"""

from __future__ import annotations

from typing import Any

import aiohttp
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from pydantic import Field, PrivateAttr

from tribunal.models.providers.http import NoAnswer, post_json, session_here

_NEVER_ASKED = object()


class OpenAICompatible(ChatOpenAI):
    """A chat model over `/chat/completions`. It belongs to the event loop on which it is first asked.

    `limit_as_max_tokens` sends the answer's limit as `max_tokens`, the name that every server but OpenAI's own knows.
    """

    # LangChain makes clients of OpenAI's, and reads the trusted certificates for each, unless it is given some.
    client: Any = Field(default=_NEVER_ASKED, exclude=True)
    async_client: Any = Field(default=_NEVER_ASKED, exclude=True)
    limit_as_max_tokens: bool = False
    _session: aiohttp.ClientSession | None = PrivateAttr(default=None)

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        extra: dict[str, Any] = kwargs.pop("extra_fields", {})
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        if self.limit_as_max_tokens and "max_completion_tokens" in payload:
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        payload.pop("stream", None)
        return {**payload, **extra}

    async def answer(self, messages: list[BaseMessage], **options: Any) -> AIMessage:
        """What `ainvoke` gives, without the callbacks that nobody listens to."""
        [generation] = (await self._agenerate(messages, **options)).generations
        message = generation.message
        assert isinstance(message, AIMessage)  # noqa: S101 (a chat completion is one)
        message.response_metadata = {**(generation.generation_info or {}), **message.response_metadata}
        return message

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        body = await self._post(self._get_request_payload(messages, stop=stop, **kwargs))
        if not isinstance(body, dict) or not body.get("choices"):
            raise NoAnswer(body)
        result = self._create_chat_result(body)
        for choice, generation in zip(body["choices"], result.generations, strict=False):
            said = choice.get("message") or {}
            # LangChain reads it off the client's typed answer alone.
            if refusal := said.get("refusal"):
                generation.message.additional_kwargs["refusal"] = refusal
            if not said.get("content"):
                generation.message.content = _thought(said)
        return result

    async def _post(self, payload: dict[str, Any]) -> Any:
        if self._session is None:
            self._session = await session_here()
        key = self.openai_api_key
        secret = key.get_secret_value() if key is not None and not callable(key) else "none"
        url = f"{(self.openai_api_base or '').rstrip('/')}/chat/completions"
        return await post_json(self._session, url, payload, {"Authorization": f"Bearer {secret}"}, key=secret)


def _thought(said: dict[str, Any]) -> str:
    """An answer that a server took for thinking, where it is the bare JSON that was asked for (vllm#17349)."""
    thought = said.get("reasoning_content") or said.get("reasoning")
    if not isinstance(thought, str):
        return ""
    return thought if thought.strip().startswith("{") and thought.strip().endswith("}") else ""
