"""A chat client, as the door uses it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables.config import var_child_runnable_config

from tribunal.schema import JSON
from tribunal.scrub import scrubbed


class Direct(Protocol):
    """A client that can be asked without LangChain's callbacks."""

    async def answer(self, messages: list[BaseMessage], **options: Any) -> AIMessage:
        """What `ainvoke` would give."""


async def answer_of(
    client: BaseChatModel, messages: list[BaseMessage], options: JSON, secrets: Iterable[str]
) -> AIMessage:
    """What a client says, without keys; past LangChain's callbacks where nobody listens to them, which is most of its
    cost."""
    if hasattr(type(client), "answer") and not listened_to():
        said = await cast("Direct", client).answer(messages, **options)
    else:
        said = await client.ainvoke(messages, **options)
    parts = ("content", "additional_kwargs", "response_metadata")
    clean = {part: scrubbed(getattr(said, part), secrets) for part in parts}
    struck = any(clean[part] != getattr(said, part) for part in parts)
    return said.model_copy(update=clean) if struck else said  # to copy one takes as long as to read it


def listened_to() -> bool:
    """Whether somebody traces this run, or streams its messages: LangSmith, Studio, a callback of the caller's."""
    callbacks = (var_child_runnable_config.get() or {}).get("callbacks")
    return bool(getattr(callbacks, "handlers", callbacks))


def sees_images(client: BaseChatModel) -> bool:
    """Whether a model takes images, as far as its published profile says; an unknown one is taken to."""
    return bool((client.profile or {}).get("image_inputs", True))


def takes_temperature(client: BaseChatModel) -> bool:
    """Whether a model takes a temperature, as far as its published profile says."""
    return bool((client.profile or {}).get("temperature", True))
