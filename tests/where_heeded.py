"""Settings that a world of tests has for every graph, of which a graph is given those that it heeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tribunal.settings.context import (
    context_from,
    leave_out_settings,
    setting_is_named,
    settings_of,
)

OF_THE_POST = ("image", "language", "earlier", "appeal")


def where_heeded(graph: str, world: Mapping[str, Any], **own: Any) -> dict[str, Any]:
    """A test's own settings as they are, over those of the world that the graph heeds beside them."""
    settings = {**world, **own}
    of_the_graph = {name: value for name, value in settings.items() if name not in OF_THE_POST}
    return leave_out_settings(
        settings,
        [
            name
            for name, _ in settings_of(graph).find_unused(context_from(of_the_graph))
            if not setting_is_named(own, name)
        ],
    )
