"""Count the calls to models that a graph makes by itself, past `ask`: they are in no record, no budget and no cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook


class UnseenCalls(BaseCallbackHandler):
    """Counts the calls of LangChain's models that `ask` did not make.

    `ask` says in the metadata of each of its calls for which seat and role it is. Every other call is unseen.
    """

    run_inline = True  # a count needs no thread of its own

    def __init__(self) -> None:
        self.count = 0

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, metadata: dict[str, Any] | None = None, **more: Any
    ) -> None:
        """Count the call of a chat model."""
        self.count += is_unseen(metadata)

    def on_llm_start(
        self, serialized: Any, prompts: Any, *, metadata: dict[str, Any] | None = None, **more: Any
    ) -> None:
        """Count the call of a model of plain text."""
        self.count += is_unseen(metadata)


def is_unseen(metadata: dict[str, Any] | None) -> bool:
    """Return whether a call with this metadata was made past `ask`."""
    return not {"seat", "role"} <= (metadata or {}).keys()


def warn_of_unseen(count: int) -> str:
    """Return the warning of a record whose graph made calls past `ask`."""
    calls = "one call" if count == 1 else f"{count} calls"
    return f"the graph made {calls} to models by itself, past `ask`: no cost, budget or list of calls has them"


@contextmanager
def counting_unseen_calls() -> Iterator[UnseenCalls]:
    """Count the unseen calls of what runs within."""
    counter = UnseenCalls()
    before = _counter().set(counter)
    try:
        yield counter
    finally:
        _counter().reset(before)


@cache
def _counter() -> ContextVar[UnseenCalls | None]:
    """Return the counter of the run that is under way, which LangChain gives to each model that it calls."""
    counter: ContextVar[UnseenCalls | None] = ContextVar("unseen calls", default=None)
    # Not inherited: a handler of the whole run would cost every node, and each model asks for it again anyway.
    register_configure_hook(counter, inheritable=False)
    return counter
