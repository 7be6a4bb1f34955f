"""The scripted server over real sockets: its scripts, its counts, its latency, and where it runs."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import subprocess
import sys
from typing import Any

import httpx
import pytest

from tests import PROJECT
from tests.doubles import (
    Fault,
    InOrder,
    Reply,
    Request,
    ScriptedServer,
    ScriptError,
    in_order,
)
from tests.doubles.ruling import SCHEMA, ruling

FORM = {"type": "json_schema", "json_schema": {"name": "Ruling", "schema": SCHEMA}}


async def post(url: str, **body: Any) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        return await client.post(
            f"{url}/v1/chat/completions", json={"model": "m", "messages": [], **body}
        )


async def test_a_faults_body_headers_and_delay() -> None:
    script = in_order(
        [
            Fault(status=418, body={"odd": 1}, headers={"X-Odd": "yes"}, delay=0.1),
            Fault(message="no", code="c"),
        ]
    )
    async with ScriptedServer(script) as server:
        odd = await post(server.url)
        assert server.requests[0].latency == 0.1
        assert (odd.status_code, odd.json(), odd.headers["x-odd"]) == (418, {"odd": 1}, "yes")
        plain = await post(server.url)
        assert plain.json()["error"] == {
            "message": "no",
            "type": "server_error",
            "param": None,
            "code": "c",
        }


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
    assert script.remaining == 0


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


async def test_what_is_no_request_is_said_to_be_none() -> None:
    with pytest.raises(ScriptError, match="not a request of this protocol"):  # noqa: PT012 - the block's end raises
        async with (
            ScriptedServer(in_order([])) as server,
            httpx.AsyncClient(trust_env=False, timeout=60) as client,
        ):
            answer = await client.post(f"{server.url}/v1/chat/completions", content=b"{")
            assert answer.status_code == 400


# Concurrency and latency


async def test_the_peak_in_flight_is_counted() -> None:
    async with ScriptedServer(lambda _: Reply("x", delay=0.1)) as server:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            body = {"model": "m", "messages": []}
            await asyncio.gather(
                *(client.post(f"{server.url}/v1/chat/completions", json=body) for _ in range(20))
            )
            await client.post(f"{server.url}/v1/chat/completions", json=body)
        assert (server.peak, server.in_flight, server.served) == (20, 0, 21)
        assert [request.index for request in server.requests] == list(range(21))


async def test_latency_is_kept_and_nothing_is_kept_of_a_request_on_demand() -> None:
    async with ScriptedServer(lambda request: Reply("x", delay=0.02), latency=0.03) as server:
        await post(server.url)
        [request] = server.requests
        assert request.latency == 0.05
        assert request.finished is not None
        assert request.finished - request.arrived >= 0.05  # by one clock
    async with ScriptedServer(ruling, keep=False) as server:
        await post(server.url, messages=[{"role": "user", "content": "[[key=a]] hi"}])
        assert server.requests == []
        assert server.stats()["served"] == 1


# Where it runs


def test_in_a_thread_of_its_own() -> None:
    with ScriptedServer(in_order(["hi"])) as server:
        answer = httpx.post(
            f"{server.url}/v1/chat/completions",
            json={"model": "m", "messages": []},
            trust_env=False,
            timeout=60,
        )
        assert answer.json()["choices"][0]["message"]["content"] == "hi"
        assert server.requests[0].model == "m"
    with pytest.raises(ScriptError), ScriptedServer(in_order([])) as server:
        httpx.post(
            f"{server.url}/v1/chat/completions",
            json={"model": "m", "messages": []},
            trust_env=False,
            timeout=60,
        )


def test_as_a_process_of_its_own() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.doubles",
        "--latency",
        "0.05",
        "--script",
        "tests.doubles.ruling:ruling",
    ]
    top = PROJECT
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=top) as process:
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["url"]
            asked = {
                "model": "m",
                "messages": [{"role": "user", "content": "[[key=p]]"}],
                "response_format": FORM,
            }
            answer = httpx.post(
                f"{url}/v1/chat/completions", json=asked, trust_env=False, timeout=60
            ).json()
            assert json.loads(answer["choices"][0]["message"]["content"])["label"] == 0
            answer = httpx.get(f"{url}/scripted", trust_env=False, timeout=60).json()
            assert (answer["served"], answer["peak"], answer["errors"]) == (1, 1, [])
            assert (
                httpx.delete(f"{url}/scripted", trust_env=False, timeout=60).json()["served"] == 0
            )
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


async def test_a_schema_may_stand_beside_json_object_as_llama_cpp_takes_it() -> None:
    async with ScriptedServer(ruling) as server:
        said = [{"role": "user", "content": "[[label=1]] [[label=0]]"}]
        answer = await post(
            server.url, messages=said, response_format={"type": "json_object", "schema": SCHEMA}
        )
        assert json.loads(answer.json()["choices"][0]["message"]["content"])["label"] == 1
        assert server.requests[0].format == "json_schema"
        await post(server.url, response_format={"type": "json_object"})
        assert (server.requests[1].format, server.requests[1].schema) == ("json_object", None)


def test_base64_embeddings_are_little_endian_floats() -> None:
    with ScriptedServer(in_order([])) as server:
        asked = {"model": "e", "input": [[1, 2], [3]], "encoding_format": "base64", "dimensions": 8}
        answer = httpx.post(
            f"{server.url}/v1/embeddings", json=asked, trust_env=False, timeout=60
        ).json()
    assert [len(base64.b64decode(row["embedding"])) for row in answer["data"]] == [32, 32]
