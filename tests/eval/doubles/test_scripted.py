"""The scripted server over real sockets: its wire protocols as the real clients read them, its faults, its counts."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import subprocess
import sys
import time
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

from tests import PROJECT
from tribunal.eval.doubles.scripted import (
    Fault,
    InOrder,
    Latency,
    Reply,
    Request,
    ScriptedServer,
    ScriptError,
    embedding,
    in_order,
    instance,
    structured,
)

# google-genai subclasses aiohttp's session, and langchain-core calls its `json` without awaiting it on an error.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:coroutine 'ClientResponse.json' was never awaited:RuntimeWarning"),
]

PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAA"
    "AABJRU5ErkJggg=="
)
SCHEMA: dict[str, Any] = {
    "title": "Ruling",
    "type": "object",
    "properties": {"label": {"type": "integer", "enum": [0, 1]}, "explanation": {"type": "string"}},
    "required": ["label", "explanation"],
    "additionalProperties": False,
}
SAID: list[BaseMessage] = [
    SystemMessage("be fair"),
    HumanMessage([{"type": "text", "text": "the post [[label=1]]"}, {"type": "image_url", "image_url": {"url": PNG}}]),
]
PROTOCOLS = ("openai", "gemini", "anthropic", "ollama")
ASKED: dict[str, dict[str, Any]] = {
    "openai": {"response_format": {"type": "json_schema", "json_schema": {"name": "Ruling", "schema": SCHEMA}}},
    "gemini": {"response_mime_type": "application/json", "response_json_schema": SCHEMA},
    "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "ollama": {"format": SCHEMA},
}


@asynccontextmanager
async def client_of(protocol: str, url: str, *, patience: float = 10.0) -> AsyncIterator[BaseChatModel]:
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
        ollama = ChatOllama(base_url=url, num_predict=99, client_kwargs={"timeout": patience}, **common)
        yield ollama
        await ollama._async_client.close()  # type: ignore[no-untyped-call]


async def post(url: str, **body: Any) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.post(f"{url}/v1/chat/completions", json={"model": "m", "messages": [], **body})


# Each protocol, through the client that will be used


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_structured_answer_and_what_was_shown(protocol: str) -> None:
    async with ScriptedServer(structured()) as server, client_of(protocol, server.url) as client:
        message = await client.ainvoke(SAID, **ASKED[protocol])
        assert json.loads(message.text) == {"label": 1, "explanation": "scripted"}
        (request,) = server.requests
        assert request.protocol == protocol
        assert request.model == "m-1"
        assert [(role, text.strip()) for role, text in request.messages] == [
            ("system", "be fair"),
            ("user", "the post [[label=1]]"),
        ]
        assert "the post" in server.seen(0)
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
    async with ScriptedServer(in_order([said])) as server, client_of(protocol, server.url) as client:
        message = await client.ainvoke("hello")
    assert message.text == "half an ans"
    assert message.usage_metadata is not None
    assert (message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"]) == (11, 3)
    told = message.response_metadata
    assert told["model_name"] == "m-1"
    finish = told.get("finish_reason") or told.get("stop_reason") or told.get("done_reason")
    assert finish == {"gemini": "MAX_TOKENS", "anthropic": "max_tokens"}.get(protocol, "length")
    assert server.requests[0].format == ""


@pytest.mark.parametrize(
    ("protocol", "reply", "found"),
    [
        ("openai", Reply(refusal="I can't"), lambda m: m.additional_kwargs["refusal"] == "I can't" and m.text == ""),
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
                m.response_metadata["prompt_feedback"]["block_reason"].value == "PROHIBITED_CONTENT" and not m.text
            ),
        ),
        ("anthropic", Reply(refusal="I can't"), lambda m: m.response_metadata["stop_reason"] == "refusal"),
        (
            "anthropic",
            Reply(extra={"stop_reason": "refusal"}),
            lambda m: m.response_metadata["stop_reason"] == "refusal",
        ),
        ("ollama", Reply(refusal="I can't"), lambda m: m.text == "I can't"),
    ],
)
async def test_refusals(protocol: str, reply: Reply, found: Callable[[BaseMessage], bool]) -> None:
    async with ScriptedServer(in_order([reply])) as server, client_of(protocol, server.url) as client:
        assert found(await client.ainvoke("hello"))


async def test_embeddings_lie_near_for_shared_words_and_come_out_alike_in_both_encodings() -> None:
    async with ScriptedServer(in_order([])) as server:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1") as plain:
            client = OpenAIEmbeddings(model="e", async_client=plain.embeddings, check_embedding_ctx_length=False)
            near, base, far = await client.aembed_documents(["they are vermin", "they are all vermin", "good day"])
            floats = await plain.embeddings.create(model="e", input="good day", encoding_format="float")
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
        async with httpx.AsyncClient(trust_env=False, base_url=server.url) as plain:
            assert [model["name"] for model in (await plain.get("/api/tags")).json()["models"]] == ["a", "b"]
            assert (await plain.get("/v1beta/models")).json()["models"][0]["name"] == "models/a"
            assert (await plain.get("/nowhere")).status_code == 404


# Faults


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_rate_limit_says_when_to_come_back(protocol: str) -> None:
    fault = Fault(status=429, message="slow down", headers={"Retry-After": "7"})
    async with ScriptedServer(in_order([fault])) as server, client_of(protocol, server.url) as client:
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
    [Fault(status=500), Fault(status=401), Fault(drop=True), Fault(drop="middle"), Fault(status=200, raw=b"<html>")],
    ids=["500", "401", "drop", "drop-middle", "html"],
)
async def test_a_fault_reaches_the_client_once_and_the_server_lives_on(protocol: str, fault: Fault) -> None:
    async with ScriptedServer(in_order([fault, "well"])) as server, client_of(protocol, server.url) as client:
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
        assert 0.25 < request.finished - request.arrived < 2


async def test_a_faults_body_headers_and_delay() -> None:
    script = in_order(
        [Fault(status=418, body={"odd": 1}, headers={"X-Odd": "yes"}, delay=0.1), Fault(message="no", code="c")]
    )
    async with ScriptedServer(script) as server:
        begun = time.monotonic()
        odd = await post(server.url)
        assert time.monotonic() - begun >= 0.1
        assert (odd.status_code, odd.json(), odd.headers["x-odd"]) == (418, {"odd": 1}, "yes")
        plain = await post(server.url)
        assert plain.json()["error"] == {"message": "no", "type": "server_error", "param": None, "code": "c"}


# Scripts


async def test_a_script_that_has_run_out_fails_loudly() -> None:
    script = in_order(["only"])
    with pytest.raises(ScriptError, match="script of 1 answers has run out"):  # noqa: PT012 - the block's end raises
        async with ScriptedServer(script) as server:
            assert (await post(server.url)).status_code == 200
            answer = await post(server.url)
            assert answer.status_code == 599
            assert "has run out" in answer.json()["error"]["message"]
            assert len(server.errors) == 1
    assert script.left == 0


async def test_an_assertion_in_a_script_fails_the_test() -> None:
    def script(request: Request) -> str:
        assert "mercy" in request.text
        return "never"

    with pytest.raises(ScriptError) as caught:
        async with ScriptedServer(script) as server:
            assert (await post(server.url)).status_code == 599
    assert isinstance(caught.value.__cause__, AssertionError)


async def test_the_tests_own_failure_is_not_hidden_by_the_scripts() -> None:
    with pytest.raises(KeyError):  # noqa: PT012 - the block's end must not raise its own
        async with ScriptedServer(in_order([])) as server:
            await post(server.url)
            raise KeyError("mine")


async def test_items_may_be_scripts_async_ones_too() -> None:
    async def late(request: Request) -> Reply:
        await asyncio.sleep(0)
        return Reply(request.text.upper())

    script = InOrder([{"label": 1}, late])
    async with ScriptedServer(script) as server:
        first = await post(server.url)
        second = await post(server.url, messages=[{"role": "user", "content": "loud"}])
    assert json.loads(first.json()["choices"][0]["message"]["content"]) == {"label": 1}
    assert second.json()["choices"][0]["message"]["content"] == "LOUD"


async def test_streaming_is_refused_aloud() -> None:
    with pytest.raises(ScriptError, match="stream"):
        async with ScriptedServer(in_order(["x"])) as server:
            assert (await post(server.url, stream=True)).status_code == 599


async def test_what_is_no_request_is_said_to_be_none() -> None:
    with pytest.raises(ScriptError, match="not a request of this protocol"):  # noqa: PT012 - the block's end raises
        async with ScriptedServer(in_order([])) as server, httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(f"{server.url}/v1/chat/completions", content=b"{")
            assert answer.status_code == 400


# Concurrency and latency


async def test_the_peak_in_flight_is_counted() -> None:
    async with ScriptedServer(lambda _: Reply("x", delay=0.1)) as server:
        async with httpx.AsyncClient(trust_env=False) as client:
            body = {"model": "m", "messages": []}
            await asyncio.gather(*(client.post(f"{server.url}/v1/chat/completions", json=body) for _ in range(20)))
            await client.post(f"{server.url}/v1/chat/completions", json=body)
        assert (server.peak, server.in_flight, server.served) == (20, 0, 21)
        assert [request.index for request in server.requests] == list(range(21))


async def test_latency_is_kept_and_logged_by_key_and_nothing_else_is_kept_on_demand() -> None:
    latency = Latency(0.05, spread=0.5, seed=3)
    async with ScriptedServer(structured(), latency=latency, keep=False) as server:
        begun = time.monotonic()
        for key in ("a", "b", "a"):
            await post(server.url, messages=[{"role": "user", "content": f"[[key={key}]] hi"}])
        spent = time.monotonic() - begun
        assert server.log == [(0, "a", latency.of("a", 0)), (1, "b", latency.of("b", 0)), (2, "a", latency.of("a", 1))]
        assert spent >= sum(seconds for _, _, seconds in server.log)
        assert server.requests == []
        assert server.stats()["served"] == 3


def test_a_draw_depends_on_seed_key_and_number_only() -> None:
    latency = Latency(2.0, spread=0.25, seed=1)
    drawn = [latency.of(key, nth) for key in "abc" for nth in range(50)]
    assert drawn == [latency.of(key, nth) for key in "abc" for nth in range(50)]
    assert len(set(drawn)) == 150
    assert 1.5 <= min(drawn) < 1.6 < 2.4 < max(drawn) <= 2.5
    assert Latency(2.0, spread=0.25, seed=2).of("a", 0) != drawn[0]


# Where it runs


def test_in_a_thread_of_its_own() -> None:
    with ScriptedServer(in_order(["hi"])) as server:
        answer = httpx.post(f"{server.url}/v1/chat/completions", json={"model": "m", "messages": []}, trust_env=False)
        assert answer.json()["choices"][0]["message"]["content"] == "hi"
        assert server.requests[0].model == "m"
    with pytest.raises(ScriptError), ScriptedServer(in_order([])) as server:
        httpx.post(f"{server.url}/v1/chat/completions", json={"model": "m", "messages": []}, trust_env=False)


def test_as_a_process_of_its_own() -> None:
    command = [
        sys.executable,
        "-m",
        "tribunal.eval.doubles.scripted",
        "--latency",
        "0.05",
        "--script",
        "tribunal.eval.doubles.scripted:EXAMPLE",
    ]
    top = PROJECT
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=top) as process:
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["url"]
            asked = {"model": "m", "messages": [{"role": "user", "content": "[[key=p]]"}], **ASKED["openai"]}
            begun = time.monotonic()
            answer = httpx.post(f"{url}/v1/chat/completions", json=asked, trust_env=False).json()
            assert time.monotonic() - begun >= 0.05
            assert json.loads(answer["choices"][0]["message"]["content"])["label"] == 0
            told = httpx.get(f"{url}/scripted", trust_env=False).json()
            assert (told["served"], told["peak"], told["errors"]) == (1, 1, [])
            assert told["log"] == [[0, "p", 0.05]]
            assert httpx.delete(f"{url}/scripted", trust_env=False).json()["served"] == 0
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


# Instances of schemas


def test_a_small_instance() -> None:
    schema = {
        "$defs": {
            "Cue": {
                "type": "object",
                "properties": {
                    "type": {"enum": ["Direct", "Metaphor"]},
                    "claim": {"type": "string", "maxLength": 4},
                    "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
                    "within": {"type": "array", "items": {"$ref": "#/$defs/Cue"}},
                },
                "required": ["type", "claim", "note"],
            }
        },
        "type": "object",
        "properties": {
            "cues": {"type": "array", "items": {"$ref": "#/$defs/Cue"}, "maxItems": 2},
            "score": {"type": "number", "minimum": 0, "maximum": 1},
            "count": {"type": "integer", "minimum": 3},
            "sure": {"type": "boolean"},
            "kind": {"const": "ruling"},
            "odd": {"type": "string"},
        },
        "required": ["cues", "score", "count", "sure", "kind"],
    }
    cue = {"type": "Direct", "claim": "scri", "note": "scripted"}
    assert instance(schema) == {"cues": [cue], "score": 0.5, "count": 3, "sure": False, "kind": "ruling"}
    chosen = {("cues",): 2, ("cues", 1, "type"): "Metaphor", ("odd",): "picked"}
    found = instance(schema, lambda path, _: chosen.get(path))
    assert [each["type"] for each in found["cues"]] == ["Direct", "Metaphor"]
    assert found["odd"] == "picked"
    assert instance(schema, lambda path, _: [] if path == ("cues",) else None)["cues"] == []


def test_geminis_capitals_and_a_schema_within_itself() -> None:
    assert instance({"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}, "required": ["a"]}) == {"a": 0}
    endless = {
        "type": "object",
        "properties": {"more": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["more"],
    }
    assert json.dumps(instance(endless)).count("more") < 20


async def test_marks_in_the_post_steer_the_answer_and_a_choice_goes_before_them() -> None:
    def choose(request: Request, path: tuple[str | int, ...], schema: dict[str, Any]) -> Any:
        return [] if path == ("cues",) and request.hints.get("track") == "dismissed" else None

    schema = {
        "type": "object",
        "properties": {
            "label": {"type": "integer", "enum": [0, 1, 2]},
            "cues": {"type": "array", "items": {"type": "string"}},
            "explanation": {"type": "string"},
        },
        "required": ["label", "cues", "explanation"],
    }

    async def answer(url: str, text: str) -> Any:
        form = {"type": "json_object", "schema": schema}  # as llama.cpp takes it
        told = await post(url, messages=[{"role": "user", "content": text}], response_format=form)
        return json.loads(told.json()["choices"][0]["message"]["content"])

    async with ScriptedServer(structured(choose)) as server:
        first = await answer(server.url, "[[label=2]] [[cues=2]] [[explanation=so be it]]")
        assert first == {"label": 2, "cues": ["scripted", "scripted"], "explanation": "so be it"}
        assert (await answer(server.url, "[[label=9]] [[cues=3]] [[track=dismissed]]")) == {
            "label": 0,
            "cues": [],
            "explanation": "scripted",
        }


def test_base64_embeddings_are_little_endian_floats() -> None:
    with ScriptedServer(in_order([])) as server:
        asked = {"model": "e", "input": [[1, 2], [3]], "encoding_format": "base64", "dimensions": 8}
        told = httpx.post(f"{server.url}/v1/embeddings", json=asked, trust_env=False).json()
    assert [len(base64.b64decode(row["embedding"])) for row in told["data"]] == [32, 32]
