"""A post in a message, where no verdict comes of it, and where what is answered holds markup."""

from __future__ import annotations

import os
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.court import court_script
from tests.doubles import Fault, Reply, ScriptedServer
from tests.openai_server import OpenAIServer
from tests.untyped import graph
from tribunal.core.text import escape_markdown
from tribunal.models.exam_results import ExamResult, keep_exam_results
from tribunal.settings.context import context_from
from tribunal.settings.environment import data_folder

MARKUP = (
    "![p](http://evil.test/p.png)", "[x](http://evil.test) [y][z] <http://evil.test>", "<img src=x onerror=alert(1)>",
    "&lt;script&gt; &#60;img&#62;", "# A heading", "> quoted", "*a* _b_ **c** ~~d~~ `e` $f$", "| a | b |\n|---|---|",
    "a\\![p](http://evil.test)", "```\nfence\n```", "\u202e![p](x)", "[z]: http://evil.test", "Setext\n#\n",
)  # fmt: skip
VIEWERS = [
    MarkdownIt("commonmark", {"html": html}).enable(["table", "strikethrough"])
    for html in (True, False)
]


async def answer(post: Any, name: str = "arcade", **script: Any) -> dict[str, Any]:
    """The state in which the case of a post in a message ends."""
    async with OpenAIServer(court_script(explicit=True, **script)):
        context = context_from({"model": "openai:scripted", "attempts": 1})
        done: dict[str, Any] = await graph(name).ainvoke({"messages": post}, context=context)
        return done


@pytest.mark.parametrize(
    ("reply", "head"),
    [
        (Reply(refusal="I can't help with that"), "**No verdict: the model refused**"),
        (Fault(500), "**No verdict: a call failed**"),
    ],
)
@pytest.mark.parametrize("part", ["gatekeeper", "indictment", "judge"])
async def test_what_is_no_verdict_is_told_as_what_it_is(part: str, reply: Any, head: str) -> None:
    """Whether it happens in the court itself or in one of its tracks."""
    done = await answer("a post", **{part: reply})
    assert [each["type"] for each in done["messages"]] == ["human", "ai"]
    told = done["messages"][1]["content"]
    assert told == f"{head}\n\n{escape_markdown(done['outcome']['explanation'])}"


async def test_a_dismissed_case_is_answered() -> None:
    done = await answer([("user", "a post")], "multiround", investigation={"cues": []})
    assert done["track"] == "dismissed"
    assert done["messages"][1]["content"].startswith("**Not hate speech (NotHate)**")


@pytest.mark.parametrize("words", MARKUP)
async def test_what_a_model_says_is_no_markup_in_the_answer(words: str) -> None:
    done = await answer("a post", judge={"explanation": words, "category": "Religious"})
    told = done["messages"][1]["content"]
    assert (
        told == f"**Hate speech (Religious)**\n\n{escape_markdown(done['outcome']['explanation'])}"
    )
    for viewer in VIEWERS:
        tokens = [inner for each in viewer.parse(told) for inner in [each, *(each.children or [])]]
        kinds = {each.type for each in tokens}
        assert kinds <= {
            "inline",
            "text",
            "softbreak",
            *(f"{each}_{end}" for each in ("paragraph", "strong") for end in ("open", "close")),
        }
        said = "".join(
            "\n" if each.type == "softbreak" else each.content
            for each in tokens
            if each.type != "inline"
        )
        assert words.replace("\u202e", "[U+202E]").strip() in said


@pytest.mark.parametrize("name", ["arcade", "baseline", "multiround"])
async def test_a_model_that_failed_its_exam_is_named_below_the_outcome(name: str) -> None:
    failed = ExamResult(
        model="openai:scripted", address="", at=0.0, told_apart=5, quoted=0, in_form=10
    )
    keep_exam_results(data_folder(), [failed])
    # at another address
    assert "failed the exam" not in (await answer("a post", name))["messages"][1]["content"]
    async with ScriptedServer(court_script(explicit=True)) as server:
        address = f"{server.url}/v1"
        keep_exam_results(data_folder(), [failed.model_copy(update={"address": address})])
        os.environ["OPENAI_BASE_URL"] = address
        done = await graph(name).ainvoke(
            {"messages": "a post"}, context=context_from({"model": "openai:scripted"})
        )
    *_, last = done["messages"][1]["content"].split("\n\n")
    assert last.startswith("unfit model: openai:scripted failed the exam")
