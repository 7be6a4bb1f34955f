"""A run that is cut at any of its calls goes on from its checkpoint, and repeats no call that was answered."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.court import Script, court_script
from tests.doubles import Fault, Reply, Request
from tests.doubles.web import Site, SitePage
from tests.golden.playing import Player
from tests.graphs.hybrid import hybrid_script
from tests.graphs.research_world import POST, World, html, researcher, world
from tests.openai_server import OpenAIServer
from tests.service.conftest import POSTGRES, new_postgres_database
from tests.untyped import builder
from tests.where_heeded import where_heeded
from tribunal.graphs import GRAPHS
from tribunal.nodes.peers import single_call
from tribunal.nodes.verdict import deliver
from tribunal.schema import JSON
from tribunal.settings.context import Context, context_from

_FILLER = [f"filler sentence number {number} is here." for number in range(40)]
# Each page has three windows, and is found by a query of its own.
PAGES: dict[str, SitePage | str] = {
    f"/{each}": html(f"evidence-{each} is here.", *_FILLER) for each in "abc"
}
SETTINGS: JSON = {
    "model": "openai:scripted", "attempts": 1, "perspectives": ["example-harm", "example-newsroom"], "max_turns": 2,
    "max_pages": 3, "rounds": 2, "window_tokens": 500, "window_overlap": 10,
}  # fmt: skip
SURE = {"category": "Religious", "explanation": "judge-words", "confidence": 0.9}


@dataclass
class CutScript:
    """Answers by a script up to a call. Then it has the run cut, once all calls before are over."""

    script: Script
    cut_at: int = 0
    requests: int = 0
    replies: int = 0
    calls_over: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    is_cut: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: Request) -> Reply | Fault:
        self.requests += 1
        if self.cut_at and self.requests >= self.cut_at and not self.is_cut.is_set():
            if self.requests == self.cut_at:
                while self.calls_over < self.cut_at - 1:
                    await asyncio.sleep(0.005)
                await asyncio.sleep(0.05)  # until what they answered is saved
                self.reached.set()
            await self.is_cut.wait()
            return Fault(status=500)
        self.replies += 1
        return self.script(request)

    async def run(
        self, compiled: Any, post: JSON | None, context: Context, **how: Any
    ) -> JSON | None:
        """Run a graph to its end, and return its last state; None where it was cut."""
        run = asyncio.create_task(self._stream(compiled, post, context, **how))
        reached = asyncio.create_task(self.reached.wait())
        await asyncio.wait((run, reached), return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        if run.done():
            return run.result()
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run
        self.is_cut.set()
        self.reached.clear()
        return None

    async def _stream(self, compiled: Any, post: JSON | None, context: Context, **how: Any) -> JSON:
        last: JSON = {}
        async for place, mode, given in compiled.astream(
            post,
            thread(self.cut_at),
            context=context,
            stream_mode=["custom", "values"],
            subgraphs=True,
            **how,
        ):
            if mode == "custom" and given["event"] == "call":
                self.calls_over += 1
            elif mode == "values" and not place:
                last = given
        return last


def thread(number: int) -> Any:
    """The config of a thread."""
    return {"configurable": {"thread_id": f"thread-{number}"}}


@asynccontextmanager
async def scene(graph: str, **settings: Any) -> AsyncIterator[tuple[World, Context]]:
    """A model and the web, and the settings of a graph."""

    def hits(site: Site, query: str) -> list[dict[str, str]]:
        return [{"url": f"{site.url}/{query[-1]}", "title": "a page", "content": "a snippet"}]

    async with world(Player(), PAGES, hits) as it:
        os.environ["OPENAI_BASE_URL"] = (
            f"{it.model.url}/v1"  # taken away again before the next test (conftest)
        )
        yield it, context_from(where_heeded(graph, {**it.settings, **SETTINGS}, **settings))


def answers_of(state: JSON) -> Counter[tuple[str, int, str | None]]:
    """The calls of a case, each by what was asked and how it ended."""
    return Counter((call["role"], call["draw"], call["error"]) for call in state["calls"])


async def check_cut(
    it: World,
    graph: str,
    context: Context,
    script: Script,
    saver: BaseCheckpointSaver[Any],
    cut_at: int,
    **how: Any,
) -> tuple[int, JSON]:
    """Cut a run at a call (0: at none), and go on on the same thread; return the replies and the last state."""
    it.model.script = counted = CutScript(script, cut_at)
    compiled = builder(graph).compile(checkpointer=saver)
    state = await counted.run(compiled, {"text": POST}, context, **how)
    if cut_at:
        assert state is None, "it was over before"
        state = await counted.run(compiled, None, context, **how)
    assert state is not None
    return counted.replies, state


def hybrid() -> Script:
    """The hybrid court with web research and a judge who is asked several times."""
    return hybrid_script(judge=SURE)


SEVERAL_CALLS: list[tuple[str, Callable[[], Script], JSON]] = [
    ("self_consistency", Player, {"draws": 8}),
    ("self_consistency", Player, {"draws": 3, "mode": "zero-shot"}),
    ("self_consistency", Player, {"draws": 5, "max_calls": 4}),
    ("arcade", lambda: court_script(judge=SURE), {"judge_draws": 5}),
    ("tribunal", hybrid, {"judge_draws": 3, "web": True, "max_turns": 1}),
    ("antihate", lambda: researcher(enough_at=2), {}),
    ("antihate", lambda: researcher(), {"mode": "no-details"}),
]
ROWS = [
    *SEVERAL_CALLS,
    *((name, Player, {}) for name in GRAPHS if name not in {row[0] for row in SEVERAL_CALLS}),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("graph", "script", "settings"), ROWS, ids=lambda value: value if str(value) == value else ""
)
async def test_no_answered_call_is_repeated(
    graph: str, script: Callable[[], Script], settings: JSON
) -> None:
    async with scene(graph, **settings) as (it, context):
        replies, uncut = await check_cut(it, graph, context, script(), InMemorySaver(), 0)
        for cut_at in range(1, replies + 1):
            again, state = await check_cut(it, graph, context, script(), InMemorySaver(), cut_at)
            assert (again, answers_of(state)) == (replies, answers_of(uncut)), f"cut at {cut_at}"
            assert state["outcome"]["outcome"] == uncut["outcome"]["outcome"]


@pytest.mark.parametrize("cut_at", [1, 4])
async def test_no_answered_draw_is_repeated(cut_at: int) -> None:
    async with scene("self_consistency", draws=8) as (it, context):
        replies, state = await check_cut(
            it, "self_consistency", context, Player(), InMemorySaver(), cut_at
        )
        assert (replies, len(state["calls"])) == (5, 5)
        assert len({call["id"] for call in state["calls"]}) == 5


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_any_checkpointer_keeps_the_answers(
    kind: str, durability: str, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        saver: BaseCheckpointSaver[Any]
        if kind == "sqlite":
            if version("langgraph-checkpoint-sqlite") == "3.0.2":
                pytest.skip(
                    "this release's own saver doesn't open with the aiosqlite that is locked"
                )
            saver = await stack.enter_async_context(
                AsyncSqliteSaver.from_conn_string(str(tmp_path / "steps.sqlite"))
            )
        else:
            server = os.environ.get(POSTGRES) or pytest.skip(
                f"no PostgreSQL: {POSTGRES} names none"
            )
            name = stack.enter_context(new_postgres_database(server))
            saver = postgres = await stack.enter_async_context(
                AsyncPostgresSaver.from_conn_string(f"{server}/{name}")
            )
            await postgres.setup()
        it, context = await stack.enter_async_context(scene("self_consistency", draws=8))
        replies, _ = await check_cut(
            it, "self_consistency", context, Player(), saver, 4, durability=durability
        )
        assert replies == 5


async def test_another_process_fetches_its_pages_again_and_asks_only_about_unread_windows() -> None:
    async with scene("antihate", max_turns=1) as (it, context):
        saver = InMemorySaver()
        replies, _ = await check_cut(it, "antihate", context, researcher(), saver, 0)
        it.model.script = counted = CutScript(researcher(), 8)
        compiled = builder("antihate").compile(checkpointer=saver)
        assert await counted.run(compiled, {"text": POST}, context) is None
        # What belongs to a process belongs to an event loop: another loop has fetched no page.
        state = await asyncio.to_thread(
            lambda: asyncio.run(compiled.ainvoke(None, thread(8), context=context))
        )
        assert (counted.replies, len(state["calls"])) == (replies, replies)


class CutError(Exception):
    """Ends a node after its calls."""


@pytest.fixture
def cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the node of the draws fail once, when all are made."""
    cuts = [CutError()]

    async def fail_first(*given: Any, **named: Any) -> JSON:
        if cuts:
            raise cuts.pop()
        return await deliver(*given, **named)

    monkeypatch.setattr(single_call, "deliver", fail_first)


