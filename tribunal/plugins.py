"""What others bring: providers, search engines, embeddings, data sets and graphs that live outside this project.

Each is found by the name of a Python entry point, which any installed package may declare,

    [project.entry-points."tribunal.providers"]
    ours = "our_package.models:PROVIDER"

or, with nothing to declare, by its place as `module:object` in the setting itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal, TypeVar

from tribunal.errors import BadInput
from tribunal.text import one_line
from tribunal.trust import check_code

Group = Literal[
    "tribunal.providers", "tribunal.search", "tribunal.embeddings", "tribunal.datasets", "tribunal.graphs"
]  # fmt: skip
Kind = TypeVar("Kind")
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def names(group: Group) -> list[str]:
    """The names that installed packages have declared in a group, in alphabetical order."""
    return sorted(_declared(group))


def plugin(group: Group, name: str, kind: type[Kind], field: str) -> Kind | None:
    """What is registered under a name.

    Nothing is called: the object itself has to be of the kind, so that a setting can't run a function of its choice.

    Args:
        group: what kind of thing it is.
        name: an entry point's name, or `module:object`.
        kind: the class that it has to be an instance of, or a protocol that can be checked at run time.
        field: the setting, for the error.

    Returns:
        None where no entry point has this name and it isn't of the form `module:object`.

    Raises:
        BadInput: it can't be imported, is something else, or a stored case names a place that isn't allowed.
    """
    place = place_of(group, name)
    if place is None:
        return None
    if name not in _declared(group):
        check_code(place)
    module, _, member = place.partition(":")
    try:
        found: Any = import_module(module)
        for part in member.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, BadInput) as error:
        raise BadInput(f"{field}: {name}: {place} can't be loaded: {error}") from error
    except Exception as error:  # a stranger's module may fail in any way while it is imported
        raise BadInput(
            f"{field}: {name}: {place} can't be loaded: {type(error).__name__}: {one_line(str(error))}"
        ) from error
    if not isinstance(found, kind):
        raise BadInput(f"{field}: {name}: {place} is a {type(found).__name__}, and not a {kind.__name__}")
    return found


def place_of(group: Group, name: str) -> str | None:
    """Return the `module:object` that a name stands for; None where it is no entry point and no such place."""
    return _declared(group).get(name) or (name if _PLACE.fullmatch(name) else None)


@lru_cache(maxsize=8)
def load_all(group: Group) -> None:
    """Import whatever installed packages have declared in a group; what can't be imported is passed over."""
    for name in names(group):
        with suppress(BadInput):
            plugin(group, name, object, name)


def known(ours: Iterable[str], group: Group) -> str:
    """Every name that may be given, for an error: ours, and those that installed packages declare."""
    return ", ".join(dict.fromkeys([*ours, *names(group)]))


@lru_cache(maxsize=8)
def _declared(group: Group) -> dict[str, str]:
    from importlib.metadata import entry_points

    return {each.name: each.value for each in entry_points(group=group)}
