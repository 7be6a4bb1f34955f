"""Tell what happens in a trial, on LangGraph's custom stream."""

from __future__ import annotations

from collections.abc import Callable

from langgraph.runtime import Runtime

from tribunal.context import Context
from tribunal.schema import JSON

Listener = Callable[[JSON], None]


def tell(runtime: Runtime[Context], event: JSON) -> None:
    """Tell an event (`tribunal.events`) to whoever streams the graph."""
    runtime.stream_writer(event)
