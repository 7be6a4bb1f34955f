"""The name that a server gives the model that answered, its fingerprint, and the name that was asked for."""

from __future__ import annotations

import re
from functools import lru_cache

# A tag, a release's date or a revision: llama3.2:latest, gpt-5-2025-08-07, gemini-2.5-flash-001.
_RELEASE = r"(?:[:@-](?:latest|\d{3,}[\d-]*))?"


@lru_cache(maxsize=256)
def is_same_model(asked: str, served: str) -> bool:
    """Return whether a served model is the one asked for, by its name; its folder, tag and release are no difference.

    Letter case and the ending of a model's file are none either.
    """
    wanted, given = (name.rpartition("/")[2].casefold().removesuffix(".gguf") for name in (asked, served))
    return re.fullmatch(re.escape(re.sub(r"[:@-]latest$", "", wanted)) + _RELEASE, given) is not None


def label_served(name: str | None, fingerprint: str | None) -> str | None:
    """Return what a server called its model, and in brackets its `system_fingerprint`; None where it said neither."""
    return f"{name or 'unnamed'} ({fingerprint})" if fingerprint else name


def name_of_label(served: str) -> str:
    """Return the model's name of a label, without the server's fingerprint."""
    return served.partition(" (")[0]


def warn_of_other_name(model: str, asked: str, served: str | None) -> list[str]:
    """Return a warning if a server names another model than it was asked for, else nothing.

    Args:
        model: the model as settings name it, with its provider.
        asked: its name as the server was asked for it.
        served: the name in the answer; None: it has none.
    """
    if not served or is_same_model(asked, served):
        return []
    return [f"{model} was answered by {served}: the server has another model, or another name for it; name it so"]
