"""Traces: a handler given by `config=` hears every call, and LangSmith gets every call of every way in."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from PIL import Image

import tribunal
from tests import PROJECT
from tests.dev_server import dev_server
from tests.eval.experiments.small_sets import write_small
from tests.langsmith_server import KEY, LangSmithServer, TracedRun, langsmith_server
from tests.service.command import started
from tests.service.live import sqlite
from tribunal.errors import BadInput
from tribunal.eval.evaluate import Evaluation, evaluate
from tribunal.process.files import TRUST_DOTENV
from tribunal.runner.job import RunEngine, RunOptions
from tribunal.schema import Record
from tribunal.settings.environment import export_trusted_dotenv, read_dotenv
from tribunal.testing import Fault, ScriptedModel

POST = "Immigrants: the weeds in our garden."
OPENAI_KEY = "sk-proj-the-model-key-of-the-tests-0123456789"


class Listener(BaseCallbackHandler):
    """A handler of the caller's: it notes every run."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.roots: list[dict[str, Any]] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **more: Any) -> None:
        if more["parent_run_id"] is None:
            self.roots.append(more)

    def on_chat_model_start(self, serialized: Any, messages: Any, **more: Any) -> None:
        self.calls.append(more)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[LangSmithServer]:
    """A LangSmith server on loopback, for the processes that a test begins."""
    with langsmith_server() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
        yield server


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a person does."""
    command = [sys.executable, "-m", "tribunal", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})


def check_calls(server: LangSmithServer, calls: list[Any], **expected: Any) -> list[TracedRun]:
    """See that the server got each call of the records, each with what it is found by; return its roots."""
    seats = sorted(call["seat"] for call in calls)
    traced = server.wait_for_calls(len(calls))
    assert sorted(run.metadata["seat"] for run in traced) == seats
    for each in traced:
        assert each["run_type"] == "llm"  # a chat model of LangChain's
        assert each["name"].partition(", ")[0] == each.metadata["seat"]
        assert each.metadata["langgraph_node"]  # in a node that LangGraph ran
        assert each.metadata["post_id"]
        assert len(each.metadata["policy"]) == 16
        assert each.metadata["ls_provider"] in ("rehearsal", "openai")
        assert {name: each.metadata.get(name) for name in expected} == expected
    for secret in (KEY, OPENAI_KEY):
        assert not any(secret.encode() in body for body in server.bodies)
    return server.roots()


def check_root(root: TracedRun, **expected: Any) -> None:
    """See that a root run can be found by its graph, its post and its policy."""
    assert {name: root.metadata.get(name) for name in expected} == expected
    assert len(root.metadata["policy"]) == 16
    assert root.metadata["post_id"]


def table(folder: Path) -> Path:
    file = folder / "posts.csv"
    rows = [
        f"{name},{text},{label}"
        for name, text, label in (("a", POST, 1), ("b", "Good morning.", 0), ("c", "Hi", 0))
    ]
    file.write_text("\n".join(["id,text,label", *rows]) + "\n")
    return file


def test_a_handler_hears_every_call_of_a_post() -> None:
    listener = Listener()
    config: Any = {
        "callbacks": [listener],
        "tags": ["night"],
        "metadata": {"shift": 3},
        "run_name": "my post",
    }
    record = tribunal.judge(POST, graph="arcade", model="rehearsal", config=config)
    assert [call["metadata"]["seat"] for call in listener.calls] == [
        call.seat for call in record.calls
    ]
    names = [call["name"] for call in listener.calls]
    assert names[:3] == ["gatekeeper", "prosecutor, investigation", "defender, round 1"]
    assert names[-1] == "judge"
    [root] = listener.roots
    assert (root["name"], root["tags"]) == ("my post", ["night"])
    about = {
        "post_id": record.post_id,
        "graph": "arcade",
        "policy": record.policy["sha"],
        "shift": 3,
    }
    assert about.items() <= root["metadata"].items()
    assert all(about.items() <= call["metadata"].items() for call in listener.calls)


async def test_a_handler_hears_a_watched_post_a_decision_and_an_explanation() -> None:
    watched, waiting, explained = Listener(), Listener(), Listener()
    async for event in tribunal.trial(POST, model="rehearsal", config={"callbacks": [watched]}):
        record = event
    assert isinstance(record, Record)
    assert len(watched.calls) == len(record.calls)
    settings: Any = {
        "model": "rehearsal",
        "review": True,
        "review_rule": ["all"],
        "graph": "tribunal",
    }
    asked = await tribunal.ajudge(POST, **settings)
    answer = {"type": "response", "args": "is it about plants?", "reviewer": "kim"}
    again = await tribunal.adecide(str(asked.thread), answer, config={"callbacks": [waiting]})
    assert len(waiting.calls) == len(again.calls) - len(asked.calls) > 0
    told = await tribunal.aexplain(
        record, text=POST, told_to="poster", language="it", config={"callbacks": [explained]}
    )
    assert len(explained.calls) == sum(call["attempts"] for call in told.calls) > 0  # type: ignore[union-attr]
    assert explained.roots[0]["metadata"]["post_id"] == record.post_id


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ([], "config: list: is no config"),
        ({"callback": []}, "config: callback: LangChain's config has no such key"),
    ],
)
def test_a_wrong_config_is_refused(config: Any, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        tribunal.judge(POST, config=config)


class Agent(GenericFakeChatModel):
    """An agent's model by a script, which can be given tools."""

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self


