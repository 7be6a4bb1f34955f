"""Every role that the graphs ask with, for checks of a set of prompts and of what they are called."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from tribunal import nodes
from tribunal.models.role import Role
from tribunal.nodes.mv_debate.scoring import judge_role, reflection_role


def iter_roles() -> Iterator[Role[Any]]:
    """Yield every role; one that is made for each case's views is there for two of them."""
    for found in pkgutil.walk_packages(nodes.__path__, f"{nodes.__name__}."):
        for value in vars(importlib.import_module(found.name)).values():
            held = value.values() if isinstance(value, dict) else [value]
            yield from (each for each in held if isinstance(each, Role))
    yield from (judge_role(("surface", "deep")), reflection_role(("surface", "deep")))
