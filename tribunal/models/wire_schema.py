"""The schema of an answer as it is sent, and the JSON that comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from tribunal.core.text import TooDeep, parse_json
from tribunal.models.providers import LENGTHS, LISTS, RANGES
from tribunal.schema import JSON

_NOISE = frozenset({"title", "default"})
_BOUNDS = LISTS | RANGES | LENGTHS
# Where a form says nothing: under a grammar, what has no bound is what a model in a loop goes on with for ever.
MOST_ITEMS = 20
MOST_CHARACTERS = 1500
# llama.cpp refuses a grammar that repeats something 2,000 times.
_LONGEST = 1999


@lru_cache(maxsize=512)
def wire_schema(
    form: type[BaseModel], bounds: frozenset[str] = frozenset(), *, label_first: bool = False
) -> JSON:
    """Return a form's JSON schema as every provider takes it: closed objects, everything required.

    Args:
        form: the form.
        bounds: the keywords of bounds that the provider takes. What comes back is checked in any case. Where `maxItems`
            is one, every list has it, and where `maxLength` is one, every string that isn't one of a few has it.
        label_first: whether a field with a closed list of values comes first; otherwise as in the form. A model
            that follows a schema writes the fields in its order.
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
        case "string" if "maxLength" in bounds and not kept.keys() & {
            "enum",
            "const",
            "format",
            "pattern",
        }:
            kept["maxLength"] = min(kept.get("maxLength", MOST_CHARACTERS), _LONGEST)
    return kept


def _iter_values(
    schema: Any, name: str, defined: JSON, within: tuple[str, ...] = ()
) -> Iterator[tuple[str, Any]]:
    """Yield the allowed values of a part of a schema, each with the name of its field."""
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


_FENCE = re.compile(r"```(?:json)?\s*\n?(.*?)```", re.DOTALL | re.IGNORECASE)
_OPEN_OBJECT = re.compile(r"\{")
_OPEN_LIST = re.compile(r"\[\s*[{\]]")
_DECODER = json.JSONDecoder()
_FLAT_OBJECT = re.compile(r"\{[^{}]{1,5000}\}")
_MOST_MENDED = 50  # objects of one text that are repaired before they are compared
_DEEPEST_WRAPPING = 3


def find_json(
    said: str, quoted: Iterable[str], *, lists: bool = False, may_equal: bool = False
) -> list[Any]:
    """Return what JSON an answer holds: the whole of it, else the outermost objects in it, else a mended object.

    Args:
        said: the answer.
        quoted: texts from outside that the model was shown; JSON in them isn't its answer.
        lists: whether arrays of objects are looked for in the place of objects.
        may_equal: whether a bare answer may equal something quoted, since the form has a few values only.

    Raises:
        TooDeep, RecursionError: it is nested too deeply.
    """
    texts = [text for text in quoted if "{" in text]
    known = [value for text in texts for value in _objects_in(text)]
    try:
        whole = parse_json(said)
    except TooDeep:
        raise
    except ValueError:
        candidates = _embedded_json(said, lists) or _mend_json(said, texts, lists)
        return [value for value in candidates if not _is_quoted(value, known)]
    return [whole] if may_equal or not _is_quoted(whole, known) else []


def unwrap(value: Any, form: type[BaseModel]) -> Any:
    """Return the object in a list of one, in a text, or under a single name that the form doesn't have."""
    for _ in range(_DEEPEST_WRAPPING):
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        elif isinstance(value, str) and value.lstrip().startswith(("{", "[", '"')):
            try:
                value = parse_json(value)
            except ValueError:
                break
        elif (
            isinstance(value, dict)
            and len(value) == 1
            and not form.model_fields.keys() & value.keys()
        ):
            (inner,) = value.values()
            if not isinstance(inner, dict | list | str):
                break
            value = inner
        else:
            break
    return value


def _is_quoted(value: Any, known: list[Any]) -> bool:
    """Return whether a value, or the only object inside it, equals one that was quoted."""
    if not known:
        return False
    for _ in range(_DEEPEST_WRAPPING):
        if isinstance(value, dict) and value in known:
            return True
        inner = (
            value
            if isinstance(value, list)
            else list(value.values())
            if isinstance(value, dict)
            else []
        )
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = parse_json(value)
                continue
            except ValueError:
                return False
        if len(inner) != 1:
            return False
        value = inner[0]
    return False


def _objects_in(text: str) -> Iterator[Any]:
    """Yield every JSON object in a text, nested objects included, and objects that a model would write correctly."""
    at = text.find("{")
    mended = 0
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            flat = _FLAT_OBJECT.match(text, at) if mended < _MOST_MENDED else None
            if flat:
                import json_repair

                mended += 1
                yield from _inner_objects(json_repair.loads(flat[0]))
            at = text.find("{", at + 1)
            continue
        yield from _inner_objects(value)
        at = text.find("{", end)


def _inner_objects(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _inner_objects(each)


def _embedded_json(said: str, lists: bool) -> list[Any]:
    """Return the outermost JSON objects that are complete in a text."""
    values: list[Any] = []
    opening = _OPEN_LIST if lists else _OPEN_OBJECT
    start = opening.search(said)
    while start:
        try:
            value, end = _DECODER.raw_decode(said, start.start())
        except ValueError:
            # An object that never closes may hold others that do; they are parts of it, not answers.
            return values
        values.append(value)
        start = opening.search(said, end)
    return values


def _mend_json(said: str, quoted: list[str], lists: bool) -> list[Any]:
    fenced = _FENCE.search(said)
    text = fenced[1].strip() if fenced else said
    start = text.find("{["[lists])
    end = text.rfind("}]"[lists])
    body = text[start : end + 1]
    # A cut answer lacks its last brackets, and can't be completed.
    balanced = body.count("{") == body.count("}") and body.count("[") == body.count("]")
    if start == -1 or not body or not balanced or text[end + 1 :].strip(" \n\t`"):
        return []
    if any(body in each for each in quoted):
        return []
    import json_repair  # most answers need no mending

    return [json_repair.loads(body)]
