"""Pin what decides a run's results outside its folder: prompts, files, code, indexes, stores, models' servers."""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tribunal import __version__
from tribunal.core.text import parse_json
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS, load_own
from tribunal.models.registry import check_models, provider_of
from tribunal.process.files import hash_file, read_regular
from tribunal.prompts.policy import load_policy
from tribunal.prompts.sets import read_prompt_set
from tribunal.retrievers.perspectives.perspective import Searcher
from tribunal.retrievers.perspectives.store import PerspectiveStore
from tribunal.retrievers.precedents.store import open_precedents
from tribunal.schema import JSON
from tribunal.settings.contents import apply_line_up
from tribunal.settings.context import Context
from tribunal.settings.environment import environment, setting
from tribunal.settings.systems import system_of

_INSTALLED = "site-packages"
# What a pin is called in a refusal.
_PINNED = {
    "images": "images", "servers": "the server of", "perspectives": "perspective", "precedents": "precedents",
}  # fmt: skip
_LONGEST = 120  # characters of a value in a refusal
# Of a run.json, what decides results.
_HELD = (
    "graph", "data", "images", "sampling", "repeats", "settings", "models", "servers", "policy", "prompts",
    "perspectives", "precedents", "files", "code", "predictions", "n", "tribunal",
)  # fmt: skip


def describe_surroundings(graph: str, context: Context) -> JSON:
    """Return what decides results beside the settings: policy, prompts, files, default model, our version."""
    load_own(graph)
    in_force = load_policy(context.policy, context.policy_definition)
    system = system_of(graph)
    # The policy and the prompts have hashes of their own.
    named = [context.line_up, context.threshold_file, *context.perspectives]
    paths = {name: Path(name).expanduser() for name in named if name}
    return {
        "models": {
            "TRIBUNAL_MODEL": None if context.model else setting("TRIBUNAL_MODEL") or "rehearsal"
        },
        "policy": {"name": in_force.name, "sha": in_force.sha},
        "tribunal": __version__,
        "prompts": read_prompt_set(
            context.prompts, system.name if system else None, context.prompt_texts
        ).dump(),
        "files": {name: hash_file(path)[:16] for name, path in paths.items() if path.is_file()},
        "code": hash_code(graph),
    }


async def collect_pins(graph: str, context: Context) -> JSON:
    """Return the pins: hashes of perspectives and precedents, and addresses of servers.

    Within `opened_once` the run reads the very indexes that are hashed here.

    Raises:
        BadInput: a perspective, the store, the line-up or a model is wrong.
    """
    models = check_models(await apply_line_up(context, afresh=True), environment())
    around = environment()
    stores: Sequence[Searcher] = ()
    if _hears_perspectives(graph, context):
        from tribunal.nodes.predict.perspective import open_searchers

        stores = await open_searchers(context)
    providers = {model.provider: provider_of(model) for model in models}
    pins: JSON = {
        "perspectives": {
            each.perspective.name: {"sha": each.fingerprint, "embedding": each.embedding}
            for each in stores
            if isinstance(each, PerspectiveStore)
        },
        "servers": {
            name: server_address(each.base_url(around)) for name, each in sorted(providers.items())
        },
    }
    if context.precedents:
        store = await open_precedents(context.precedents)
        held = {"sha": store.fingerprint, "embedding": store.embedding, "cases": len(store)}
        pins["precedents"] = {store.name: held}
    return pins


# What a process that decides posts has to find as the run was begun with it.
_EVERYWHERE = (
    "models", "policy", "tribunal", "prompts", "files", "code", "perspectives", "precedents", "servers",
)  # fmt: skip


def pins_of_run(run: JSON) -> JSON:
    """Return the part of a run.json that every deciding process must find unchanged."""
    return {name: run[name] for name in _EVERYWHERE if name in run}


async def check_pins(graph: str, context: Context, wanted: JSON) -> None:
    """Check that everything that decides results is as it was where the run began (`wanted`).

    Raises:
        BadInput: something differs; what, there and here. Or as `collect_pins`.
    """
    here = await asyncio.to_thread(describe_surroundings, graph, context)
    differs = next(
        list_changes(wanted, pins_of_run({**here, **await collect_pins(graph, context)})), None
    )
    if differs:
        raise BadInput(
            f"{differs}, in a process that decides posts; leave it as it was until the run is done"
        )


def _hears_perspectives(graph: str, context: Context) -> bool:
    if graph == "predict":
        return context.mode != "base"
    named = context.perspectives not in ([], ["none"])
    return named and (graph == "tribunal" or graph not in GRAPHS)


def server_address(url: str | None) -> str | None:
    """Return host, port and path of a server, without user, password or query; None for the provider's own."""
    if url is None:
        return None
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{host}{parts.path.rstrip('/')}" or None


