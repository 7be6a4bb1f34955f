"""The way to a server: whose account, which address, which proxy, which authority; for each event loop anew."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from typer.testing import CliRunner

from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.models.classified import GOOD, came_of, chat_completion
from tests.models.test_providers import KEY, Way
from tests.models.test_redirects import EVERY, OPENAI
from tribunal.commands import app
from tribunal.docket.session import judge_post
from tribunal.models.embeddings import find_embedder
from tribunal.schema import Record
from tribunal.settings.context import context_from

# A certificate for 127.0.0.1 that trusts itself, for these tests only.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg4qdNkZckdspvk8Wt
A0lsv1uyQWwpqPb4H6bb/ZH4qk6hRANCAARefIh+d98GykDY3FWFuL6aB4Kslf5G
nzmC9z2vTsFB7PsH/OqVTGdYVlm8XT3qtMWORoeQXiv9wxecHk+5Mzy4
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBiTCCATCgAwIBAgIUKiA1gnxKZGLqmDPofyIoIVLI9D0wCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGYSB0ZXN0MCAXDTI2MTEyMzE2MTIyMloYDzIxMjYxMDMwMTYx
MjIyWjARMQ8wDQYDVQQDDAZhIHRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AARefIh+d98GykDY3FWFuL6aB4Kslf5GnzmC9z2vTsFB7PsH/OqVTGdYVlm8XT3q
tMWORoeQXiv9wxecHk+5Mzy4o2QwYjAdBgNVHQ4EFgQUALdzD0Bc/sZMi4jz0rJH
bM+5t/8wHwYDVR0jBBgwFoAUALdzD0Bc/sZMi4jz0rJHbM+5t/8wDwYDVR0TAQH/
BAUwAwEB/zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0cAMEQCIBhjcJaP
tRFmTObtlRK5zth04RrpHIEypptd0CP+BcIvAiAIxK4id5TyTPkEg9M/wqOY3QMU
0rGJoiuW43ughEuFmw==
-----END CERTIFICATE-----
"""
ANSWER = '{"category": "Sexist", "explanation": "because"}'
by_way = pytest.mark.parametrize("way", EVERY, ids=[way.model.partition(":")[0] for way in EVERY])


async def judged(model: str, attempts: int = 1) -> Record:
    context = context_from({"model": model, "attempts": attempts, "timeout": 10})
    return await judge_post("a post", graph="baseline", context=context)


