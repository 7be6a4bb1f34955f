"""Packages beside ours: the extras of this one, and the plugins of others.

A plugin is a provider, a search engine, an embedding, a data set or a graph that lives outside this project. Each is
found by the name of a Python entry point, which any installed package may declare,

    [project.entry-points."tribunal.providers"]
    ours = "our_package.models:PROVIDER"

or, with nothing to declare, by its place as `module:object` in the setting itself.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

from tribunal.core.text import one_line
from tribunal.errors import BadInput

Group = Literal[
    "tribunal.providers",
    "tribunal.search",
    "tribunal.embeddings",
    "tribunal.datasets",
    "tribunal.graphs",
    "tribunal.metrics",
]
Kind = TypeVar("Kind")
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def names(group: Group) -> list[str]:
    """Return the names that installed packages have declared in a group, in alphabetical order."""
    return sorted(_declared(group))


def plugin(group: Group, name: str, kind: type[Kind], field: str) -> Kind | None:
    """Return what is registered under a name, or None if it is no entry point's and not of the form `module:object`.

    Nothing is called: the object itself has to be of the kind, so that a setting can't run a function of its choice.

    Args:
        group: what kind of thing it is.
        name: an entry point's name, or `module:object`.
        kind: the class that it has to be an instance of, or a protocol that can be checked at run time.
        field: the setting, for the error.

    Raises:
        BadInput: it can't be imported, is something else, or a stored case names a place that isn't allowed.
    """
    place = module_object_of(group, name)
    if place is None:
        return None
    if name not in _declared(group):
        # pydantic, which a command that only looks for an extra does without
        from tribunal.trust import check_code

        check_code(place)
    module, _, member = place.partition(":")
    try:
        import_regular_package(module.partition(".")[0])
        found: Any = import_module(module)
        for part in member.split("."):
            found = getattr(found, part)
    except Exception as error:  # a stranger's module may fail in any way while it is imported
        known = isinstance(error, ImportError | AttributeError | BadInput)
        reason = str(error) if known else f"{type(error).__name__}: {one_line(str(error))}"
        raise BadInput(f"{field}: {name}: {place} can't be loaded: {reason}") from error
    if not isinstance(found, kind):
        raise BadInput(
            f"{field}: {name}: {place} is a {type(found).__name__}, and not a {kind.__name__}"
        )
    return found


def find_regular_package(top: str) -> ModuleSpec | None:
    """Return the spec of a top-level package or module; None if there is none, or only folders without code.

    Run beside a checkout, Python takes the checkout's folder of the same name for a namespace package, and never asks
    the import hook by which the checkout is installed (`pip install --editable`). So every finder is asked here.
    """
    try:
        spec = find_spec(top)
    except (
        ValueError
    ):  # a module that was made and not imported, such as `__main__`, has no file that is its own
        return None
    if spec is None or spec.origin is not None:
        return spec
    specs = (finder.find_spec(top, None) for finder in sys.meta_path)
    return next((each for each in specs if each is not None and each.origin is not None), None)


def import_regular_package(top: str) -> None:
    """Import a package that `find_regular_package` finds in place of a namespace package of the same name."""
    spec = find_regular_package(top)
    if spec is None or spec.loader is None or find_spec(top) == spec:
        return  # an ordinary import does
    module = module_from_spec(spec)
    sys.modules[top] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[top]
        raise


def module_object_of(group: Group, name: str) -> str | None:
    """Return the `module:object` of an entry point, or a name that is written as one; else None."""
    return _declared(group).get(name) or (name if _PLACE.fullmatch(name) else None)


@lru_cache(maxsize=8)
def load_all(group: Group) -> None:
    """Import all plugins of a group; plugins that fail are skipped."""
    for name in names(group):
        with suppress(BadInput):
            plugin(group, name, object, name)


def list_known_names(ours: Iterable[str], group: Group) -> str:
    """Return every valid name, for an error: ours and the installed packages'."""
    return ", ".join(dict.fromkeys([*ours, *names(group)]))


@lru_cache(maxsize=8)
def _declared(group: Group) -> dict[str, str]:
    from importlib.metadata import entry_points

    return {each.name: each.value for each in entry_points(group=group)}


# Of each extra, modules that nothing else brings. An extra is missing where one of them is.
MODULES_OF_EXTRA: dict[str, tuple[str, ...]] = {
    "anthropic": ("langchain_anthropic",),
    "eval": ("pyarrow", "scipy", "statsmodels", "datasketch"),
    "inspect": ("inspect_ai",),
    "ollama": ("langchain_ollama",),
    "ray": ("ray",),
    "service": ("pyarrow", "scipy", "datasketch", "fastapi", "psycopg"),
    "web": ("brotli", "pypdf"),
}
# What is installed under another name than it is imported by.
_PACKAGES = {
    "inspect_ai": "inspect-ai",
    "langchain_anthropic": "langchain-anthropic",
    "langchain_ollama": "langchain-ollama",
}


def missing_package(extra: str) -> str | None:
    """Return the name of the first package of an extra that is not installed, or None if all are."""
    module = next((name for name in MODULES_OF_EXTRA[extra] if find_spec(name) is None), None)
    return None if module is None else _PACKAGES.get(module, module)


def install_command(extra: str) -> str:
    """Return the command that installs an extra, for a checkout or a package."""
    in_checkout = (Path(__file__).parents[1] / "uv.lock").is_file()
    return (
        f"./run --extra {extra} tribunal --version"
        if in_checkout
        else f"pip install 'tribunal-court[{extra}]'"
    )


def require_extra(user: str, extra: str) -> None:
    """Check that an extra is installed.

    Args:
        user: the command or setting that needs it. The error begins with it.
        extra: the extra's name.

    Raises:
        BadInput: a package of it is missing. The error names the command that installs it.
    """
    package = missing_package(extra)
    if package is not None:
        raise BadInput(
            f"{user}: {package} is not installed; install it with: {install_command(extra)}"
        )
