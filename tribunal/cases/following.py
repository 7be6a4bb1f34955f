"""A compiled graph followed to where it comes to rest, its events heard as they happen."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig

from tribunal.cases.run_config import root_config
from tribunal.cases.unseen_calls import counting_unseen_calls
from tribunal.context import Context
from tribunal.errors import WrongState
from tribunal.graphs import GRAPHS
from tribunal.heeding import refuse_stops
from tribunal.nodes.state_check import failure_of
from tribunal.schema import JSON
from tribunal.telling import Listener
from tribunal.tracing import mask_traces

_NOTES = ("unseen_calls", "outcome_from")


def notes_of_run(state: JSON) -> JSON:
    """Return what `follow` noted in a state beside the channels of the graph, which no checkpoint holds."""
    return {name: state[name] for name in _NOTES if name in state}


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
        its last state, with the number of calls that the graph made past `ask` (`unseen_calls`); and of a graph of
        one's own, which node wrote its outcome (`outcome_from`).

    Raises:
        BadInput: it is to stop before agents, and nobody waits here to go on.
        WrongState: a node can't read what another one or an edit left, and somebody can mend it and go on: the case has
            a `thread`. Any other case ends in a failure.
    """
    refuse_stops(context)
    last: JSON = {}
    mask_traces()
    run = await root_config(graph, given, context, config)
    if thread is not None:
        run["configurable"] = {"thread_id": thread}
    with counting_unseen_calls() as unseen:
        try:
            await _stream(compiled, graph, given, run, listen, context, last, how)
        except WrongState as error:
            if thread is not None or "post" not in last:
                raise
            last["outcome"] = failure_of("wrong_state", f"{error} (graph {graph})")
    return last | {"unseen_calls": unseen.count}


async def _stream(
    compiled: Any,
    graph: str,
    given: Any,
    run: RunnableConfig,
    listen: Listener | None,
    context: Context,
    last: JSON,
    how: JSON,
) -> None:
    """Stream a graph, and hold what it streams in `last`."""
    modes = ["values", *(["custom"] if listen else []), *(["updates"] if graph not in GRAPHS else [])]
    streamed = compiled.astream(given, run, context=context, stream_mode=modes, subgraphs=listen is not None, **how)
    async for *subgraph, mode, event in streamed:
        if mode == "custom" and listen is not None:
            listen(event)
        elif any(subgraph):
            continue
        elif mode == "values":
            last |= event
        elif node := next((name for name, update in event.items() if _writes_outcome(update)), None):
            last["outcome_from"] = node


def _writes_outcome(update: Any) -> bool:
    return isinstance(update, dict) and update.get("outcome") is not None
