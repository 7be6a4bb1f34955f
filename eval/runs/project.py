"""Hash the code that a graph of one's own is made of: its file, and every module of its project that this imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from tribunal.graphs import GRAPHS
from tribunal.retrievers.perspectives.rows import file_hash

_INSTALLED = "site-packages"


def hash_code(graph: str) -> dict[str, str]:
    """Return the hash of each file that a graph of one's own is made of, by its path in the project.

    These are its own file, the modules of its project that are imported from there on (of a package all its modules),
    and the prompts in a folder `prompts` beside one of them. Of a graph of ours there are none: the version says it.

    Args:
        graph: its name, `file.py:graph`, `module:object`, or an entry point of the group `tribunal.graphs`.
    """
    if graph in GRAPHS or (file := _file_of(graph)) is None:
        return {}
    root = _root_of(file)
    paths = _modules_from(file, root)
    paths |= {prompt for folder in {path.parent for path in paths} for prompt in (folder / "prompts").rglob("*.md")}
    return {_name_in(root, path): file_hash(path)[:16] for path in sorted(paths)}


def _name_in(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def _file_of(graph: str) -> Path | None:
    """Return the file of a graph; None where there is none."""
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


def _root_of(file: Path) -> Path:
    """Return the folder of the project that a file belongs to: that of the nearest pyproject.toml, else its own.

    Of an installed package it is the folder that packages are installed in.
    """
    base = _above_package(file)
    if _INSTALLED in base.parts:
        return base
    return next((folder for folder in (base, *base.parents) if (folder / "pyproject.toml").is_file()), base)


def _above_package(file: Path) -> Path:
    """Return the folder that holds a module, or the package that it is part of."""
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _modules_from(file: Path, root: Path) -> set[Path]:
    """Return a file and the modules of its project that it imports, directly or not; every module of each package."""
    base = _above_package(file)
    if _INSTALLED in base.parts:
        return {file, *_whole_package(file, base)}
    # The folders of this project that modules are imported from.
    added = [Path(each).resolve() for each in sys.path if each and _INSTALLED not in each]
    folders = dict.fromkeys([file.parent, base, root, root / "src", *(each for each in added if root in each.parents)])
    found: set[Path] = set()
    left = {file}
    while left:
        path = left.pop()
        found.add(path)
        left |= {*_whole_package(path, _above_package(path)), *_imported_by(path, tuple(folders))} - found
    return found


def _whole_package(path: Path, base: Path) -> set[Path]:
    """Return every module of the package that a module is part of; none where it stands alone."""
    return set() if path.parent == base else set((base / path.relative_to(base).parts[0]).rglob("*.py"))


def _imported_by(path: Path, folders: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the modules in these folders that a file imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:  # a relative one is of the same package
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for parts in (name.split(".") for name in names):
            if parts[0] != "tribunal":
                yield from (module.resolve() for folder in folders for module in _modules_along(folder, parts))


def _modules_along(folder: Path, parts: list[str]) -> Iterator[Path]:
    """Yield the modules in a folder that importing a dotted name runs: those of its packages, and its own."""
    for depth in range(1, len(parts) + 1):
        place = folder.joinpath(*parts[:depth])
        yield from (each for each in (place / "__init__.py", place.with_suffix(".py")) if each.is_file())
