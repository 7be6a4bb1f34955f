"""A graph as a LangGraph server runs it, whose operator wants what its runs come to to be kept.

A server's own checkpoints hold a thread for as long as nobody deletes it, and say nothing of policy and prompts in
full. With TRIBUNAL_KEEP in the server's environment every case is kept as those of any other way in are: the operator's
switch, and no client's, so that no client can turn it off or on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from importlib import import_module
from typing import Any

from langgraph.graph.state import CompiledStateGraph

_SERVER = "langgraph_api"  # of `langgraph dev` and of the LangGraph platform
# Of the floor above, which makes a record of a state: looked up when a run of a server ends, and never else.
_KEEPS = "tribunal.cases.on_a_server"


def served(graph: Any) -> Any:
    """The same compiled graph. On a server whose operator has set TRIBUNAL_KEEP it keeps what its runs come to;
    anywhere else it is given back as it is.

    A pipeline of one's own does the same: `graph = served(checked(builder).compile(name="…"))`.
    """
    if _SERVER in sys.modules and os.environ.get("TRIBUNAL_KEEP", "").strip() not in ("", "no"):
        graph.__class__ = Served
    return graph


class Served(CompiledStateGraph):  # type: ignore[type-arg]
    """One that looks at its thread when a run of it has ended. A copy of it, as a server makes for each run, does so
    too; as a part of another graph it does nothing more."""

    async def astream(self, input: Any, config: Any = None, **how: Any) -> AsyncIterator[Any]:
        async with aclosing(super().astream(input, config, **how)) as run:  # type: ignore[type-var]
            async for each in run:
                yield each
        where = (config or {}).get("configurable", {})
        if where.get("thread_id") and not where.get("checkpoint_ns") and self.checkpointer:
            await import_module(_KEEPS).keep_run(self, config)
