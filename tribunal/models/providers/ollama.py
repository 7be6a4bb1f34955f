"""Models that Ollama serves on this machine, or on another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tribunal.models.providers import Endpoint, Provider, RequestSettings, openai
from tribunal.schema import JSON

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_SMALLEST_CONTEXT = 4096
# What stands beside `options` in the body; all else is an option of the model.
_OF_THE_REQUEST = ("think", "keep_alive")


def _make_client(endpoint: Endpoint) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    from tribunal.models.providers.http import make_transport

    key = endpoint.environment.get("OLLAMA_API_KEY")
    return init_chat_model(
        endpoint.model,
        model_provider="ollama",
        base_url=endpoint.base_url,
        client_kwargs={
            "transport": make_transport(
                "httpx",
                key,
                lines=True,
                add=OLLAMA.headers(key),  # a header that the client itself held would stand in traces
                check_body=_move_thought,
                read_events=_thought_reader,
            )
        },
    )


def _thought_reader() -> Callable[[JSON], None]:
    """Return a function that moves an answer out of a stream's thoughts, where a server took it for one."""
    thought, has_words = "", False

    def move_words(event: JSON) -> None:
        nonlocal thought, has_words
        message = event.get("message")
        if isinstance(message, dict):
            has_words = has_words or bool(message.get("content"))
            thought += str(message.get("thinking") or "")
            if event.get("done") and not has_words:
                message["content"] = openai.bare_json(thought)

    return move_words


def _move_thought(body: Any) -> Any:
    """Return a whole answer whose words stand where LangChain looks for them."""
    if isinstance(body, dict):
        _thought_reader()({**body, "done": True})
    return body


def _request_options(wanted: RequestSettings) -> JSON:
    room = max(_SMALLEST_CONTEXT, wanted.prompt_tokens + wanted.max_output_tokens)
    # Ollama cuts what doesn't fit its context and says nothing, so it is asked for. It loads a model anew for another
    # size: the powers of two make few of them.
    inner: JSON = {"num_predict": wanted.max_output_tokens, "num_ctx": 1 << (room - 1).bit_length()}
    if wanted.temperature is not None:
        inner["temperature"] = wanted.temperature
    inner |= {name: value for name, value in wanted.extra.items() if name not in _OF_THE_REQUEST}
    options: JSON = {"options": inner}
    options |= {name: value for name, value in wanted.extra.items() if name in _OF_THE_REQUEST}
    if not wanted.stream:
        options["stream"] = False  # it streams all else to itself
    if wanted.response_format != "prompt":
        options["format"] = wanted.envelope["schema"] if wanted.response_format == "json_schema" else "json"
    return options


OLLAMA: Provider = Provider(
    name="ollama",
    extra="ollama",
    make=_make_client,
    options=_request_options,
    read_by_its_client=("OLLAMA_API_KEY",),
    base_urls=("OLLAMA_HOST", "OLLAMA_BASE_URL"),
    default_url="http://127.0.0.1:11434",
    listing="/api/tags",
    takes_extra=True,
    always_streams=True,
    bare_port=11434,
    embeddings=openai.embedding_api(128, "/v1/embeddings"),
)
