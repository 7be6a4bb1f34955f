"""A line-up: who sits in which seat, under a name, in a small TOML file. Those of the papers are shipped.

views = ["surface", "deep", "contrast", "context"]

[seats]
"view:surface" = "ollama:gemma3:12b"
"view:deep" = "qwen:qwen3-vl-plus"
judge = "anthropic:claude-haiku-4-5"

[temperatures]
view = 0

[extra_body."qwen:*"]
enable_thinking = false
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

from tribunal.core.text import parse_toml
from tribunal.errors import BadInput
from tribunal.settings.contents import NamedTexts
from tribunal.settings.context import Context, context_from

FIELDS = ("seats", "temperatures", "views", "extra_body")
Setting = TypeVar("Setting")


async def apply_line_up(context: Context, case: Mapping[str, Any] | None = None, *, afresh: bool = False) -> Context:
    """Return the context with its line-up filled in; what a run sets of its own beats the line-up's.

    Args:
        context: the settings of a run.
        case: a case that has begun: the line-up whose text lies in it is the one.
        afresh: read the file even where that was done before; so every post starts from it as it stands then.

    Raises:
        BadInput: there is no such line-up, the file can't be read, or isn't a line-up; or a client of this server may
            not set what lies in the case.
    """
    name = context.line_up
    if name is None:
        return context
    loaded = LINE_UPS.load(name, afresh=True) if afresh else LINE_UPS.text_of_case(case, name)
    return apply_line_up_text(context, await loaded)


def apply_line_up_text(context: Context, text: str) -> Context:
    """Return the context with the line-up of this text filled in.

    Raises:
        BadInput: the text is none of a line-up.
    """
    line_up = _parse_line_up(text, context.line_up or "")
    return context.model_copy(
        update={
            "seats": _merge_seats(line_up.seats, context.seats),
            "temperatures": _merge_seats(line_up.temperatures, context.temperatures),
            "views": context.views or line_up.views,
            "extra_body": line_up.extra_body | context.extra_body,
        }
    )


def _merge_seats(named: dict[str, Setting], own: dict[str, Setting]) -> dict[str, Setting]:
    """Put a run's own settings over a file's; one for a whole kind (`view`) beats the file's for one of it."""
    return {**{seat: value for seat, value in named.items() if seat.partition(":")[0] not in own}, **own}


@lru_cache(maxsize=64)
def _parse_line_up(text: str, name: str) -> Context:
    try:
        values = parse_toml(text)
    except ValueError as error:
        raise BadInput(f"line_up: {name}: not a TOML file: {error}; give a TOML file with [seats]") from error
    if unknown := next((field for field in values if field not in FIELDS), None):
        raise BadInput(f"line_up: {name}: {unknown}: a line-up has none; it has {', '.join(FIELDS)}")
    try:
        return context_from(values)
    except BadInput as error:
        raise BadInput(f"line_up: {name}: {error}") from error


LINE_UPS = NamedTexts(
    "line_up",
    "TOML",
    _parse_line_up,
    "give a TOML file with [seats], or a shipped line-up: {names}",
    "tribunal:line_ups",
)
