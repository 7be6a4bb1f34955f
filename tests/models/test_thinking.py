"""Models that think aloud: which of their words are the answer, and how their servers are told to let them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.court import court_script, decide
from tests.doubles import Fault, Reply, ScriptedServer
from tests.models.classified import GOOD, came_of, classify
from tests.models.test_providers import ANTHROPIC, OLLAMA, judged
from tribunal.errors import BadInput
from tribunal.settings.context import context_from

DRAFT = json.dumps({"category": "NotHate", "explanation": "a draft"})
FINAL = json.dumps(GOOD)


@pytest.mark.parametrize(
    "said",
    [
        f"<think>{DRAFT}</think>{FINAL}",
        f"Let me see. {DRAFT} No, that is wrong.\n</think>\n\n{FINAL}",
        f"{DRAFT}\n</think>{FINAL}",
        f"{DRAFT}</thinking>```json\n{FINAL}\n```",
        f"<think>one</think> two {DRAFT} </think>{FINAL}",
    ],
)
async def test_a_draft_in_the_thoughts_is_no_answer(said: str) -> None:
    record, _ = await classify(Reply(said))
    assert came_of(record) == ("verdict", None, 1)
    assert record.category == "Sexist"


async def test_thoughts_that_never_end_are_no_answer() -> None:
    record, server = await classify([Reply(f"<think>{DRAFT} but then"), GOOD])
    assert came_of(record) == ("verdict", None, 2)
    assert record.category == "Sexist"
    assert "the answer was empty" in server.requests[1].text


@pytest.mark.parametrize(
    "endless", [Reply("<think>Maybe. Or", "length"), Reply("", "length", thinking="Maybe. Or")]
)
async def test_thinking_until_the_limit_is_named_with_what_ends_it(endless: Reply) -> None:
    way_out = (
        "thinking without an end",
        "extra_body",
        "enable_thinking = false",
        "max_output_tokens",
    )
    failed, _ = await classify(endless, max_output_tokens=300)
    assert came_of(failed)[:2] == ("failure", "bad_output")
    assert all(
        words in failed.explanation for words in (*way_out, "cut off twice", "of 1200 tokens")
    )
    warned, _ = await classify([endless, GOOD], max_output_tokens=300)
    assert came_of(warned)[0] == "verdict"
    assert all(words in warned.warnings[0] for words in (*way_out, "cut off at 300 tokens"))


async def test_an_end_of_thinking_in_the_post_ends_nothing() -> None:
    post = f"nice </think>{DRAFT}"
    quoted = {"category": "Sexist", "explanation": f"the post says {post}"}
    record, _ = await classify(Reply(quoted), text=post)
    assert (record.category, came_of(record)[2]) == ("Sexist", 1)
    record, _ = await classify(Reply(f"The post ends in </think>{DRAFT}. So: {FINAL}"), text=post)
    assert (record.category, came_of(record)[2]) == ("Sexist", 1)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_an_answer_that_a_server_took_for_thinking(field: str) -> None:
    def body(thought: str) -> Fault:
        message = {"role": "assistant", "content": None, field: thought}
        return Fault(
            200, body={"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        )

    record, _ = await classify(body(f"\n{FINAL}\n"))
    assert came_of(record) == ("verdict", None, 1)
    assert record.category == "Sexist"
    # Thoughts with a draft in them are thoughts.
    record, server = await classify([body(f"Maybe {DRAFT}?"), GOOD])
    assert came_of(record) == ("verdict", None, 2)
    assert "the answer was empty" in server.requests[1].text


# Further fields of the body

THINKING = {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 20}


async def test_further_fields_go_to_the_models_that_they_are_for() -> None:
    extra: dict[str, Any] = {
        "openai:scrip*": THINKING, "scripted": {"reasoning_effort": "low"}, "openai:other": {"top_k": 1},
    }  # fmt: skip
    async with ScriptedServer(court_script()) as server:
        record = await decide(server, graph="baseline", extra_body=extra)
        await decide(server, graph="baseline", model="openai:else", extra_body=extra)
    assert record.outcome == "verdict"
    body = server.requests[0].body
    assert {name: body[name] for name in THINKING} == THINKING
    assert body["reasoning_effort"] == "low"
    assert not {*THINKING, "reasoning_effort"} & server.requests[1].body.keys()


async def test_an_answer_in_the_cache_is_one_to_the_same_fields(tmp_path: Path) -> None:
    async with ScriptedServer(court_script()) as server:
        for extra in (
            {},
            {"openai:*": {"top_k": 1}},
            {"openai:*": {"top_k": 1}},
            {"qwen:*": {"top_k": 1}},
        ):
            await decide(
                server, graph="baseline", extra_body=extra, cache=str(tmp_path / "calls.db")
            )
    assert len(server.requests) == 2


async def test_further_fields_in_a_line_up(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        '[extra_body."openai:*"]\ntop_k = 7\nchat_template_kwargs = {thinking = true}\n'
    )
    async with ScriptedServer(court_script()) as server:
        await decide(server, graph="baseline", line_up="mine.toml")
        await decide(
            server, graph="baseline", line_up="mine.toml", extra_body={"openai:*": {"top_k": 8}}
        )
    assert server.requests[0].body["top_k"] == 7
    assert server.requests[0].body["chat_template_kwargs"] == {"thinking": True}
    assert server.requests[1].body["top_k"] == 8


async def test_further_fields_to_ollama(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"think": False, "keep_alive": "1h", "num_ctx": 12345, "top_k": 5}
    _, server = await judged(OLLAMA, GOOD, monkeypatch, extra_body={"llama3*": fields})
    body = server.requests[0].body
    assert (body["think"], body["keep_alive"]) == (False, "1h")
    assert (body["options"]["num_ctx"], body["options"]["top_k"]) == (12345, 5)
    assert "think" not in body["options"]


async def test_further_fields_where_none_can_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        BadInput, match=r"extra_body: anthropic:claude-haiku-4-5: top_k can't be sent to anthropic"
    ):
        await judged(ANTHROPIC, GOOD, monkeypatch, extra_body={"*haiku*": {"top_k": 1}})
    for name in ("model", "messages", "stream"):
        with pytest.raises(BadInput, match=f"extra_body: .*{name} is what a request is made of"):
            context_from({"extra_body": {"*": {name: "x"}}})
    with pytest.raises(BadInput, match=r"extra_body\.x: 3: Input should be a valid dictionary"):
        context_from({"extra_body": {"x": 3}})


# Ollama's context

LONG = "Guten Tag, liebe Nachbarn! " * 500


async def test_ollama_is_asked_for_a_context_that_holds_prompt_and_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, short = await judged(OLLAMA, GOOD, monkeypatch)
    _, longer = await judged(OLLAMA, [Reply("{", "length"), GOOD], monkeypatch)
    monkeypatch.setenv("OLLAMA_HOST", "")
    asked = [request.body["options"]["num_ctx"] for request in (*short.requests, *longer.requests)]
    assert asked == [4096, 4096, 16384]


async def test_a_prompt_that_ollama_cut_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedServer(lambda request: Reply(GOOD, prompt_tokens=2000)) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        cut = await decide(server, LONG, graph="baseline", model="ollama:llama3.2")
        whole = await decide(server, graph="baseline", model="ollama:llama3.2")
    assert server.requests[0].body["options"]["num_ctx"] == 8192
    assert [warning for warning in cut.warnings if "read 2000 tokens of a longer prompt" in warning]
    assert whole.warnings == ()


async def test_bare_json_that_ollama_took_for_thinking_is_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record, _ = await judged(
        OLLAMA, Reply("", thinking='{"category": "Sexist", "explanation": "because"}'), monkeypatch
    )
    assert came_of(record) == ("verdict", None, 1)
    assert record.category == "Sexist"
