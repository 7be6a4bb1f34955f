"""A chat client, as the door uses it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables.config import var_child_runnable_config

from tribunal.schema import JSON


@runtime_checkable
class Direct(Protocol):
    """A client that can be asked without LangChain's callbacks."""

    async def answer(self, messages: list[BaseMessage], **options: Any) -> AIMessage:
        """What `ainvoke` would give."""


async def answer_of(client: BaseChatModel, messages: list[BaseMessage], options: JSON) -> AIMessage:
    """What a client says; past LangChain's callbacks where nobody listens to them, which is most of its cost."""
    if isinstance(client, Direct) and not listened_to():
        return await client.answer(messages, **options)
    return await client.ainvoke(messages, **options)


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
