"""The rehearsal model as all but its own rules speak of it: its name, and what is said wherever it took part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass

REHEARSAL = "rehearsal:court"
REHEARSED = (
    "the rehearsal model took part: it follows a small set of written rules, knows nothing of the world, and is no "
    "moderator; name a model with --model or TRIBUNAL_MODEL"
)
# What it says where its rules find nothing.
NOTHING_FOUND = (
    "The rehearsal's rules found nothing in the post; they know few words and miss most, so that is no reason to think "
    "it fine."
)


def rehearsed(calls: Iterable[Mapping[str, Any]], warnings: Iterable[str] = ()) -> bool:
    """Whether the rehearsal model was asked in any of these calls, or had a part that left no call, as in a replay."""
    return REHEARSED in warnings or any(call.get("model") == REHEARSAL for call in calls)
