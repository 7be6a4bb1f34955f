"""A short answer that a JSON schema allows, for models that don't know the question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tribunal.core.calls import JSON


def fill_schema(schema: JSON, words: Callable[[], str]) -> Any:
    """Return the shortest answer that a schema allows: the first of several values, texts of ours, lists of one entry.

    A list that is empty by default stays so.

    Args:
        schema: of an object.
        words: gives the text of a field that may hold any text; it is cut where the field is shorter.
    """

    def filled(form: Any) -> Any:
        if "$ref" in form:
            return filled(schema["$defs"][form["$ref"].rpartition("/")[2]])
        if "const" in form or "enum" in form:
            return form["const"] if "const" in form else form["enum"][0]
        options = form.get("anyOf") or form.get("oneOf") or form.get("allOf")
        if options:
            return filled(
                next((each for each in options if each.get("type") != "null"), options[0])
            )
        kind = form.get("type")
        if kind == "object":
            return {name: filled(each) for name, each in form.get("properties", {}).items()}
        if kind == "array" and form.get("default") == []:
            return []
        if kind == "array":
            return [
                filled(form["items"])
                for _ in range(min(max(form.get("minItems", 0), 1), form.get("maxItems", 1)))
            ]
        if kind in ("number", "integer"):
            return form.get("minimum", 0)
        return {"boolean": False, "null": None}.get(kind, words()[: form.get("maxLength")])

    return filled(schema)
