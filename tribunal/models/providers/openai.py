"""OpenAI; with OPENAI_BASE_URL, any server that speaks as it does: vLLM, llama.cpp, LM Studio and others."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from tribunal.errors import BadInput
from tribunal.models.providers import (
    LISTS,
    RANGES,
    EmbeddingApi,
    Endpoint,
    Provider,
    RequestSettings,
)
from tribunal.schema import JSON

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

OPENAI_URL = "https://api.openai.com/v1"
# Whose account a request is for, by the setting and the header.
ACCOUNT = (("OPENAI_ORG_ID", "OpenAI-Organization"), ("OPENAI_PROJECT_ID", "OpenAI-Project"))
# What stands for the reason why an answer is over that is a refusal: LangChain loses a streamed one.
REFUSAL = "refusal"
LIMIT_NAMES = ("max_tokens", "max_completion_tokens")


def make_client(
    endpoint: Endpoint, provider: str, *, leave_out: frozenset[str] = frozenset(), **more: Any
) -> BaseChatModel:
    """Return LangChain's client for a server that speaks as OpenAI's does.

    Args:
        endpoint: where it is asked.
        provider: what `init_chat_model` calls the client.
        leave_out: headers, in lower case, that aren't sent.
        more: further settings of the client.
    """
    from langchain.chat_models import init_chat_model

    from tribunal.models.providers.http import make_clients, make_transport

    base, _, query = (endpoint.base_url or "").partition("?")
    transport = make_transport(
        "httpx2",
        endpoint.key,
        proxy=os.environ.get("OPENAI_PROXY"),
        leave_out=leave_out,
        check_body=check_answer,
        read_events=_delta_reader,
    )
    at_once, awaited = make_clients(transport)
    address: dict[str, Any] = {"base_url": base} if base else {}
    if query:
        address["default_query"] = dict(parse_qsl(query, keep_blank_values=True))
    made: BaseChatModel = init_chat_model(
        endpoint.model,
        model_provider=provider,
        api_key=endpoint.key or "none",
        **address,
        http_client=at_once,
        http_async_client=awaited,
        http_socket_options=(),  # the connections are ours
        openai_proxy=None,  # so is the proxy
        use_responses_api=False,
        stream_usage=True,
        max_retries=0,
        **more,
    )
    return made


def request_options(wanted: RequestSettings) -> JSON:
    """Return the settings of a request to `/chat/completions`.

    What isn't common to all servers goes in the body past the client's types: `response_format` would else be read by
    OpenAI's own parser, and the limit renamed.
    """
    body: JSON = {}
    if wanted.response_format == "json_schema":
        body["response_format"] = {"type": "json_schema", "json_schema": wanted.envelope}
    elif wanted.response_format == "json_object":
        body["response_format"] = {"type": "json_object"}
    if wanted.limit_name < len(LIMIT_NAMES):
        # OpenAI itself knows the limit by the second name alone, and every other server by the first.
        usual = int(wanted.base_url == OPENAI_URL)
        body[LIMIT_NAMES[usual ^ wanted.limit_name]] = wanted.max_output_tokens
    options: JSON = {} if wanted.temperature is None else {"temperature": wanted.temperature}
    return {**options, "extra_body": body | wanted.extra}


def embedding_api(most_texts: int, path: str = "/embeddings") -> EmbeddingApi:
    """Return an OpenAI-compatible endpoint of vectors, which takes so many texts a request."""
    return EmbeddingApi(
        path=path, most_texts=most_texts, body=_embedding_body, rows=_embedding_rows
    )


def check_answer(body: Any) -> Any:
    """Return a body of `/chat/completions` with its answer where LangChain looks for it.

    Raises:
        NoAnswer: it has none.
    """
    from tribunal.models.providers.wire import NoAnswer

    choices = body.get("choices") if isinstance(body, dict) and not body.get("error") else None
    if (
        not isinstance(choices, list)
        or not choices
        or not all(isinstance(each, dict) for each in choices)
    ):
        raise NoAnswer(body)
    message = choices[0].get("message") or {}
    if message.get("content") or not (thought := bare_json(_thought_in(message))):
        return body
    return {
        **body,
        "choices": [{**choices[0], "message": {**message, "content": thought}}, *choices[1:]],
    }


def _delta_reader() -> Callable[[JSON], None]:
    """Return what puts a stream's words where LangChain looks for them: a refusal, and an answer taken for thoughts."""
    thought = ""
    said = False
    refused = False

    def move_words(event: JSON) -> None:
        nonlocal thought, said, refused
        for choice in event.get("choices") or []:
            if "message" in choice:  # it knows the form of a stream, and answers in one piece
                choice["delta"] = choice.pop("message")
                choice["finish_reason"] = choice.get("finish_reason") or "stop"
            delta = choice.setdefault("delta", {}) or {}
            choice["delta"] = delta
            if isinstance(delta.get("content"), list):
                delta["content"] = "".join(str(part.get("text") or "") for part in delta["content"])
            refusal = delta.pop("refusal", None)
            if refusal:
                delta["content"] = refusal
                refused = True
            said = said or bool(delta.get("content"))
            thought += _thought_in(delta)
            if choice.get("finish_reason"):
                if refused:
                    choice["finish_reason"] = REFUSAL
                if not said and (bare := bare_json(thought)):
                    delta["content"] = bare

    return move_words


