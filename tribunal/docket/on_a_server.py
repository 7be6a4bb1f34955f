"""Graphs for a LangGraph server: their input is its clients', and each case is kept where the operator says so."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler
from langgraph.callbacks import GraphCallbackHandler, GraphInterruptEvent

from tribunal.docket.graph_run import is_in_graph_run
from tribunal.docket.keeping import keep_options
from tribunal.docket.record_rows import keep_record
from tribunal.docket.records import check_state, make_record
from tribunal.docket.trials import paused_state
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS, graph
from tribunal.graphs.untrusted import UntrustedGraph, untrusted_input
from tribunal.schema import JSON
from tribunal.settings.context import context_from

_LOG = logging.getLogger("tribunal")


def as_served(graph: Any) -> UntrustedGraph:
    """Return a compiled graph as `langgraph.json` should name it.

    Posts and settings come from the server's clients (`tribunal.untrusted`). If the operator has set TRIBUNAL_KEEP,
    each case is kept; a client can't change that.

        graph = tribunal.as_served(checked(builder).compile(name="…"))

    Raises:
        BadInput: it isn't a compiled `StateGraph`.
    """
    served = untrusted_input(graph)
    if os.environ.get("TRIBUNAL_KEEP", "").strip() in ("", "no"):
        return served
    return served.with_config(callbacks=[CaseKeeper()])


@dataclass
class _Run:
    """A run of a graph: its name, the state that its last node began with, and where it pauses."""

    graph: str
    state: JSON = field(default_factory=dict)
    pause: GraphInterruptEvent | None = None


class CaseKeeper(AsyncCallbackHandler, GraphCallbackHandler):
    """Keeps the case of each run of a graph when the run ends or waits for a person."""

    def __init__(self) -> None:
        """Begin with no run."""
        self._runs: dict[UUID, _Run] = {}

    async def on_chain_start(
        self,
        serialized: Any,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Remember the graph of a run, and what its nodes begin with: a run's outputs leave out some of its state."""
        if is_in_graph_run():  # whoever began it keeps its case
            return
        if "langgraph_node" not in (metadata or {}):
            self._runs[run_id] = _Run(str(more.get("name")))
        elif parent_run_id in self._runs and isinstance(inputs, dict) and "context" in inputs:
            self._runs[parent_run_id].state = inputs

    async def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Remember that a run has paused."""
        if event.run_id in self._runs:
            self._runs[event.run_id].pause = event

    async def on_chain_end(self, outputs: Any, *, run_id: UUID, **more: Any) -> None:
        """Keep the case that a run has ended with, or with which it waits for a person."""
        run = self._runs.pop(run_id, None)
        if run is None or not isinstance(outputs, dict) or (run.pause and not run.pause.interrupts):
            return
        request = run.pause.interrupts[0].value if run.pause else None
        try:
            await _keep_case(run.graph, run.state | outputs, request)
        except BadInput as error:
            _LOG.warning("this verdict could not be kept (%s)", error)
        except Exception as error:  # noqa: BLE001 (a client edits the state as it likes, and its run has its outcome)
            _LOG.warning("this verdict could not be kept (%s)", type(error).__name__)

    async def on_chain_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        """Forget a run that has failed: it has no outcome to keep."""
        self._runs.pop(run_id, None)


async def _keep_case(compiled_name: str, values: Any, request: Any) -> None:
    """Keep the case that a run of this graph has come to; `request` is what a person is asked, if it isn't over.

    Raises:
        BadInput: the case can't be kept.
        ValueError, TypeError, LookupError: the state holds something else than a case.
    """
    options = keep_options("studio")
    if options is None or not values.get("outcome"):  # it stopped before an agent, say
        return
    state = paused_state(values, request) if request is not None else check_state(values)
    case = (state.get("context") or {}).get("case")
    if not isinstance(case, str):
        return
    settings: JSON = state["context"]["settings"]
    name = next((each for each in GRAPHS if compiled_name == str(graph(each).name)), compiled_name)
    record = make_record(state | {"thread": None}, name, context_from(settings)).model_copy(
        update={"kept": case}
    )
    # The post as it was given: of one that came in a message, as it was taken in.
    image: JSON = state["post"].get("image") or {}
    given = {"text": state["post"]["text"], "image": image.get("ref")}
    post = {**{name: state.get(name) for name in ("post_id", "language", "earlier")}, **given}
    kept = await keep_record(options, record, post, settings)
    if kept.kept is None:
        _LOG.warning("%s", kept.warnings[-1])
