"""The chat model of Ollama's servers: LangChain's own, but that it streams where somebody listens, and only there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_ollama import ChatOllama

from tribunal.models.providers.http import NoAnswer
from tribunal.models.providers.streaming import BrokenOff, Listeners


class Ollama(ChatOllama):
    """A chat model over `/api/chat`."""

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        # Its own tells listeners of the whole answer as if of a token, and the model's end tells it once more.
        return await super()._agenerate(messages, stop, None, **{**kwargs, "stream": False})

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        listeners = Listeners(None)
        said, last = "", None
        async for piece in self._acreate_chat_stream(messages, stop, **kwargs):
            assert not isinstance(piece, str)  # noqa: S101 (its own code asks, and its library gives none)
            message = piece["message"]
            said += message.get("content") or ""
            for chunk in listeners.hear(message.get("content") or "", message.get("thinking") or ""):
                yield chunk
            last = piece if piece.get("done") else last
        if last is None:
            raise BrokenOff
        if last.get("done_reason") == "load" and not said.strip():
            raise NoAnswer({"error": "the model was loaded, and said nothing"})
        for chunk in listeners.end(ChatResult(generations=[_answer(said, dict(last))])):
            yield chunk


def _answer(said: str, told: dict[str, Any]) -> ChatGeneration:
    """What `ChatOllama` makes of an answer, from its words and the last line of its stream."""
    usage = None
    if told.get("prompt_eval_count") is not None and told.get("eval_count") is not None:
        asked, answered = told["prompt_eval_count"], told["eval_count"]
        usage = UsageMetadata(input_tokens=asked, output_tokens=answered, total_tokens=asked + answered)
    info = {name: value for name, value in told.items() if name != "message"}
    info |= {"model_name": told.get("model"), "model_provider": "ollama"}
    return ChatGeneration(message=AIMessage(said, usage_metadata=usage), generation_info=info)
