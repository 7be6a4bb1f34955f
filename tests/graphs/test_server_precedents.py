"""Precedents on the real `langgraph dev` server: shown in Studio's state, and the operator's to offer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.decided import store_of

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


async def test_a_client_has_the_precedents_that_the_operator_offers(
    client: Any, operator: Path
) -> None:
    await store_of(out=operator / "open")
    given = {"precedents": str(operator / "open" / "ours"), "precedents_k": 2}
    post = {"text": "They are the weeds in our garden."}
    state = await client.runs.wait(None, "tribunal", input=post, context=given)
    assert state["outcome"]["outcome"] == "verdict"
    assert [(each["id"], each["case"], each["category"]) for each in state["precedents"]] == [
        ("P1", "case-1", "Racist"),
        ("P2", "case-2", "NotHate"),
    ]
    for context, says in (
        ({"precedents": str(operator / "ours")}, "a client of this server may not set this"),
        (
            {**given, "precedents_k": 4},
            "precedents_k: '4': a client of this server may not set this",
        ),
    ):
        thread = await client.threads.create()
        run = await client.runs.create(thread["thread_id"], "tribunal", input=post, context=context)
        await client.runs.join(thread["thread_id"], run["run_id"])
        ended = await client.threads.get(thread["thread_id"])
        assert (ended["status"], says in str(ended)) == ("error", True), ended
    [assistant] = await client.assistants.search(graph_id="tribunal")
    drawn = await client.assistants.get_graph(assistant["assistant_id"])
    assert "find_precedents" in {node["id"] for node in drawn["nodes"]}
