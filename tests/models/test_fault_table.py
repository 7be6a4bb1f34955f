"""What an error means, wherever it stands: kind x envelope x provider, over real sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.models.test_providers import ANTHROPIC, GEMINI, OLLAMA, QWEN, Way
from tribunal.models.completion import Completion
from tribunal.models.faults import read_fault
from tribunal.models.providers import Endpoint, RequestSettings
from tribunal.models.registry import PROVIDERS, model_names

WAYS = {"openai": QWEN, "anthropic": ANTHROPIC, "gemini": GEMINI, "ollama": OLLAMA}
# The kind, the status, the code and the words.
ERRORS: dict[str, tuple[str, int, str, str]] = {
    "filter by code": ("refused", 400, "content_filter", "Blocked"),
    "filter by words": ("refused", 400, "invalid_request_error", "Content Exists Risk"),
    "key": ("authentication", 401, "invalid_api_key", "Incorrect API key provided"),
    "quota": ("quota", 429, "insufficient_quota", "You exceeded your current quota"),
    "credit": (
        "quota",
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the API.",
    ),
    "rate limit": ("rate_limit", 429, "rate_limit_exceeded", "Slow down"),
    "overloaded": ("server", 529, "overloaded_error", "Overloaded"),
    "broken": ("server", 500, "internal_error", "Something broke"),
    "too long": ("too_long", 400, "context_length_exceeded", "Too much"),
    "request": ("request", 400, "invalid_request_error", "Unknown field: x"),
}


def error_of(way: str, code: Any, status: int, words: str) -> Any:
    """The body of an error as this provider writes it."""
    match way:
        case "anthropic":
            return {"type": "error", "error": {"type": code, "message": words}}
        case "gemini":
            return {"error": {"code": status, "message": words, "status": str(code).upper()}}
        case "ollama":
            return {"error": {"message": words, "code": code}}
        case _:
            return {"error": {"message": words, "type": "error", "code": code}}


ENVELOPES = (
    "status",
    "status in a list",
    "200",
    "200 with the status as text",
    "200 with the status",
    "stream",
)


def fault_in(envelope: str, way: str, status: int, code: str, words: str) -> Fault:
    body = error_of(way, code, status, words)
    match envelope:
        case "status":
            return Fault(status, body=body)
        case "status in a list":
            return Fault(status, raw=json.dumps([body]).encode())
        case "200":
            return Fault(200, body=body)
        case "200 with the status as text":
            return Fault(200, body={"error": {"message": words, "code": str(status), "type": code}})
        case "200 with the status":
            return Fault(200, body={"error": {"message": words, "code": status, "type": code}})
        case _:
            return Fault(status, body=body, after="begun")


async def meaning(way: Way, answer: Any, *, stream: bool = False) -> Any:
    """What a request comes to: a fault, or the completion."""
    (name,) = model_names(way.model, "model")
    provider = PROVIDERS[name.provider]
    async with ScriptedServer(lambda request: answer) as server:
        made = provider.make(Endpoint(name, f"{server.url}{way.root}", "sk-ant-zero-0123456789"))
        wanted = RequestSettings("prompt", {}, None, 100, base_url=f"{server.url}{way.root}")
        try:
            if stream:
                whole = None
                async for chunk in made.astream("a post", **provider.options(wanted)):
                    whole = chunk if whole is None else whole + chunk
                assert whole is not None
                return Completion.from_message(whole)
            return Completion.from_message(await made.ainvoke("a post", **provider.options(wanted)))
        except Exception as error:  # noqa: BLE001
            return read_fault(error)


@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", ERRORS)
async def test_an_error_means_the_same_in_every_envelope(
    error: str, way: str, envelope: str
) -> None:
    kind, status, code, words = ERRORS[error]
    fault = await meaning(
        WAYS[way], fault_in(envelope, way, status, code, words), stream=envelope == "stream"
    )
    assert fault.kind == kind
    assert words in fault.message
    assert "{" not in fault.message


REASONS = {
    "OTHER": "gemini",
    "LANGUAGE": "gemini",
    "MALFORMED_RESPONSE": "gemini",
    "pause_turn": "anthropic",
}


@pytest.mark.parametrize(("reason", "way"), REASONS.items())
async def test_a_finish_reason_that_is_not_known_is_told_by_its_name(
    reason: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.models.test_providers import judged

    record, _ = await judged(WAYS[way], Reply("", reason), monkeypatch)
    assert record.outcome == "failure"
    assert reason.lower() in record.explanation.lower()


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("content_filter", "refused"), ("error", "server"), ("network_error", "server"),
     ("insufficient_system_resource", "server"), ("recitation", "refused")],
)  # fmt: skip
async def test_a_finish_reason_that_is_a_fault(
    reason: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.models.test_providers import judged

    def script(request: Request) -> Reply:
        return Reply("", reason)

    record, _ = await judged(QWEN, script, monkeypatch, attempts=1)
    if kind == "refused":
        assert record.outcome == "refusal"
    else:
        assert record.fault is not None
        assert record.fault["kind"] == kind
