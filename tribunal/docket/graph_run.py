"""One run of a graph over a post, and whether its case is kept."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langchain_core.tracers.context import register_configure_hook
from langgraph.constants import TAG_NOSTREAM
from langsmith.utils import tracing_is_enabled

from tribunal.docket.records import make_record
from tribunal.docket.run_config import caller_config, merge_metadata
from tribunal.errors import BadInput, WrongState
from tribunal.graphs import GRAPHS
from tribunal.graphs import graph as graph_named
from tribunal.nodes.intake import name_post
from tribunal.nodes.verdict import failure_of
from tribunal.process.model_objects import object_names
from tribunal.prompts.policy import policy_in_force
from tribunal.schema import JSON, Record
from tribunal.settings.context import Context, refuse_configurable, refuse_stops

if TYPE_CHECKING:
    from tribunal.events import Listener

ATTEMPT = "__attempt"  # in a run's `configurable`; LangGraph stores no name that begins with `__`
# What a run notes in its state beside the channels of the graph, and no checkpoint holds.
NOTES = ("unseen_calls", "outcome_from")


def mask_traces() -> None:
    """Have LangSmith's traces of this process masked, if tracing is on and nobody has given LangSmith a client yet.

    Whoever has (`langsmith.configure(client=…)`) gives it `mask_trace` themselves.
    """
    if tracing_is_enabled():
        from langsmith.run_trees import get_cached_client

        from tribunal.tracing import mask_trace

        get_cached_client(anonymizer=mask_trace())


async def run_graph(
    compiled: Any,
    graph: str,
    given: Any,
    thread: str | None,
    listen: Listener | None,
    *,
    context: Context,
    config: RunnableConfig | None = None,
    attempt: int | None = None,
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
        config: what `caller_config` returns. The metadata by which a trace is found are added.
        attempt: the number of the attempt at the case.
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
    mask_traces()
    metadata: JSON = {"graph": graph}
    if isinstance(given, dict):
        metadata["post_id"] = await name_post(cast("Any", given), context)
        with suppress(BadInput):  # `receive` says what is wrong
            metadata["policy"] = (
                await policy_in_force(context.policy, context.policy_definition)
            ).sha
    run = merge_metadata(config, metadata)
    if thread is not None:
        run["configurable"] = {**run.get("configurable", {}), "thread_id": thread, ATTEMPT: attempt}
    modes = [
        "values",
        *(["custom"] if listen else []),
        *(["updates"] if graph not in GRAPHS else []),
    ]
    streamed = compiled.astream(
        given, run, context=context, stream_mode=modes, subgraphs=listen is not None, **how
    )
    last: JSON = {}
    unseen = UnseenCalls()
    before = _counter().set(unseen)
    try:
        async for *subgraph, mode, event in streamed:
            if mode == "custom" and listen is not None:
                listen(event)
            elif any(subgraph):
                continue
            elif mode == "values":
                last |= event
            elif node := next(
                (name for name, update in event.items() if _writes_outcome(update)), None
            ):
                last["outcome_from"] = node
    except WrongState as error:
        if thread is not None or "post" not in last:
            raise
        last["outcome"] = failure_of("wrong_state", f"{error} (graph {graph})")
    finally:
        _counter().reset(before)
    return last | {"unseen_calls": unseen.count}


def _writes_outcome(update: Any) -> bool:
    return isinstance(update, dict) and update.get("outcome") is not None


def check_configurable(config: Mapping[str, Any] | None, context: Context, graph: str) -> None:
    """Refuse settings in the `configurable` of a caller's config. That of a node of theirs is the config of its graph.

    Raises:
        BadInput: the first one, and how to give it.
    """
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    if isinstance(configurable, Mapping) and not configurable.get("checkpoint_ns"):
        models = graph not in GRAPHS or bool(object_names(dict(context)))
        refuse_configurable(configurable, None, models=models, as_keyword=True)


def agent_config(config: RunnableConfig) -> RunnableConfig:
    """Return what a tool's run takes of the config of the agent that calls it.

    A handler of the agent's hears every call; the words of our seats don't stream as the agent's own.
    """
    return merge_configs(caller_config(config), {"tags": [TAG_NOSTREAM]})


class UnseenCalls(BaseCallbackHandler):
    """Counts the calls of LangChain's models that `ask` did not make: they are in no record, no budget and no cost.

    `ask` says in the metadata of each of its calls for which seat and role it is. Every other call is unseen.
    """

    run_inline = True  # a count needs no thread of its own

    def __init__(self) -> None:
        """Begin at nothing."""
        self.count = 0

    def on_chat_model_start(self, serialized: Any, messages: Any, **more: Any) -> None:
        """Count the call of a chat model."""
        self.on_llm_start(serialized, messages, **more)

    def on_llm_start(
        self, serialized: Any, prompts: Any, *, metadata: dict[str, Any] | None = None, **more: Any
    ) -> None:
        """Count the call of a model of plain text."""
        self.count += not {"seat", "role"} <= (metadata or {}).keys()


def is_in_graph_run() -> bool:
    """Return whether this is called within `run_graph`, whose caller keeps the case."""
    return _counter().get() is not None


@cache
def _counter() -> ContextVar[UnseenCalls | None]:
    """Return the counter of the run that is under way, which LangChain gives to each model that it calls."""
    counter: ContextVar[UnseenCalls | None] = ContextVar("unseen calls", default=None)
    # Not inherited: a handler of the whole run would cost every node, and each model asks for it again anyway.
    register_configure_hook(counter, inheritable=False)
    return counter


async def judge_unreviewed(
    post: JSON,
    graph: str,
    context: Context,
    listen: Listener | None,
    config: RunnableConfig,
    warning: str,
) -> Record:
    """Decide a post that nobody can review; the record of one that should have been has this warning."""
    alone = (
        context.model_copy(update={"review": False, "review_rule": []})
        if context.review
        else context
    )
    state = await run_graph(
        graph_named(graph), graph, post, None, listen, context=alone, config=config
    )
    record = make_record(state, graph, alone)
    return (
        record.model_copy(update={"warnings": (*record.warnings, warning)})
        if context.review
        else record
    )
