"""A streamed answer: its words as they come, its faults, and the servers that don't stream; in each provider's form."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from tests.court import PATIENCE, court_script
from tests.doubles import Answer, Fault, Reply, Request, ScriptedServer, in_order
from tests.models.classified import CUT, GOOD
from tests.provider_forms import FORMS, KEY, sent_to
from tests.untyped import graph
from tribunal.docket.records import make_record
from tribunal.docket.session import judge_post
from tribunal.models.ladder import MOST_TRIES
from tribunal.schema import JSON, Record
from tribunal.settings.context import Context, context_from

ANSWER = '{"category": "Sexist", "explanation": "because"}'
BEGUN = '{"category": "Sexist", "expl'


class Heard:
    """What somebody hears who listens to one post in the one-call graph.

    Attributes:
        case: its record.
        chunks: for each answer, by its id and in order of the first word, the chunks.
        events: what was streamed as `custom`.
    """

    case: Record

    def __init__(self) -> None:
        self.chunks: dict[str, list[Any]] = {}
        self.events: list[JSON] = []

    @property
    def texts(self) -> list[str]:
        """Each answer, its chunks joined."""
        return ["".join(chunk.text for chunk in chunks) for chunks in self.chunks.values()]


def settings(form: str, server: ScriptedServer, **more: Any) -> Context:
    model = sent_to(server, form)
    return context_from({"model": model, "attempts": 2, "timeout": 10, **more})


async def listen(context: Context) -> Heard:
    """Decide a post with somebody listening."""
    heard, last = Heard(), {}
    modes = ["messages", "custom", "values"]
    async for mode, given in graph("baseline").astream(
        {"text": "a post"}, context=context, stream_mode=modes
    ):
        if mode == "messages":
            heard.chunks.setdefault(given[0].id, []).append(given[0])
        elif mode == "custom":
            heard.events.append(given)
        else:
            last = given
    heard.case = make_record(last, "baseline", context)
    return heard


def came(case: Record) -> tuple[Any, ...]:
    """What came of a case, and what it cost."""
    kind = case.fault["kind"] if case.fault else None
    calls = [
        (each.attempts, each.format, each.prompt_tokens, each.completion_tokens, each.error)
        for each in case.calls
    ]
    return case.outcome, case.category, case.explanation, kind, calls, case.warnings


async def both(
    form: str, answers: list[Answer], **more: Any
) -> tuple[Heard, Record, list[Request]]:
    """The same post with somebody listening and without, and the requests that were sent for the listener."""
    async with ScriptedServer(court_script(classifier=answers)) as server:
        heard = await listen(settings(form, server, **more))
        requests = list(server.requests)
    async with ScriptedServer(court_script(classifier=answers)) as server:
        alone = await judge_post("a post", graph="baseline", context=settings(form, server, **more))
    return heard, alone, requests


by_form = pytest.mark.parametrize("form", FORMS)


@by_form
async def test_words_are_heard_before_the_answer_is_over(form: str) -> None:
    async with ScriptedServer(court_script(classifier=Fault(after=BEGUN, hang=True))) as server:
        context = settings(form, server, timeout=60)
        stream = graph("baseline").astream(
            {"text": "a post"}, context=context, stream_mode="messages"
        )
        async with asyncio.timeout(PATIENCE), aclosing(stream) as chunks:
            text = ""
            while not text:
                chunk, beside = await anext(chunks)
                text = chunk.text
    assert BEGUN.startswith(text)
    assert (beside["seat"], beside["role"], beside["langgraph_node"]) == (
        "classifier",
        "classifier",
        "classify",
    )


@by_form
async def test_an_answer_that_stops_halfway_takes_no_longer_than_one_that_never_begins(
    form: str,
) -> None:
    async with ScriptedServer(court_script(classifier=Fault(after=BEGUN, hang=True))) as server:
        heard = await listen(settings(form, server, attempts=1, timeout=0.3))
    assert heard.case.fault is not None
    assert heard.case.fault["kind"] == "timeout"


IN_THE_MIDDLE = [
    ("cut", Fault(drop=True, after=BEGUN), "connection"),
    ("overloaded", Fault(529, "overloaded", after=BEGUN), "server"),
    ("an error", Fault(500, "internal", after=BEGUN), "server"),
]


@by_form
@pytest.mark.parametrize(
    ("fault", "kind"), [case[1:] for case in IN_THE_MIDDLE], ids=[case[0] for case in IN_THE_MIDDLE]
)
async def test_a_fault_in_the_middle_is_tried_again_and_is_a_failure_of_its_kind(
    form: str, fault: Fault, kind: str
) -> None:
    heard, alone, requests = await both(form, [fault, Reply(GOOD)])
    assert came(heard.case)[:5] == (
        "verdict",
        "Sexist",
        "because",
        None,
        [(2, "json_schema", *tokens(alone), None)],
    )
    assert came(heard.case) == came(alone)
    assert len(heard.chunks) == len(requests) == 2
    assert BEGUN.startswith(heard.texts[0])
    assert heard.texts[1] == ANSWER
    heard, alone, requests = await both(form, [fault])
    assert (heard.case.outcome, len(requests)) == ("failure", 2)
    assert heard.case.fault is not None
    assert heard.case.fault["kind"] == kind
    assert alone.fault is not None
    assert alone.fault["kind"] == kind


def tokens(case: Record) -> tuple[int, int]:
    return case.calls[0].prompt_tokens, case.calls[0].completion_tokens


SAME = [
    ("an answer", [Reply(GOOD, prompt_tokens=11, completion_tokens=7)]),
    ("thoughts", [Reply(GOOD, thinking="Let me see. It is about women.")]),
    ("prose, then an answer", [Reply("It is certainly sexist."), Reply(GOOD)]),
    ("an empty answer", [Reply(""), Reply(GOOD)]),
    ("cut off by its limit", [Reply(CUT, "length"), Reply(GOOD)]),
    ("a refusal in words", [Reply("I'm sorry, but I can't help with that.")]),
    ("a refusal", [Reply("", refusal="No.")]),
    ("withheld", [Reply("", "content_filter")]),
    ("401", [Fault(401, "bad key")]),
    ("429, then an answer", [Fault(429, "slow down", headers={"retry-after": "0"}), Reply(GOOD)]),
    ("a format that isn't known", [Fault(400, "response_format is not supported"), Reply(GOOD)]),
    (
        "other scripts",
        [
            Reply(
                {"category": "Sexist", "explanation": "왜냐하면 \U0001f469‍\U0001f4bb\n„ja“ \\u0073"}
            )
        ],
    ),
]


@by_form
@pytest.mark.parametrize("answers", [case[1] for case in SAME], ids=[case[0] for case in SAME])
async def test_what_is_heard_changes_nothing(form: str, answers: list[Answer]) -> None:
    heard, alone, _ = await both(form, answers)
    assert came(heard.case) == came(alone)
    said = [each for each in answers if isinstance(each, Reply)]
    if not any(each.refusal for each in said):
        assert [text for text in heard.texts if text] == [each.text for each in said if each.text]


REFUSALS = [
    Fault(
        400, "Your organization must be verified to stream this model.", code="unsupported_value"
    ),
    Fault(400, "Unrecognized request argument supplied: stream_options"),
    Fault(422, "Extra inputs are not permitted: 'stream'"),
    Fault(405, "method not allowed"),
    Fault(501, "streaming is not implemented"),
]


@by_form
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda fault: fault.message)
async def test_a_server_that_refuses_to_stream_is_asked_for_whole_answers_from_then_on(
    form: str, refusal: Fault
) -> None:
    def script(request: Request) -> Answer:
        return refusal if streams(request) else Reply(GOOD)

    async with ScriptedServer(script) as server:
        context = settings(form, server)
        heard = await listen(context)
        assert heard.case.outcome == "verdict"
        # ChatOllama tells listeners of a whole answer as of a word, and LangChain tells it once more at its end.
        assert heard.texts == [ANSWER] * (2 if form == "ollama" else 1)
        assert [streams(request) for request in server.requests] == [True, False]
        assert (await listen(context)).case.outcome == "verdict"
        assert [streams(request) for request in server.requests] == [True, False, False]


@by_form
@pytest.mark.long
@pytest.mark.parametrize("status", [400, 404, 415, 422, 500])
async def test_a_server_that_refuses_to_stream_and_names_nothing(form: str, status: int) -> None:
    def script(request: Request) -> Answer:
        return Fault(status, "Not possible") if streams(request) else Reply(GOOD)

    async with ScriptedServer(script) as server:
        context = settings(form, server, attempts=4)
        assert (await listen(context)).case.outcome == "verdict"
        count = len(server.requests)
        assert (await listen(context)).case.outcome == "verdict"
    assert count <= MOST_TRIES + (status == 500)
    assert [streams(request) for request in server.requests[count:]] == [False]


def streams(request: Request) -> bool:
    return (
        bool(request.body.get("stream", request.protocol == "ollama")) or ":stream" in request.path
    )


@by_form
async def test_a_server_that_answers_whole_all_the_same(form: str) -> None:
    """It takes no heed of what asks for a stream, or doesn't know the form of one."""
    bodies: dict[str, JSON] = {
        "openai": {"choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}}], "usage": {
            "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
        "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": ANSWER}]}, "finishReason": "STOP"}],
                   "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}},
        "anthropic": {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                      "content": [{"type": "text", "text": ANSWER}], "usage": {"input_tokens": 3, "output_tokens": 2}},
        "ollama": {"model": "m", "message": {"role": "assistant", "content": ANSWER}, "done": True,
                   "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2},
    }  # fmt: skip
    async with ScriptedServer(lambda request: Fault(200, body=bodies[form])) as server:
        heard = await listen(settings(form, server))
    assert (heard.case.category, heard.texts, tokens(heard.case)) == ("Sexist", [ANSWER], (3, 2))


