"""The chat model of Anthropic's servers: LangChain's own, but for the connections, and for how it streams.

LangChain's follow redirects, which would carry the key to anywhere, and are shared by every client of the process, so
that the first event loop to end would close them for the next.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cached_property
from typing import Any

import anthropic
from langchain_anthropic import ChatAnthropic
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from tribunal.models.providers.http import NoAnswer, httpx_without, is_stream
from tribunal.models.providers.streaming import BrokenOff, Listeners, NotStreamed
from tribunal.scrub import scrubbed

# What status an error has that comes in the middle of a stream: by its type, as in an answer of its own.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class Claude(ChatAnthropic):
    """A chat model over `/v1/messages`."""

    @cached_property
    def _async_client(self) -> anthropic.AsyncClient:
        given = self._client_params
        connections = anthropic.DefaultAsyncHttpxClient(
            base_url=given["base_url"],
            follow_redirects=False,
            proxy=self.anthropic_proxy,
            event_hooks=httpx_without(self.anthropic_api_key.get_secret_value()),
        )
        return anthropic.AsyncClient(**given, http_client=connections)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        *,
        stream_usage: bool | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        payload = self._get_request_payload(messages, stop=stop, **kwargs)
        key = self.anthropic_api_key.get_secret_value()
        listeners = Listeners(key)
        async with self._async_client.messages.stream(**payload) as stream:
            if not is_stream(stream.response):
                raise NotStreamed
            try:
                async for event in stream:
                    if event.type == "text":
                        for chunk in listeners.hear(event.text):
                            yield chunk
                    elif event.type == "thinking":
                        for chunk in listeners.hear(thought=event.thinking):
                            yield chunk
                message = stream.current_message_snapshot
            except anthropic.APIStatusError as error:
                raise _in_stream(scrubbed(error.body, [key])) from None
            except AssertionError as error:  # no message has begun
                raise BrokenOff from error
        if message.stop_reason is None:
            raise BrokenOff
        for chunk in listeners.end(self._format_output(message)):
            yield chunk


def _in_stream(body: Any) -> NoAnswer:
    """An error in the middle of a stream, with a status: that of the stream says nothing."""
    told = body.get("error") if isinstance(body, dict) else body
    words = told if isinstance(told, dict) else {"message": str(told)}
    return NoAnswer({"error": {**words, "code": _STATUS.get(str(words.get("type")), 500)}})
