"""Plain JSON over HTTP: whom it trusts, where it goes, by which proxy, and what is read off an error."""

from __future__ import annotations

import ssl
from types import SimpleNamespace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tribunal.models.faults import read_fault
from tribunal.models.providers import connections
from tribunal.models.providers.http import add_path, post_json
from tribunal.models.providers.wire import NoAnswer, ServerError


def test_certifi_is_trusted_where_python_knows_of_no_authorities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        ssl, "get_default_verify_paths", lambda: SimpleNamespace(cafile=None, capath=None)
    )
    made = connections._load_authorities(None, "none is read yet")
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert made.cert_store_stats()["x509_ca"] > 100


def test_a_path_stands_before_the_query_of_an_address() -> None:
    assert add_path("http://here/v1/", "/models") == "http://here/v1/models"
    assert (
        add_path("http://here/v1/?api-version=1&b=", "/models")
        == "http://here/v1/models?api-version=1&b="
    )


async def test_a_redirect_is_not_followed_and_an_error_says_how_long_to_wait() -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        match request.path:
            case "/moved":
                return web.Response(status=307, headers={"Location": "/elsewhere"})
            case "/busy":
                details = [
                    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
                ]
                return web.json_response(
                    {"error": {"message": "later", "details": details}}, status=429
                )
            case "/sweet":
                return web.json_response(
                    sorted(request.cookies), headers={"Set-Cookie": "taste=sweet"}
                )
        return web.Response(text="<html>Welcome to the wifi</html>")

    app = web.Application()
    app.router.add_post("/{path}", answer)
    async with TestServer(app) as server:
        key = {"Authorization": "Bearer k"}
        with pytest.raises(ServerError, match="307"):
            await post_json(str(server.make_url("/moved")), {}, key)
        assert seen == ["/moved"]
        with pytest.raises(ServerError) as caught:
            await post_json(str(server.make_url("/busy")), {}, key)
        meant = read_fault(caught.value)
        assert (meant.kind, meant.wait) == ("rate_limit", (7.0, "RetryInfo"))
        with pytest.raises(NoAnswer, match="not JSON"):
            await post_json(str(server.make_url("/wifi")), {}, key)
        # Nothing that came for one key goes along with another.
        assert [await post_json(str(server.make_url("/sweet")), {}, key) for _ in range(2)] == [
            [],
            [],
        ]
