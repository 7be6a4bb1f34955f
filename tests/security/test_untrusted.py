"""Whoever embeds a graph says that its input is a client's: by `untrusted()`, or at the graph."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import tribunal
from tests.security.dangerous import assert_refused, dangerous
from tests.service.conftest import serving
from tests.service.live import sqlite
from tests.untyped import builder, graph
from tribunal import trust
from tribunal.docket.case_search import CaseFilter, find_cases
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS
from tribunal.graphs.untrusted import untrusted_input
from tribunal.pieces import Case, Context, PostInput, Ruling, receive, scan
from tribunal.settings.context import settings_of
from tribunal.store.engine import Store
from tribunal.testing import ScriptedModel

POST = {"text": "Good morning, everybody."}


@pytest.fixture(autouse=True)
def nothing_allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(trust.ALLOW, raising=False)
    (tmp_path / "log").write_text("a log of the operator's\n")


def graph_with(setting: dict[str, Any]) -> str:
    """A graph that has a setting."""
    [name] = setting
    return next(each for each in GRAPHS if name in settings_of(each).model_fields)


def pipeline() -> Any:
    """A graph of one's own, composed from pieces."""
    made = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
    made.add_node("receive", receive)
    made.add_node("scan", scan)
    made.add_edge(START, "receive")
    made.add_edge("receive", "scan")
    made.add_edge("scan", END)
    return made.compile(name="mine")


def parent_of(court: Any) -> Any:
    """A parent graph with a court as its node, which has the court's settings as its context."""
    made = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
    made.add_node("court", court)
    made.add_edge(START, "court")
    made.add_edge("court", END)
    return made.compile()


async def streamed(chunks: Any) -> None:
    async for _ in chunks:
        pass


async def edited(court: Any, run: Any, edit: dict[str, Any]) -> None:
    """Edit a case where a router reads it at once, and go on."""
    await court.aupdate_state(run, edit, as_node="open_case")
    await court.ainvoke(None, run)


# How an embedder may run a graph.
RUNS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "invoke": lambda court, how: court.invoke(POST, **how),
    "ainvoke": lambda court, how: asyncio.run(court.ainvoke(POST, **how)),
    "stream": lambda court, how: list(court.stream(POST, **how)),
    "astream": lambda court, how: asyncio.run(streamed(court.astream(POST, **how))),
    "astream_events": lambda court, how: asyncio.run(
        streamed(court.astream_events(POST, version="v2", **how))
    ),
    "batch": lambda court, how: court.batch([POST], **how),
    "abatch": lambda court, how: asyncio.run(court.abatch([POST], **how)),
    "with_config": lambda court, how: court.with_config(tags=["mine"]).invoke(POST, **how),
    "in a parent": lambda court, how: parent_of(court).invoke(POST, **how),
}


def refusal(run: Callable[[], Any]) -> str:
    with pytest.raises(BadInput) as refused:
        run()
    return str(refused.value)


@pytest.mark.parametrize("way", RUNS)
def test_an_untrusted_graph_refuses_what_a_client_may_not_set(
    way: str, scripted_model: ScriptedModel, tmp_path: Path
) -> None:
    for setting, value in dangerous(tmp_path):
        court = graph(graph_with(setting), untrusted=True)
        assert_refused(refusal(lambda: RUNS[way](court, {"context": setting})), setting, value)  # noqa: B023
    assert "may not name a file on it" in refusal(
        lambda: graph("arcade", untrusted=True).invoke({"image": "log"})
    )
    assert scripted_model.requests == []
    assert not (tmp_path / "out.sqlite").exists()


@pytest.mark.parametrize("way", RUNS)
def test_a_graph_of_one_s_own_is_untrusted_too(way: str, tmp_path: Path) -> None:
    setting = {"cache": str(tmp_path / "out.sqlite")}
    assert_refused(
        refusal(lambda: RUNS[way](untrusted_input(pipeline()), {"context": setting})),
        setting,
        setting["cache"],
    )
    assert_refused(
        refusal(
            lambda: RUNS[way](untrusted_input(parent_of(graph("arcade"))), {"context": setting})
        ),
        setting,
        setting["cache"],
    )
    assert not (tmp_path / "out.sqlite").exists()


