"""A form's JSON schema as it goes to a provider."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from tribunal.schema import JSON

# Not every provider takes bounds; what comes back is checked against them in any case.
_LEFT_OUT = ("title", "default", "maxLength", "minLength", "minItems", "maxItems", "minimum", "maximum")


@lru_cache(maxsize=256)
def wire_schema(form: type[BaseModel]) -> JSON:
    """A form's JSON schema as every provider takes it: closed objects, everything required, no bounds but enums."""
    return {"name": form.__name__, "strict": True, "schema": _closed(form.model_json_schema())}


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: {name: _closed(part) for name, part in value.items()} if key in ("properties", "$defs") else _closed(value)
        for key, value in schema.items()
        if key not in _LEFT_OUT
    }
    if kept.get("type") == "object":
        kept |= {"additionalProperties": False, "required": list(kept.get("properties", {}))}
    return kept
