"""Every graph by name, and the pieces to compose one's own from.

The graphs are built when they are asked for, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

GRAPHS = {
    "arcade": "a gatekeeper sends each post to a fast-track or a deep-dive debate, then a judge decides",
    "multiround": "ARCADE without the gatekeeper: every post gets the deep-dive debate",
    "predict": "perspectives with criteria and memories of their own take stances; two debaters argue; a judge decides",
    "antihate": "searches the web, reads pages, weighs evidence, and cites it",
    "mv_debate": "views debate hate, sarcasm or misinformation in rounds, with a reflection that must earn its place",
    "baseline": "one call to a classifier",
    "self_consistency": "the call of baseline, drawn several times, and a vote",
    "symmetric_debate": "equals who all see each other's answers for some rounds, then a vote",
}


def graph(name: str) -> Any:
    """The compiled graph of this name.

    Raises:
        BadInput: there is none.
    """
    if name not in GRAPHS:
        from nodes.errors import BadInput

        raise BadInput(f"graph: {name!r}: there is none; the graphs are {', '.join(GRAPHS)}")
    return import_module(f"graphs.{name}").graph
