"""What models were shown of a case, by its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tribunal.schema import JSON, ShownPart


def shown_in(calls: Sequence[JSON]) -> frozenset[ShownPart] | None:
    """What of the case at least one of these calls was shown; None where a call of an old record doesn't say."""
    held = [call.get("shown") for call in calls]
    return None if None in held else frozenset(each for shown in held for each in shown or ())
