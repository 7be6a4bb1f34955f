"""The settings that a client of a server may set.

On the command line and in Python whoever sets a setting is the operator, and may set all of them. A server's client
may set what neither reads nor writes a file of the operator's, leads nowhere, runs no code, and costs no more than the
operator's own settings do. Each setting says so of itself (`Setting.clients`); one that says nothing is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tribunal.core.text import one_line
from tribunal.errors import BadInput
from tribunal.process.model_objects import object_names
from tribunal.settings.graph_settings import SETTINGS
from tribunal.settings.names import SHIPPED_POLICIES
from tribunal.trust import ALLOW, MODEL_SETTINGS, is_allowed, read_allowed

_REHEARSAL = ("rehearsal", "rehearsal:court")
_ENGINES = ("duckduckgo", "searxng", "none")
_PERSPECTIVE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")  # a name, and no path


def check_request(given: Mapping[str, Any]) -> None:
    """Refuse settings that a client may not set.

    Args:
        given: the settings that were given, by name.

    Raises:
        BadInput: the first one that a client may not set, its value, and TRIBUNAL_ALLOW.
    """
    objects = object_names(given)
    if objects:
        raise BadInput(
            f"{objects[0]}: an object can't come from another process; name it as provider:model"
        )
    for name, value in given.items():
        if _is_harmless(name, value):
            continue
        _check_allowed_names()
        if is_allowed(name, None):
            continue
        for field, part in _parts(name, value):
            if not (name in NAMED_THINGS and NAMED_THINGS[name](part)) and not is_allowed(
                name, part
            ):
                shown = one_line(part)[:100]
                raise BadInput(
                    f"{field}: {shown!r}: a client of this server may not set this; leave it out, or ask the operator, "
                    f"who allows it with {ALLOW}={name}"
                )


def _check_allowed_names() -> None:
    for name, _ in read_allowed(os.environ.get(ALLOW, "")):
        if name not in SETTINGS and name not in ("image", "code", "*"):
            raise BadInput(
                f"{ALLOW}: {name}: no such setting; give names of settings, `image`, `code`, or *, each alone or with "
                "=PATTERN"
            )


def _is_harmless(name: str, value: Any) -> bool:
    setting = SETTINGS[name]
    default = setting.default_value
    up_to_default = setting.clients == "up to default"
    return setting.clients == "anything" or bool(
        value == default or (up_to_default and value <= default)
    )


def _parts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield every single thing that a setting names: (the field, the thing)."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _parts(f"{name}.{key}", each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield name, str(each)
    elif name.partition(".")[0] in (*MODEL_SETTINGS, "search") and isinstance(value, str):
        for each in value.split(","):
            yield name, each.strip()
    else:
        yield name, str(value)


def _own_model(part: str) -> bool:
    """Return whether it is the rehearsal model, or one that the operator's own environment names."""
    return part in _REHEARSAL or part in [
        each.strip() for each in os.environ.get("TRIBUNAL_MODEL", "").split(",")
    ]


# Which single things a setting may name.
NAMED_THINGS: dict[str, Callable[[str], bool]] = {
    "policy": SHIPPED_POLICIES.__contains__,
    "search": _ENGINES.__contains__,
    "perspectives": lambda part: bool(_PERSPECTIVE.fullmatch(part)),
    "leave_out": lambda part: bool(_PERSPECTIVE.fullmatch(part)),
    **dict.fromkeys(MODEL_SETTINGS, _own_model),
}
