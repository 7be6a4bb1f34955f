"""Embeddings: hashing as it must stay, and endpoints over a real socket to a local server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from tribunal.errors import BadInput, CallFailed
from tribunal.models.embeddings import Hashing, embedder, plain, remote
from tribunal.models.embeddings.hashing import DIMENSION

KEY = "sk-test-0123456789abcdef"


# ------------------------------------------------------------------------------------------------------------- hashing


def test_hashing_gives_unit_vectors_in_the_order_of_the_texts() -> None:
    texts = [f"text number {number} 안녕" for number in range(2500)]
    whole = Hashing().vectors(texts)
    assert whole.shape == (2500, DIMENSION)
    assert whole.dtype == np.float32
    assert np.allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-5)
    # A text's vector doesn't depend on the texts that are hashed beside it.
    assert np.array_equal(whole[1500:1501], Hashing().vectors(texts[1500:1501]))


def test_hashing_never_changes_under_its_name() -> None:
    vector = Hashing().vectors(["Tribunal 재판소"])[0]
    places = np.flatnonzero(vector)
    assert (places * np.sign(vector[places]).astype(int)).tolist() == PINNED
    assert vector.max() == vector[227] == pytest.approx(0.33015594)


def test_case_width_and_white_space_make_no_difference() -> None:
    one, other = Hashing().vectors(["  HELLO\n\nｗｏｒｌｄ ", "hello wor\u200bld"])
    assert np.array_equal(one, other)
    assert plain("Ｈello  WORLD\t!") == "hello world !"


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("이 영화 정말 재미있다", "이 영화 정말 재미없다", "내일 비가 온다고 한다"),
        ("この映画は面白い", "あの映画は面白い", "明日は雨が降る"),
        ("the film was great", "the films were great", "it rains tomorrow"),
    ],
)
def test_similar_words_are_near_in_any_script(text: str, near: str, far: str) -> None:
    a, b, c = Hashing().vectors([text, near, far])
    assert a @ b > 2 * (a @ c)


def test_a_text_with_nothing_in_it_is_all_zeros() -> None:
    assert not Hashing().vectors(["", " \u200b\n"]).any()
    assert Hashing().vectors([]).shape == (0, DIMENSION)
    assert np.isfinite(Hashing().vectors(["a", "\ud800", "😀"])).all()


# The places of that text's n-grams, each with its sign.
PINNED = [
    9, 36, 41, 48, 66, 69, -73, 75, -84, -91, -100, -106, 107, 133, 142, 165, -168, -172, -201, 227, 250, 253, -294,
    299, 305, -309, 310, 312, -314, 333, 340, -341, 345, -352, 364, -371, -381,
]  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["word2vec", "openai:", "rehearsal:court", ""])
def test_an_unknown_name_says_which_there_are(name: str) -> None:
    with pytest.raises(BadInput, match=r"not an embedding; give hashing, or provider:model.*openai, google_genai"):
        embedder(name)


@pytest.mark.parametrize(
    ("name", "setting"), [("openai:text-embedding-3-small", "OPENAI_API_KEY"), ("google_genai:g", "GOOGLE_API_KEY")]
)
def test_a_missing_key_is_said_before_anything_is_sent(name: str, setting: str) -> None:
    with pytest.raises(BadInput, match=rf"no key; set {setting}.*or use hashing"):
        embedder(name)


def test_an_address_that_is_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:8080/v1")
    with pytest.raises(BadInput, match=r"OPENAI_BASE_URL: 'localhost:8080/v1.*: not an http\(s\) address"):
        embedder("openai:x")


# ----------------------------------------------------------------------------------------------------------- over HTTP


@dataclass
class Server:
    """An embeddings server in OpenAI's and Google's shapes. `script` holds what to answer before answering well."""

    url: str = ""
    script: list[web.Response] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    dimension: int = 4
    in_flight: int = 0
    most_in_flight: int = 0
    delay: float = 0.0

    def vector(self, text: str) -> list[float]:
        return [float(len(text)), float(sum(map(ord, text)) % 97), *[1.0] * (self.dimension - 2)]

    async def openai(self, request: web.Request) -> web.Response:
        if refused := await self.taken(request):
            return refused
        data = [
            {"object": "embedding", "index": place, "embedding": self.vector(text)}
            for place, text in enumerate(self.requests[-1]["input"])
        ]
        # Out of order, as a server that works in parallel may answer.
        return web.json_response({"object": "list", "data": data[::-1], "usage": {}})

    async def google(self, request: web.Request) -> web.Response:
        if refused := await self.taken(request):
            return refused
        texts = [each["content"]["parts"][0]["text"] for each in self.requests[-1]["requests"]]
        return web.json_response({"embeddings": [{"values": self.vector(text)} for text in texts]})

    async def taken(self, request: web.Request) -> web.Response | None:
        body = await request.json()
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(self.delay)
        self.in_flight -= 1
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        return self.script.pop(0) if self.script else None


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    held = Server()
    app = web.Application()
    app.router.add_post("/v1/embeddings", held.openai)
    app.router.add_post("/v1beta/models/{call}", held.google)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    held.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    monkeypatch.setenv("OPENAI_BASE_URL", f"{held.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", held.url)
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    yield held
    await runner.cleanup()


def unit(server: Server, text: str) -> np.ndarray[Any, Any]:
    vector = np.array(server.vector(text), np.float32)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("name", ["openai:small", "google_genai:small"])
async def test_vectors_come_back_in_order_and_of_unit_length(server: Server, name: str) -> None:
    model = embedder(name)
    assert model.dimension is None
    found = await model.embed(["one", "", "three", "one"])
    assert model.dimension == 4
    assert found.dtype == np.float32
    expected = [unit(server, "one"), np.zeros(4), unit(server, "three"), unit(server, "one")]
    assert np.allclose(found, np.stack(expected))
    [request] = server.requests
    sent = request.get("input") or [each["content"]["parts"][0]["text"] for each in request["requests"]]
    assert sent == ["one", "three"]  # once each, and no blank one
    [headers] = server.headers
    assert KEY in (headers.get("Authorization", "").removeprefix("Bearer "), headers.get("x-goog-api-key"))


async def test_what_was_embedded_once_is_not_asked_for_again(server: Server) -> None:
    await embedder("openai:small").embed(["one", "two"])
    found = await embedder("openai:small").embed(["two", "three"])
    assert [request["input"] for request in server.requests] == [["one", "two"], ["three"]]
    assert np.allclose(found[0], unit(server, "two"))
    await embedder("openai:large").embed(["two"])
    assert len(server.requests) == 3  # another model, another vector


@pytest.mark.parametrize(("name", "most"), [("openai:small", 512), ("google_genai:small", 100)])
async def test_requests_keep_the_providers_limits_and_run_side_by_side(server: Server, name: str, most: int) -> None:
    server.delay = 0.02
    texts = [f"text {number}" for number in range(most * 3 + 1)]
    found = await embedder(name).embed(texts)
    sizes = [len(request.get("input") or request["requests"]) for request in server.requests]
    assert sorted(sizes) == [1, most, most, most]
    assert 1 < server.most_in_flight <= remote.AT_ONCE
    assert np.allclose(found[-1], unit(server, texts[-1]))


async def test_long_texts_are_cut_and_share_out_over_requests(server: Server) -> None:
    await embedder("openai:small").embed([f"{number} " + "가" * 4000 for number in range(40)])
    sent = [request["input"] for request in server.requests]
    assert len(sent) == 2
    assert all(sum(len(text.encode()) for text in batch) <= remote.LARGEST_REQUEST_BYTES for batch in sent)
    assert all(len(text.encode()) <= remote.LONGEST_TEXT_BYTES for batch in sent for text in batch)


async def test_a_429_waits_for_as_long_as_the_server_says(server: Server) -> None:
    server.script = [web.json_response({"error": "slow down"}, status=429, headers={"Retry-After": "0.3"})]
    began = time.monotonic()
    await embedder("openai:small").embed(["one"])
    assert time.monotonic() - began >= 0.3
    assert len(server.requests) == 2


async def test_a_passing_fault_is_tried_again(server: Server) -> None:
    server.script = [web.Response(status=503), web.Response(status=500)]
    assert (await embedder("openai:small").embed(["one"])).shape == (1, 4)
    assert len(server.requests) == 3


async def test_a_fault_that_stays_is_said_after_the_last_try(server: Server) -> None:
    server.script = [web.Response(status=503, text="busy") for _ in range(20)]
    with pytest.raises(CallFailed, match=r"embedding openai:small: server at 127\.0\.0\.1:\d+ \(HTTP 503\).*busy") as e:
        await embedder("openai:small").embed(["one"])
    assert e.value.kind == "server"
    assert len(server.requests) == remote.ATTEMPTS


async def test_a_declined_key_is_said_at_once_and_never_shown(server: Server) -> None:
    server.script = [web.json_response({"error": {"message": f"Incorrect API key: {KEY}"}}, status=401)]
    with pytest.raises(CallFailed, match=r"declined the key \(HTTP 401\); check OPENAI_API_KEY") as caught:
        await embedder("openai:small").embed(["one"])
    assert caught.value.kind == "authentication"
    assert len(server.requests) == 1
    assert KEY not in str(caught.value)


async def test_a_second_key_takes_over(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY_1", "sk-other-0123456789")
    server.script = [web.Response(status=401)]
    await embedder("openai:small").embed(["one"])
    assert [each["Authorization"] for each in server.headers] == [f"Bearer {KEY}", "Bearer sk-other-0123456789"]


async def test_an_unknown_model_is_not_tried_again(server: Server) -> None:
    server.script = [web.json_response({"error": f"no model small for {KEY}"}, status=404)]
    with pytest.raises(CallFailed, match=r"\(HTTP 404\).*no model small") as caught:
        await embedder("openai:small").embed(["one"])
    assert caught.value.kind == "request"
    assert len(server.requests) == 1
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        {"data": []},
        {"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1]}]},
        {"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [float("nan"), 1]}]},
        {"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": "AAAA"}]},
        {"error": "sorry"},
        [],
    ],
)
async def test_an_answer_that_is_not_vectors_for_the_texts(server: Server, answer: object) -> None:
    server.script = [web.Response(text=json.dumps(answer), content_type="application/json")]
    with pytest.raises(CallFailed, match="the answer is not 2 vectors") as caught:
        await embedder("openai:small").embed(["one", "two"])
    assert caught.value.kind == "bad_output"


async def test_a_model_that_changes_its_length_under_its_name(server: Server) -> None:
    model = embedder("openai:small")
    await model.embed(["one"])
    server.dimension = 6
    with pytest.raises(CallFailed, match=r"different lengths \(4, 6\)") as caught:
        await model.embed(["one", "two"])
    assert caught.value.kind == "bad_output"


async def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(CallFailed, match=r"connection at 127\.0\.0\.1:9") as caught:
        await embedder("openai:small").embed(["one"])  # a server of one's own needs no key
    assert caught.value.kind == "connection"


async def test_a_cache_that_is_something_else_is_said(server: Server) -> None:
    from tribunal.environment import data_folder

    data_folder().mkdir(parents=True)
    (data_folder() / "embeddings.sqlite3").write_text("not a database, but long enough to look at " * 40)
    with pytest.raises(BadInput, match=r"embedding cache .*can't be used: file is not a database"):
        await embedder("openai:small").embed(["one"])
