"""A graph whose posts and settings come from clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any, cast

from langgraph.graph.state import CompiledStateGraph

from tribunal.errors import BadInput
from tribunal.trust import untrusted


def untrusted_input(graph: Any) -> UntrustedGraph:
    """Return a copy of a compiled graph for a server whose clients give the posts and settings.

    The copy runs within `tribunal.trust.untrusted`, however it is called, also as a node of a parent graph. Nothing in
    an input, a context, a config or a state can undo it.

    Args:
        graph: one of ours, or your own.

    Raises:
        BadInput: it isn't a compiled `StateGraph`.
    """
    if not isinstance(graph, CompiledStateGraph):
        raise BadInput(
            f"graph: {type(graph).__name__}: is no compiled StateGraph; run it within tribunal.untrusted()"
        )
    return UntrustedGraph(**vars(graph.copy()))


class UntrustedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph that treats everything it is given as a client's.

    Every way to run a graph ends in `stream` or `astream`. Only the work on each chunk is untrusted; the caller's
    own code between two chunks stays trusted.
    """

    def stream(self, *given: Any, **named: Any) -> Iterator[Any]:
        """Run the graph as `CompiledStateGraph.stream` does."""
        chunks = cast("Generator[Any]", super().stream(*given, **named))
        try:
            while True:
                with untrusted():
                    try:
                        chunk = next(chunks)
                    except StopIteration:
                        return
                yield chunk
        finally:
            with untrusted():
                chunks.close()

    async def astream(self, *given: Any, **named: Any) -> AsyncIterator[Any]:
        """Run the graph as `CompiledStateGraph.astream` does."""
        chunks = cast("AsyncGenerator[Any]", super().astream(*given, **named))
        try:
            while True:
                with untrusted():
                    try:
                        chunk = await anext(chunks)
                    except StopAsyncIteration:
                        return
                yield chunk
        finally:
            with untrusted():
                await chunks.aclose()

    def bulk_update_state(self, *given: Any, **named: Any) -> Any:
        """Edit a state as `CompiledStateGraph.bulk_update_state` does; routers read the edit at once."""
        with untrusted():
            return super().bulk_update_state(*given, **named)

    async def abulk_update_state(self, *given: Any, **named: Any) -> Any:
        """Edit a state as `CompiledStateGraph.abulk_update_state` does; routers read the edit at once."""
        with untrusted():
            return await super().abulk_update_state(*given, **named)
