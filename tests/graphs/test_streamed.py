"""Whoever listens by `messages` hears every model's words as they come, and the case is the one that nobody heard."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pytest

from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.golden.playing import Player
from tests.provider_forms import FORMS, sent_to
from tests.untyped import graph
from tests.where_heeded import where_heeded
from tribunal.docket.records import make_record
from tribunal.docket.session import judge_post
from tribunal.graphs import GRAPHS
from tribunal.schema import JSON, Record
from tribunal.settings.context import Context, context_from

POST = "Immigrants: the weeds in our garden."
OF_EACH_KIND = ("tribunal", "arcade", "predict", "antihate", "mv_debate", "baseline")


class Spoken(NamedTuple):
    """One answer as it was heard: its chunks, and what stood beside each."""

    chunks: list[Any]
    beside: list[JSON]

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks)


async def heard(name: str, context: Context) -> tuple[Record, list[Spoken]]:
    """A case through a graph with somebody listening, and the answers that they heard."""
    spoken: dict[str, Spoken] = {}
    last: JSON = {}
    modes = ["messages", "custom", "values"]
    async for place, mode, given in graph(name).astream(
        {"text": POST}, context=context, stream_mode=modes, subgraphs=True
    ):
        if mode == "messages":
            chunk, beside = given
            of_one = spoken.setdefault(chunk.id, Spoken([], []))
            of_one.chunks.append(chunk)
            of_one.beside.append(beside)
        elif mode == "values" and not place:
            last = given
    return make_record(last, name, context), list(spoken.values())


def told(case: Record) -> JSON:
    """A record without what differs from run to run."""
    dumped = case.model_dump(mode="json")
    for call in dumped["calls"]:
        del call["id"], call["seconds"]
    if dumped["research"]:
        del dumped["research"]["run"]
    return {name: value for name, value in dumped.items() if name not in ("usage", "timestamp")}


def context_for(name: str, model: str) -> Context:
    world = {
        "search": "none",
        "max_turns": 1,
        "web": False,
        "perspectives": ["example-harm"],
        "rounds": 2,
    }
    return context_from(where_heeded(name, world, model=model, attempts=2, timeout=10))


@pytest.mark.parametrize(
    ("form", "name"),
    [("openai", name) for name in GRAPHS]
    + [
        pytest.param(form, name, marks=pytest.mark.long)
        for form in FORMS
        if form != "openai"
        for name in OF_EACH_KIND
    ],
)
async def test_who_listens_hears_every_word_and_changes_nothing(form: str, name: str) -> None:
    replies: list[str] = []

    def script(player: Player) -> Any:
        def said(request: Request) -> Reply | Fault:
            reply = player(request)
            assert isinstance(reply, Reply)
            replies.append(reply.text)
            return reply

        return said

    async with ScriptedServer(script(Player())) as server:
        model = sent_to(server, form)
        context = context_for(name, model)
        unheard = await judge_post(POST, graph=name, context=context)
        assert unheard.outcome == "verdict"
        # ChatOllama streams to itself where nobody listens.
        assert form == "ollama" or not any(streams(request) for request in server.requests)
        alone = len(server.requests)
        replies.clear()
        server.script = script(Player())
        case, spoken = await heard(name, context)
        assert all(streams(request) for request in server.requests[alone:])
    assert told(case) == told(unheard)
    assert Counter(each.text for each in spoken) == Counter(replies)
    assert all(len(each.chunks) > 2 for each in spoken)
    seats = Counter(call.seat for call in case.calls)
    assert Counter(each.beside[0]["seat"] for each in spoken) == seats
    assert all(
        beside["langgraph_node"] and beside["role"] for each in spoken for beside in each.beside
    )


def streams(request: Request) -> bool:
    """Whether a request asks for a stream."""
    return (
        bool(request.body.get("stream", request.protocol == "ollama")) or ":stream" in request.path
    )


@pytest.mark.parametrize("name", GRAPHS)
async def test_the_rehearsal_is_heard_word_by_word(name: str) -> None:
    context = context_for(name, "rehearsal")
    unheard = await judge_post(POST, graph=name, context=context)
    case, spoken = await heard(name, context)
    assert told(case) == told(unheard)
    assert len(spoken) == len(case.calls)
    assert all(len(each.chunks) > 2 for each in spoken)
