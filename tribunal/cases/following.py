"""A compiled graph followed to where it comes to rest, its events heard as they happen."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from langchain_core.callbacks import AsyncCallbackManager
from langchain_core.runnables.config import var_child_runnable_config

from tribunal.context import Context
from tribunal.graphs import GRAPHS
from tribunal.graphs.straight import straight
from tribunal.schema import JSON
from tribunal.telling import Listener, told_to


async def follow(
    compiled: Any, graph: str, given: Any, run: JSON | None, listen: Listener | None, *, context: Context, **how: Any
) -> JSON:
    """Run a graph until it ends or waits.

    Args:
        compiled: the graph.
        graph: its name, or its file. One of a file may stream events of its own, which are heard as well.
        given: the post; what a person answered; None: from the last checkpoint.
        run: its config. Without one nobody can take the run up again, and it goes past LangGraph's loop where nobody
            traces it and the graph can (`tribunal.graphs.straight`).
        listen: is given every event as it happens.
        context: its settings.
        how: what else `astream` takes.

    Returns:
        its last state.
    """
    alone = straight(compiled) if run is None and not _watched() else None
    last: JSON = {}
    if alone is None and listen is not None and graph not in GRAPHS:
        modes = ["custom", "values"]
        streamed = compiled.astream(given, run, context=context, stream_mode=modes, subgraphs=True, **how)
        async for subgraph, mode, event in streamed:
            if mode == "custom":
                listen(event)
            elif not subgraph:
                last |= event
        return last
    with told_to(listen) if listen else nullcontext():
        if alone is not None:
            return await alone.run(given, context)
        # As `ainvoke`, which gathers every node's update too, and drops it.
        async for state in compiled.astream(given, run, context=context, stream_mode="values", **how):
            last |= state
    return last


def _watched() -> bool:
    """Whether a run that is begun here is part of another one, or somebody traces it: LangSmith, a debugger."""
    return var_child_runnable_config.get() is not None or bool(AsyncCallbackManager.configure().handlers)
