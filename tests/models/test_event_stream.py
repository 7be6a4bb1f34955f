"""A streamed answer on its way to the client: no key, however it comes in pieces, no error and no early end unsaid."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tribunal.models.faults import read_fault
from tribunal.models.providers.event_stream import EventStream, HeldBackText
from tribunal.models.providers.wire import BrokenOff, NoAnswer

KEY = "Zq7Lm2xPd9Rt4wZk8vB1"


def delta(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more}


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def sent(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in events)


def read(raw: bytes, size: int) -> list[dict[str, Any]]:
    """The events that are passed on where they come in parts of this size."""
    stream = EventStream(KEY)
    given = (
        b"".join(stream.feed(raw[at : at + size]) for at in range(0, len(raw), size))
        + stream.close()
    )
    return [
        json.loads(block.partition(b"data: ")[2])
        for block in given.split(b"\n\n")
        if b"data: {" in block
    ]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(
        each["choices"][0]["delta"].get("content", "") for each in events if each.get("choices")
    )


@pytest.mark.parametrize("size", [1, 3, 64, 10_000])
@pytest.mark.parametrize("piece", [1, 2, 7, 50])
def test_a_key_in_pieces_is_struck_out_and_all_else_is_passed_on(size: int, piece: int) -> None:
    said = f'{{"a": "the {KEY}, it is", "b": "of {KEY}'
    deltas = [delta(said[at : at + piece], id=f"id-{KEY}") for at in range(0, len(said), piece)]
    events = read(sent(*deltas, END, {"choices": [], "usage": {"prompt_tokens": 3}}), size)
    assert text_of(events) == '{"a": "the [key], it is", "b": "of [key]'
    assert KEY[:10] not in json.dumps(events)
    assert [each["choices"][0]["finish_reason"] for each in events if each["choices"]][-1] == "stop"
    assert events[-1] == {"choices": [], "usage": {"prompt_tokens": 3, "total_tokens": 3}}


def test_words_are_passed_on_as_soon_as_they_are_whole() -> None:
    stream = EventStream(KEY)
    assert b"first " in stream.feed(sent(delta("first ")))
    assert b"sec" not in stream.feed(sent(delta("sec")))
    assert b"second " in stream.feed(sent(delta("ond ")))
    assert stream.feed(b": still here\n\n") == b": still here\n\n"


def test_a_last_event_may_hold_words_too() -> None:
    last = {"choices": [{"index": 0, "delta": {"content": "word"}, "finish_reason": "stop"}]}
    assert text_of(read(sent(delta("one "), last), 9)) == "one word"


def test_an_end_before_the_answer_s_own_is_said() -> None:
    for raw in (b"", sent(delta("half an ans")), sent(delta("half"))[:-5]):
        stream = EventStream(KEY)
        stream.feed(raw)
        with pytest.raises(BrokenOff):
            stream.close()


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"error": {"code": 503, "message": f"busy, {KEY}"}}, 503),
        ({"type": "error", "error": {"type": "overloaded_error", "message": KEY}}, 529),
        ({"type": "error", "error": {"type": "new_error", "message": KEY}}, None),
        ({"error": f"no: {KEY}"}, None),
    ],
)
def test_an_error_among_the_events_is_raised_without_the_key(
    event: dict[str, Any], code: int | None
) -> None:
    stream = EventStream(KEY)
    stream.feed(sent(delta("half an ans")))
    with pytest.raises(NoAnswer) as caught:
        stream.feed(sent(event))
    assert read_fault(caught.value).status == code
    assert KEY not in str(caught.value.body)


def test_lines_of_json() -> None:
    stream = EventStream(KEY, lines=True)
    lines = [
        {"message": {"content": piece}, "done": False} for piece in ("of ", KEY[:9], KEY[9:], " it")
    ]
    raw = b"".join(
        json.dumps(each).encode() + b"\n"
        for each in [*lines, {"message": {"content": ""}, "done": True}]
    )
    given = stream.feed(raw) + stream.close()
    assert (
        "".join(json.loads(line)["message"]["content"] for line in given.splitlines())
        == "of [key] it"
    )


def test_a_thought_and_an_answer_in_one_place_are_kept_apart() -> None:
    def part(text: str, **more: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"parts": [{"text": text, **more}]}}]}

    events = read(
        sent(part("hm", thought=True), part("so"), {"candidates": [{"finishReason": "STOP"}]}), 50
    )
    parts = [
        each["candidates"][0]["content"]["parts"][0]
        for each in events
        if "content" in each["candidates"][0]
    ]
    assert [(each["text"], each.get("thought", False)) for each in parts if each["text"]] == [
        ("hm", True),
        ("so", False),
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 50])
def test_pieces_of_any_size_make_the_same_text(size: int) -> None:
    text = f'{{"a": "x {KEY}, y\\n", "b": "\ud83d\ude00 [{KEY[:12]}] na\u00efve {KEY}z"}}\n'
    words = HeldBackText(KEY)
    given = (
        "".join(words.add_piece(text[at : at + size]) for at in range(0, len(text), size))
        + words.take_rest()
    )
    assert given == '{"a": "x [key], y\\n", "b": "\U0001f600 [[key]] na\u00efve [key]z"}\n'