async def test_a_server_that_counts_no_tokens_of_a_stream_is_asked_for_whole_answers_from_then_on() -> (
    None
):
    def without(request: Request) -> Answer:
        request.body.pop("stream_options", None)  # as a server does that doesn't know it
        return Reply(GOOD, prompt_tokens=11, completion_tokens=7)

    async with ScriptedServer(without) as server:
        context = settings("openai", server)
        heard = [await listen(context) for _ in range(2)]
        assert [streams(request) for request in server.requests] == [True, False]
    assert [each.texts for each in heard] == [[ANSWER]] * 2
    assert tokens(heard[1].case) == (11, 7)


async def test_an_answer_that_a_server_took_for_thinking_is_heard_as_an_answer() -> None:
    async with ScriptedServer(lambda request: Reply("", thinking=ANSWER)) as server:
        heard = await listen(settings("openai", server))
    assert heard.case.category == "Sexist"
    assert heard.texts == [ANSWER]


@pytest.mark.parametrize("form", [form for form, (_, _, key, _) in FORMS.items() if key])
async def test_a_key_that_a_server_says_back_is_not_heard(form: str) -> None:
    said = {"category": "Sexist", "explanation": f"your key is {KEY}, I see"}
    heard, alone, _ = await both(form, [Reply(said, thinking=f"The key: {KEY}.")])
    assert KEY not in str(heard.chunks)
    assert "0123456789" not in str(heard.chunks) + str(heard.case)
    assert came(heard.case) == came(alone)
    assert "your key is [key], I see" in heard.texts[0]
    heard, alone, _ = await both(form, [Fault(500, f"wrong key {KEY}", after=BEGUN)])
    assert KEY not in str(heard.case) + str(heard.events)


async def test_nothing_is_streamed_from_the_cache() -> None:
    async with ScriptedServer(in_order([Reply(GOOD)])) as server:
        context = settings("openai", server, cache="answers.sqlite")
        first, second = await listen(context), await listen(context)
    assert (first.texts, second.texts) == ([ANSWER], [])
    assert second.case.calls[0].cached
