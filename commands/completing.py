"""The names that a shell offers for a value that is being typed. `tribunal --install-completion`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from tribunal.errors import BadInput

if TYPE_CHECKING:
    from tribunal.plugins import Group


def _complete(place: str, group: Group | None = None) -> Callable[[str], list[str]]:
    """Return a function that offers the names that begin with what is typed; nothing where they can't be read.

    Args:
        place: names, or a function that returns them, as `module:name`.
        group: the entry points whose names are offered too.
    """

    def offer(incomplete: str) -> list[str]:
        from tribunal import plugins

        module, _, name = place.partition(":")
        try:
            held = getattr(import_module(f"tribunal.{module}"), name)
            names = [*(held() if callable(held) else held), *(plugins.names(group) if group else ())]
        except (BadInput, OSError):  # a shell that waits for a word has no use for an error
            return []
        return [each for each in names if each.startswith(incomplete)]

    return offer


graph_names = _complete("graphs:GRAPHS", "tribunal.graphs")
policy_names = _complete("prompts.policy:list_shipped_policies")
protocol_names = _complete("eval.protocols.protocol:load_protocols")
experiment_names = _complete("eval.protocols.protocol:load_protocols")
perspective_names = _complete("retrievers.perspectives.store:list_perspectives")
precedent_names = _complete("retrievers.precedents.store:list_stores")
_dataset_names = _complete("eval.datasets:DATASETS", "tribunal.datasets")


def dataset_names(incomplete: str) -> list[str]:
    """Offer names for the last of several sets that are joined by +."""
    before, plus, last = incomplete.rpartition("+")
    return [f"{before}{plus}{each}" for each in _dataset_names(last) if each not in before.split("+")]


def perspective_list(incomplete: str) -> list[str]:
    """Offer names for the last of several that are separated by commas; for the only one `all` and `none`, too."""
    before, comma, last = incomplete.rpartition(",")
    offered = [each for each in perspective_names(last) if each not in before.split(",")]
    if not comma:
        offered += [each for each in ("all", "none") if each.startswith(last)]
    return [f"{before}{comma}{each}" for each in offered]
