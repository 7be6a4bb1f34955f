"""The start of research: the mode, what it looks things up in, a clean table, and the clock."""

from __future__ import annotations

import time
from typing import Literal

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from tribunal.context import Context, context_of, kept_settings
from tribunal.errors import BadInput
from tribunal.nodes.agents import node, router
from tribunal.nodes.antihate.asking import library_of
from tribunal.nodes.state import Research, post_of
from tribunal.schema import JSON


@node
async def begin(state: Research, runtime: Runtime[Context]) -> JSON:
    """Open the search and the archive, before any call, and clear what an earlier post left.

    Raises:
        BadInput: the search or the archive is none.
    """
    context = context_of(state)
    post = post_of(state)
    if not post.text.strip():
        raise BadInput("text: the post has none, and research begins with its words; give one, or choose another graph")
    library = await library_of(state)
    run = await library.begin(post, kept_settings(context))
    return {
        "scheme": "binary",
        "run": run,
        "turn": 0,
        "started": time.time(),
        "queries": [],
        "tried": Overwrite([]),
        "hits": [],
        "pending": [],
        "crawl": None,
        "page": None,
        "pages": Overwrite([]),
        "plans": Overwrite([]),
        "judgements": Overwrite([]),
        "exhausted": False,
        "sufficient": None,
        "missing": "",
        "warnings": library.warnings(run),
    }


@router
async def to_research(state: Research) -> Literal["with knowledge", "mode no-knowledge", "mode zero-shot"]:
    """With knowledge, without any, or in one call."""
    match context_of(state).mode:
        case "no-knowledge":
            return "mode no-knowledge"
        case "zero-shot":
            return "mode zero-shot"
    return "with knowledge"


def seconds_left(state: Research, context: Context) -> float:
    """Seconds of research that are left; the last twentieth of one is as good as none.

    In a case that a person steps through they are all left: the clock doesn't count how long the person looks.
    """
    if context.stops:
        return context.max_seconds
    return max(0.0, float(state.get("started", 0.0)) + context.max_seconds - time.time() - 0.05)