ANSWER = {"explanation": "It says that they are weeds.", "category": "Religious"}


@pytest.mark.usefixtures("cut_once")
@pytest.mark.parametrize(
    ("first", "requests", "again"),
    [
        (Reply(ANSWER), 2, 0),
        (Reply(refusal="I decline."), 3, 0),
        (Reply("no JSON"), 4, 0),
        (Reply({**ANSWER, "explanation": "..."}), 3, 0),
        (Fault(status=400), 3, 0),
        (Fault(status=503), 3, 1),
    ],
    ids=["answered", "refused", "unreadable", "without a reason", "bad request", "unanswered"],
)
async def test_every_end_of_a_call_but_no_answer_is_saved(
    first: Reply | Fault, requests: int, again: int
) -> None:
    texts: list[str] = []

    def script(request: Request) -> Reply | Fault:
        # or asks again, with what was wrong
        is_about_first = not texts or len(request.text) > len(texts[0])
        texts.append(request.text)
        return first if is_about_first else Reply(ANSWER)

    settings = {"model": "openai:scripted", "attempts": 1, "draws": 3}
    async with OpenAIServer(script):
        compiled = builder("self_consistency").compile(checkpointer=InMemorySaver())
        with pytest.raises(CutError):
            await compiled.ainvoke({"text": POST}, thread(1), context=settings)
        assert len(texts) == requests
        state = await compiled.ainvoke(None, thread(1), context=settings)
        assert len(texts) == requests + again
        assert state["outcome"]["outcome"] == "verdict"
        assert len({call["id"] for call in state["calls"]}) == len(state["calls"])


