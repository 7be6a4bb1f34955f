"""A chat client, as the door uses it: any chat model of LangChain's, asked by `ainvoke`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import ensure_config

from tribunal.models.providers.completion import Completion, Message, completion_of
from tribunal.schema import JSON


async def ask_client(
    client: BaseChatModel,
    messages: list[Message],
    options: JSON,
    secrets: Iterable[str],
    asked: JSON,
    *,
    stream: bool = True,
) -> Completion:
    """Return what a client says, without keys. Whoever listens by LangChain's callbacks hears it, as LangChain has it.

    Args:
        client: the chat model.
        messages: what it is shown.
        options: the settings of the request, in its own words.
        secrets: what is struck out.
        asked: who was asked, for those who listen: `seat` and `role`.
        stream: False where the server won't stream, so that listeners hear the answer in one piece.
    """
    metadata = {**(ensure_config().get("metadata") or {}), **asked}
    one = client if stream else client.model_copy(update={"disable_streaming": True})
    sent: list[Any] = [*messages]
    return completion_of(await one.ainvoke(sent, {"metadata": metadata}, **options)).without(secrets)


def sees_images(client: BaseChatModel) -> bool:
    """Return whether a model takes images, as far as its published profile says; an unknown one is taken to."""
    return bool((client.profile or {}).get("image_inputs", True))


def takes_temperature(client: BaseChatModel) -> bool:
    """Return whether a model takes a temperature, as far as its published profile says."""
    return bool((client.profile or {}).get("temperature", True))
