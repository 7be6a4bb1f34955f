"""An embedding server's limits are learnt from its refusals, whatever their status and words, on every wire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from tests.models.test_embeddings import Server, embedder, serving, unit
from tribunal.errors import CallFailed
from tribunal.models import keys
from tribunal.settings.environment import say_once

REFUSALS: dict[str, tuple[int, Any]] = {
    "named": (400, {"error": {"message": "too many inputs: max 32"}}),
    "bare": (400, None),
    "bare 413": (413, None),
    "bare 422": (422, None),
    "a web server's": (413, "<html>Request Entity Too Large</html>"),
    "validation": (
        422,
        {"error": "batch size 64 > maximum allowed batch size 32", "error_type": "Validation"},
    ),
    "of tokens": (400, {"error": {"message": "input is too long (max 512 tokens)"}}),
    "unrelated": (400, {"error": "Ungültige Anfrage"}),
    "a server's own error": (
        500,
        {"error": "input is too large to process. increase the physical batch size"},
    ),
}
WIRES = {"openai:small": "openai", "ollama:small": "openai", "google_genai:small": "google"}


@dataclass
class NarrowServer(Server):
    """A server that takes so many texts, of so many characters, and refuses others in these words."""

    most_texts: int = 10**6
    longest: int = 10**6
    refusal: tuple[int, Any] = (400, None)
    refused: int = 0

    async def taken(self, request: web.Request) -> web.Response | None:
        answer = await super().taken(request)
        body = self.requests[-1]
        texts = body.get("input") or [
            each["content"]["parts"][0]["text"] for each in body["requests"]
        ]
        if len(texts) <= self.most_texts and all(len(text) <= self.longest for text in texts):
            return answer
        self.refused += 1
        status, words = self.refusal
        if isinstance(words, dict):
            return web.json_response(words, status=status)
        return web.Response(status=status, text=words)


@pytest.fixture
async def narrow(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NarrowServer]:
    held = NarrowServer()
    say_once.cache_clear()
    monkeypatch.setattr(keys, "retry_delay", lambda tries: 0.0)
    async with serving(held, monkeypatch):
        monkeypatch.setenv("OLLAMA_HOST", held.url)
        yield held


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("name", WIRES)
async def test_how_many_texts_a_server_takes_is_learnt(
    narrow: NarrowServer, name: str, refusal: str, caplog: pytest.LogCaptureFixture
) -> None:
    narrow.most_texts, narrow.refusal = 30, REFUSALS[refusal]
    texts = [f"text {number}" for number in range(300)]
    model = embedder(name)
    found = await model.embed(texts, "passage")
    assert np.allclose(found, np.stack([unit(narrow, text) for text in texts]))
    narrow.refused = 0
    await model.embed([f"later {number}" for number in range(100)], "passage")
    learnt = narrow.refusal[0] != 500
    assert (narrow.refused == 0) == learnt
    assert ("texts per request" in caplog.text) == learnt


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("name", WIRES)
async def test_how_long_a_text_a_server_takes_is_learnt(
    narrow: NarrowServer, name: str, refusal: str, caplog: pytest.LogCaptureFixture
) -> None:
    narrow.longest, narrow.refusal = 2000, REFUSALS[refusal]
    texts = ["short", "long " * 1000, *(f"text {number}" for number in range(40)), "longer " * 3000]
    model = embedder(name)
    found = await model.embed(texts, "passage")
    assert np.allclose(found[0], unit(narrow, "short"))
    assert np.allclose(found[1], unit(narrow, texts[1][:2000]))
    assert np.allclose(found[-1], unit(narrow, texts[-1][:2000]))
    narrow.refused = 0
    narrow.requests.clear()
    await model.embed([*(f"later {number}" for number in range(40)), "another " * 700], "passage")
    learnt = narrow.refusal[0] != 500
    assert (narrow.refused == 0) == learnt
    assert (
        len(narrow.requests) == 1
    ) == learnt  # how many texts it takes wasn't learnt from a long one
    assert ("cut to 2,000 bytes" in caplog.text) == learnt
    before = len(narrow.requests)
    # each is in the cache, as it was given
    assert np.allclose(await model.embed(texts, "passage"), found)
    assert len(narrow.requests) == before


@pytest.mark.parametrize("texts", [["a"], ["a", "b", "c"], ["long " * 1000]])
async def test_a_refusal_that_stays_is_said_in_the_servers_words(
    narrow: NarrowServer, texts: list[str]
) -> None:
    narrow.most_texts, narrow.refusal = 0, (400, {"error": {"message": "no such model here"}})
    with pytest.raises(CallFailed, match=r"\(HTTP 400\): HTTP 400: no such model here") as caught:
        await embedder("openai:small").embed(texts, "passage")
    assert caught.value.kind == "request"
    assert len(narrow.requests) <= 6
