"""The providers that have an API of their own: Anthropic, Google, Ollama."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tribunal.models.providers import (
    LISTS,
    RANGES,
    EmbeddingApi,
    Endpoint,
    Provider,
    RequestSettings,
    openai,
)
from tribunal.schema import JSON

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def _anthropic_make_client(endpoint: Endpoint) -> BaseChatModel:
    import anthropic
    from langchain.chat_models import init_chat_model

    from tribunal.models.providers.http import make_clients, make_transport

    transport = make_transport("httpx2", endpoint.key, proxy=os.environ.get("ANTHROPIC_PROXY"))
    _, connections = make_clients(transport)
    own = anthropic.AsyncAnthropic(
        api_key=endpoint.key, base_url=endpoint.base_url, max_retries=0, http_client=connections
    )
    made = init_chat_model(
        endpoint.model,
        model_provider="anthropic",
        api_key=endpoint.key,
        base_url=endpoint.base_url,
        max_retries=0,
    )
    # It takes no client by a public name yet (langchain#36056). Its own would follow a redirect, give the key back to
    # those who listen, and be shared by every event loop of the process. Tests of the wire hold this line up.
    return made.model_copy(update={"_async_client": own})


def _anthropic_request_options(wanted: RequestSettings) -> JSON:
    options: JSON = {"max_tokens": wanted.max_output_tokens}
    if wanted.temperature is not None:
        options["temperature"] = wanted.temperature
    if wanted.response_format == "json_schema":
        from anthropic import transform_schema

        # A bound that it refuses, which is nearly every one, is said in the field's description instead.
        schema = transform_schema(wanted.envelope["schema"])
        options["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return options


ANTHROPIC = Provider(
    name="anthropic",
    extra="anthropic",
    make=_anthropic_make_client,
    options=_anthropic_request_options,
    keys=("ANTHROPIC_API_KEY",),
    base_urls=("ANTHROPIC_BASE_URL",),
    default_url="https://api.anthropic.com",
    where="https://platform.claude.com",
    forms=("json_schema", "tool_call", "prompt"),  # it has no bare JSON mode
    headers=lambda key: {"x-api-key": key or "", "anthropic-version": "2023-06-01"},
    listing="/v1/models",
    bounds=LISTS | RANGES,
)


def _google_make_client(endpoint: Endpoint) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    from tribunal.models.providers.http import make_transport

    # Its library asks by whichever HTTP library this setting names, and by aiohttp where it is given no transport.
    chosen = os.environ.get("GOOGLE_GENAI_HTTP_CLIENT", "").strip().lower()
    transport = make_transport("httpx2" if chosen == "httpx2" else "httpx", endpoint.key)
    return init_chat_model(
        endpoint.model,
        model_provider="google_genai",
        api_key=endpoint.key,
        base_url=endpoint.base_url,
        client_args={"transport": transport},
        max_retries=1,  # it counts attempts, not retries
    )


def _google_request_options(wanted: RequestSettings) -> JSON:
    # None is said too: its client has a temperature of its own.
    options: JSON = {
        "max_output_tokens": wanted.max_output_tokens,
        "temperature": wanted.temperature,
    }
    if wanted.response_format != "prompt":
        options["response_mime_type"] = "application/json"
    if wanted.response_format == "json_schema":
        options["response_json_schema"] = wanted.envelope["schema"]
    return options


def _embedding_body(model: str, texts: Sequence[str], use: Literal["query", "passage"]) -> JSON:
    task = "RETRIEVAL_QUERY" if use == "query" else "RETRIEVAL_DOCUMENT"
    one = {"model": f"models/{model}", "taskType": task}
    return {"requests": [{**one, "content": {"parts": [{"text": text}]}} for text in texts]}


def _embedding_rows(reply: Any) -> list[list[float]]:
    return [each["values"] for each in reply["embeddings"]]


GOOGLE = Provider(
    name="google_genai",
    make=_google_make_client,
    options=_google_request_options,
    keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    base_urls=("GOOGLE_GEMINI_BASE_URL",),
    rest_url="https://generativelanguage.googleapis.com",
    where="https://aistudio.google.com/apikey",
    headers=lambda key: {"x-goog-api-key": key} if key else {},
    listing="/v1beta/models",
    bounds=LISTS | RANGES,
    embeddings=EmbeddingApi(
        path="/v1beta/models/{model}:batchEmbedContents",
        most_texts=100,
        body=_embedding_body,
        rows=_embedding_rows,
    ),
)


_SMALLEST_CONTEXT = 4096
# What stands beside `options` in the body; all else is an option of the model.
_OF_THE_REQUEST = ("think", "keep_alive")


def _ollama_make_client(endpoint: Endpoint) -> BaseChatModel:
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
                # a header that the client itself held would stand in traces
                add=OLLAMA.headers(key),
                check_body=_move_thought,
                read_events=_thought_reader,
            )
        },
    )


def _thought_reader() -> Callable[[JSON], None]:
    """Return a function that moves an answer out of a stream's thoughts, where a server took it for one."""
    thought = ""
    has_words = False

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
    """Return a complete answer with its words where LangChain looks for them."""
    if isinstance(body, dict):
        _thought_reader()({**body, "done": True})
    return body


def _ollama_request_options(wanted: RequestSettings) -> JSON:
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
        options["format"] = (
            wanted.envelope["schema"] if wanted.response_format == "json_schema" else "json"
        )
    return options


OLLAMA: Provider = Provider(
    name="ollama",
    extra="ollama",
    make=_ollama_make_client,
    options=_ollama_request_options,
    read_by_its_client=("OLLAMA_API_KEY",),
    base_urls=("OLLAMA_HOST", "OLLAMA_BASE_URL"),
    default_url="http://127.0.0.1:11434",
    listing="/api/tags",
    takes_extra=True,
    always_streams=True,
    bare_port=11434,
    embeddings=openai.embedding_api(128, "/v1/embeddings"),
)
