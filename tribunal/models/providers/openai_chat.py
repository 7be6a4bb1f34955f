"""The chat model of every OpenAI-compatible server.

LangChain has one over OpenAI's typed client, which takes a second to import, walks every body against its types, and
turns a refused response format into a warning where the door steps down. Here a request goes out by aiohttp as plain
JSON, and is read as plain JSON; at 64 posts in flight that is the difference between keeping up with the models and not
(docs/performance.md). Where somebody listens, the answer is streamed, and read as one that wasn't once it is whole.
"""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import aiohttp
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, ModelProfile
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field, PrivateAttr, SecretStr

from tribunal.models.providers.completion import Completion, Message, Speaker, as_said, completion_of, counted
from tribunal.models.providers.http import NoAnswer, post_for_events, post_json, session_here
from tribunal.models.providers.streaming import BrokenOff, Listeners
from tribunal.parsed import from_json
from tribunal.schema import JSON
from tribunal.scrub import scrubbed_body


class OpenAICompatible(BaseChatModel):
    """A chat model over `/chat/completions`. It belongs to the event loop on which it is first asked.

    `limit_as_max_tokens` sends the answer's limit as `max_tokens`, the name that every server but OpenAI's own knows.
    """

    model: str
    base_url: str = Field(repr=False)
    api_key: SecretStr = Field(repr=False)
    limit_as_max_tokens: bool = False
    _way: _Way | None = PrivateAttr(default=None)

    @property
    def _llm_type(self) -> str:
        return "openai-chat"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"model_name": self.model}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return {**super()._get_ls_params(stop, **kwargs), "ls_provider": "openai"}

    def _resolve_model_profile(self) -> ModelProfile | None:
        return _profiles().get(self.model)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError("it is asked by `ainvoke` and `astream`")

    async def answer(self, messages: list[Message], **options: Any) -> Completion:
        """What `ainvoke` gives, without the messages and callbacks that nobody listens to."""
        body = await self._asked(messages, options)
        choice, said, words = _parts(body)
        if not isinstance(words, str):
            return completion_of(self._read(body))
        return Completion(
            words,
            finish=as_said(choice.get("finish_reason")),
            refusal=as_said(said.get("refusal")),
            model=as_said(body.get("model", self.model)),
            usage=counted(_usage(body.get("usage"))),
        )

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _result(self._read(await self._asked(_pairs(messages), kwargs)))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        way = self._way or await self._find_way()
        sent = way.body(_pairs(messages), **kwargs) | {"stream": True, "stream_options": {"include_usage": True}}
        listeners, body = Listeners(way.key), _Body()
        async with aclosing(post_for_events(way.session, way.url, sent, way.headers, key=way.key)) as events:
            async for event in events:
                for chunk in listeners.hear(*body.add(event)):
                    yield chunk
        for chunk in listeners.end(_result(self._read(body.whole(way.key)))):
            yield chunk

    async def _asked(self, messages: list[Message], options: JSON) -> Any:
        way = self._way or await self._find_way()
        return await post_json(way.session, way.url, way.body(messages, **options), way.headers, key=way.key)

    def _read(self, body: Any) -> AIMessage:
        """The answer in a body.

        Raises:
            NoAnswer: there is none.
        """
        choice, said, words = _parts(body)
        about = {"token_usage": body.get("usage"), "model_provider": "openai"}
        about |= {"model_name": body.get("model", self.model)}
        about |= {name: body[name] for name in ("id", "system_fingerprint", "service_tier") if body.get(name)}
        about |= {name: choice[name] for name in ("finish_reason", "logprobs") if name in choice}
        return AIMessage(
            content=words,
            additional_kwargs={"refusal": said["refusal"]} if said.get("refusal") else {},
            response_metadata=about,
            usage_metadata=_usage(body.get("usage")),
        )

    async def _find_way(self) -> _Way:
        key = self.api_key.get_secret_value()
        # OpenAI's reasoning models have another name for it.
        system = "developer" if re.match(r"o\d", self.model) else "system"
        self._way = _Way(
            session=await session_here(),
            url=f"{self.base_url.rstrip('/')}/chat/completions",
            headers={"Authorization": f"Bearer {key}"},
            key=key,
            model=self.model,
            roles={"system": system, "human": "user", "ai": "assistant"},
            limit="max_tokens" if self.limit_as_max_tokens else "max_completion_tokens",
        )
        return self._way


