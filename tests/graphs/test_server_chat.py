"""A chat front end at the real dev server: it sends a message, shows the answer, and answers what waits for a person.

What is sent is what Agent Chat UI and the Agent Inbox send. docs/studio.md says in what they were tried.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, convert_to_messages
from PIL import Image

from tests import PROJECT

IMPLICIT, FRIENDLY = "Immigrants: the weeds in our garden.", "Good morning, everybody."
SERVED = list(json.loads((PROJECT / "langgraph.json").read_text())["graphs"])
OFFLINE = {"search": "none", "max_turns": 1}
pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


class Chat:
    """A conversation with one assistant. It sends what a person writes, and no context."""

    def __init__(self, client: Any, assistant: str, thread: str) -> None:
        self.client, self.assistant, self.thread = client, assistant, thread

    async def say(self, content: Any, **more: Any) -> dict[str, Any]:
        return await self._run(input={"messages": [{"type": "human", "content": content}]}, **more)

    async def answer(self, type: str, args: Any = None) -> dict[str, Any]:
        return await self._run(command={"resume": [{"type": type, "args": args}]})

    async def _run(self, **given: Any) -> dict[str, Any]:
        done: dict[str, Any] = await self.client.runs.wait(
            self.thread, self.assistant, raise_error=False, **given
        )
        return done


async def chat(client: Any, assistant: str) -> Chat:
    return Chat(client, assistant, (await client.threads.create())["thread_id"])


@pytest.fixture
async def reviewed(client: Any, url: str) -> AsyncIterator[Chat]:
    """With an assistant that has a reviewer see every hateful post: the one that docs/studio.md makes."""
    page = (PROJECT / "docs" / "studio.md").read_text("utf-8")
    [code] = [
        each
        for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        if "assistants.create" in each
    ]
    done: dict[str, Any] = {}
    await asyncio.to_thread(exec, code.replace("http://127.0.0.1:2024", url), done)
    yield await chat(client, done["made"]["assistant_id"])
    await client.assistants.delete(done["made"]["assistant_id"])


@pytest.mark.parametrize("name", SERVED)
async def test_a_post_in_a_message_is_judged_as_one_in_text_is_and_answered_in_a_message(
    client: Any, name: str
) -> None:
    context = OFFLINE if name in ("antihate", "web_then_debate") else {}
    talk = await chat(client, name)
    by_text = await client.runs.wait(None, name, input={"text": IMPLICIT}, context=context)
    assert "messages" not in by_text
    by_message = await talk.say(IMPLICIT, context=context)
    assert by_message["outcome"] == by_text["outcome"]
    assert by_message["post"] == by_text["post"]
    asked, told = by_message["messages"]
    assert (asked["type"], asked["content"]) == ("human", IMPLICIT)
    assert (told["type"], set(told)) == ("ai", {"type", "id", "content"})
    assert told["content"].startswith(
        "**Hate speech (" if by_text["outcome"]["hateful"] else "**Not hate speech ("
    )
    assert "Demo rules only" in told["content"]
    assert convert_to_messages(by_message["messages"])


async def test_each_message_is_a_post_of_its_own(client: Any) -> None:
    talk = await chat(client, "arcade")
    for post in (IMPLICIT, IMPLICIT, FRIENDLY):
        done = await talk.say(post)
    assert done["post"]["text"] == FRIENDLY
    assert [each["content"].split("\n")[0] for each in done["messages"]] == [
        IMPLICIT, "**Hate speech (OtherHate)**", IMPLICIT, "**Hate speech (OtherHate)**",
        FRIENDLY, "**Not hate speech (NotHate)**",
    ]  # fmt: skip
    history = await client.threads.get_history(talk.thread, limit=100)
    first = next(each for each in reversed(history) if each["values"].get("messages"))
    edited = {"messages": [{"type": "human", "content": FRIENDLY}]}
    forked = await client.runs.wait(
        talk.thread,
        "arcade",
        input=edited,
        checkpoint_id=first["parent_checkpoint"]["checkpoint_id"],
    )
    assert [each["type"] for each in forked["messages"]] == ["human", "ai"]
    assert forked["messages"][1]["content"].startswith("**Not hate speech")


async def test_a_thread_keeps_to_one_way_of_sending_posts(client: Any) -> None:
    talk = await chat(client, "baseline")
    await talk.say(IMPLICIT)
    done = await client.runs.wait(talk.thread, "baseline", input={"text": FRIENDLY})
    assert [each["content"].split("\n")[0] for each in done["messages"][2:]] == [
        FRIENDLY, "**Not hate speech (NotHate)**"
    ]  # fmt: skip
    refused = await talk.say(IMPLICIT)
    assert (
        "messages: this thread holds a post as text or image, and another"
        in refused["__error__"]["message"]
    )


def pictured(raw: bytes) -> dict[str, list[dict[str, Any]]]:
    """An image in each form of those who send one."""
    data = base64.b64encode(raw).decode()
    uri = f"data:image/png;base64,{data}"
    return {
        "OpenAI": [{"type": "image_url", "image_url": {"url": uri}}],
        "LangChain": [{"type": "image", "base64": data, "mime_type": "image/png"}],
        "older LangChain": [
            {"type": "image", "source_type": "base64", "data": data, "mime_type": "image/png"}
        ],
        "by its address": [{"type": "image", "url": uri}],
        "Agent Chat UI": [
            {"type": "image", "mimeType": "image/png", "data": data, "metadata": {"name": "a.png"}}
        ],
    }


async def test_an_image_in_a_message_is_taken_in_each_form_and_leaves_no_pixel_there(
    client: Any,
) -> None:
    out = io.BytesIO()
    Image.effect_noise((32, 32), 90).save(out, "PNG")
    for form, blocks in pictured(out.getvalue()).items():
        talk = await chat(client, "baseline")
        done = await talk.say([{"type": "text", "text": FRIENDLY}, *blocks])
        assert done["post"]["text"] == FRIENDLY, form
        assert done["post"]["image"]["sha256"] == hashlib.sha256(out.getvalue()).hexdigest(), form
        held = json.dumps((await client.threads.get_state(talk.thread))["values"])
        assert base64.b64encode(out.getvalue()).decode()[40:80] not in held, form
        again = await talk.say("And a good day.")
        assert (again["post"]["text"], again["post"]["image"]) == ("And a good day.", None), form
        assert HumanMessage(**again["messages"][0]).text.startswith(FRIENDLY)


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "text: there is neither a text nor an image"),
        ([{"type": "ai", "content": "hello"}], "text: there is neither a text nor an image"),
        ([{"type": "human", "content": " "}], "text: there is neither a text nor an image"),
        (5, "messages: '5': is no list of messages; give"),
        ([{"type": "human"}], "is no list of messages; give"),
        ([{"type": "martian", "content": "hello"}], "is no list of messages; give"),
        ([{"type": "human", "content": [{"type": "file", "data": "x"}]}], "messages: 'file': a post is text and"),
        ([{"type": "human", "content": [{"type": "image", "url": "data:a"}] * 2}], "messages: 2 images: a post"),
        ([{"type": "human", "content": [{"type": "image", "url": "/etc/passwd"}]}], "may not name a file on it"),
    ],
)  # fmt: skip
async def test_what_is_no_post_is_refused_in_one_line(
    client: Any, messages: Any, says: str
) -> None:
    done = await client.runs.wait(None, "arcade", input={"messages": messages}, raise_error=False)
    assert says in done["__error__"]["message"]
    assert "\n" not in done["__error__"]["message"]


async def test_a_reviewer_accepts(reviewed: Chat) -> None:
    stopped = await reviewed.say(IMPLICIT)
    [[request]] = [each["value"] for each in stopped["__interrupt__"]]
    assert all(
        name in request["config"]
        for name in ("allow_accept", "allow_edit", "allow_respond", "allow_ignore")
    )
    assert (
        "The categories: NotHate, Racist, Sexist, Homophobic, Religious, OtherHate"
        in request["description"]
    )
    assert stopped["messages"][-1]["content"].startswith("**Hate speech (OtherHate), uncertain**")
    done = await reviewed.answer("accept", request["action_request"])
    assert (done["review"]["action"], done["outcome"]["category"]) == ("accept", "OtherHate")
    assert done["messages"][-1]["content"].endswith("Accepted by a reviewer.")


async def test_a_reviewer_decides_otherwise(reviewed: Chat) -> None:
    await reviewed.say(IMPLICIT)
    changed = {"action": "decide", "args": {"category": "NotHate", "note": "quoted to condemn it"}}
    done = await reviewed.answer("edit", changed)
    assert (done["review"]["action"], done["outcome"]["category"]) == ("edit", "NotHate")
    assert done["messages"][-1]["content"] == (
        "**Not hate speech (NotHate)**\n\nquoted to condemn it\n\nDecided by a reviewer."
    )
    assert [each["type"] for each in done["messages"]] == ["human", "ai"]


async def test_what_the_inbox_sends_beside_an_answer_leaves_the_case_as_it_is(
    client: Any, reviewed: Chat
) -> None:
    """Its Ignore, which is not offered, is refused and the case waits; its Mark as Resolved ends it undecided."""
    await reviewed.say(IMPLICIT)
    refused = await reviewed.answer("ignore")
    assert "answer: type: 'ignore'" in refused["__error__"]["message"]
    assert (await client.threads.get_state(reviewed.thread))["next"] == ["review"]
    await client.threads.update_state(reviewed.thread, None, as_node="__end__")
    state = await client.threads.get_state(reviewed.thread)
    assert (state["next"], state["values"].get("review")) == ([], None)
    assert state["values"]["outcome"]["category"] == "OtherHate"


async def test_what_a_front_end_shows_as_markdown_holds_nothing_of_a_stranger_s(
    reviewed: Chat,
) -> None:
    post = f"![p](http://198.51.100.7/p.png) <img src=x> *{IMPLICIT}*"
    stopped = await reviewed.say(post)
    [[request]] = [each["value"] for each in stopped["__interrupt__"]]
    assert (
        r"\!\[p\](http\://198.51.100.7/p.png) \<img src=x\> \*Immigrants" in request["description"]
    )
    assert stopped["messages"][0]["content"] == post
