"""Who can be asked, by name: the seats that have models and temperatures, and the views of `mv_debate`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tribunal.errors import BadInput

SEATS = (
    "gatekeeper",
    "prosecutor",
    "defender",
    "judge",
    "classifier",
    "perspective",
    "debater",
    "annotator",
    "researcher",
    "triage",
    "reflection",
    "summary",
)
# Seats of which there are several, told apart after a colon: perspective:kold, view:surface, agent:2.
KINDS = ("perspective", "debater", "view", "agent")
# The views of `mv_debate`: a name, and its title; its words are prompts/mv_debate/view_NAME.md.
VIEWS = {
    "surface": "Surface Analyst",
    "deep": "Deep Reasoner",
    "contrast": "Modality Contrast",
    "context": "Social Contextualist",
}
_PLAIN = re.compile(r"[a-z][a-z0-9_-]*(:[a-z0-9_-]+)?")
_own: dict[str, None] = {}  # the seats of graphs of one's own; of several of a kind, the kind


def register_seats(names: Iterable[str]) -> None:
    """Let seats of a graph of one's own be set like ours.

    Raises:
        BadInput: one is no plain name.
    """
    for name in names:
        if not _PLAIN.fullmatch(name):
            raise BadInput(f"seat: {name!r}: can't be a seat's name; give small letters, digits, - and _")
        _own[name.partition(":")[0]] = None


def seat_names() -> list[str]:
    """Return the names of the seats that can be set in this process: ours, then those of graphs of one's own."""
    return [*SEATS, *(name for name in _own if name not in SEATS)]


def seat_exists(seat: str) -> bool:
    """Return whether a seat can be set: one of ours, or of a graph of one's own that is loaded or installed."""
    if _is_known(seat):
        return True
    from tribunal.plugins import load_all  # only a name that is none of ours waits for the packages of others

    load_all("tribunal.graphs")
    return _is_known(seat)


def _is_known(seat: str) -> bool:
    kind = seat.partition(":")[0]
    return seat in SEATS or kind in KINDS or kind in _own
