"""Redirects: no provider's client follows one, since the key would go along."""

from __future__ import annotations

from typing import Any

import pytest

from tests.court import court_script
from tests.doubles import Fault, ScriptedServer
from tests.models.classified import GOOD, came_of
from tests.models.test_providers import GEMINI, KEY, OLLAMA, WAYS, Way, judged
from tribunal.errors import CallFailed
from tribunal.models.embeddings import find_embedder
from tribunal.testing.server import send

OPENAI = Way("openai:gpt-4o-mini", "openai", "/v1/chat/completions", "OPENAI_BASE_URL", "/v1", "OPENAI_API_KEY",
             "authorization", "Bearer ")  # fmt: skip
EVERY = [OPENAI, *WAYS]
by_way = pytest.mark.parametrize("way", EVERY, ids=[way.model.partition(":")[0] for way in EVERY])


@by_way
@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(
    way: Way, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way is OLLAMA:
        monkeypatch.setenv("OLLAMA_API_KEY", KEY)  # its client sends that one by itself
    async with ScriptedServer(court_script(classifier=GOOD)) as elsewhere:
        to = f"http://user:{KEY}@{elsewhere.url.removeprefix('http://')}{way.path}?key={KEY}"
        record, server = await judged(way, Fault(status, headers={"Location": to}), monkeypatch)
    assert not elsewhere.requests
    assert not elsewhere.others
    assert came_of(record) == ("failure", "moved", 1)
    host = elsewhere.url.removeprefix("http://")
    assert record.explanation == (
        f"moved: HTTP {status}: {server.url}{way.path} redirects to {host}, and no redirect is followed, since the key "
        f"would go along; if that is the right place, set the base URL to it ({way.address})"
    )


@pytest.mark.parametrize(
    "to", [None, "", "/elsewhere", "http://xn\u2010-a.example/", "http://[", "//a b"]
)
async def test_a_place_that_is_none_is_left_out(
    to: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {} if to is None else {"Location": to.encode().decode("latin-1")}
    for way in (OPENAI, GEMINI):
        record, server = await judged(way, Fault(307, headers=headers), monkeypatch)
        assert came_of(record) == ("failure", "moved", 1)
        assert (
            f"{server.url}{way.path} redirects on, and no redirect is followed"
            in record.explanation
        )


@pytest.mark.parametrize("name", ["openai:e", "google_genai:e", "qwen:e", "ollama:e"])
async def test_embeddings_follow_none_either(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    [way] = [each for each in EVERY if each.model.partition(":")[0] == name.partition(":")[0]]
    async with (
        ScriptedServer(court_script()) as elsewhere,
        RedirectingServer(elsewhere.url) as server,
    ):
        monkeypatch.setenv(way.address, f"{server.url}{way.root}")
        if way.key:
            monkeypatch.setenv(way.key, KEY)
        in_force = find_embedder(name)
        assert in_force is not None
        with pytest.raises(CallFailed) as caught:
            await in_force.embed(["a text"], "query")
    assert not elsewhere.requests
    assert not elsewhere.others
    assert caught.value.kind == "moved"
    assert (
        f"redirects to {elsewhere.url.removeprefix('http://')}, and no redirect is followed"
        in str(caught.value)
    )
    assert "set the base URL to it" in str(caught.value)


class RedirectingServer(ScriptedServer):
    """One that sends every request on to another."""

    def __init__(self, to: str) -> None:
        super().__init__(court_script())
        self._to = to

    async def respond(
        self, writer: Any, method: str, path: str, headers: dict[str, str], data: bytes
    ) -> None:
        send(writer, 308, b"", {"Location": f"{self._to}{path}"})
