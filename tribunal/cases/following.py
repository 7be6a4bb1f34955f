"""A compiled graph followed to where it comes to rest, its events heard as they happen."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from langchain_core.runnables import RunnableConfig

from tribunal.cases.run_config import root_config
from tribunal.context import Context
from tribunal.graphs import GRAPHS
from tribunal.schema import JSON
from tribunal.telling import Listener, told_to
from tribunal.tracing import mask_traces


async def follow(
    compiled: Any,
    graph: str,
    given: Any,
    thread: str | None,
    listen: Listener | None,
    *,
    context: Context,
    config: RunnableConfig | None = None,
    **how: Any,
) -> JSON:
    """Run a graph until it ends or waits.

    Args:
        compiled: the graph.
        graph: its name, or its file. One of a file may stream events of its own, which are heard as well.
        given: the post; what a person answered; None: from the last checkpoint.
        thread: its thread on the graph's checkpointer; None: nobody can take the run up again.
        listen: is given every event as it happens.
        context: its settings.
        config: the caller's callbacks, tags and metadata.
        how: what else `astream` takes.

    Returns:
        its last state.
    """
    last: JSON = {}
    mask_traces()
    run = await root_config(graph, given, context, config)
    if thread is not None:
        run["configurable"] = {"thread_id": thread}
    if listen is not None and graph not in GRAPHS:
        modes = ["custom", "values"]
        streamed = compiled.astream(given, run, context=context, stream_mode=modes, subgraphs=True, **how)
        async for subgraph, mode, event in streamed:
            if mode == "custom":
                listen(event)
            elif not subgraph:
                last |= event
        return last
    with told_to(listen) if listen else nullcontext():
        # As `ainvoke`, which gathers every node's update too, and drops it.
        async for state in compiled.astream(given, run, context=context, stream_mode="values", **how):
            last |= state
    return last
