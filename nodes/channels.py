"""The declaration of a channel of a case: how an update joins what is held, and the model that nodes read it as."""

from __future__ import annotations

from typing import Any

from pydantic import Field, GetJsonSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema

from tribunal.errors import WrongState
from tribunal.schema import JSON


def merge(held: list[JSON], new: list[JSON]) -> list[JSON]:
    """Append what is new and replace what has an `id` already held.

    So a subgraph may hand back what its parent holds, and a turn edited in Studio stands in the place of the old one.

    Raises:
        WrongState: what is new is no list of entries with an id each.
    """
    try:
        return list({entry["id"]: entry for entry in (*held, *new)}.values()) if new else held
    except (TypeError, LookupError) as error:
        raise WrongState(f"state: {str(new)[:80]!r}: is no list of entries, each of which has an id") from error


def union(held: list[str], new: list[str]) -> list[str]:
    """Append what isn't held yet.

    Raises:
        WrongState: what is new is no list of texts.
    """
    if not isinstance(new, list | tuple) or not all(isinstance(each, str) for each in new):
        raise WrongState(f"state: {str(new)[:80]!r}: is no list of texts")
    return list(dict.fromkeys([*held, *new]))


class Like:
    """Marks a channel of plain JSON with the model that a node reads it as, whose JSON schema Studio shows."""

    def __init__(self, form: Any) -> None:
        """Take the model."""
        self.form = form

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JSON:
        """Return the model's schema."""
        return handler(TypeAdapter(self.form).core_schema)


def says(words: str, **more: Any) -> Any:
    """Return the description of a channel, which Studio shows beside its value."""
    return Field(description=words, **more)
