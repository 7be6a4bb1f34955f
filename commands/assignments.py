"""`--set NAME=VALUE`: a setting by its name, in TOML, in JSON or in plain text."""

from __future__ import annotations

from typing import Any

from tribunal.errors import BadInput
from tribunal.parsed import from_json, from_toml

# Settings that have a value for each seat, so that one seat can be set by itself: seats.judge.
BY_SEAT = ("seats", "temperatures")


def assignments(given: list[str]) -> dict[str, Any]:
    """What was set, by the names of the fields of `Context`, which checks the names and the values.

    Raises:
        BadInput: there is no `=`, or something is set twice.
    """
    settings: dict[str, Any] = {}
    for each in given:
        name, equals, text = (part.strip() for part in each.partition("="))
        if not equals or not name:
            raise BadInput(f"set: {each!r}: give it as NAME=VALUE")
        setting, _, seat = name.partition(".")
        held = settings
        if seat and setting in BY_SEAT:
            held, name = settings.setdefault(setting, {}), seat
        if not isinstance(held, dict) or name in held:
            raise BadInput(f"set: {each!r}: {setting} is set twice; set it once")
        held[name] = _value(setting, text)
    return settings


def _value(setting: str, text: str) -> Any:
    """A value as it is meant: a word for a setting that takes words, a list of names where there are commas."""
    from tribunal.context import Context

    field = Context.model_fields.get(setting)
    takes = str(field.annotation) if field else ""
    read = _read(text)
    if isinstance(read, str):
        return [part.strip() for part in read.split(",")] if takes == "list[str]" else read
    return text if takes in ("<class 'str'>", "str | None", "dict[str, str]") and not isinstance(read, dict) else read


def _read(text: str) -> Any:
    """A TOML or JSON value; anything else, a date of TOML's among it, is text."""
    try:
        read = from_toml(f"value = {text}")
    except ValueError:
        try:
            return from_json(text)
        except ValueError:
            return text
    value = read["value"]
    return value if len(read) == 1 and isinstance(value, str | int | float | bool | list | dict) else text
