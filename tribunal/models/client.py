"""A chat client, as the door uses it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, cast
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables.config import var_child_runnable_config

from tribunal.models.providers.completion import Completion, Message, completion_of
from tribunal.schema import JSON


class Direct(Protocol):
    """A client that can be asked without LangChain's messages and callbacks."""

    async def answer(self, messages: list[Message], **options: Any) -> Completion:
        """What `ainvoke` would give."""


async def answer_of(
    client: BaseChatModel,
    messages: list[Message],
    options: JSON,
    secrets: Iterable[str],
    asked: JSON | None = None,
    *,
    stream: bool = True,
) -> Completion:
    """What a client says, without keys; past LangChain's callbacks where nobody listens to them, which is most of its
    cost. Whoever does listen is told with it who was asked: `seat` and `role`. Who listens for the words hears them as
    they come, unless the client isn't to `stream`."""
    if hasattr(type(client), "answer") and not listened_to():
        said = await cast("Direct", client).answer(messages, **options)
    else:
        about = {**((var_child_runnable_config.get() or {}).get("metadata") or {}), **(asked or {})}
        told = options if stream else {**options, "stream": False}
        said = completion_of(await client.ainvoke([*messages], {"metadata": about}, **told))
    return said.without(secrets)


def listened_to() -> bool:
    """Whether somebody traces this run, or streams its messages: LangSmith, Studio, a callback of the caller's."""
    return bool(_listening())


def heard(client: BaseChatModel) -> bool:
    """Whether somebody listens for the words of this run as they come, and the client streams them."""
    handlers = _listening()
    if not handlers:
        return False
    manager = AsyncCallbackManagerForLLMRun(run_id=uuid4(), handlers=list(handlers), inheritable_handlers=[])
    # LangChain asks itself the same in `ainvoke`.
    asked = (client._should_stream, client._should_use_protocol_streaming)
    return any(ask(async_api=True, run_manager=manager) for ask in asked)


def _listening() -> Any:
    """The handlers of LangChain's that this run has."""
    callbacks = (var_child_runnable_config.get() or {}).get("callbacks")
    return getattr(callbacks, "handlers", callbacks)


def sees_images(client: BaseChatModel) -> bool:
    """Whether a model takes images, as far as its published profile says; an unknown one is taken to."""
    return bool((client.profile or {}).get("image_inputs", True))


def takes_temperature(client: BaseChatModel) -> bool:
    """Whether a model takes a temperature, as far as its published profile says."""
    return bool((client.profile or {}).get("temperature", True))
