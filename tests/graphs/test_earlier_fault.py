"""Only the node that asked a model waits for its server. A node that reports an earlier outage ends the case."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from tribunal import pieces
from tribunal.errors import CallFailed
from tribunal.models.stops import PatientCalls, wait_for_answers

CALL = {"id": "1", "seat": "judge", "role": "judge", "model": "openai:m", "error": "server"}


@pytest.mark.parametrize(
    ("seat", "calls", "waits"),
    [
        pytest.param("judge", [CALL], True, id="asked here"),
        pytest.param("judge", [], False, id="asked by an earlier node"),
        pytest.param("", [], True, id="embeddings, which have no seat and no call"),
    ],
)
async def test_a_case_waits_only_where_running_the_node_again_helps(
    seat: str, calls: list[dict[str, Any]], waits: bool
) -> None:
    fault = CallFailed("HTTP 503", kind="server", seat=seat, role="judge", model="openai:m")
    fault.calls = calls

    @pieces.agent
    async def decide(state: pieces.Case) -> Any:
        raise fault

    builder = StateGraph(
        pieces.Case,
        context_schema=pieces.Context,
        input_schema=pieces.PostInput,
        output_schema=pieces.Ruling,
    )
    builder.add_node("receive", pieces.receive)
    builder.add_node("decide", decide)
    builder.add_edge(START, "receive")
    builder.add_edge("receive", "decide")
    graph = builder.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "case"}}
    with wait_for_answers(PatientCalls()):
        await graph.ainvoke(
            {"text": "Good morning."}, thread, context=pieces.Context(model="rehearsal")
        )
    state = await graph.aget_state(thread)
    assert bool(state.interrupts) == waits
    assert (state.values.get("outcome") or {}).get("outcome") == (None if waits else "failure")
