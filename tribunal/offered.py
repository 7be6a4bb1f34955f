"""What a graph offers to be set: the form that Studio shows of it, made of the settings that it heeds.

The server asks a graph for this form, and leaves out what a client sets beside it without a word. So the form says
that it has every name (`EveryName`): each setting arrives, and one that there isn't is refused, with what was meant.
"""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, WithJsonSchema, create_model
from pydantic.fields import FieldInfo

from tribunal.context import Context, EveryName, context_from
from tribunal.graph_nodes import nodes_heeding
from tribunal.heeding import MODES, heeds_setting, seats_in
from tribunal.schema import JSON
from tribunal.seats import KINDS, VIEWS
from tribunal.settings import GRAPHS, SETTINGS
from tribunal.trust import POLICIES

# What each mode leaves of a system.
MODE_WORDS = {
    "full": "all of it",
    "round-1-only": "no responses in the debate",
    "majority": "a vote of the perspectives, no debate",
    "single": "one perspective decides",
    "base": "one annotator, no perspectives",
    "leave-out": "all perspectives but the one that is left out",
    "criterion-only": "perspectives without their examples",
    "examples-only": "perspectives without their criteria",
    "no-knowledge": "no research",
    "no-search": "the model names pages itself",
    "no-details": "shorter prompts",
    "zero-shot": "one call, answered yes or no",
}


class _Offered(BaseModel):
    """The base of every form: what it makes of what a client sets is a whole `Context`."""

    model_config = ConfigDict(extra="forbid")
    graph: ClassVar[str]

    if not TYPE_CHECKING:

        def __new__(cls, **given: Any) -> Context:
            """Raises BadInput: one is wrong, or there is no such setting."""
            return context_from(given)

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> JSON:
        """Return the form, each setting with the nodes at which Studio offers it (`langgraph_nodes`).

        None is of Studio's type `prompt`: our settings name prompts and policies, and hold no words of theirs.
        """
        form = EveryName.in_schema(super().model_json_schema(*args, **kwargs))
        for name, field in form["properties"].items() if cls.graph in GRAPHS else ():
            field["langgraph_nodes"] = nodes_heeding(name, cls.graph)
        return form


@cache
def settings_of(graph: str) -> type[Context]:
    """The form of a graph, as its `context_schema`. A node is given a whole `Context`, not this.

    Args:
        graph: one of `settings.GRAPHS`, or the name of a `System`.
    """
    heeded = [name for name in SETTINGS if heeds_setting(graph, name)]
    fields: dict[str, Any] = {name: _field(name, graph) for name in heeded}
    form = create_model(
        f"Settings of {graph}", __base__=_Offered, __doc__=f"The settings that {graph} heeds.", **fields
    )
    form.graph = graph
    return cast("type[Context]", form)


def _field(name: str, graph: str) -> tuple[Any, FieldInfo]:
    """A setting as this graph's form has it; who else heeds it isn't said."""
    field, setting = Context.model_fields[name], SETTINGS[name]
    kind: Any = field.annotation
    does, examples = setting.does, None
    match name:
        case "mode":
            does = "Which variant of the system runs. " + "; ".join(f"{m}: {MODE_WORDS[m]}" for m in MODES[graph]) + "."
            kind = Literal[MODES[graph]]
        case "policy":
            examples = list(POLICIES if graph in SETTINGS["task"].graphs else POLICIES[:1])
        case "seats":
            kind = Annotated[kind, WithJsonSchema(_by_seat(graph, {"type": "string", "examples": ["rehearsal"]}))]
            does = (
                f"A model for one seat, by the seat's name: {', '.join(seats_in(graph))}. It beats every other model."
            )
        case "temperatures":
            kind = Annotated[kind, WithJsonSchema(_by_seat(graph, {"type": "number", "minimum": 0, "maximum": 2}))]
            does = f"A temperature for one seat, from 0 to 2, by the seat's name: {', '.join(seats_in(graph))}."
        case "views":
            items: JSON = {"type": "string", "enum": list(VIEWS)}
            kind = Annotated[kind, WithJsonSchema({"type": "array", "items": items, "uniqueItems": True})]
    shown = copy(field)
    shown.description, shown.examples = f"{does} Default: {setting.default}.", examples
    return kind, shown


def _by_seat(graph: str, value: JSON) -> JSON:
    """The JSON schema of a table by seat. Of several of a kind, one is named after a colon, as in view:surface."""
    several = [seat for seat in seats_in(graph) if seat in KINDS]
    table: JSON = {
        "type": "object",
        "properties": {seat: {"title": seat.capitalize(), **value} for seat in seats_in(graph)},
        "additionalProperties": False,
    }
    return {**table, "patternProperties": {f"^{seat}:": value for seat in several}} if several else table
