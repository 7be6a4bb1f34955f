"""A schema and a script that answers by it, quick to import: a server in a process of its own loads it."""

from __future__ import annotations

import json
from typing import Any

from tests.doubles import Reply, Request

SCHEMA: dict[str, Any] = {
    "title": "Ruling",
    "type": "object",
    "properties": {"label": {"type": "integer", "enum": [0, 1]}, "explanation": {"type": "string"}},
    "required": ["label", "explanation"],
    "additionalProperties": False,
}


def ruling(request: Request) -> Reply:
    """A ruling of the label that the post is marked with, where a ruling is asked for; else a word."""
    if request.schema is None:
        return Reply("scripted")
    assert request.schema == SCHEMA, json.dumps(request.schema)
    return Reply({"label": int(request.hints.get("label", "0")), "explanation": "scripted"})