async def test_a_server_of_one_s_own_passes_a_request_on(
    scripted_model: ScriptedModel, tmp_path: Path
) -> None:
    async def judge(request: Request) -> JSONResponse:
        sent = await request.json()
        try:
            with tribunal.untrusted():
                done = await graph(sent["graph"]).ainvoke(sent["post"], context=sent["context"])
        except BadInput as error:
            return JSONResponse({"detail": str(error)}, 422)
        return JSONResponse(done["outcome"])

    app = Starlette(routes=[Route("/judge", judge, methods=["POST"])])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://own"
    ) as client:

        async def asked(court: str, post: Any, context: Any) -> httpx.Response:
            return await client.post(
                "/judge", json={"graph": court, "post": post, "context": context}
            )

        for setting, value in dangerous(tmp_path):
            got = await asked(graph_with(setting), POST, setting)
            assert got.status_code == 422
            assert_refused(got.json()["detail"], setting, value)
        got = await asked("arcade", {"image": str(tmp_path / "log")}, {})
        assert "may not name a file on it" in got.json()["detail"]
        assert scripted_model.requests == []
        assert not (tmp_path / "out.sqlite").exists()
        got = await asked("arcade", POST, {"rounds": 1})
        assert got.json()["outcome"] == "verdict"
    assert not trust.for_clients()


async def test_the_service_refuses_the_same(scripted_model: ScriptedModel, tmp_path: Path) -> None:
    async with serving(sqlite(tmp_path / "database")) as client:
        for setting, value in dangerous(tmp_path):
            asked = {**POST, "graph": graph_with(setting), "settings": setting}
            got = await client.post("/v1/judge?wait=30", json=asked)
            assert got.status_code == 400, got.text
            assert_refused(got.json()["error"]["message"], setting, value)
        got = await client.post(
            "/v1/judge?wait=30", json={"image": str(tmp_path / "log"), "graph": "arcade"}
        )
        assert (got.status_code, "may not name a file" in got.text) == (400, True)
    assert scripted_model.requests == []
    assert not (tmp_path / "out.sqlite").exists()


async def test_entry_functions_take_a_client_s_post(
    scripted_model: ScriptedModel, tmp_path: Path
) -> None:
    for setting, value in dangerous(tmp_path):
        how = {"graph": graph_with(setting), "untrusted": True, **setting}
        with pytest.raises(BadInput) as refused:
            await tribunal.ajudge("Good morning.", **how)
        assert_refused(str(refused.value), setting, value)
        with pytest.raises(BadInput) as refused:
            await streamed(tribunal.trial("Good morning.", **how))
        assert_refused(str(refused.value), setting, value)
    with pytest.raises(BadInput, match="may not name a file on it"):
        await tribunal.ajudge(image=str(tmp_path / "log"), graph="arcade", untrusted=True)
    assert scripted_model.requests == []
    assert not (tmp_path / "out.sqlite").exists()
    assert (
        await tribunal.ajudge("Good morning.", graph="arcade", untrusted=True, rounds=1)
    ).outcome == "verdict"


@pytest.mark.parametrize(
    "how",
    [
        {
            "config": {
                "metadata": {"untrusted": False},
                "configurable": {"untrusted": False, "trust": True},
            }
        },
        {"config": {"tags": ["trusted"], "run_name": "operator", "callbacks": []}},
    ],
)
def test_no_request_undoes_it(how: dict[str, Any], tmp_path: Path) -> None:
    setting = {"cache": str(tmp_path / "out.sqlite")}
    post = {**POST, "untrusted": False, "context": {"settings": setting}}
    court = graph("arcade", untrusted=True)
    assert_refused(
        refusal(lambda: court.invoke(post, context=setting, **how)), setting, setting["cache"]
    )
    assert not (tmp_path / "out.sqlite").exists()


