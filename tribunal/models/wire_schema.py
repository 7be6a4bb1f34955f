"""A form's JSON schema as it goes to a provider."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from tribunal.models.providers import LENGTHS, LISTS, RANGES
from tribunal.schema import JSON

_NOISE = frozenset({"title", "default"})
_BOUNDS = LISTS | RANGES | LENGTHS
# Where a form says nothing: under a grammar, what has no bound is what a model in a loop goes on with for ever.
MOST_ITEMS, MOST_CHARACTERS = 20, 1500
# llama.cpp refuses a grammar that repeats something 2,000 times.
_LONGEST = 1999


@lru_cache(maxsize=512)
def wire_schema(form: type[BaseModel], bounds: frozenset[str] = frozenset(), *, label_first: bool = False) -> JSON:
    """Return a form's JSON schema as every provider takes it: closed objects, everything required.

    Args:
        form: the form.
        bounds: the keywords of bounds that the provider takes. What comes back is checked in any case. Where `maxItems`
            is one, every list has it, and where `maxLength` is one, every string that isn't one of a few has it.
        label_first: whether a field that is one of a few values stands before the others; else as in the form. A model
            that is held to a schema writes the fields in its order.
    """
    schema = _close_objects(form.model_json_schema(), bounds, label_first)
    return {"name": form.__name__, "strict": True, "schema": schema}


@lru_cache(maxsize=512)
def allowed_values(form: type[BaseModel]) -> dict[str, list[Any]]:
    """Return the values that a form's fields may have, where there are only so many, by the field's name."""
    found: dict[str, list[Any]] = {}
    schema = form.model_json_schema()
    for name, value in _iter_values(schema, "", schema.get("$defs", {})):
        values = found.setdefault(name, [])
        if value not in values:
            values.append(value)
    return found


def _close_objects(schema: Any, bounds: frozenset[str], label_first: bool) -> Any:
    if isinstance(schema, list):
        return [_close_objects(part, bounds, label_first) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept: JSON = {
        key: {name: _close_objects(part, bounds, label_first) for name, part in value.items()}
        if key in ("properties", "$defs")
        else _close_objects(value, bounds, label_first)
        for key, value in schema.items()
        if key not in _NOISE and (key not in _BOUNDS or key in bounds)
    }
    match kept.get("type"):
        case "object":
            fields = kept.get("properties", {})
            order = sorted(fields, key=lambda name: label_first and "enum" not in fields[name])
            kept |= {"additionalProperties": False, "required": order}
            kept |= {"properties": {name: fields[name] for name in order}} if fields else {}
        case "array" if "maxItems" in bounds:
            kept.setdefault("maxItems", max(MOST_ITEMS, kept.get("minItems", 0)))
        case "string" if "maxLength" in bounds and not kept.keys() & {"enum", "const", "format", "pattern"}:
            kept["maxLength"] = min(kept.get("maxLength", MOST_CHARACTERS), _LONGEST)
    return kept


def _iter_values(schema: Any, name: str, defined: JSON, within: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the values that a part of a schema allows, each with the name of the field that it stands for."""
    if isinstance(schema, list):
        for part in schema:
            yield from _iter_values(part, name, defined, within)
    elif isinstance(schema, dict):
        yield from ((name, value) for value in schema.get("enum", ()))
        kind = str(schema.get("$ref", "")).rpartition("/")[2]
        if kind and kind not in within:  # a form may hold itself
            yield from _iter_values(defined[kind], name, defined, (*within, kind))
        for key, value in schema.items():
            if key == "properties":
                for field, part in value.items():
                    yield from _iter_values(part, field, defined, within)
            elif key not in ("enum", "default", "required", "$defs", "$ref"):
                yield from _iter_values(value, name, defined, within)