@pytest.mark.usefixtures("cut_once")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_graph_without_an_event_loop_saves_them_too(kind: str, tmp_path: Path) -> None:
    script = CutScript(Player())
    async with OpenAIServer(script):
        connection = sqlite3.connect(tmp_path / "cases.sqlite", check_same_thread=False)
        saver: BaseCheckpointSaver[Any] = (
            InMemorySaver() if kind == "memory" else SqliteSaver(connection)
        )
        compiled = builder("self_consistency").compile(checkpointer=saver)
        settings = {"model": "openai:scripted", "draws": 8}
        with pytest.raises(CutError):
            await asyncio.to_thread(compiled.invoke, {"text": POST}, thread(1), context=settings)
        state = await asyncio.to_thread(compiled.invoke, None, thread(1), context=settings)
        connection.close()
    assert (script.replies, len(state["calls"])) == (5, 5)


@pytest.mark.usefixtures("cut_once")
async def test_a_run_that_may_do_one_thing_at_a_time_comes_to_its_end() -> None:
    async with OpenAIServer(Player()):
        compiled = builder("self_consistency").compile(checkpointer=InMemorySaver())
        config = {**thread(1), "max_concurrency": 1}
        settings = {"model": "openai:scripted", "draws": 8}
        with pytest.raises(CutError):
            await compiled.ainvoke({"text": POST}, config, context=settings)
        state = await compiled.ainvoke(None, config, context=settings)
    assert len(state["calls"]) == 5
