"""The chat model of every OpenAI-compatible server.

LangChain's own, but for the wire: a request goes out by aiohttp, as plain JSON, and is read as plain JSON. OpenAI's
typed client walks every body against its types, and even its untyped `post` costs twice what the request itself does;
at 64 posts in flight that is the difference between keeping up with the models and not (docs/performance.md). It also
keeps LangChain from turning a refused response format into a warning: the door steps down instead.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import aiohttp
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from multidict import CIMultiDictProxy
from pydantic import PrivateAttr


@dataclass(frozen=True)
class _Response:
    headers: CIMultiDictProxy[str]


class ServerSaid(Exception):
    """A status that is no answer. `body` is what the server told of it, parsed where it is JSON."""

    def __init__(self, status: int, headers: CIMultiDictProxy[str], raw: bytes) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.response = _Response(headers)
        self.body = _error_in(raw)


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
    _session: aiohttp.ClientSession | None = PrivateAttr(default=None)

    def over(self, session: aiohttp.ClientSession) -> OpenAICompatible:
        """This model, asked over the connections of a session."""
        self._session = session
        return self

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        if self.old_room and "max_completion_tokens" in payload:
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        payload.pop("stream", None)
        return payload

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
            # LangChain reads it off the client's typed answer alone.
            if refusal := (choice.get("message") or {}).get("refusal"):
                generation.message.additional_kwargs["refusal"] = refusal
        return result

    async def _post(self, payload: dict[str, Any]) -> Any:
        assert self._session is not None  # noqa: S101 (`over` comes first)
        key = self.openai_api_key
        secret = key.get_secret_value() if key is not None and not callable(key) else "none"
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
        raw = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        # A redirect is not followed: it would carry the key to wherever it points.
        async with self._session.post(
            f"{(self.openai_api_base or '').rstrip('/')}/chat/completions",
            data=raw,
            headers=headers,
            allow_redirects=False,
        ) as response:
            said = await response.read()
        if response.status >= 300:
            raise ServerSaid(response.status, response.headers, said)
        try:
            return json.loads(said)
        except ValueError as error:
            raise NoAnswer(None) from error


def _error_in(raw: bytes) -> Any:
    try:
        told = json.loads(raw)
    except ValueError:
        return raw[:2000].decode("utf-8", "replace")
    return told.get("error", told) if isinstance(told, dict) else told
