"""Model objects of the caller's: asked as named models are, and never in a state, a record or a cache."""

from __future__ import annotations

import asyncio
import gc
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

import tribunal
from tests.court import court_script
from tests.doubles import Fault, Reply, ScriptedServer
from tests.models.classified import GOOD, came_of
from tests.models.model_objects import (
    KEY,
    NAMES,
    Maker,
    close,
    make_anthropic,
    make_azure,
    make_google,
    make_ollama,
    make_openai,
    opened,
    own_model,
    scripted,
)
from tribunal.errors import BadInput
from tribunal.graphs import builder, graph
from tribunal.models import registry
from tribunal.models.providers.langchain import langchain_provider
from tribunal.models.registry import model_names
from tribunal.settings.context import Context, context_from, settings_for_record

by_class = pytest.mark.parametrize(
    "make", NAMES, ids=[name.partition(":")[0] for name in NAMES.values()]
)


# Over the wire


@pytest.mark.long
@by_class
def test_an_object_is_asked_as_the_model_of_its_class(make: Maker) -> None:
    with scripted(Reply(GOOD, prompt_tokens=11, completion_tokens=7), make) as (model, server):
        record = tribunal.judge("a post", graph="baseline", model=model, max_output_tokens=333)
    assert came_of(record) == ("verdict", None, 1)
    (request,) = server.requests
    assert (request.temperature, request.max_tokens, request.format) == (0.8, 333, "json_schema")
    assert request.schema is not None
    assert request.schema["properties"]["category"]["enum"][0] == "NotHate"
    assert [role for role, _ in request.messages] == ["system", "user"]
    assert "a post" in request.messages[1][1]
    (call,) = record.calls
    assert (call.model, call.model_class, call.key) == (NAMES[make], type(model).__name__, None)
    assert (call.temperature, call.format, call.attempts) == (0.8, "json_schema", 1)
    assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (11, 7)
    assert KEY not in record.model_dump_json()


@pytest.mark.long
# the two that keep their connections here
@pytest.mark.parametrize("make", [make_openai, make_google])
def test_four_calls_in_a_row_lose_no_request(make: Maker) -> None:
    with scripted(GOOD, make) as (model, server):
        records = [tribunal.judge("a post", graph="baseline", model=model) for _ in range(4)]
    assert [call.attempts for record in records for call in record.calls] == [1, 1, 1, 1]
    assert len(server.requests) == 4


@pytest.mark.long
@by_class
def test_a_server_error_is_tried_again_and_a_refused_form_is_asked_for_in_other_words(
    make: Maker,
) -> None:
    answers = [
        Fault(503, "overloaded"),
        Fault(400, "response_format is not supported: json_schema"),
        Reply(GOOD),
    ]
    with scripted(answers, make) as (model, server):
        record = tribunal.judge("a post", graph="baseline", model=model)
    assert came_of(record) == ("verdict", None, 3)
    assert [request.format for request in server.requests][:2] == ["json_schema"] * 2
    assert record.calls[0].format == ("tool_call" if make is make_anthropic else "json_object")


@pytest.mark.long
@by_class
def test_a_refusal_is_a_refusal(make: Maker) -> None:
    with scripted(Reply(refusal="I can't help with that."), make) as (model, _):
        record = tribunal.judge("a post", graph="baseline", model=model)
    assert record.outcome == "refusal"


@pytest.mark.long
@pytest.mark.parametrize("make", [make_openai, make_anthropic, make_google])
def test_a_key_is_struck_out_of_what_a_server_says(make: Maker) -> None:
    with scripted(Fault(401, f"wrong key {KEY}"), make) as (model, _):
        record = tribunal.judge("a post", graph="baseline", model=model, trace=True)
    assert came_of(record)[:2] == ("failure", "authentication")
    assert KEY not in record.model_dump_json()
    assert "[key]" in record.explanation


