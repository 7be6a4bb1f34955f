"""JSON and TOML of others: whatever is wrong with one, nesting that is too deep among it, is a `ValueError`."""

from __future__ import annotations

import json
import tomllib
from typing import Any


class TooDeep(ValueError):
    """It is nested more deeply than can be read."""


def from_json(text: str | bytes) -> Any:
    """What a JSON text holds.

    Raises:
        ValueError: it isn't JSON; `TooDeep` where it is nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise TooDeep("it is nested too deeply") from None


def from_toml(text: str | bytes) -> dict[str, Any]:
    """What a TOML text, in UTF-8, holds.

    Raises:
        ValueError: it isn't TOML; `TooDeep` where it is nested too deeply.
    """
    try:
        return tomllib.loads(text if isinstance(text, str) else text.decode("utf-8"))
    except RecursionError:
        raise TooDeep("it is nested too deeply") from None
