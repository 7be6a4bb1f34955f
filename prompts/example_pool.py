"""The pool of example posts that policies take theirs from: `examples.toml`, in words of our own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tribunal.text import parse_toml


class ExampleGroup(BaseModel):
    """Contrasting posts by their kind, such as slur or quoted.

    Attributes:
        belonging: posts that belong to the category that names the group.
        contrasting: posts that look like it and don't.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    belonging: Mapping[str, str] = Field(alias="for", min_length=1)
    contrasting: Mapping[str, str] = Field(alias="against", min_length=1)


@lru_cache(maxsize=1)
def example_pool() -> Mapping[str, ExampleGroup]:
    """Return the groups of the pool by name."""
    text = files("tribunal.prompts").joinpath("examples.toml").read_text("utf-8")
    return TypeAdapter(dict[str, ExampleGroup]).validate_python(parse_toml(text))