def agent(tool: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain.agents import create_agent
    call = {"name": "judge_post", "args": {"text": POST}, "id": "1"}
    script = iter([AIMessage("", tool_calls=[call]), AIMessage("agent-words")])
    return create_agent(
        Agent(messages=script, disable_streaming=True), [tool], checkpointer=InMemorySaver()
    )


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
def test_an_agent_s_handler_hears_every_call_of_the_tool(how: str) -> None:
    listener, own = Listener(), Listener()
    tool = tribunal.as_tool(
        graph="arcade", model="rehearsal", config={"callbacks": [own], "tags": ["court"]}
    )
    config: Any = {
        "callbacks": [listener], "tags": ["shift-3"], "metadata": {"desk": "7"}, "configurable": {"thread_id": "1"}
    }  # fmt: skip
    question = {"messages": [("user", "Is this hateful?")]}
    if how == "invoke":
        answered = agent(tool).invoke(question, config)
    else:
        answered = asyncio.run(agent(tool).ainvoke(question, config))
    [answer] = [each for each in answered["messages"] if each.type == "tool"]
    seats = [call["seat"] for call in answer.artifact["calls"]]
    in_court = [call for call in listener.calls if "seat" in call["metadata"]]
    assert [call["metadata"]["seat"] for call in in_court] == seats
    assert len(listener.calls) == len(seats) + 2
    assert len(own.calls) == len(seats)
    assert all(
        call["metadata"]["desk"] == "7" and {"shift-3", "court"} <= {*call["tags"]}
        for call in in_court
    )
    assert len(listener.roots) == 1


async def test_what_the_court_says_is_not_streamed_as_the_agent_s() -> None:
    asked = agent(tribunal.as_tool(graph="arcade", model="rehearsal"))
    thread: Any = {"configurable": {"thread_id": "1"}}
    question = {"messages": [("user", "Is this hateful?")]}
    streamed = [
        each
        async for each in asked.astream(question, thread, stream_mode="messages", subgraphs=True)
    ]
    said = "".join(
        str(message.content)
        for _, (message, _) in streamed
        if message.type.startswith(("ai", "AI"))
    )
    assert said.replace(" ", "") == "agent-words"
    state = await asked.aget_state(thread)
    assert {*state.values} == {"messages"}


def test_a_handler_hears_every_call_of_an_evaluation(tmp_path: Path) -> None:
    listener = Listener()
    wanted = Evaluation(
        data=table(tmp_path), dataset="table", graph="arcade", settings={"model": "rehearsal"}
    )
    tally = evaluate(
        wanted, tmp_path / "night-run", config={"callbacks": [listener], "tags": ["night"]}
    )
    assert len(listener.calls) == tally.calls > 0
    assert {root["metadata"]["run"] for root in listener.roots} == {"night-run"}
    assert {root["metadata"]["post_id"] for root in listener.roots} == {"a", "b", "c"}
    assert all("night" in root["tags"] for root in listener.roots)
    with pytest.raises(BadInput, match="callbacks can't be handed to other processes"):
        evaluate(
            wanted,
            tmp_path / "two",
            RunOptions(engine=RunEngine(workers=2)),
            config={"callbacks": [listener]},
        )


def picture() -> str:
    pixels = io.BytesIO()
    Image.effect_noise((64, 64), 90).save(pixels, "PNG")
    return "data:image/png;base64," + base64.b64encode(pixels.getvalue()).decode()


@pytest.mark.long
def test_langsmith_gets_every_call_of_judge(traced: LangSmithServer, tmp_path: Path) -> None:
    file = tmp_path / "post.png"
    file.write_bytes(base64.b64decode(picture().partition(",")[2]))
    with ScriptedModel() as model:
        os.environ["OPENAI_BASE_URL"] = f"{model.url}/v1"
        asked = (
            "judge",
            POST,
            "--image",
            str(file),
            "--graph",
            "arcade",
            "--model",
            "openai:scripted",
            "--json",
        )
        record = json.loads(run(*asked).stdout)
        shown = [request for role in ("gatekeeper", "judge") for request in model.told(role)]
    assert shown
    [root] = check_calls(traced, record["calls"], graph="arcade")
    check_root(root, graph="arcade", post_id=record["post_id"], policy=record["policy"]["sha"])
    traced_whole = b"".join(traced.bodies)
    assert b"base64," not in traced_whole
    assert b"an image, whose base64 has the SHA-256" in traced_whole
    assert file.read_bytes()[20:] not in traced_whole


@pytest.mark.long
def test_a_key_that_a_server_echoes_is_not_in_the_trace(traced: LangSmithServer) -> None:
    with ScriptedModel() as model:
        os.environ["OPENAI_BASE_URL"] = f"{model.url}/v1"
        model.answer(
            "classifier", Fault(status=401, message=f"Incorrect API key provided: {OPENAI_KEY}")
        )
        command = [
            sys.executable,
            "-m",
            "tribunal",
            "judge",
            POST,
            "--graph",
            "baseline",
            "--model",
            "openai:scripted",
        ]
        subprocess.run(command, capture_output=True, check=False)
    [call] = traced.wait_for_calls(1)
    assert call["error"]
    assert not any(OPENAI_KEY.encode() in body for body in traced.bodies)


@pytest.mark.long
def test_langsmith_gets_every_call_of_eval(traced: LangSmithServer, tmp_path: Path) -> None:
    out = tmp_path / "night-run"
    run(
        "eval", "--dataset", "table", "--data", str(table(tmp_path)), "--out", str(out), "--graph", "arcade",
        "--model", "rehearsal", "--workers", "2",
    )  # fmt: skip
    results = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    roots = check_calls(
        traced,
        [call for each in results for call in each["calls"]],
        graph="arcade",
        run="night-run",
    )
    assert sorted(root.metadata["post_id"] for root in roots) == ["a", "b", "c"]


@pytest.mark.long
def test_langsmith_gets_every_call_of_batch(traced: LangSmithServer, tmp_path: Path) -> None:
    out = tmp_path / "decided.csv"
    run(
        "batch",
        str(table(tmp_path)),
        "--out",
        str(out),
        "--graph",
        "baseline",
        "--model",
        "rehearsal",
    )
    results = [
        json.loads(line)
        for line in (tmp_path / "decided.csv.run/results.jsonl").read_text().splitlines()
    ]
    calls = [call for each in results for call in each["calls"]]
    assert len(calls) == 3
    for root in check_calls(traced, calls, graph="baseline", run="decided.csv.run"):
        check_root(root, graph="baseline")


def calls_in(folder: Path) -> list[Any]:
    """Return every call in the results below a folder."""
    lines = [
        line
        for file in sorted(folder.rglob("results.jsonl"))
        for line in file.read_text().splitlines()
    ]
    return [call for line in lines for call in json.loads(line)["calls"]]


@pytest.mark.long
def test_langsmith_gets_every_call_of_an_experiment(
    traced: LangSmithServer, tmp_path: Path
) -> None:
    given = (
        "--data",
        str(write_small(tmp_path / "sets")),
        "--out",
        str(tmp_path / "runs"),
        "--samples",
        "2",
    )
    run("experiment", "run", "arcade-table8", *given, "--model", "rehearsal", "--yes")
    calls = Counter(call["seat"] for call in calls_in(tmp_path / "runs"))
    assert calls
    # The plan that a person is asked about is made by a rehearsal, whose calls are traced too.
    heard = traced.wait_for_calls(calls.total())
    assert Counter(call.metadata["seat"] for call in heard) >= calls
    assert all(call["run_type"] == "llm" and call.metadata["langgraph_node"] for call in heard)


@pytest.mark.slow
@pytest.mark.long
def test_langsmith_gets_every_call_of_ray(traced: LangSmithServer, tmp_path: Path) -> None:
    out = tmp_path / "decided.csv"
    asked = ("--graph", "baseline", "--model", "rehearsal", "--engine", "ray", "--workers", "1")
    run("batch", str(table(tmp_path)), "--out", str(out), *asked)
    calls = calls_in(tmp_path / "decided.csv.run")
    assert len(calls) == 3
    check_calls(traced, calls, graph="baseline")


@pytest.mark.long
async def test_langsmith_gets_every_call_of_serve(traced: LangSmithServer, tmp_path: Path) -> None:
    async with started(sqlite(tmp_path), "--graph", "arcade", "--set", "model=rehearsal") as served:
        answered = await served.client.post("/v1/judge?wait=30", json={"text": POST})
        record = answered.json()
    about = {"graph": "arcade", "case": answered.headers["Tribunal-Case"]}
    [root] = check_calls(traced, record["calls"], **about)
    check_root(root, graph="arcade", post_id=record["post_id"])


@pytest.mark.server
def test_langsmith_gets_every_call_of_the_langgraph_server(
    traced: LangSmithServer, tmp_path: Path
) -> None:
    from langgraph_sdk import get_sync_client

    tracing = {**traced.environment, "OPENAI_API_KEY": OPENAI_KEY}
    with dev_server(PROJECT, tmp_path, more=tracing) as url:
        given = {"text": POST, "image": picture()}
        with get_sync_client(url=url) as client:
            state: Any = client.runs.wait(
                None, "arcade", input=given, context={"model": "rehearsal"}
            )
        roots = check_calls(traced, state["calls"])
    [root] = [each for each in roots if each["name"] == "ARCADE court"]
    [receive] = [each for each in traced.runs("chain") if each["name"] == "receive"]
    assert receive["trace_id"] == root["trace_id"]
    check_root(receive, graph="arcade", post_id=state["post"]["id"], policy=state["policy"]["sha"])
    assert b"base64," not in b"".join(traced.bodies)


def test_langsmith_s_settings_in_a_trusted_dotenv_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (
        "LANGSMITH_TRACING",
        "LANGSMITH_API_KEY",
        "LANGCHAIN_API_KEY",
        "LANGSMITH_ENDPOINT",
    ):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("LANGSMITH_PROJECT", "set-outside")
    lines = "LANGSMITH_TRACING=true\nLANGSMITH_ENDPOINT=http://127.0.0.1:9/a\nLANGSMITH_API_KEY=mine\nOTHER=1\n"
    (tmp_path / ".env").write_text(f"{lines}LANGSMITH_PROJECT=posts\n")
    export_trusted_dotenv(read_dotenv())
    assert (os.environ["LANGSMITH_TRACING"], os.environ["LANGSMITH_ENDPOINT"]) == ("", "")
    monkeypatch.setenv(TRUST_DOTENV, "1")
    export_trusted_dotenv(read_dotenv())
    assert (os.environ["LANGSMITH_TRACING"], os.environ["LANGSMITH_API_KEY"]) == ("true", "mine")
    assert os.environ["LANGSMITH_ENDPOINT"] == "http://127.0.0.1:9/a"
    assert os.environ["LANGSMITH_PROJECT"] == "set-outside"
    assert "OTHER" not in os.environ


@pytest.mark.long
def test_a_command_traces_by_its_dotenv(tmp_path: Path) -> None:
    with langsmith_server() as server:
        (tmp_path / ".env").write_text(
            "".join(f"{name}={value}\n" for name, value in server.environment.items())
        )
        outside = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("LANGSMITH", "LANGCHAIN"))
        }
        command = [
            sys.executable,
            "-m",
            "tribunal",
            "judge",
            POST,
            "--graph",
            "baseline",
            "--model",
            "rehearsal",
        ]
        subprocess.run(command, env=outside, check=True, capture_output=True)
        assert server.bodies == []
        subprocess.run(command, env=outside | {TRUST_DOTENV: "1"}, check=True, capture_output=True)
        assert len(server.wait_for_calls(1)) == 1
