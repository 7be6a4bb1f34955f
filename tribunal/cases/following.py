"""A compiled graph followed to where it comes to rest, its events heard as they happen."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from tribunal.context import Context
from tribunal.graphs import GRAPHS
from tribunal.heeding import refuse_stops
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
        run: its config; None: nobody can take the run up again.
        listen: is given every event as it happens.
        context: its settings.
        how: what else `astream` takes.

    Returns:
        its last state.

    Raises:
        BadInput: it is to stop before agents, and nobody waits here to go on.
    """
    refuse_stops(context)
    last: JSON = {}
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
