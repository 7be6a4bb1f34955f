"""What a model call costs in counts, which no other process on the machine changes."""

from __future__ import annotations

import asyncio
import cProfile
import pstats
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import tribunal
from bench.arcade import TRACKS, posts
from bench.scripts import court
from bench.server import server
from bench.table import table
from tribunal.terminal import say

IN_FLIGHT = 16


def counts(quick: bool) -> None:
    """Python calls, what the event loop runs, and what LangGraph runs, each per model call."""
    from tribunal.graphs import graph

    say("### ARCADE: what is run per model call\n", lines=True)
    compiled = graph("arcade")
    counted = _counted(compiled, len(TRACKS) * (4 if quick else 40))
    with server(0.0, court):
        nodes, runs, asked = asyncio.run(_steps(compiled))
    say(f"{nodes / asked:.2f} nodes, in {runs / asked:.2f} graphs and subgraphs.\n", lines=True)
    head = ("Python calls", "event-loop handles", "asyncio tasks")
    table(head, [(f"{counted.python.total():,.0f}", *counted.of_the_loop)])
    rows = [(package, f"{number:,.0f}") for package, number in counted.python.most_common(7)]
    table(("package", "Python calls"), rows)


class _Counted(NamedTuple):
    """Counts of one model call."""

    python: Counter[str]
    of_the_loop: tuple[str, ...]


def _counted(compiled: Any, number: int) -> _Counted:
    loop = _Counting()
    with server(0.0, court), asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_follow(compiled, len(TRACKS), 1))
        loop.handles = loop.tasks = 0
        profile = cProfile.Profile()
        profile.enable()
        calls = runner.run(_follow(compiled, number, IN_FLIGHT))
        profile.disable()
    by_whom = _by_package(pstats.Stats(profile))
    python = Counter({whose: round(many / calls) for whose, many in by_whom.items()})
    return _Counted(python, (f"{loop.handles / calls:.2f}", f"{loop.tasks / calls:.2f}"))


def _by_package(profile: pstats.Stats) -> Counter[str]:
    """How many calls the functions of each package make up. What is built in counts as its caller's."""
    found: Counter[str] = Counter()
    functions: dict[Any, Any] = profile.stats  # type: ignore[attr-defined]
    for (file, _, _), (_, number, _, _, callers) in functions.items():
        if file != "~":
            found[_package(file)] += number
            continue
        for (caller, _, _), (_, times, *_) in callers.items():
            found[_package(caller)] += times
    return found


def _package(file: str) -> str:
    """Whose file it is."""
    if file.startswith(str(Path(tribunal.__file__).parent.parent)) and "site-packages" not in file:
        return "tribunal"
    within = file.rpartition("site-packages/")[2]
    return within.partition("/")[0] if within != file else "Python"


class _Counting(asyncio.SelectorEventLoop):
    """An event loop that counts what it is given to run."""

    handles = tasks = 0

    def call_soon(self, *given: Any, **named: Any) -> asyncio.Handle:  # type: ignore[override]
        self.handles += 1
        return super().call_soon(*given, **named)

    def create_task(self, *given: Any, **named: Any) -> asyncio.Task[Any]:
        self.tasks += 1
        return super().create_task(*given, **named)


async def _follow(compiled: Any, number: int, in_flight: int) -> int:
    """So many posts through a graph; gives how many model calls they took."""
    from tribunal.cases.graph_run import run_graph
    from tribunal.cases.records import graph_input
    from tribunal.context import context_from

    context, waiting = context_from({"model": "openai:scripted"}), posts(number)
    calls = 0

    async def seat() -> None:
        nonlocal calls
        for text in waiting:
            state = await run_graph(compiled, "arcade", await graph_input(text), None, None, context=context)
            calls += len(state["calls"])

    await asyncio.gather(*(seat() for _ in range(in_flight)))
    return calls


async def _steps(compiled: Any) -> tuple[int, int, int]:
    """How many nodes and graphs LangGraph runs for a post of each track, and how many model calls these take."""
    from tribunal.cases.records import graph_input
    from tribunal.context import context_from

    nodes = runs = calls = 0
    for text in posts(len(TRACKS)):
        given, context = await graph_input(text), context_from({"model": "openai:scripted"})
        places, asked = set(), set[str]()
        async for place, event in compiled.astream(given, None, context=context, stream_mode="tasks", subgraphs=True):
            places.add(place)
            nodes += "result" not in event
            asked |= {call["id"] for call in (event.get("result") or {}).get("calls") or []}
        runs, calls = runs + len(places), calls + len(asked)
    return nodes, runs, calls
