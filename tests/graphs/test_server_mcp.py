"""Every graph as a tool of the Model Context Protocol: what a real client finds at the real dev server, and calls."""

from __future__ import annotations

import ast
import json
from typing import Any

import httpx
import pytest
from mcp import Client

from tests import PROJECT
from tribunal.graphs import GRAPHS, graph

IMPLICIT = "Immigrants: the weeds in our garden."
SERVED = json.loads((PROJECT / "langgraph.json").read_text())["graphs"]
pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


async def test_every_graph_is_a_tool_that_says_what_it_does_and_takes(url: str) -> None:
    async with Client(f"{url}/mcp") as agent:
        tools = {tool.name: tool for tool in (await agent.list_tools()).tools}
    for name, served in SERVED.items():
        called = graph(name if name in GRAPHS else str(PROJECT / served["path"])).name
        tool = tools[called.replace(" ", "_")]
        assert tool.title == called
        assert tool.description == served["description"]
        assert len(tool.description or "") > 40
        taken = tool.input_schema
        assert taken["type"] == "object"
        assert list(taken["properties"]) == [
            "text",
            "image",
            "post_id",
            "language",
            "earlier",
            "appeal",
            "messages",
        ]
        assert all(each["description"] for each in taken["properties"].values())


async def test_an_agent_s_post_gets_its_verdict(url: str) -> None:
    async with Client(f"{url}/mcp") as agent:
        answer = await agent.call_tool("ARCADE_court", {"text": IMPLICIT})
    assert not answer.is_error
    [said] = answer.content
    state = ast.literal_eval(said.text)  # type: ignore[union-attr]
    assert (state["outcome"]["outcome"], state["outcome"]["hateful"]) == ("verdict", True)
    assert state["outcome"]["explanation"]


@pytest.mark.parametrize("given", [{"text": ""}, {"text": "hello", "image": "/etc/passwd"}])
async def test_a_post_that_is_refused_is_an_error_of_the_tool(
    url: str, given: dict[str, Any]
) -> None:
    async with Client(f"{url}/mcp") as agent:
        answer = await agent.call_tool("One-call_classifier", given)
    assert answer.is_error
    assert [said.text for said in answer.content] == ["BadInput"]  # type: ignore[union-attr]


async def test_by_this_way_too_a_client_sets_no_more_than_the_operator_allows(url: str) -> None:
    """LangGraph's server takes a context beside the arguments, which the protocol doesn't know."""
    params = {
        "name": "One-call_classifier",
        "arguments": {"text": "hello"},
        "context": {"model": "openai:gpt-4o"},
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with httpx.AsyncClient(timeout=60) as client:
        refused = await client.post(f"{url}/mcp", json=call, headers={"accept": "application/json"})
        params["context"] = {"mode": "zero-shot"}
        taken = await client.post(f"{url}/mcp", json=call, headers={"accept": "application/json"})
    assert refused.json()["result"]["isError"] is True
    assert "'category': " in taken.json()["result"]["content"][0]["text"]
