"""The court as a tool of other agents: by itself, under a supervisor, and with an agent that was talked into things."""

from __future__ import annotations

import base64
import io
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI
from PIL import Image

import tribunal
from tests.court import court_script
from tests.doubles import Reply, Request
from tests.openai_server import OpenAIServer
from tribunal import trust
from tribunal.errors import BadInput
from tribunal.testing import Fault, ScriptedModel

POST = "Immigrants: the weeds in our garden."


def test_an_agent_is_told_what_it_needs_of_the_tool() -> None:
    tool = tribunal.as_tool()
    assert tool.name == "judge_post"
    assert "whether one social-media post is hate speech" in tool.description
    schema = tool.tool_call_schema.model_json_schema()  # type: ignore[union-attr]
    assert list(schema["properties"]) == ["text", "image", "language"]
    assert all(each["description"] for each in schema["properties"].values())
    assert "No file path" in schema["properties"]["image"]["description"]
    sarcasm = tribunal.as_tool(graph="mv_debate", task="sarcasm", name="is_sarcastic")
    assert (sarcasm.name, "post is sarcastic" in sarcasm.description) == ("is_sarcastic", True)
    assert tribunal.as_tool(description="Mine.").description == "Mine."


async def test_a_post_is_answered_in_one_line_with_the_record_behind_it() -> None:
    called = {
        "type": "tool_call",
        "id": "1",
        "name": "judge_post",
        "args": {"text": POST, "language": "en"},
    }
    for answer in (
        await tribunal.as_tool(rounds=1).ainvoke(called),
        tribunal.as_tool(rounds=1).invoke(called),
    ):
        assert isinstance(answer, ToolMessage)
        said = json.loads(str(answer.content))
        assert (said["outcome"], said["hateful"], said["category"]) == (
            "verdict",
            True,
            "OtherHate",
        )
        assert said["explanation"]
        assert "weeds" in said["cues"][0]["claim"]
        assert any("rehearsal" in each for each in said["warnings"])
        assert (answer.artifact["rounds"], answer.artifact["language_from"]) == (1, "given")
        json.dumps(answer.artifact)


def test_no_decision_has_no_label(scripted_model: ScriptedModel) -> None:
    scripted_model.answer("gatekeeper", Fault(status=401))
    said = json.loads(tribunal.as_tool().invoke({"text": "a post"}))
    assert said["outcome"] == "failure"
    assert "hateful" not in said
    assert "category" not in said


def picture() -> bytes:
    pixels = io.BytesIO()
    Image.effect_noise((32, 32), 90).save(pixels, "PNG")
    return pixels.getvalue()


def test_an_agent_names_no_file_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes a post may talk an agent into it; the operator's own calls name what they like."""
    (tmp_path / "post.png").write_bytes(picture())
    tool, paths = tribunal.as_tool(), ["/etc/passwd", "/no/such/file", str(tmp_path / "post.png")]
    [said] = {tool.invoke({"image": path}).replace(path, "PATH") for path in paths}
    assert said.startswith(
        "image: 'PATH': an agent may not name a file of this machine; send the image itself"
    )
    assert tribunal.judge(POST, image=paths[-1]).outcome == "verdict"
    uri = "data:image/png;base64," + base64.b64encode(picture()).decode()
    assert json.loads(tool.invoke({"text": POST, "image": uri}))["outcome"] == "verdict"
    monkeypatch.setenv("TRIBUNAL_ALLOW", f"image={tmp_path}/*")
    assert json.loads(tool.invoke({"text": POST, "image": paths[-1]}))["outcome"] == "verdict"


def test_on_a_server_the_tool_s_settings_are_the_operator_s(
    scripted_model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRIBUNAL_MODEL")
    monkeypatch.setattr(trust, "_serving", True)
    with pytest.raises(BadInput, match="a client of this server may not set this"):
        tribunal.judge("a post", graph="baseline", model="openai:scripted")
    tool = tribunal.as_tool(graph="baseline", model="openai:scripted")
    assert json.loads(tool.invoke({"text": "a post"}))["outcome"] == "verdict"
    assert len(scripted_model.told("classifier")) == 1
    assert "may not name a file" in tool.invoke({"image": "/etc/passwd"})


def calling(*calls: tuple[str, dict[str, Any]]) -> Reply:
    """A chat model's answer that calls tools."""
    wanted = [
        {
            "id": f"call-{n}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for n, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": wanted}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}
    return Reply(extra={"choices": [choice]})


async def test_an_agent_asks_the_court() -> None:
    """An agent puts two posts before the court at once, over the wire."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has moved
        from langgraph.prebuilt import create_react_agent

    court = court_script(explicit=True)
    posts = [{"text": "first-post-words"}, {"text": "second-post-words"}]
    moderating = iter(
        [calling(*(("judge_post", post) for post in posts)), Reply("moderator-words")]
    )

    def script(request: Request) -> Any:
        return next(moderating) if "tools" in request.body else court(request)

    async with OpenAIServer(script) as server:
        model = ChatOpenAI(
            model="scripted", base_url=f"{server.url}/v1", api_key="none", disable_streaming=True
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            agent = create_react_agent(
                model, [tribunal.as_tool(graph="arcade", model="openai:scripted")]
            )
        question: Any = {"messages": [("user", "Are these two hateful?")]}
        streamed: list[Any] = [
            each async for each in agent.astream(question, stream_mode="messages", subgraphs=True)
        ]
    first, second = [request for request in server.requests if "tools" in request.body]
    assert "is hate speech" in first.body["tools"][0]["function"]["description"]
    answers = [
        json.loads(each["content"]) for each in second.body["messages"] if each["role"] == "tool"
    ]
    assert [each["category"] for each in answers] == ["Religious", "Religious"]
    in_court = [request for request in server.requests if "tools" not in request.body]
    assert len(in_court) == 2 * 4
    assert all(sum(post["text"] in request.text for post in posts) == 1 for request in in_court)
    # What the court says to itself is no part of the agent's conversation.
    assert not any(
        "judge-words" in str(message.content)
        for _, (message, _) in streamed
        if message.type == "ai"
    )