def test_azure_s_object_is_asked_at_its_own_address() -> None:
    with scripted(GOOD, make_azure) as (model, server):
        record = tribunal.judge("a post", graph="baseline", model=model)
    (request,) = server.requests
    assert request.path.partition("?")[0] == "/openai/deployments/mine/chat/completions"
    assert (request.format, request.temperature) == ("json_schema", 0.8)
    assert record.calls[0].model == "azure_openai:gpt-4o"


def test_an_object_keeps_its_own_fields_of_the_body() -> None:
    with scripted(GOOD, make_openai, extra_body={"top_k": 3}) as (model, server):
        tribunal.judge(
            "a post", graph="baseline", model=model, extra_body={"openai:gpt-4o": {"min_p": 0.1}}
        )
    body = server.requests[0].body
    assert (body["top_k"], body["min_p"]) == (3, 0.1)
    with scripted(GOOD, make_ollama) as (model, server):
        tribunal.judge("a post", graph="baseline", model=model)
    told = server.requests[0].body["options"]
    assert (told["num_ctx"], told["seed"], told["temperature"]) == (8192, 7, 0.8)


# A class that isn't known


def test_a_model_of_another_class_is_shown_the_form_in_words_and_keeps_its_own_settings() -> None:
    model = own_model(GOOD)
    record = tribunal.judge("a post", graph="baseline", model=model)
    assert came_of(record) == ("verdict", None, 1)
    assert model.options == [{}]  # the temperature stands in the field of the class
    system, human = (str(message.content) for message in model.shown[0])
    assert "Protected groups" in system
    assert "a post" in human
    assert '"explanation"' in human  # the form
    (call,) = record.calls
    assert (call.model, call.model_class, call.format) == ("ownmodel:mine", "OwnModel", "prompt")
    assert (call.temperature, call.wanted_temperature) == (0.8, 0.8)
    assert record.warnings == (
        "classifier: ownmodel:mine takes no limit of answers with a request, and keeps its own",
    )
    assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (11, 7)


def test_what_such_a_model_raises_is_tried_again_and_told_without_its_key() -> None:
    record = tribunal.judge(
        "a post", graph="baseline", model=own_model(ConnectionError(f"lost {KEY}"), GOOD)
    )
    assert came_of(record) == ("verdict", None, 2)
    record = tribunal.judge(
        "a post", graph="baseline", model=own_model(ConnectionError(f"lost {KEY}")), attempts=1
    )
    assert record.outcome == "failure"
    assert KEY not in record.model_dump_json()


def test_a_budget_holds_for_objects() -> None:
    with scripted(GOOD, make_openai) as (model, server):
        record = tribunal.judge("a post", graph="arcade", model=model, max_calls=1)
    assert len(server.requests) <= 2  # the judge's last word is always asked for
    assert record.usage.calls == len(server.requests)


# Seats


def test_each_seat_may_have_an_object_beside_named_models(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        ScriptedServer(court_script()) as named,
        ScriptedServer(court_script()) as own,
        opened(make_openai(own.url)) as model,
    ):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{named.url}/v1")
        record = tribunal.judge(
            "a post", graph="arcade", model="openai:scripted", seats={"judge": model}, rounds=2
        )
    assert [call.model for call in record.calls][-1] == "openai:gpt-4o"
    assert {call.model for call in record.calls[:-1]} == {"openai:scripted"}
    assert [call.model_class for call in record.calls][-2:] == [None, "ChatOpenAI"]
    assert len(own.requests) == 1


def test_two_objects_of_one_name_are_told_apart() -> None:
    first, second = ({"category": "NotHate", "explanation": each} for each in ("first", "second"))
    with scripted(first, make_openai) as (one, _), scripted(second, make_openai) as (other, _):
        records = [
            tribunal.judge("a post", graph="baseline", model=each) for each in (one, other, one)
        ]
    assert [record.explanation for record in records] == ["first", "second", "first"]
    assert {record.calls[0].model for record in records} == {"openai:gpt-4o"}


# Every way in from Python