def _thought_in(message: JSON) -> str:
    thought = message.get("reasoning_content") or message.get("reasoning")
    return thought if isinstance(thought, str) else ""


def bare_json(thought: str) -> str:
    """Return an answer that a server took for thinking: the bare JSON that was asked for (vllm#17349)."""
    return thought if thought.strip().startswith("{") and thought.strip().endswith("}") else ""


def _embedding_body(model: str, texts: Sequence[str], use: object) -> JSON:
    return {"model": model, "input": list(texts), "encoding_format": "float"}


def _embedding_rows(reply: Any) -> list[list[float]]:
    # A server that works in parallel may answer out of order.
    numbered = [
        (each.get("index", place), each["embedding"]) for place, each in enumerate(reply["data"])
    ]
    return [row for _, row in sorted(numbered, key=lambda pair: int(pair[0]))]


OPENAI: Provider = Provider(
    name="openai",
    make=lambda endpoint: make_client(
        endpoint, "openai", default_headers=OPENAI.account_headers(endpoint.environment)
    ),
    options=request_options,
    keys=("OPENAI_API_KEY",),
    base_urls=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    default_url=OPENAI_URL,
    where="https://platform.openai.com/api-keys",
    keyless_elsewhere=True,
    account=ACCOUNT,
    listing="/models",
    # Its strict mode takes no bounds of strings.
    bounds=LISTS | RANGES,
    takes_extra=True,
    limit_names=LIMIT_NAMES,
    # OpenAI takes 2,048 texts a request and smaller servers fewer; a quarter of that costs no measurable time.
    embeddings=replace(
        embedding_api(512),
        keys=("OPENAI_EMBEDDINGS_API_KEY",),
        base_urls=("OPENAI_EMBEDDINGS_BASE_URL",),
    ),
)


def _make_azure_client(endpoint: Endpoint) -> BaseChatModel:
    version = endpoint.environment.get("OPENAI_API_VERSION")
    for name, value in (
        ("AZURE_OPENAI_ENDPOINT", endpoint.base_url),
        ("OPENAI_API_VERSION", version),
    ):
        if not value:
            raise BadInput(f"model: {endpoint.name}: set {name} in the environment or in .env")
    return make_client(
        replace(endpoint, base_url=None),
        "azure_openai",
        azure_endpoint=endpoint.base_url,
        api_version=version,
    )


AZURE_OPENAI = Provider(
    name="azure_openai",
    make=_make_azure_client,
    # It knows the limit by OpenAI's own name.
    options=lambda wanted: request_options(replace(wanted, base_url=OPENAI_URL)),
    keys=("AZURE_OPENAI_API_KEY",),
    base_urls=("AZURE_OPENAI_ENDPOINT",),
    where="https://portal.azure.com",
    headers=lambda key: {"api-key": key} if key else {},
    bounds=LISTS | RANGES,
    takes_extra=True,
    limit_names=LIMIT_NAMES,
)


# Servers of others that speak as OpenAI's does.
QWEN = replace(
    OPENAI,
    name="qwen",
    # It isn't told OpenAI's account.
    make=lambda endpoint: make_client(
        endpoint, "openai", leave_out=frozenset(header.lower() for _, header in ACCOUNT)
    ),
    account=(),
    keyless_elsewhere=False,
    keys=("DASHSCOPE_API_KEY", "QWEN_API_KEY"),
    base_urls=("DASHSCOPE_BASE_URL", "QWEN_BASE_URL"),
    default_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    where="https://www.alibabacloud.com/help/en/model-studio",
    embeddings=embedding_api(10),
)
GLM = replace(
    QWEN,
    name="glm",
    keys=("ZAI_API_KEY", "ZHIPUAI_API_KEY", "GLM_API_KEY"),
    base_urls=("GLM_BASE_URL", "ZHIPUAI_BASE_URL"),
    default_url="https://api.z.ai/api/paas/v4",
    where="https://z.ai/model-api",
    embeddings=embedding_api(64),
)
