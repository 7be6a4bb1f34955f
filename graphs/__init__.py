"""Every graph by name: the built-in graphs, and graphs of installed packages.

`tribunal.pieces` has the pieces for composing your own graph.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tribunal.core.text import suggest_name
from tribunal.errors import BadInput
from tribunal.plugins import (
    find_regular_package,
    list_known_names,
    load_all,
    module_object_of,
    names,
    plugin,
)
from tribunal.settings.graph_settings import GRAPHS
from tribunal.settings.systems import note_place, system_of

if TYPE_CHECKING:
    from langgraph.graph import StateGraph
    from langgraph.graph.state import CompiledStateGraph

    from tribunal.nodes.outputs import Ruling
    from tribunal.nodes.state import Case, PostInput
    from tribunal.settings.context import Context

__all__ = [
    "GRAPHS",
    "builder",
    "check_name",
    "code_of",
    "draw_graph",
    "graph",
    "load_own",
    "load_seats",
    "named_graphs",
]

_files: dict[str, Any] = {}


def draw_graph(name: str) -> str:
    """Return the Mermaid text of a graph, with its subgraphs opened (theirs stay closed).

    Raises:
        BadInput: there is no such graph.
    """
    return str(graph(name).get_graph(xray=1).draw_mermaid())


def graph(
    name: str, *, untrusted: bool = False
) -> CompiledStateGraph[Case, Context, PostInput, Ruling]:
    """Return a compiled graph. Type checkers don't know a custom graph's state if it isn't `Case`.

    Args:
        name: one of `GRAPHS`; that of an installed system (the entry points `tribunal.graphs`); a place in a module,
            `package.module:graph`; or one in a file, `pipeline.py:graph`, as `langgraph.json` names it.
        untrusted: whether its posts and settings come from clients (`tribunal.graphs.untrusted`).

    Raises:
        BadInput: there is none.
    """
    if untrusted:
        from tribunal.graphs.untrusted import untrusted_input

        return untrusted_input(graph(name))
    if name in GRAPHS:
        compiled: CompiledStateGraph[Case, Context, PostInput, Ruling] = import_module(
            f"tribunal.graphs.{name}"
        ).graph
        return compiled
    found: Any
    if _is_file(name):
        found = _of_file(name)
    else:
        from langgraph.graph.state import CompiledStateGraph as Graph

        found = plugin("tribunal.graphs", name, Graph, "graph")
        if found is None:
            raise _no_graph(name)
    note_place(name, str(getattr(found, "name", "")), getattr(found, "context_schema", None))
    own: CompiledStateGraph[Case, Context, PostInput, Ruling] = found
    return own


def check_name(name: str) -> None:
    """Check that a graph exists, without loading it.

    Raises:
        BadInput: there is no such graph.
    """
    if name in GRAPHS:
        return
    if _is_file(name):
        _existing_file(name)
    elif module_object_of("tribunal.graphs", name) is None:
        raise _no_graph(name)


def load_own(name: str) -> None:
    """Load a graph that isn't shipped: its settings and its system are known from then on.

    Raises:
        BadInput: there is no such graph.
    """
    check_name(name)
    if name not in GRAPHS:
        graph(name)


def load_seats(name: str, settings: Mapping[str, Any]) -> None:
    """Load a custom graph whose seats these settings may name: its seats are known once it is loaded.

    Args:
        name: as of `graph`. One of ours is not loaded.
        settings: the fields of `Context`.

    Raises:
        BadInput: there is no such graph.
    """
    if settings.get("seats") or settings.get("temperatures"):
        load_own(name)


def builder(name: str) -> StateGraph[Case, Context, PostInput, Ruling]:
    """Return the builder of a graph, to compile with your own checkpointer.

    Raises:
        BadInput: there is none.
    """
    own: StateGraph[Case, Context, PostInput, Ruling] = (
        import_module(f"tribunal.graphs.{name}").builder if name in GRAPHS else graph(name).builder
    )
    return own


def named_graphs() -> dict[str, str]:
    """Return each graph that has a name, with a description: built-in graphs first, then those of installed systems."""
    load_all("tribunal.graphs")
    others = {name: system_of(name) for name in names("tribunal.graphs") if name not in GRAPHS}
    return {**GRAPHS, **{name: system.about if system else "" for name, system in others.items()}}


def code_of(name: str) -> dict[str, Path]:
    """Return the code files of a custom graph, each by a name that is the same on every machine.

    A graph of a file has that file; one of a package has every module of the package.

    Raises:
        BadInput: there is no such graph.
    """
    if name in GRAPHS:
        return {}
    path = name.partition(":")[0]
    if _is_file(name):
        return {path: Path(path).expanduser()}
    place = module_object_of("tribunal.graphs", name)
    if place is None:
        raise _no_graph(name)
    top = place.partition(":")[0].partition(".")[0]
    spec = find_regular_package(top)
    if spec is None or spec.origin is None:
        return {}
    origin = Path(spec.origin)
    if origin.name != "__init__.py":
        return {origin.name: origin}
    return {
        f"{top}/{path.relative_to(origin.parent).as_posix()}": path
        for path in sorted(origin.parent.rglob("*.py"))
    }


def _is_file(name: str) -> bool:
    return name.partition(":")[0].endswith(".py")


def _no_graph(name: str) -> BadInput:
    near = suggest_name(name, [*GRAPHS, *names("tribunal.graphs")])
    there = f"{near} The" if near else "the"
    known = list_known_names(GRAPHS, "tribunal.graphs")
    return BadInput(
        f"graph: {name!r}: there is none; {there} graphs are {known}, a file.py:graph, or a module:graph"
    )


def _existing_file(name: str) -> Path:
    path = name.partition(":")[0]
    file = Path(path).expanduser()
    if not file.is_file():
        raise BadInput(f"graph: {name!r}: there is no file {path}; give one as pipeline.py:graph")
    return file


def _of_file(name: str) -> Any:
    path, _, member = name.partition(":")
    file = _existing_file(name)
    key = str(file.resolve())
    if key not in _files:
        module_name = f"graph_{file.stem}_{hashlib.sha256(key.encode()).hexdigest()[:12]}"  # of this file alone
        spec = spec_from_file_location(module_name, file)
        if spec is None or spec.loader is None:
            raise BadInput(f"graph: {name!r}: {path} can't be loaded")
        module = module_from_spec(spec)
        sys.modules[module_name] = module  # in which annotations that are strings are looked up
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[module_name]
            raise BadInput(
                f"graph: {name!r}: {path} can't be loaded: {type(error).__name__}: {error}; mend it"
            ) from error
        _files[key] = module
    found = getattr(_files[key], member or "graph", None)
    if not hasattr(found, "ainvoke"):
        raise BadInput(f"graph: {name!r}: {member or 'graph'} is no compiled graph of {path}")
    return found