async def test_the_ways_in_that_are_awaited() -> None:
    compiled = builder("baseline").compile(checkpointer=InMemorySaver())
    run: RunnableConfig = {"configurable": {"thread_id": "1"}}
    async with ScriptedServer(court_script(classifier=GOOD)) as server:
        model = make_openai(server.url)
        assert (await tribunal.ajudge("a post", graph="baseline", model=model)).outcome == "verdict"
        events = [event async for event in tribunal.trial("a post", graph="baseline", model=model)]
        said = await tribunal.as_tool(graph="baseline", model=model).ainvoke({"text": "a post"})
        settings: dict[str, Any] = {"model": model}
        state = await compiled.ainvoke({"text": "a post"}, run, context=Context(**settings))
        held = await compiled.aget_state(run)
        await close(model)
    assert isinstance(events[-1], tribunal.Record)
    assert events[-1].outcome == "verdict"
    assert json.loads(said)["outcome"] == "verdict"
    assert state["outcome"]["outcome"] == "verdict"
    assert held.values["context"]["settings"]["model"].startswith("object:openai:gpt-4o")
    assert len(server.requests) == 4


@pytest.mark.parametrize("wrap", [
    lambda model: model.bind(stop=["@@"]), lambda model: model.with_retry(),
    lambda model: model.with_fallbacks([model]), lambda model: [model], lambda model: [model, "openai:other"],
], ids=["bind", "retry", "fallbacks", "list", "list with a name"])  # fmt: skip
def test_any_runnable_is_asked_as_the_model_in_it(
    wrap: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with scripted(GOOD, make_openai) as (model, server):
        record = tribunal.judge("a post", graph="baseline", model=wrap(model))
    assert came_of(record) == ("verdict", None, 1)
    (request,) = server.requests
    assert (request.temperature, request.format) == (0.8, "json_schema")
    assert record.calls[0].model == "openai:gpt-4o"


def test_a_model_that_config_chooses_is_asked_by_a_tool_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from langchain.chat_models import init_chat_model

    with ScriptedServer(court_script(classifier=GOOD)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        model = init_chat_model(
            configurable_fields=("model", "model_provider"), max_retries=0,
            http_async_client=httpx.AsyncClient(headers={"Connection": "close"}),
        )  # fmt: skip
        record = tribunal.judge(
            "a post",
            graph="baseline",
            model=model,
            config={"configurable": {"model": "gpt-4o", "model_provider": "openai"}},
        )
    assert came_of(record) == ("verdict", None, 1)
    (request,) = server.requests
    assert request.model == "gpt-4o"
    assert [tool["function"]["name"] for tool in request.body["tools"]]
    assert (
        request.body["tool_choice"]["function"]["name"]
        == request.body["tools"][0]["function"]["name"]
    )
    assert record.calls[0].format == "tool_call"
    assert any("keeps its own" in each for each in record.warnings)


def test_a_key_in_config_reaches_the_model_and_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from langchain.chat_models import init_chat_model

    secret = "sk-configured-0123456789"
    with ScriptedServer(court_script(classifier=GOOD)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        model = init_chat_model(
            configurable_fields="any",
            max_retries=0,
            http_async_client=httpx.AsyncClient(headers={"Connection": "close"}),
        )
        chosen = {
            "model": "gpt-4o",
            "model_provider": "openai",
            "openai_api_key": secret,
            "thread_id": "another",
        }
        record = tribunal.judge(
            "a post", graph="baseline", model=model, keep=True, config={"configurable": chosen}
        )
    assert came_of(record) == ("verdict", None, 1)
    assert record.thread != "another"
    assert server.requests[0].headers["authorization"] == f"Bearer {secret}"
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(file.suffix == ".sqlite" for file in files)
    assert not any(secret.encode() in file.read_bytes() for file in files)


def test_fallbacks_of_another_class_are_asked_by_tools_and_the_one_that_answered_is_told() -> None:
    with (
        ScriptedServer(lambda request: Fault(400, "Invalid request")) as down,
        ScriptedServer(court_script(classifier=GOOD)) as up,
        opened(make_openai(down.url)) as first,
        opened(make_anthropic(up.url)) as second,
    ):
        record = tribunal.judge("a post", graph="baseline", model=first.with_fallbacks([second]))
    assert came_of(record)[0] == "verdict"
    assert "tools" in up.requests[0].body
    assert record.calls[0].format == "tool_call"


@pytest.mark.parametrize(
    ("name", "package", "kind", "key"),
    [("groq", "langchain_groq", "ChatGroq", "GROQ_API_KEY"),
     ("mistralai", "langchain_mistralai", "ChatMistralAI", "MISTRAL_API_KEY")],
)  # fmt: skip
def test_an_object_and_its_name_send_the_same_request(
    name: str, package: str, kind: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # its package isn't installed here
    stand_in = type(kind, (ChatOpenAI,), {"__module__": package})
    with ScriptedServer(court_script(classifier=GOOD)) as server:

        def make(endpoint: object = None) -> Any:
            # each call has an event loop of its own
            client = httpx.AsyncClient(headers={"Connection": "close"})
            return stand_in(
                model="m",
                base_url=f"{server.url}/v1",
                api_key=KEY,
                max_retries=0,
                http_async_client=client,
            )

        record = tribunal.judge("a post", graph="baseline", model=make())
        monkeypatch.setitem(registry.PROVIDERS, name, replace(langchain_provider(name), make=make))
        monkeypatch.setenv(key, KEY)
        named = tribunal.judge("a post", graph="baseline", model=f"{name}:m")
    assert [came_of(each) for each in (record, named)] == [("verdict", None, 1)] * 2
    first, second = server.requests
    assert first.body == second.body
    assert first.format == "json_schema"
    assert record.calls[0].model == f"{name}:m"


async def test_runs_at_a_time_have_their_own_objects() -> None:
    models = [
        own_model({"category": "NotHate", "explanation": f"own {number}"}) for number in range(5)
    ]
    records = await asyncio.gather(
        *(tribunal.ajudge("a post", graph="baseline", model=each) for each in models)
    )
    assert [record.explanation for record in records] == [f"own {number}" for number in range(5)]


def test_a_tool_that_can_t_be_awaited() -> None:
    with scripted(GOOD, make_openai) as (model, server):
        tool = tribunal.as_tool(graph="baseline", model=model)
        said = [json.loads(tool.invoke({"text": "a post"})) for _ in range(2)]
    assert [each["outcome"] for each in said] == ["verdict"] * 2
    assert len(server.requests) == 2


def test_a_graph_that_is_invoked_without_an_event_loop() -> None:
    with scripted(GOOD, make_openai) as (model, server):
        states = [
            graph("baseline").invoke({"text": "a post"}, context=Context(model=model))
            for _ in range(2)
        ]
    assert [call["attempts"] for state in states for call in state["calls"]] == [1, 1]
    assert len(server.requests) == 2


@pytest.mark.long
def test_nothing_holds_an_object_once_its_caller_lets_go_of_it() -> None:
    model = own_model(GOOD)
    context = context_from({"model": model})
    name = settings_for_record(context)["model"]
    tribunal.judge("a post", graph="baseline", model=model)
    del model, context
    gc.collect()
    with pytest.raises(BadInput, match="an object can't go to other processes"):
        model_names(name, "model")


# The cache


def test_a_cached_answer_is_found_again_by_another_object_of_the_same_make(tmp_path: Path) -> None:
    cache = str(tmp_path / "answers.sqlite")
    records = []
    with ScriptedServer(court_script(classifier=GOOD)) as server:
        for more in ({}, {}, {"top_p": 0.5}):
            with opened(
                make_openai(server.url, http_async_client=httpx.AsyncClient(), **more)
            ) as model:
                records.append(tribunal.judge("a post", graph="baseline", model=model, cache=cache))
    assert [record.calls[0].cached for record in records] == [False, True, False]
    assert KEY.encode() not in Path(cache).read_bytes()