@dataclass(frozen=True, slots=True)
class _Way:
    """How a client's requests go out: what is the same for each of them."""

    session: aiohttp.ClientSession
    url: str
    headers: dict[str, str] = field(repr=False)
    key: str = field(repr=False)
    model: str
    roles: dict[str, str]
    limit: str

    def body(
        self,
        messages: list[Message],
        *,
        max_tokens: int | None = None,
        extra_fields: JSON | None = None,
        stream: bool | None = None,
        **options: Any,
    ) -> JSON:
        """The body of a request. Whether it streams is said by who sends it, not by `stream`."""
        said = [{"content": content, "role": self.roles[speaker]} for speaker, content in messages]
        body: JSON = {"messages": said, "model": self.model, **options}
        if max_tokens is not None:
            body[self.limit] = max_tokens
        return {**body, **extra_fields} if extra_fields else body


def _pairs(messages: list[BaseMessage]) -> list[Message]:
    return [(cast("Speaker", each.type), each.content) for each in messages]


def _parts(body: Any) -> tuple[JSON, JSON, Any]:
    """The choice in a body, its message, and the words of that: a text, or parts of one.

    Raises:
        NoAnswer: there is none.
    """
    if not isinstance(body, dict) or body.get("error") or not body.get("choices"):
        raise NoAnswer(body)
    choice = body["choices"][0]
    said = choice.get("message") or {}
    return choice, said, said.get("content") or _thought(said)


@cache
def _profiles() -> Mapping[str, ModelProfile]:
    """What OpenAI's models take, by LangChain's table of them, which is read without the package around it: to import
    that takes a second."""
    package = cast(ModuleSpec, find_spec("langchain_openai"))
    folder = Path(cast(str, package.origin)).parent
    found: Mapping[str, ModelProfile] = runpy.run_path(str(folder / "data" / "_profiles.py"))["_PROFILES"]
    return found


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def _usage(told: JSON | None) -> UsageMetadata | None:
    """The tokens of an answer, as LangChain counts them; None where the server doesn't."""
    if not told:
        return None
    of_input, of_output = told.get("prompt_tokens_details") or {}, told.get("completion_tokens_details") or {}
    asked, answered = told.get("prompt_tokens") or 0, told.get("completion_tokens") or 0
    usage = UsageMetadata(
        input_tokens=asked, output_tokens=answered, total_tokens=told.get("total_tokens") or asked + answered
    )
    if (cached := of_input.get("cached_tokens")) is not None:
        usage["input_token_details"] = InputTokenDetails(cache_read=cached)
    if (thought := of_output.get("reasoning_tokens")) is not None:
        usage["output_token_details"] = OutputTokenDetails(reasoning=thought)
    return usage


class _Body:
    """The body that the events of a stream amount to, as it would have come in one piece."""

    def __init__(self) -> None:
        self._body: dict[str, Any] = {}
        self._said: dict[str, str] = {}
        self._finish: str | None = None
        self._begun = self._ended = False

    def add(self, event: Any) -> tuple[str, str]:
        """What an event says, and what it thinks.

        Raises:
            NoAnswer: it is an error.
        """
        if event is None:
            self._ended = True
            return "", ""
        if not isinstance(event, dict) or event.get("error"):
            raise NoAnswer(event)
        choice = (event.get("choices") or [None])[0]
        self._body |= {name: value for name, value in event.items() if value is not None and name != "choices"}
        if choice is None:
            return "", ""
        self._begun = True
        self._finish = choice.get("finish_reason") or self._finish
        self._ended |= self._finish is not None or "message" in choice  # a whole message: it doesn't stream
        delta = choice.get("delta") or choice.get("message") or {}
        told = {name: _in_words(delta.get(name)) for name in _WORDS}
        for name, words in told.items():
            if words:
                self._said[name] = self._said.get(name, "") + words
        return told["content"], told["reasoning_content"] or told["reasoning"]

    def whole(self, key: str) -> Any:
        """The body, without the key.

        Raises:
            BrokenOff: the stream ended before it was whole.
        """
        if not self._begun:
            return self._body
        if not self._ended:
            raise BrokenOff
        message = {"role": "assistant", "content": None, **self._said}
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        body = {**self._body, "object": "chat.completion", "choices": [choice]}
        return from_json(scrubbed_body(json.dumps(body).encode(), [key]))


_WORDS = ("content", "reasoning_content", "reasoning", "refusal")


def _in_words(told: Any) -> str:
    """A field's text, which some servers give in parts."""
    if isinstance(told, list):
        return "".join(part["text"] for part in told if isinstance(part, dict) and isinstance(part.get("text"), str))
    return told if isinstance(told, str) else ""


def _thought(said: dict[str, Any]) -> str:
    """An answer that a server took for thinking, where it is the bare JSON that was asked for (vllm#17349)."""
    thought = said.get("reasoning_content") or said.get("reasoning")
    if not isinstance(thought, str):
        return ""
    return thought if thought.strip().startswith("{") and thought.strip().endswith("}") else ""
