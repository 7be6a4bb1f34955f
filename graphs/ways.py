"""The ways that lead on from a node, each drawn with what has to be so for it."""

from __future__ import annotations

from collections.abc import Hashable


class Way(str):
    """A node, as a router names it; the drawing shows `when` beside the edge."""

    when: str

    def __new__(cls, node: str, when: str) -> Way:
        way = super().__new__(cls, node)
        way.when = when
        return way

    def __str__(self) -> str:
        return self.when


def ways(**when: str) -> dict[Hashable, str]:
    """The ways of a router: `ways(fast_track="explicit cue", deep_dive="no cue")`. The end is called `__end__`."""
    return {Way(node, label): node for node, label in when.items()}
