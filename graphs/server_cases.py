"""Keep the cases of a LangGraph server whose operator wants them kept.

A server's own checkpoints hold a thread for as long as nobody deletes it, and say nothing of policy and prompts in
full. With TRIBUNAL_KEEP in the server's environment every case is kept as those of any other way in are: the operator's
switch, and no client's, so that no client can turn it off or on.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, TypeVar

from langgraph.pregel import Pregel

_SERVER = "langgraph_api"  # of `langgraph dev` and of the LangGraph platform
# On the floor above, which makes a record of a state: imported on such a server, and nowhere else.
_KEEPER = "tribunal.cases.on_a_server"

Compiled = TypeVar("Compiled", bound=Pregel[Any, Any, Any, Any])


def keep_cases(graph: Compiled) -> Compiled:
    """Return the graph with a callback that keeps each case, on a server whose operator has set TRIBUNAL_KEEP.

    Anywhere else the graph is returned as it is. A pipeline of one's own does the same:
    `graph = keep_cases(checked(builder).compile(name="…"))`.
    """
    if _SERVER in sys.modules and os.environ.get("TRIBUNAL_KEEP", "").strip() not in ("", "no"):
        return graph.with_config(callbacks=[import_module(_KEEPER).CaseKeeper()])
    return graph
