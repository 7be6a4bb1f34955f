"""A channel of a case: how an update joins what is held, and the form that nodes read it as."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from langgraph.channels import LastValue
from pydantic import Field, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import CoreSchema

from tribunal.errors import WrongState
from tribunal.schema import JSON
from tribunal.text import shorten_repr, wellformed_json


class PostChannel(LastValue[Any]):
    """A channel of the post as it was given: whatever no database or model takes is repaired before it is stored.

    A checkpointer writes the input of a graph before any node runs, and PostgreSQL takes neither NUL nor half a
    surrogate pair.
    """

    __slots__ = ()

    def update(self, values: Sequence[Any]) -> bool:
        """Take the update of a step; return whether there is one."""
        return super().update([wellformed_json(value) for value in values])


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

    def __init__(self, form: Any, description: str) -> None:
        """Take the model, and the description of the channel."""
        self.form, self.description = form, description

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JSON:
        """Return the model's schema."""
        return {**handler(TypeAdapter(self.form).core_schema), "description": self.description}


def says(words: str, **more: Any) -> Any:
    """Return the description of a channel that is read as it is, which Studio shows beside its value."""
    return Field(description=words, **more)


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    """Return what reads a form, made when it is first asked for: nodes read few of the channels."""
    return TypeAdapter(form)


def read_as(form: Any, channel: str, value: Any) -> Any:
    """Return the value of a channel in its form.

    Raises:
        WrongState: it has another form.
    """
    try:
        return _adapter(form).validate_python(value)
    except (ValidationError, TypeError) as error:
        raise WrongState(_describe_fault(channel, value, error)) from error


def find_wrong_channel(state: Mapping[str, Any], forms: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the first channel that has another form than nodes read, and a line that says what is wrong with it.

    The outcome is left out: `nodes.verdict` checks it.
    """
    for channel in forms:
        if channel in state and channel != "outcome":
            try:
                read_as(forms[channel], channel, state[channel])
            except WrongState as wrong:
                return channel, str(wrong)
    return None


def _describe_fault(channel: str, value: Any, error: ValidationError | TypeError) -> str:
    if not isinstance(error, ValidationError):
        return f"{channel}: {shorten_repr(value)}: {error}"
    first = error.errors(include_url=False)[0]
    field = ".".join([channel, *(str(part) for part in first["loc"])])
    way = "see the state's schema for its form"
    if first["type"] == "missing":
        return f"{field}: is missing; {way}"
    return f"{field}: {shorten_repr(first['input'])}: {plain_reason(first['msg'])}; {way}"


def plain_reason(message: str) -> str:
    """Return what pydantic says is wrong, without the words that only a programmer reads."""
    return re.sub(r" or instance of \w+", "", message.removeprefix("Value error, ").removeprefix("Input "))