def send_to(way: Way, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(way.address, f"{url}{way.root}")
    if way.key:
        monkeypatch.setenv(way.key, KEY)


# Whose account


async def test_openai_is_told_whose_account_it_is_and_nobody_else_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-mine")
    for way in EVERY:
        async with ScriptedServer(court_script(classifier=GOOD)) as server:
            send_to(way, server.url, monkeypatch)
            assert came_of(await judged(way.model)) == ("verdict", None, 1)
        sent = server.requests[0].headers
        told = sent.get("openai-organization"), sent.get("openai-project")
        assert told == (("org-mine", "proj-mine") if way is OPENAI else (None, None))


async def test_the_account_may_stand_in_a_env_file_and_is_noticed_when_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path(".env").write_text(f"OPENAI_ORG_ID=org-filed\nOPENAI_API_KEY={KEY}\n")
    async with ScriptedServer(court_script(classifier=GOOD)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        await judged("openai:x")
        monkeypatch.setenv("OPENAI_ORG_ID", "org-later")
        await judged("openai:x")
    assert [each.headers["openai-organization"] for each in server.requests] == [
        "org-filed",
        "org-later",
    ]


# An address with a query


async def test_what_follows_a_question_mark_goes_with_every_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(f"{request.method} {request.rel_url}")
        if request.path.endswith("/embeddings"):
            return web.json_response({"data": [{"index": 0, "embedding": [1.0, 0.0]}]})
        return web.Response(body=chat_completion(ANSWER), content_type="application/json")

    async with serving(answer) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1/?api-version=2025-01-01&tier=a%20b")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        assert came_of(await judged("openai:x")) == ("verdict", None, 1)
        in_force = find_embedder("openai:e")
        assert in_force is not None
        await in_force.embed(["a text"], "query")
        await asyncio.to_thread(CliRunner().invoke, app, ["doctor"])
    query = "?api-version=2025-01-01&tier=a+b"
    assert [each.replace("%20", "+") for each in asked] == [
        f"POST /v1/chat/completions{query}", f"POST /v1/embeddings{query}", f"GET /v1/models{query}",
    ]  # fmt: skip


# Proxies


class Proxy:
    """A proxy that notes what it is asked for, and answers plain requests itself; tunnels it refuses.

    Attributes:
        asked: the method and the target of each request.
    """

    def __init__(self, refusal: str) -> None:
        self.asked: list[str] = []
        self._refusal = refusal.encode()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        self.asked.append(f"{method} {target}")
        body = chat_completion(ANSWER)
        status = self._refusal if method == "CONNECT" else b"200 OK"
        writer.write(
            b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nConnection: close\r\n" % status
        )
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()


@asynccontextmanager
async def proxying(refusal: str = "502 No tunnels") -> AsyncIterator[tuple[Proxy, str]]:
    proxy = Proxy(refusal)
    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        yield proxy, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("setting", ["HTTP_PROXY", "ALL_PROXY", "OPENAI_PROXY"])
async def test_a_proxy_is_asked(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying() as (proxy, url):
        monkeypatch.setenv(setting, url)
        monkeypatch.setenv("OPENAI_BASE_URL", "http://models.example/v1")
        assert came_of(await judged("openai:x")) == ("verdict", None, 1)
    assert proxy.asked == ["POST http://models.example/v1/chat/completions"]


@by_way
@pytest.mark.parametrize("setting", ["HTTPS_PROXY", "ALL_PROXY"])
async def test_a_tunnel_is_asked_for(
    setting: str, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxying() as (proxy, url):
        monkeypatch.setenv(setting, url)
        send_to(way, "https://models.example", monkeypatch)
        assert came_of(await judged(way.model)) == ("failure", "connection", 1)
    assert proxy.asked == ["CONNECT models.example:443"]


async def test_an_address_that_is_excepted_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxying() as (proxy, url), ScriptedServer(court_script(classifier=GOOD)) as server:
        monkeypatch.setenv("ALL_PROXY", url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        send_to(OPENAI, server.url, monkeypatch)
        assert came_of(await judged("openai:x")) == ("verdict", None, 1)
    assert proxy.asked == []


DEAD = "http://user:hidden@127.0.0.1:9"  # the port of a service that no machine runs any more


@by_way
@pytest.mark.parametrize("setting", ["HTTP_PROXY", "ALL_PROXY"])
async def test_a_dead_proxy_is_named_with_its_variable(
    setting: str, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setting, DEAD)
    send_to(way, "http://models.example", monkeypatch)
    record = await judged(way.model, attempts=4)
    assert came_of(record) == ("failure", "network", 1)
    assert f"{setting} (http://127.0.0.1:9)" in record.explanation
    assert "hidden" not in record.model_dump_json()


@pytest.mark.parametrize(
    ("status", "kind"), [("502 No", "connection"), ("403 No", "network"), ("407 No", "network")]
)
async def test_a_proxy_that_refuses(
    status: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxying(status) as (_, url):
        monkeypatch.setenv("HTTPS_PROXY", url)
        send_to(OPENAI, "https://models.example", monkeypatch)
        record = await judged("openai:x")
    assert came_of(record) == ("failure", kind, 1)
    assert "HTTPS_PROXY" in record.explanation


@pytest.mark.skipif(find_spec("socksio") is not None, reason="socksio is installed")
@pytest.mark.parametrize("setting", ["HTTPS_PROXY", "ALL_PROXY"])
def test_a_socks_proxy_without_its_package_is_refused_at_the_start(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setting, "socks5://127.0.0.1:9")
    send_to(OPENAI, "https://models.example", monkeypatch)
    printed = CliRunner().invoke(app, ["judge", "a post", "--model", "openai:x"])
    assert printed.exit_code == 2
    assert setting in printed.output
    assert "pip install socksio" in printed.output


# Authorities


@asynccontextmanager
async def serving(answer: object, trusted: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    served = web.Application()
    served.router.add_route("*", "/{path:.*}", answer)  # type: ignore[arg-type]
    server = TestServer(served, scheme="https" if trusted else "http")
    secured: dict[str, Any] = {"ssl": trusted} if trusted else {}
    await server.start_server(**secured)
    try:
        yield str(server.make_url("")).rstrip("/")
    finally:
        await server.close()


async def test_whom_ssl_cert_file_names_is_trusted_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = tmp_path / "certificate.pem"
    certificate.write_text(CERTIFICATE)
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trusted.load_cert_chain(certificate)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=chat_completion(ANSWER), content_type="application/json")

    def decide(url: str) -> Record:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        return asyncio.run(judged("openai:x"))

    async with serving(answer, trusted) as url:
        refused = await asyncio.to_thread(decide, url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        taken = await asyncio.to_thread(decide, url)
    assert came_of(refused) == ("failure", "network", 1)
    assert "SSL_CERT_FILE" in refused.explanation
    assert came_of(taken) == ("verdict", None, 1)


@pytest.mark.parametrize("content", [None, "not a certificate"])
async def test_an_ssl_cert_file_that_cannot_be_read_is_an_error(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "authorities.pem"
    if content:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    send_to(OPENAI, "https://models.example", monkeypatch)
    record = await judged("openai:x", attempts=4)
    assert came_of(record) == ("failure", "network", 1)
    assert f"SSL_CERT_FILE: {file}" in record.explanation


# Event loops


@by_way
def test_each_event_loop_has_connections_of_its_own(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer(court_script(classifier=GOOD)) as server:
        send_to(way, server.url, monkeypatch)
        records = [asyncio.run(judged(way.model)) for _ in range(3)]
    assert [came_of(record) for record in records] == [("verdict", None, 1)] * 3
    assert len(server.requests) == 3
