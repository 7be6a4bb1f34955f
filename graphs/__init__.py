"""Every graph by name. The pieces to compose one's own from are in `tribunal.pieces`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

__all__ = ["GRAPHS", "builder", "graph"]

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
    from tribunal.text import meant

    path, _, member = name.partition(":")
    file = Path(path).expanduser()
    if not path.endswith(".py"):
        near = meant(name, GRAPHS)
        there = f"{near} The" if near else "the"
        raise BadInput(f"graph: {name!r}: there is none; {there} graphs are {', '.join(GRAPHS)}, or a file.py:graph")
    if not file.is_file():
        raise BadInput(f"graph: {name!r}: there is no file {path}; give one as pipeline.py:graph")
    key = str(file.resolve())
    if key not in _files:
        spec = spec_from_file_location(f"graph_{file.stem}", file)
        if spec is None or spec.loader is None:
            raise BadInput(f"graph: {name!r}: {path} can't be loaded")
        module = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise BadInput(
                f"graph: {name!r}: {path} can't be loaded: {type(error).__name__}: {error}; mend it"
            ) from error
        _files[key] = module
    found = getattr(_files[key], member or "graph", None)
    if not hasattr(found, "ainvoke"):
        raise BadInput(f"graph: {name!r}: {member or 'graph'} is no compiled graph of {path}")
    return found