def list_changes(held: JSON, wanted: JSON) -> Iterator[str]:
    """Yield, in words, each difference between two run descriptions that decides results."""
    for name in _HELD:
        then = held.get(name)
        now = parse_json(json.dumps(wanted.get(name)))
        if then == now:
            continue
        if isinstance(then, dict) and isinstance(now, dict):
            for key in sorted(then.keys() | now.keys()):
                if then.get(key) != now.get(key):
                    yield _describe_change(name, key, then.get(key), now.get(key))
        else:
            yield f"{name}: then {_format_value(then)}, now {_format_value(now)}"


def _describe_change(name: str, key: str, then: Any, now: Any) -> str:
    if name in _PINNED:
        missing = "not there" if name in ("perspectives", "precedents") else "its provider's own"
        said = [missing if each is None else _format_value(each) for each in (then, now)]
        return f"{_PINNED[name]} {key}: then {said[0]}, now {said[1]}"
    if (name, key) == ("data", "sha256"):
        return "data: the files' contents differ"
    if name == "code":
        once = "it is imported since" if now else "it is imported no more"
        return f"{key}: {'its content differs' if then and now else once}"
    if name == "files" and then and now:
        return f"{key}: its content differs"
    called = "dataset" if (name, key) == ("data", "name") else key
    return f"{called}: then {_format_value(then)}, now {_format_value(now)}"


def _format_value(value: Any) -> str:
    said = "the default" if value is None else json.dumps(value, ensure_ascii=False)
    return said if len(said) <= _LONGEST else said[: _LONGEST - 1] + "…"


# ------------------------------------------------------------------------------------------------ the code of a graph


def hash_code(graph: str) -> dict[str, str]:
    """Return the hash of each code file of a custom graph, by its path in the project.

    These are its own file, the modules of its project that are imported from there on (of a package all its modules),
    and the prompts in a folder `prompts` beside one of them. Of a graph of ours there are none: the version says it.
    The project is the folder of the nearest pyproject.toml, else the file's own; an installed package is its own.
    """
    if graph in GRAPHS or (file := _find_graph_file(graph)) is None:
        return {}
    base = _folder_above_package(file)
    if _INSTALLED in base.parts:
        root = base
        paths = {file, *_modules_of_package(file)}
    else:
        root = next(
            (folder for folder in (base, *base.parents) if (folder / "pyproject.toml").is_file()),
            base,
        )
        paths = _find_modules(file, root)
    paths |= {
        prompt
        for folder in {path.parent for path in paths}
        for prompt in (folder / "prompts").rglob("*.md")
    }
    return {
        (path.relative_to(root) if path.is_relative_to(root) else path).as_posix(): hash_file(path)[
            :16
        ]
        for path in sorted(paths)
    }


def _find_graph_file(graph: str) -> Path | None:
    """Return the file of `file.py:graph`, `module:object` or an entry point; None where there is none."""
    place = graph.partition(":")[0]
    if place.endswith(".py"):
        file = Path(place).expanduser().resolve()
        return file if file.is_file() else None
    named = next(iter(entry_points(group="tribunal.graphs", name=graph)), None)
    try:
        found = find_spec(named.module if named else place)
    except (ImportError, ValueError):
        return None
    return Path(found.origin).resolve() if found and found.origin and found.has_location else None


def _folder_above_package(file: Path) -> Path:
    """Return the folder that holds a module, or the package that it is part of."""
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _find_modules(file: Path, root: Path) -> set[Path]:
    """Return a file and the modules of its project that it imports, directly or not; every module of each package."""
    # The folders of this project that modules are imported from.
    added = [Path(each).resolve() for each in sys.path if each and _INSTALLED not in each]
    inside = [each for each in added if root in each.parents]
    folders = dict.fromkeys([file.parent, _folder_above_package(file), root, root / "src", *inside])
    found = set[Path]()
    left = {file}
    while left:
        path = left.pop()
        found.add(path)
        left |= {*_modules_of_package(path), *_modules_imported_by(path, folders)} - found
    return found


def _modules_of_package(path: Path) -> set[Path]:
    """Return every module of the package that a module is part of; none where it stands alone."""
    base = _folder_above_package(path)
    return (
        set()
        if path.parent == base
        else set((base / path.relative_to(base).parts[0]).rglob("*.py"))
    )


def _modules_imported_by(path: Path, folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the modules in these folders that a file imports, wherever in it, with the packages that hold them."""
    for node in ast.walk(ast.parse(read_regular(path))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif (
            isinstance(node, ast.ImportFrom) and not node.level
        ):  # a relative one is of the same package
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for parts in (name.split(".") for name in names if name.partition(".")[0] != "tribunal"):
            for folder, depth in product(folders, range(1, len(parts) + 1)):
                place = folder.joinpath(*parts[:depth])
                files = (place / "__init__.py", place.with_suffix(".py"))
                yield from (each.resolve() for each in files if each.is_file())
