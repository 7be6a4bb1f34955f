"""A run that is cut at any of its calls goes on from its checkpoint, and repeats no call that was answered."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

from tests.court import AsyncScript, Script, court_script
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.doubles.web import Site, SitePage
from tests.golden.playing import Player
from tests.graphs.hybrid import hybrid_script
from tests.graphs.research_world import POST, World, html, researcher, world
from tests.where_heeded import where_heeded
from tribunal.context import Context, context_from
from tribunal.graphs import GRAPHS, builder
from tribunal.schema import JSON

_FILLER = [f"filler sentence number {number} is here." for number in range(40)]
PAGES: dict[str, SitePage | str] = {f"/{each}": html(f"evidence-{each} is here.", *_FILLER) for each in "abc"}
RESEARCH: JSON = {"max_turns": 2, "max_pages": 3, "window_tokens": 200, "window_overlap": 10}


@dataclass
class CutScript:
    """Answers by a script up to a call, at which it has the run cut once every call before is over."""

    script: Any
    cut_at: int = 0
    requests: int = 0
    replies: int = 0
    calls_over: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: Request) -> Reply | Fault:
        self.requests += 1
        if self.cut_at and self.requests >= self.cut_at and not self.released.is_set():
            if self.requests == self.cut_at:
                while self.calls_over < self.cut_at - 1:
                    await asyncio.sleep(0.005)
                await asyncio.sleep(0.05)  # until what the calls answered is saved
                self.reached.set()
            await self.released.wait()
            return Fault(status=500)
        self.replies += 1
        answer: Reply | Fault = self.script(request)
        return answer

    async def run(self, compiled: Any, post: JSON | None, context: Any, thread: str) -> JSON:
        """Run the graph until it ends or is cut; return its last state."""
        config: Any = {"configurable": {"thread_id": thread}}

        async def stream() -> JSON:
            last: JSON = {}
            streamed = compiled.astream(
                post, config, context=context, stream_mode=["custom", "values"], subgraphs=True, durability="sync"
            )
            async for place, mode, given in streamed:
                if mode == "custom" and given["event"] == "call":
                    self.calls_over += 1
                elif mode == "values" and not place:
                    last = given
            return last

        run = asyncio.create_task(stream())
        cut = asyncio.create_task(self.reached.wait())
        await asyncio.wait((run, cut), return_when=asyncio.FIRST_COMPLETED)
        if not run.done():
            run.cancel()
            with suppress(asyncio.CancelledError):
                await run
            self.released.set()
            return {}
        cut.cancel()
        return run.result()


@asynccontextmanager
async def scene(graph: str, **settings: Any) -> AsyncIterator[tuple[World, Context]]:
    """A model, the web, and the settings of a graph."""

    def hits(site: Site, query: str) -> list[dict[str, str]]:
        return [{"url": f"{site.url}/{query[-1]}", "title": "a page", "content": "a snippet"}]

    async with world(Player(), PAGES, hits) as it:
        os.environ["OPENAI_BASE_URL"] = f"{it.model.url}/v1"  # taken away again before the next test (conftest)
        of_the_world = {**it.settings, **RESEARCH, "model": "openai:scripted", "attempts": 1}
        yield it, context_from(where_heeded(graph, of_the_world, **settings))


async def run_with_cut(
    it: World, graph: str, context: Context, script: Any, saver: BaseCheckpointSaver[Any], cut_at: int
) -> tuple[int, JSON]:
    """Run a graph on a thread of its own, cut at a call (0: at none), and go on. Return the replies and the state."""
    it.model.script = counted = CutScript(script, cut_at)
    compiled = builder(graph).compile(checkpointer=saver)
    thread = f"cut at {cut_at}"
    state = await counted.run(compiled, {"text": POST}, context, thread)
    if cut_at:
        assert not state, "it was not cut"
        counted.reached = asyncio.Event()
        state = await counted.run(compiled, None, context, thread)
    return counted.replies, state
