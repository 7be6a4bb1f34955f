"""A case on a checkpointer: run until it ends or waits for a person, and looked at; for the docket and the service."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.types import Command, Interrupt

from tribunal.cases.following import follow
from tribunal.cases.shape import checked_request, checked_state
from tribunal.context import Context, context_from
from tribunal.graphs import builder
from tribunal.nodes.court.case import review_reason
from tribunal.schema import JSON, Review
from tribunal.telling import Listener

# How far a case is, by its checkpoints: before its first; in a trial; before a person; at its end.
Standing = Literal["unbegun", "under_way", "waiting", "over"]


class Looked(NamedTuple):
    """How far a case is, its state, and what a person is asked where it waits for one.

    The state of one that waits holds what they are to look at (`waits`), and why (`review`).
    """

    standing: Standing
    state: JSON
    question: Interrupt | None = None


class Threads:
    """Cases on one checkpointer, each under its thread.

    Args:
        saver: where their checkpoints lie.
        durability: `sync`: each step is written before the next begins; `async`: meanwhile.
    """

    def __init__(self, saver: BaseCheckpointSaver[str], durability: Literal["sync", "async"]) -> None:
        self._saver, self._durability = saver, durability
        self._compiled: dict[str, Any] = {}

    async def run(
        self,
        thread: str,
        graph: str,
        context: Context,
        given: JSON | Command[Any] | None,
        listen: Listener | None,
        config: RunnableConfig | None = None,
    ) -> tuple[JSON, bool]:
        """Let a case go on until it ends or waits.

        Args:
            thread: the case.
            graph: its graph.
            context: its settings.
            given: the post, for one that begins; a person's answer; None: from its last checkpoint.
            listen: is given every event as it happens.
            config: the caller's callbacks, tags and metadata.

        Returns:
            its state as it was last streamed, and whether it waits.
        """
        compiled, durability = self._graph(graph), self._durability
        last = await follow(
            compiled, graph, given, thread, listen, context=context, config=config, durability=durability
        )
        return last, last.pop(INTERRUPT, None) is not None

    async def look(self, thread: str, graph: str, context: Context) -> Looked:
        """How far a case is.

        Raises:
            ValueError, TypeError, LookupError: its checkpoints hold something else than a case.
        """
        return looked_at(await self._graph(graph).aget_state({"configurable": {"thread_id": thread}}), thread, context)

    def _graph(self, name: str) -> Any:
        if name not in self._compiled:
            self._compiled[name] = builder(name).compile(checkpointer=self._saver, name=name)
        return self._compiled[name]


def looked_at(snapshot: Any, thread: str, context: Context | None = None) -> Looked:
    """How far a case is, by its last checkpoint.

    Args:
        snapshot: what `aget_state` gives.
        thread: the case's.
        context: its settings; None: as they lie in the case.

    Raises:
        ValueError, TypeError, LookupError: it holds something else than a case.
    """
    state = checked_state(snapshot.values) | {"thread": thread, "waits": None}
    # A task that was answered keeps its question, and has a result.
    asked = [each for task in snapshot.tasks if task.result is None for each in task.interrupts]
    if asked:
        [question] = asked
        return Looked("waiting", paused_state(state, question.value, context), question)
    if snapshot.created_at is None:
        return Looked("unbegun", state)
    # `next` leaves out the tasks whose results are written down, and that nobody has gone on from yet.
    return Looked("under_way" if snapshot.tasks else "over", state)


def paused_state(values: Any, request: Any, context: Context | None = None) -> JSON:
    """Return the state of a case that waits for a person, with what they are asked (`waits`) and why (`review`).

    Args:
        values: the state as it lies in a checkpoint.
        request: what they are asked.
        context: its settings; None: as they lie in the case.

    Raises:
        ValueError, TypeError, LookupError: this isn't a case.
    """
    state = checked_state(values)
    settings = context if context is not None else context_from(state["context"]["settings"])
    review = Review(reason=review_reason(state, settings), court=state["outcome"]).dump()
    return state | {"waits": checked_request(request), "review": review}
