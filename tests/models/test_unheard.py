"""Where nobody listens by LangChain's callbacks, the same is sent and read as where somebody does."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler

from tests.court import court_script
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.models.classified import CUT, GOOD, png
from tests.provider_forms import sent_to
from tests.untyped import graph
from tribunal.docket.records import make_record
from tribunal.schema import JSON, Record
from tribunal.settings.context import context_from

ANSWER = '{"category": "Sexist", "explanation": "because"}'


async def told(
    listeners: list[Any], answers: Any, post: JSON, **settings: Any
) -> tuple[Record, list[Request]]:
    """A post through the one-call graph, with these listening: its record, and what was sent."""
    async with ScriptedServer(court_script(classifier=answers)) as server:
        model = sent_to(server, "openai")
        context = context_from(
            {"model": model, "attempts": 2, "timeout": 10, "max_output_tokens": 333, **settings}
        )
        state = await graph("baseline").ainvoke(post, {"callbacks": listeners}, context=context)
    return make_record(state, "baseline", context), server.requests


async def check_both(answers: Any, post: JSON, **settings: Any) -> Record:
    """Both ways, which must come to the same; gives the record."""
    (heard, asked), (alone, sent) = [
        await told(listeners, answers, post, **settings)
        for listeners in ([BaseCallbackHandler()], [])
    ]
    assert [request.body for request in sent] == [request.body for request in asked]
    assert [request.headers["authorization"] for request in sent] == [
        request.headers["authorization"] for request in asked
    ]
    assert came(alone) == came(heard)
    return alone


def came(case: Record) -> JSON:
    """A record, without what differs from run to run."""
    held = case.model_dump(mode="json")
    held["calls"] = [{**call, "id": "", "seconds": 0} for call in held["calls"]]
    return {
        name: held[name]
        for name in ("outcome", "category", "explanation", "fault", "warnings", "calls")
    }


@pytest.mark.parametrize("model", ["openai:scripted", "openai:o3"])
async def test_the_same_is_sent(tmp_path: Path, model: str) -> None:
    image = base64.b64encode(png(tmp_path).read_bytes()).decode()
    post = {"text": "a post", "image": f"data:image/png;base64,{image}"}
    alone = await check_both(
        [Reply("hm"), Reply(GOOD)], post, model=model, extra_body={"*": {"top_k": 3}}, trace=True
    )
    assert alone.calls[0].attempts == 2
    faults = [
        Fault(400, "response_format is not supported"),
        Fault(400, "system role is not supported"),
        Reply(CUT),
    ]
    await check_both([*faults, Reply(GOOD)], {"text": "a post"}, model=model)


def body(message: Any, **more: Any) -> Fault:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return Fault(200, body={"model": "served", "choices": [choice], **more})


def said(**message: Any) -> JSON:
    return {"role": "assistant", "content": ANSWER, **message}


USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}}
BODIES = {
    "the usual form": body(said(), usage=USAGE),
    "no usage": body(said()),
    "a usage without numbers": body(
        said(), usage={"prompt_tokens": None, "prompt_tokens_details": None}
    ),
    "a tier of service": body(said(), usage=USAGE, service_tier="priority"),
    "the default tier": body(said(), usage=USAGE, service_tier="default"),
    "an answer in parts": body(said(content=[{"type": "text", "text": ANSWER}]), usage=USAGE),
    "an answer taken for thoughts": body(said(content=None, reasoning_content=ANSWER)),
    "no words": body(said(content=None)),
    "no content": body({"role": "assistant"}),
    "a refusal": body(said(content=None, refusal="No.")),
    "a tool call": body(
        said(
            content="",
            tool_calls=[
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
        )
    ),
    "another role": body(said(role="user")),
    "no role": body({"content": ANSWER}),
    "no message": Fault(200, body={"choices": [{"index": 0}]}),
    "a choice that is none": Fault(200, body={"choices": ["so"]}),
    "two choices": Fault(
        200, body={"choices": [{"index": at, "message": said()} for at in (0, 1)]}
    ),
    "no model": Fault(
        200, body={"choices": [{"index": 0, "message": said(), "finish_reason": None}]}
    ),
    "no choices": Fault(200, body={"choices": []}),
    "an error beside an answer": body(said(), error={"message": "overloaded", "code": 529}),
    "no JSON": Fault(200, raw=b"<html>"),
    "half a character": body(said(content=ANSWER.replace("because", "\\ud800 so"))),
}


@pytest.mark.parametrize("answer", BODIES.values(), ids=BODIES)
async def test_the_same_is_read(answer: Fault) -> None:
    await check_both([answer], {"text": "a post"})


async def test_what_a_provider_had_in_its_cache_is_counted() -> None:
    for name in ("the usual form", "a tier of service"):
        [call] = (await check_both([BODIES[name]], {"text": "a post"})).calls
        assert (call.prompt_tokens, call.completion_tokens, call.cached_tokens, call.served) == (
            11,
            7,
            5,
            "served",
        )
