"""Model objects, as the tests of them make them."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_ollama import ChatOllama
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import Field, SecretStr

from tests.court import court_script
from tests.doubles import ScriptedServer
from tribunal.process.loops import run_in_background

KEY = "objects-own-key-0123456789"
# These clients have no public way to close their connections.
LEAVE_NONE = {"headers": {"Connection": "close"}}
Maker = Callable[..., BaseChatModel]


def make_openai(url: str, **more: Any) -> BaseChatModel:
    return ChatOpenAI(
        model="gpt-4o", base_url=f"{url}/v1", api_key=SecretStr(KEY), max_retries=0, **more
    )


def make_azure(url: str, **more: Any) -> BaseChatModel:
    return AzureChatOpenAI(
        azure_deployment="mine", model="gpt-4o", azure_endpoint=url, api_key=SecretStr(KEY), api_version="2024-10-21",
        max_retries=0, **more,
    )  # fmt: skip


def make_anthropic(url: str, **more: Any) -> BaseChatModel:
    return ChatAnthropic(
        model_name="claude-haiku-4-5", base_url=url, api_key=SecretStr(KEY), max_retries=0, timeout=10, stop=None,
        default_headers=LEAVE_NONE["headers"], **more,
    )  # fmt: skip


def make_google(url: str, **more: Any) -> BaseChatModel:
    return ChatGoogleGenerativeAI(
        model="gemini-2.5-flash", base_url=url, api_key=SecretStr(KEY), max_retries=1, **more
    )


def make_ollama(url: str, **more: Any) -> BaseChatModel:
    return ChatOllama(
        model="gemma3:4b", base_url=url, num_ctx=8192, seed=7, client_kwargs=LEAVE_NONE, **more
    )


NAMES = {
    make_openai: "openai:gpt-4o",
    make_anthropic: "anthropic:claude-haiku-4-5",
    make_google: "google_genai:gemini-2.5-flash",
    make_ollama: "ollama:gemma3:4b",
}


class OwnModel(BaseChatModel):
    """A chat model of somebody's own, which answers what it is given and keeps what it was shown."""

    model_name: str = "mine"
    temperature: float = 0.3
    own_key: str = KEY
    answers: list[Any]
    shown: list[list[BaseMessage]] = Field(default_factory=list)
    options: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "own"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.shown.append(messages)
        self.options.append(kwargs)
        answer = self.answers[min(len(self.shown), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        usage: UsageMetadata = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
        message = AIMessage(answer, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


def own_model(*answers: Any, **more: Any) -> OwnModel:
    return OwnModel(
        answers=[each if isinstance(each, Exception) else json.dumps(each) for each in answers],
        **more,
    )


async def close(model: Any) -> None:
    """Close the connections of an object, which are its owner's to close, on the loop that they belong to."""
    if isinstance(model, ChatOpenAI | AzureChatOpenAI):
        await model.root_async_client.close()
    elif isinstance(model, ChatGoogleGenerativeAI):
        await model.aclose()
        gc.collect()  # its library leaves coroutines behind, and says so when they are collected


@contextmanager
def opened(model: BaseChatModel) -> Iterator[BaseChatModel]:
    """Close an object in the end that was used by callers that can't await."""
    try:
        yield model
    finally:
        run_in_background(lambda: close(model))


@contextmanager
def scripted(
    answers: Any, make: Maker, **more: Any
) -> Iterator[tuple[BaseChatModel, ScriptedServer]]:
    with (
        ScriptedServer(court_script(classifier=answers)) as server,
        opened(make(server.url, **more)) as model,
    ):
        yield model, server
