"""Usage is data from outside: any JSON, in any place, in a stream or not, loses nothing and loosens nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles import Fault, Request, ScriptedServer
from tests.models.classified import GOOD, came_of, classify
from tests.models.test_providers import ANTHROPIC, GEMINI, OLLAMA, QWEN, Way, judged
from tribunal.models.providers.event_stream import EventStream
from tribunal.models.providers.wire import MOST_TOKENS, UsageOnTheWire, read_count, read_usage

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
)
NAMES = (
    "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens", "promptTokenCount",
    "prompt_tokens_details", "cached_tokens", "prompt_eval_count", "eval_count", "cache_read_input_tokens",
)  # fmt: skip
ANY_USAGE = ANY_JSON | st.dictionaries(st.sampled_from(NAMES), ANY_JSON, max_size=6)


@given(ANY_USAGE)
def test_any_usage_is_whole_numbers_within_bounds_or_nothing(usage: Any) -> None:
    counts = read_usage(usage)
    for count in (counts.prompt, counts.answer):
        assert count is None or (isinstance(count, int) and 0 < count <= MOST_TOKENS)
    assert 0 <= counts.cached <= (counts.prompt or 0)


def numbers_in(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [each for part in value.values() for each in numbers_in(part)]
    if isinstance(value, list):
        return [each for part in value for each in numbers_in(part)]
    return [value] if isinstance(value, int | float) else []


@given(ANY_USAGE, st.sampled_from(["usage", "usageMetadata"]))
def test_any_usage_in_a_body_is_one_that_clients_can_read(usage: Any, name: str) -> None:
    body = UsageOnTheWire().clean_body({"id": "x", name: usage, "choices": [{"usage": usage}]})
    assert body["id"] == "x"
    assert all(
        isinstance(each, int) and 0 <= each <= 2 * MOST_TOKENS
        for each in numbers_in(body.get(name))
    )


@given(st.lists(ANY_USAGE, max_size=4))
@settings(max_examples=50)
def test_any_usage_in_a_stream_comes_once(usages: list[Any]) -> None:
    stream = EventStream("")
    raw = b""
    for usage in usages:
        event = {"id": "1", "choices": [{"index": 0, "delta": {"content": "x"}}], "usage": usage}
        raw += stream.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    raw += stream.feed(b"data: [DONE]\n\n") + stream.close()
    events = [
        json.loads(line[6:]) for line in raw.decode().splitlines() if line.startswith("data: {")
    ]
    assert sum("usage" in event for event in events) <= 1


@pytest.mark.parametrize(
    ("value", "count"),
    [(12, 12), (12.5, 12), ("12", 12), ("12.0", 12), (0, 0), (-200_000, None), (10**30, None), (float("nan"), None),
     (float("inf"), None), (True, None), ("many", None), ([], None), (None, None), (2**53, 2**53)],
)  # fmt: skip
def test_a_count(value: Any, count: int | None) -> None:
    assert read_count(value) == count


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5}, (10, 5, 0)),
        (
            {
                "input_tokens": 10,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 4.5},
            },
            (10, 5, 4),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 99},
            },
            (10, 5, 10),
        ),
        ({"promptTokenCount": 10, "candidatesTokenCount": "5"}, (10, 5, 0)),
        ({"prompt_eval_count": 10, "eval_count": 5}, (10, 5, 0)),
        ([], (None, None, 0)),
    ],
)
def test_both_families_of_names(usage: Any, counts: Any) -> None:
    assert read_usage(usage) == counts


def openai_body(usage: Any) -> Fault:
    message = {"role": "assistant", "content": json.dumps(GOOD)}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return Fault(
        200,
        raw=json.dumps(
            {"id": "1", "model": "scripted", "choices": choices, "usage": usage}
        ).encode(),
    )


def anthropic_body(usage: Any) -> Fault:
    content = [{"type": "text", "text": json.dumps(GOOD)}]
    body = {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "end_turn",
    }
    return Fault(200, raw=json.dumps({**body, "usage": usage}).encode())


def gemini_body(usage: Any) -> Fault:
    content = {"role": "model", "parts": [{"text": json.dumps(GOOD)}]}
    candidates = [{"content": content, "finishReason": "STOP", "index": 0}]
    return Fault(200, raw=json.dumps({"candidates": candidates, "usageMetadata": usage}).encode())


def ollama_body(usage: Any) -> Fault:
    message = {"role": "assistant", "content": json.dumps(GOOD)}
    body = {
        "model": "m",
        "created_at": "2026-01-01T00:00:00Z",
        "message": message,
        "done": True,
        "done_reason": "stop",
    }
    own = usage if isinstance(usage, dict) else {}
    counts = {
        "prompt_eval_count": own.get("prompt_tokens", usage),
        "eval_count": own.get("completion_tokens"),
    }
    return Fault(
        200,
        raw=json.dumps({**body, **counts}).encode() + b"\n",
        headers={"content-type": "application/x-ndjson"},
    )


WIRES = {"openai": (QWEN, openai_body), "anthropic": (ANTHROPIC, anthropic_body), "gemini": (GEMINI, gemini_body),
         "ollama": (OLLAMA, ollama_body)}  # fmt: skip
ABSURD: dict[str, Any] = {
    "missing": None, "a list": [], "text": "many", "negative": {"prompt_tokens": -200_000, "completion_tokens": -1},
    "huge": {"prompt_tokens": 10**30, "completion_tokens": 10**30}, "null": {"prompt_tokens": None},
    "nested": {"prompt_tokens": {"a": 1}, "completion_tokens": [1]}, "true": {"prompt_tokens": True},
}  # fmt: skip


@pytest.mark.parametrize("usage", ABSURD.values(), ids=ABSURD)
@pytest.mark.parametrize("wire", WIRES)
async def test_what_is_missing_or_absurd_is_estimated_and_marked(
    wire: str, usage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    way, body = WIRES[wire]
    record, _ = await judged(way, body(usage), monkeypatch)
    assert came_of(record) == ("verdict", None, 1)
    (call,) = record.calls
    assert call.estimated
    assert record.usage.estimated == 1
    assert 100 < call.prompt_tokens < 10_000
    assert 1 <= call.completion_tokens < 1_000


async def test_a_float_of_cached_tokens_costs_no_verdict() -> None:
    usage = {
        "prompt_tokens": 812.0,
        "completion_tokens": 7.5,
        "prompt_tokens_details": {"cached_tokens": 12.5},
    }
    record, _ = await classify(openai_body(usage))
    assert came_of(record) == ("verdict", None, 1)
    (call,) = record.calls
    assert (call.prompt_tokens, call.completion_tokens, call.cached_tokens, call.estimated) == (
        812,
        7,
        12,
        False,
    )


async def test_a_budget_is_no_looser_for_what_a_server_says() -> None:
    def script(request: Request) -> Fault:
        return openai_body({"prompt_tokens": -200_000, "completion_tokens": -200_000})

    async with ScriptedServer(script) as server:
        from tests.court import decide

        record = await decide(server, graph="arcade", max_tokens=500, rounds=1, attempts=1)
    assert record.usage.prompt_tokens > 0
    assert all(call.prompt_tokens > 0 for call in record.calls)


def streamed(way: Way, stream: EventStream, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    raw = (
        b"".join(stream.feed(b"data: " + json.dumps(event).encode() + b"\n\n") for event in events)
        + stream.close()
    )
    return [
        json.loads(line[6:]) for line in raw.decode().splitlines() if line.startswith("data: {")
    ]


def test_the_last_cumulative_value_of_a_stream_counts() -> None:
    chunk = {"id": "1", "choices": [{"index": 0, "delta": {"content": "x"}}]}
    events = [
        {**chunk, "usage": {"prompt_tokens": 9, "completion_tokens": count}} for count in (1, 2, 3)
    ]
    events.append({"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    usages = [
        event["usage"] for event in streamed(QWEN, EventStream(""), events) if "usage" in event
    ]
    assert [read_usage(each) for each in usages] == [(9, 3, 0)]


def test_anthropic_s_prompt_is_counted_where_only_the_first_event_says_it() -> None:
    events: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {"id": "1", "usage": {"input_tokens": 9, "output_tokens": 1}},
        },
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 5.0},
        },
        {"type": "message_stop"},
    ]
    usages = [
        event["usage"] for event in streamed(ANTHROPIC, EventStream(""), events) if "usage" in event
    ]
    assert [read_usage(each) for each in usages] == [(9, 5, 0)]
