"""Every graph by name, and the pieces to compose one's own from.

    from tribunal.graphs import Case, Context, PostInput, Ruling, checked, court_judge, deep_trial, piece, receive

The graphs and pieces are made when they are asked for, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tribunal.context import Context
    from tribunal.graphs.debate import graph as panel_debate
    from tribunal.graphs.deep_dive import graph as deep_trial
    from tribunal.graphs.fast_track import graph as fast_trial
    from tribunal.graphs.perspectives import graph as panel
    from tribunal.graphs.pieces import WrongComposition, checked, piece
    from tribunal.graphs.web import graph as web_evidence
    from tribunal.nodes.arcade.gatekeeper import gatekeeper as scan
    from tribunal.nodes.arcade.judge import judge as court_judge
    from tribunal.nodes.intake import receive
    from tribunal.nodes.state import Case, PostInput, Ruling
    from tribunal.schema import Evidence

__all__ = [
    "Case",
    "Context",
    "Evidence",
    "PostInput",
    "Ruling",
    "WrongComposition",
    "checked",
    "court_judge",
    "deep_trial",
    "fast_trial",
    "panel",
    "panel_debate",
    "piece",
    "receive",
    "scan",
    "web_evidence",
]

GRAPHS = {
    "tribunal": "the hybrid: ARCADE's court, with the web and perspectives at hand, and a person for the last word",
    "arcade": "a gatekeeper sends each post to a fast-track or a deep-dive debate, then a judge decides",
    "multiround": "ARCADE without the gatekeeper: every post gets the deep-dive debate",
    "predict": "perspectives with criteria and memories of their own take stances; two debaters argue; a judge decides",
    "antihate": "searches the web, reads pages, weighs evidence, and cites it",
    "mv_debate": "views debate hate, sarcasm or misinformation in rounds, with a reflection that must earn its place",
    "baseline": "one call to a classifier",
    "self_consistency": "the call of baseline, drawn several times, and a vote",
    "symmetric_debate": "equals who all see each other's answers for some rounds, then a vote",
}
_HOMES = {
    "Case": ("tribunal.nodes.state", "Case"),
    "Context": ("tribunal.context", "Context"),
    "Evidence": ("tribunal.schema", "Evidence"),
    "PostInput": ("tribunal.nodes.state", "PostInput"),
    "Ruling": ("tribunal.nodes.state", "Ruling"),
    "WrongComposition": ("tribunal.graphs.pieces", "WrongComposition"),
    "checked": ("tribunal.graphs.pieces", "checked"),
    "court_judge": ("tribunal.nodes.arcade.judge", "judge"),
    "deep_trial": ("tribunal.graphs.deep_dive", "graph"),
    "fast_trial": ("tribunal.graphs.fast_track", "graph"),
    "panel": ("tribunal.graphs.perspectives", "graph"),
    "panel_debate": ("tribunal.graphs.debate", "graph"),
    "piece": ("tribunal.graphs.pieces", "piece"),
    "receive": ("tribunal.nodes.intake", "receive"),
    "scan": ("tribunal.nodes.arcade.gatekeeper", "gatekeeper"),
    "web_evidence": ("tribunal.graphs.web", "graph"),
}
_files: dict[str, Any] = {}


def graph(name: str) -> Any:
    """The compiled graph of this name, or of a file: `pipeline.py:graph`, as `langgraph.json` names it.

    Raises:
        BadInput: there is none.
    """
    if name in GRAPHS:
        return import_module(f"tribunal.graphs.{name}").graph
    return _of_file(name)


def builder(name: str) -> Any:
    """The builder of a graph, for whoever compiles it with a checkpointer of their own.

    Raises:
        BadInput: there is none.
    """
    return import_module(f"tribunal.graphs.{name}").builder if name in GRAPHS else graph(name).builder


def _of_file(name: str) -> Any:
    from tribunal.errors import BadInput

    path, _, member = name.partition(":")
    file = Path(path).expanduser()
    if not path.endswith(".py"):
        raise BadInput(f"graph: {name!r}: there is none; the graphs are {', '.join(GRAPHS)}, or a file.py:graph")
    if not file.is_file():
        raise BadInput(f"graph: {name!r}: there is no file {path}; give one as pipeline.py:graph")
    key = str(file.resolve())
    if key not in _files:
        spec = spec_from_file_location(f"graph_{file.stem}", file)
        if spec is None or spec.loader is None:
            raise BadInput(f"graph: {name!r}: {path} can't be loaded")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        _files[key] = module
    found = getattr(_files[key], member or "graph", None)
    if not hasattr(found, "ainvoke"):
        raise BadInput(f"graph: {name!r}: {member or 'graph'} is no compiled graph of {path}")
    return found


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module, member = _HOMES[name]
        return getattr(import_module(module), member)
    raise AttributeError(f"module 'tribunal.graphs' has no attribute {name!r}")