async def test_an_edit_and_a_resume_of_a_client_are_refused_too(
    scripted_model: ScriptedModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRIBUNAL_MODEL", "rehearsal")
    court = untrusted_input(builder("tribunal").compile(checkpointer=InMemorySaver()))
    image = {
        "ref": str(tmp_path / "log"),
        "sha256": "0" * 64,
        "mime": "image/png",
        "width": 1,
        "height": 1,
    }
    fields = settings_of("tribunal").model_fields
    for number, (setting, value) in enumerate(
        each for each in dangerous(tmp_path) if next(iter(each[0])) in fields
    ):
        run: Any = {"configurable": {"thread_id": str(number)}}
        await court.ainvoke(POST, run, context={"rounds": 1}, interrupt_before=["gatekeeper"])
        monkeypatch.setenv("TRIBUNAL_MODEL", "openai:scripted")
        with pytest.raises(BadInput) as refused:
            await court.ainvoke(None, run, context=setting)
        assert_refused(str(refused.value), setting, value)
        held = (await court.aget_state(run)).values
        terms = {**held["context"], "settings": {**held["context"]["settings"], **setting}}
        with pytest.raises(BadInput) as refused:
            await edited(court, run, {"context": terms})
        assert_refused(str(refused.value).removeprefix("context.settings: "), setting, value)
    run = {"configurable": {"thread_id": "image"}}
    await court.ainvoke(POST, run, interrupt_before=["gatekeeper"])
    held = (await court.aget_state(run)).values
    await court.aupdate_state(run, {"post": {**held["post"], "image": image}})
    with pytest.raises(BadInput, match="may not name a file on it"):
        await court.ainvoke(None, run)
    assert scripted_model.requests == []
    assert not (tmp_path / "out.sqlite").exists()


async def test_the_caller_stays_trusted_between_two_chunks(tmp_path: Path) -> None:
    court = graph("arcade", untrusted=True)
    assert {trust.for_clients() async for _ in court.astream(POST)} == {False}
    chunks = court.astream(POST)
    await anext(chunks)
    await chunks.aclose()
    assert not trust.for_clients()
    done = await graph("arcade").ainvoke(POST, context={"cache": str(tmp_path / "answers.sqlite")})
    assert done["outcome"]["outcome"] == "verdict"
    assert (tmp_path / "answers.sqlite").exists()


@pytest.mark.parametrize("way", [each for each in RUNS if each != "astream_events"])
def test_a_loaded_module_says_nothing_of_trust(
    way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process that has LangGraph's server installed and loaded is the operator's, as any other."""
    monkeypatch.setitem(sys.modules, "langgraph_api", ModuleType("langgraph_api"))
    monkeypatch.setenv("TRIBUNAL_KEEP", "yes")
    RUNS[way](graph("arcade"), {"context": {"cache": str(tmp_path / "answers.sqlite")}})
    assert (tmp_path / "answers.sqlite").exists()
    assert not (tmp_path / "data" / "service.sqlite").exists()


@pytest.mark.parametrize("way", [each for each in RUNS if each != "astream_events"])
def test_a_run_of_langgraph_s_server_is_a_client_s(way: str, tmp_path: Path) -> None:
    """Also where nobody said so: the run itself names its assistant."""
    setting = {"cache": str(tmp_path / "out.sqlite")}
    how = {
        "context": setting,
        "config": {"configurable": {"assistant_id": "a", "graph_id": "arcade"}},
    }
    assert_refused(refusal(lambda: RUNS[way](graph("arcade"), how)), setting, setting["cache"])
    assert not (tmp_path / "out.sqlite").exists()


@pytest.mark.parametrize("run", [{}, {"configurable": {"assistant_id": "a", "graph_id": "mine"}}])
async def test_the_settings_of_an_agent_s_tool_are_the_operator_s(run: Any, tmp_path: Path) -> None:
    tool = tribunal.as_tool(graph="baseline", cache=str(tmp_path / "answers.sqlite"))

    async def ask(state: Case) -> Case:
        return {"question": await tool.ainvoke({"text": "Good morning."})}

    made = StateGraph(Case)
    made.add_node("ask", ask)
    made.add_edge(START, "ask")
    made.add_edge("ask", END)
    done = await untrusted_input(made.compile()).ainvoke(POST, run)
    assert '"outcome": "verdict"' in done["question"]
    assert (tmp_path / "answers.sqlite").exists()


def test_only_a_compiled_graph_can_be_marked() -> None:
    with pytest.raises(BadInput, match=r"run it within tribunal\.untrusted\(\)"):
        untrusted_input(builder("arcade"))


async def test_a_served_graph_keeps_a_case_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRIBUNAL_KEEP", "yes")
    served = "import tribunal\nfrom tribunal.graphs.arcade import graph as court\ngraph = tribunal.as_served(court)\n"
    (tmp_path / "served.py").write_text(served)
    by_client = await graph("served.py:graph").ainvoke({**POST, "post_id": "by client"})
    assert by_client["outcome"]["outcome"] == "verdict"
    await tribunal.ajudge(
        "Good morning.", post_id="by command", graph="served.py:graph", model="rehearsal"
    )
    store = await Store.open(f"sqlite:///{tmp_path / 'data' / 'service.sqlite'}")
    try:
        kept = {
            name: await find_cases(store, CaseFilter(post_id=name))
            for name in ("by client", "by command")
        }
    finally:
        await store.close()
    assert {name: [row["via"] for row in rows] for name, rows in kept.items()} == {
        "by client": ["studio"], "by command": ["python"]
    }  # fmt: skip
