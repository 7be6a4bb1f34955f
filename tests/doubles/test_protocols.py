"""The scripted server's wire protocols, each through the client that will be used: its answers, and its faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import httpx
import openai
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.exceptions import ModelRateLimitError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from tests.doubles import Fault, Reply, ScriptedServer, embedding, in_order
from tests.doubles.ruling import SCHEMA, ruling

PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAA"
    "AABJRU5ErkJggg=="
)
SAID: list[BaseMessage] = [
    SystemMessage("be fair"),
    HumanMessage(
        [
            {"type": "text", "text": "the post [[label=1]]"},
            {"type": "image_url", "image_url": {"url": PNG}},
        ]
    ),
]
PROTOCOLS = ("openai", "gemini", "anthropic", "ollama")
ASKED: dict[str, dict[str, Any]] = {
    "openai": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "Ruling", "schema": SCHEMA},
        }
    },
    "gemini": {"response_mime_type": "application/json", "response_json_schema": SCHEMA},
    "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "ollama": {"format": SCHEMA},
}


@asynccontextmanager
async def client_of(
    protocol: str, url: str, *, patience: float = 10.0
) -> AsyncIterator[BaseChatModel]:
    """The client that will be used, its own retries off; its idle connections are closed on the loop they are of."""
    common: dict[str, Any] = {"model": "m-1", "temperature": 0.8}
    hosted = common | {"api_key": "k", "timeout": patience, "max_tokens": 99}
    if protocol == "openai":
        chat = ChatOpenAI(base_url=f"{url}/v1", max_retries=0, **hosted)
        yield chat
        await chat.root_async_client.close()
    elif protocol == "gemini":
        gemini = ChatGoogleGenerativeAI(base_url=url, max_retries=1, **hosted)
        yield gemini
        await gemini.aclose()
    elif protocol == "anthropic":
        claude = ChatAnthropic(base_url=url, max_retries=0, **hosted)
        yield claude
        await claude._async_client.close()
    else:
        ollama = ChatOllama(
            base_url=url, num_predict=99, client_kwargs={"timeout": patience}, **common
        )
        yield ollama
        await ollama._async_client.close()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_structured_answer_and_what_was_shown(protocol: str) -> None:
    async with ScriptedServer(ruling) as server, client_of(protocol, server.url) as client:
        message = await client.ainvoke(SAID, **ASKED[protocol])
        assert json.loads(message.text) == {"label": 1, "explanation": "scripted"}
        (request,) = server.requests
        assert request.protocol == protocol
        assert request.model == "m-1"
        assert [(role, text.strip()) for role, text in request.messages] == [
            ("system", "be fair"),
            ("user", "the post [[label=1]]"),
        ]
        assert "the post" in server.requests[0].text
        assert [image.partition(",")[2] for image in request.images] == [PNG.partition(",")[2]]
        assert request.temperature == 0.8
        assert request.max_tokens == 99
        assert request.format == "json_schema"
        assert request.schema == SCHEMA
        assert request.status == 200
        assert request.finished is not None
        assert request.finished >= request.arrived


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_tokens_model_and_finish(protocol: str) -> None:
    said = Reply("half an ans", finish_reason="length", prompt_tokens=11, completion_tokens=3)
    async with (
        ScriptedServer(in_order([said])) as server,
        client_of(protocol, server.url) as client,
    ):
        message = await client.ainvoke("hello")
    assert message.text == "half an ans"
    assert message.usage_metadata is not None
    assert (message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"]) == (
        11,
        3,
    )
    metadata = message.response_metadata
    assert metadata["model_name"] == "m-1"
    finish = (
        metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("done_reason")
    )
    assert finish == {"gemini": "MAX_TOKENS", "anthropic": "max_tokens"}.get(protocol, "length")
    assert server.requests[0].format == ""


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_stream_as_the_provider_s_own_client_reads_it(protocol: str) -> None:
    said = Reply("half an answer", thinking="hm, hm", prompt_tokens=11, completion_tokens=3)
    more: dict[str, Any] = (
        {"stream_usage": True}
        if protocol == "openai"
        else {"reasoning": True}
        if protocol == "ollama"
        else {}
    )
    async with (
        ScriptedServer(in_order([said])) as server,
        client_of(protocol, server.url) as client,
    ):
        first, *rest = [chunk async for chunk in client.astream("hello", **more)]
    assert len(rest) > 2
    whole = first
    for chunk in rest:
        whole += chunk
    assert whole.text == "half an answer"
    assert whole.usage_metadata is not None
    assert (whole.usage_metadata["input_tokens"], whole.usage_metadata["output_tokens"]) == (11, 3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_fault_in_the_middle_of_a_stream(protocol: str) -> None:
    faults = [
        Fault(drop=True, after="half an ans"),
        Fault(500, "scripted fault", after="half an ans"),
    ]
    async with (
        ScriptedServer(in_order(faults)) as server,
        client_of(protocol, server.url) as client,
    ):
        for _ in faults:
            heard = ""
            with pytest.raises(Exception) as caught:  # noqa: PT011, PT012 (each client has its own)
                async for chunk in client.astream("hello"):
                    heard += chunk.text
            assert heard == "half an ans"
        assert "scripted fault" in str(caught.value)


@pytest.mark.parametrize(
    ("protocol", "reply", "found"),
    [
        (
            "openai",
            Reply(refusal="I can't"),
            lambda m: m.additional_kwargs["refusal"] == "I can't" and m.text == "",
        ),
        (
            "openai",
            Reply(finish_reason="content_filter"),
            lambda m: m.response_metadata["finish_reason"] == "content_filter",
        ),
        (
            "gemini",
            Reply(refusal="I can't"),
            lambda m: m.response_metadata["finish_reason"] == "SAFETY" and m.text == "",
        ),
        (
            "gemini",
            Reply(extra={"block_reason": "PROHIBITED_CONTENT"}),
            lambda m: (
                m.response_metadata["prompt_feedback"]["block_reason"].value == "PROHIBITED_CONTENT"
                and not m.text
            ),
        ),
        (
            "anthropic",
            Reply(refusal="I can't"),
            lambda m: m.response_metadata["stop_reason"] == "refusal",
        ),
        (
            "anthropic",
            Reply(extra={"stop_reason": "refusal"}),
            lambda m: m.response_metadata["stop_reason"] == "refusal",
        ),
        ("ollama", Reply(refusal="I can't"), lambda m: m.text == "I can't"),
    ],
)
async def test_refusals(protocol: str, reply: Reply, found: Callable[[BaseMessage], bool]) -> None:
    async with (
        ScriptedServer(in_order([reply])) as server,
        client_of(protocol, server.url) as client,
    ):
        assert found(await client.ainvoke("hello"))


async def test_embeddings_lie_near_for_shared_words_and_come_out_alike_in_both_encodings() -> None:
    async with ScriptedServer(in_order([])) as server:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1") as plain:
            client = OpenAIEmbeddings(
                model="e", async_client=plain.embeddings, check_embedding_ctx_length=False
            )
            near, base, far = await client.aembed_documents(
                ["they are vermin", "they are all vermin", "good day"]
            )
            floats = await plain.embeddings.create(
                model="e", input="good day", encoding_format="float"
            )
        assert server.requests == []
        assert [path for _, path, _ in server.others] == ["/v1/embeddings"] * 2
    assert far == pytest.approx(floats.data[0].embedding, abs=1e-6)
    assert far == pytest.approx(embedding("good day"), abs=1e-6)

    def product(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert product(near, base) > 0.8 > 0.2 > product(near, far)
    assert product(base, base) == pytest.approx(1)


async def test_lists_of_models() -> None:
    async with ScriptedServer(in_order([]), models=["a", "b"]) as server:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1") as client:
            assert [model.id async for model in client.models.list()] == ["a", "b"]
        async with anthropic.AsyncAnthropic(api_key="k", base_url=server.url) as other:
            assert (await other.models.list()).data[0].id == "a"
        async with httpx.AsyncClient(trust_env=False, base_url=server.url, timeout=60) as plain:
            assert [model["name"] for model in (await plain.get("/api/tags")).json()["models"]] == [
                "a",
                "b",
            ]
            assert (await plain.get("/v1beta/models")).json()["models"][0]["name"] == "models/a"
            assert (await plain.get("/nowhere")).status_code == 404


# Faults


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_rate_limit_says_when_to_come_back(protocol: str) -> None:
    fault = Fault(status=429, message="slow down", headers={"Retry-After": "7"})
    async with (
        ScriptedServer(in_order([fault])) as server,
        client_of(protocol, server.url) as client,
    ):
        with pytest.raises(Exception, match="slow down") as caught:
            await client.ainvoke("hello")
    error: Any = caught.value
    if protocol != "ollama":
        assert isinstance(error, ModelRateLimitError)
    holder = {"gemini": error.__cause__, "ollama": error.__context__}.get(protocol, error)
    assert holder.response.headers["retry-after"] == "7"
    assert server.requests[0].status == 429
    assert server.served == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(status=401),
        Fault(drop=True),
        Fault(drop="middle"),
        Fault(status=200, raw=b"<html>"),
    ],
    ids=["500", "401", "drop", "drop-middle", "html"],
)
async def test_a_fault_reaches_the_client_once_and_the_server_lives_on(
    protocol: str, fault: Fault
) -> None:
    async with (
        ScriptedServer(in_order([fault, "well"])) as server,
        client_of(protocol, server.url) as client,
    ):
        with pytest.raises(Exception):  # noqa: B017, PT011 - each library has its own
            await client.ainvoke("hello")
        assert server.served == 1
        assert server.requests[0].status == (None if fault.drop else fault.status)
        assert (await client.ainvoke("again")).text == "well"
        assert server.in_flight == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_server_that_hangs_ends_by_the_clients_timeout(protocol: str) -> None:
    async with (
        ScriptedServer(in_order([Fault(hang=True)])) as server,
        client_of(protocol, server.url, patience=0.3) as client,
    ):
        with pytest.raises(Exception):  # noqa: B017, PT011 - each library has its own
            await client.ainvoke("hello")
        await asyncio.sleep(0.05)
        (request,) = server.requests
        assert (request.status, server.in_flight) == (None, 0)
        assert request.finished is not None
