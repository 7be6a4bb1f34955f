"""The pool of example posts that policies take theirs from: `examples.toml`, in words of our own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
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


def groups_as_toml(names: Iterable[str]) -> str:
    """Return groups of the pool as a policy holds them, so that its text says all that is told of it."""
    lines: list[str] = []
    for name in sorted(names):
        for side, posts in example_pool()[name].model_dump(by_alias=True).items():
            lines.append(f"\n[pool.{name}.{side}]")
            # A string of JSON is one of TOML, too.
            lines += [f"{kind} = {json.dumps(post, ensure_ascii=False)}" for kind, post in posts.items()]
    return "\n".join(lines) + "\n"
