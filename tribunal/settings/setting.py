"""Declarations: how a setting is declared, and the names of all settings, graphs and seats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from tribunal.core.calls import JSON
from tribunal.plugins import load_all
from tribunal.settings.names import SECTION_TITLES, Clients


@dataclass
class Setting:
    """The description of a setting beside its type: the `json_schema_extra` of its field.

    Attributes:
        section: the section of the help and of docs/settings.md.
        title: its title in Studio.
        does: its effect, in words.
        value: its default; `list` and `dict` mean an empty one.
        default: its default in words, where they differ from the value.
        nodes: the nodes that read it; empty: every node that asks a model.
        clients: the values that a server's client may set (`tribunal.settings.client_settings`).
        words: whether it holds words that models are shown: Studio's type `prompt`.
        name: its name, which is that of the field.
        graphs: the graphs that have it; empty: every graph.
    """

    section: str
    title: str
    does: str
    value: Any
    default: str
    nodes: Sequence[str]
    clients: Clients
    words: bool = False
    name: str = ""
    graphs: tuple[str, ...] = ()

    def __call__(self, schema: JSON) -> None:
        """Leave the schema as it is: `tribunal.settings.form` adds to it."""

    @property
    def default_value(self) -> Any:
        """Return its default."""
        return self.value() if isinstance(self.value, type) else self.value


# Every setting by its name.
DECLARED: dict[str, Setting] = {}
# The seats that can be set. True: it may be one of several, named after a colon, as in view:surface.
SETTABLE_SEATS: dict[str, bool] = {}


def setting(
    section: str,
    title: str,
    does: str,
    value: Any,
    *,
    default: str = "",
    nodes: Sequence[str] = (),
    clients: Clients = "nothing",
    words: bool = False,
    **how: Any,
) -> Any:
    """Declare a setting as a field. `how` are arguments of pydantic's `Field`, such as ge, gt and le."""
    described = Setting(
        section, title, does, value, default or _in_words(value), nodes, clients, words
    )
    how["default_factory" if isinstance(value, type) else "default"] = value
    return Field(title=title, json_schema_extra=described, **how)


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return (
        "none"
        if value is None or isinstance(value, type)
        else f"{value:g}"
        if type(value) is float
        else str(value)
    )


def settings_in_order() -> list[Setting]:
    """Return every setting, in the order in which a person would set them."""
    return sorted(DECLARED.values(), key=lambda each: SECTION_TITLES.index(each.section))


def is_settable_seat(seat: str) -> bool:
    """Return whether a seat can be set: a built-in seat, or a seat of a custom graph that is loaded or installed."""
    kind = seat.partition(":")[0]
    if seat not in SETTABLE_SEATS and not SETTABLE_SEATS.get(kind):
        load_all("tribunal.graphs")  # only an unknown name waits for the packages of others
    return seat in SETTABLE_SEATS or SETTABLE_SEATS.get(kind, False)
