"""Every graph by name, and the pieces to compose one's own from.

    from graphs import Case, Context, PostInput, Ruling, checked, court_judge, deep_trial, piece, receive

The graphs and pieces are made when they are asked for, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphs.debate import graph as panel_debate
    from graphs.deep_dive import graph as deep_trial
    from graphs.fast_track import graph as fast_trial
    from graphs.perspectives import graph as panel
    from graphs.pieces import WrongComposition, checked, piece
    from graphs.web import graph as web_evidence
    from nodes.context import Context
    from nodes.gatekeeper import gatekeeper as scan
    from nodes.intake import receive
    from nodes.judge import judge as court_judge
    from nodes.schema import Evidence
    from nodes.state import Case, PostInput
    from nodes.state import FullRuling as Ruling

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
    "Case": ("nodes.state", "Case"),
    "Context": ("nodes.context", "Context"),
    "Evidence": ("nodes.schema", "Evidence"),
    "PostInput": ("nodes.state", "PostInput"),
    "Ruling": ("nodes.state", "FullRuling"),
    "WrongComposition": ("graphs.pieces", "WrongComposition"),
    "checked": ("graphs.pieces", "checked"),
    "court_judge": ("nodes.judge", "judge"),
    "deep_trial": ("graphs.deep_dive", "graph"),
    "fast_trial": ("graphs.fast_track", "graph"),
    "panel": ("graphs.perspectives", "graph"),
    "panel_debate": ("graphs.debate", "graph"),
    "piece": ("graphs.pieces", "piece"),
    "receive": ("nodes.intake", "receive"),
    "scan": ("nodes.gatekeeper", "gatekeeper"),
    "web_evidence": ("graphs.web", "graph"),
}
_files: dict[str, Any] = {}


def graph(name: str) -> Any:
    """The compiled graph of this name, or of a file: `pipeline.py:graph`, as `langgraph.json` names it.

    Raises:
        BadInput: there is none.
    """
    if name in GRAPHS:
        return import_module(f"graphs.{name}").graph
    return _of_file(name)


def builder(name: str) -> Any:
    """The builder of a graph, for whoever compiles it with a checkpointer of their own.

    Raises:
        BadInput: there is none.
    """
    return import_module(f"graphs.{name}").builder if name in GRAPHS else graph(name).builder


def _of_file(name: str) -> Any:
    from nodes.errors import BadInput

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
    raise AttributeError(f"module 'graphs' has no attribute {name!r}")
