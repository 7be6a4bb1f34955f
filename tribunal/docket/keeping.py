"""Whether a verdict is kept, and the warning if it could not be. No part of LangGraph is needed to know."""

from __future__ import annotations

import os
from typing import Literal

from tribunal.errors import BadInput
from tribunal.schema import Frozen, Record

_WAYS = ("yes", "no", "no-text")


class KeepOptions(Frozen):
    """A way of keeping verdicts.

    Attributes:
        via: the way in.
        text: whether words are kept too; else what was decided, by whom and by what, and hashes.
        database: its address; None: the SQLite file in the data folder.
    """

    via: Literal["command", "python", "batch", "studio"]
    text: bool = True
    database: str | None = None


def keep_options(
    via: Literal["command", "python", "batch", "studio"],
    keep: bool | None = None,
    text: bool | None = None,
    *,
    review: bool = False,
    database: str | None = None,
) -> KeepOptions | None:
    """Return how a verdict is kept, or None. Options beat TRIBUNAL_KEEP; by default those with review are kept.

    TRIBUNAL_KEEP (yes, no, no-text) and TRIBUNAL_DATABASE count from the environment alone, and from no `.env` file:
    whoever brings one would else lead posts to a place of their choice.

    Raises:
        BadInput: TRIBUNAL_KEEP is none of these.
    """
    way = os.environ.get("TRIBUNAL_KEEP", "").strip()
    if way and way not in _WAYS:
        raise BadInput(f"TRIBUNAL_KEEP: {way[:40]!r}: is no way to keep; give {', '.join(_WAYS)}")
    if keep is False and text:
        raise BadInput(
            "keep_text: a verdict that isn't kept has no text that is; leave one of the two out"
        )
    if keep is None:
        keep = text is not None or way in ("yes", "no-text") or (review and way != "no")
    if not keep:
        return None
    whole = text if text is not None else way != "no-text"
    return KeepOptions(
        via=via, text=whole, database=database or os.environ.get("TRIBUNAL_DATABASE") or None
    )


_UNREVIEWED = "this case could not be kept for a person to review"
_UNKEPT = "this verdict could not be kept"


def unkept_warning(why: str, *, review: bool) -> str:
    """Return the warning of a verdict that could not be kept, or of a case that a person should have had to review."""
    return f"{_UNREVIEWED if review else _UNKEPT} ({why})"


def find_unkept_warning(record: Record) -> str | None:
    """Return that warning of a record that is over, in a line; None if all was kept that should have been."""
    found = [each for each in record.warnings if each.startswith((_UNREVIEWED, _UNKEPT))]
    if record.outcome == "pending" or not found:
        return None
    return f"not kept{', so no person will be asked' if found[0].startswith(_UNREVIEWED) else ''}: {found[0]}"
