"""Long tables of the tests, which are JSON beside the file that uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def table(file: str, name: str) -> Any:
    """Return a table of `tests/x/test_y.json`, where `tests/x/test_y.py` is the file that uses it."""
    return json.loads(Path(file).with_suffix(".json").read_text("utf-8"))[name]
