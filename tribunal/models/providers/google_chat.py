"""The chat model of Google's servers: LangChain's own, but for how it streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import groupby
from typing import Any

from google.genai.types import Content, GenerateContentResponse, Part
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_google_genai import ChatGoogleGenerativeAI

# It has no public way from a body to a message. Should these go, a test of the wire says so.
from langchain_google_genai.chat_models import _aclassified_stream, _response_to_result

from tribunal.models.providers.streaming import BrokenOff, Listeners, NotStreamed


class Gemini(ChatGoogleGenerativeAI):
    """A chat model over `:generateContent`, and `:streamGenerateContent`."""

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        kwargs.pop("stream", None)
        return await super()._agenerate(messages, stop, run_manager, **kwargs)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        request = self._prepare_request(messages, stop=stop, **kwargs)
        stream = await self.async_client.models.generate_content_stream(**request)
        listeners = Listeners(self.google_api_key.get_secret_value() if self.google_api_key else None)
        events: list[GenerateContentResponse] = []
        async for event in _aclassified_stream(stream, request):
            events.append(event)
            for part in _parts(event):
                text = part.text or ""
                for chunk in listeners.hear(thought=text) if part.thought else listeners.hear(text):
                    yield chunk
        if not events:
            raise NotStreamed
        for chunk in listeners.end(_response_to_result(_joined(events))):
            yield chunk


def _joined(events: list[GenerateContentResponse]) -> GenerateContentResponse:
    """The body that the events of a stream amount to, as it would have come in one piece.

    Raises:
        BrokenOff: they end before the answer does.
    """
    spoken = [event.candidates[0] for event in events if event.candidates]
    usage = [event.usage_metadata for event in events if event.usage_metadata]
    told: dict[str, Any] = {"usage_metadata": usage[-1]} if usage else {}
    if feedback := [event.prompt_feedback for event in events if event.prompt_feedback]:
        told["prompt_feedback"] = feedback[0]
    elif not any(candidate.finish_reason for candidate in spoken):
        raise BrokenOff
    if spoken:
        last = next((each for each in reversed(spoken) if each.finish_reason), spoken[-1])
        said = Content(role="model", parts=_in_one([part for event in events for part in _parts(event)]))
        told["candidates"] = [last.model_copy(update={"content": said})]
    return events[-1].model_copy(update=told)


def _parts(event: GenerateContentResponse) -> list[Part]:
    content = event.candidates[0].content if event.candidates else None
    return (content.parts if content else None) or []


def _in_one(parts: list[Part]) -> list[Part]:
    """The parts, with the pieces of one text put together."""
    joined = []
    for _, run in groupby(parts, key=lambda part: id(part) if part.text is None else bool(part.thought)):
        pieces = list(run)
        told = {"text": "".join(piece.text or "" for piece in pieces)} if pieces[0].text is not None else {}
        signed = [piece.thought_signature for piece in pieces if piece.thought_signature]
        joined.append(pieces[0].model_copy(update={**told, **({"thought_signature": signed[-1]} if signed else {})}))
    return joined
