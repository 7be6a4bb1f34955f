"""The form that Studio shows of a graph, made of the settings that it heeds, each with the nodes that heed it.

The server asks a graph for this form, and leaves out what a client sets beside it without a word. So the form says
that it has every name (`SettingsForm`): each setting arrives, and one that there isn't is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, cast

from pydantic import WithJsonSchema, create_model

from tribunal.context import Context, SettingsForm, context_from
from tribunal.schema import JSON
from tribunal.settings import GRAPHS, MODES, SETTINGS, describe_modes
from tribunal.shared_settings import DECIDING, KINDS, VIEWS
from tribunal.systems import heeds_setting, seats_in
from tribunal.trust import POLICIES


class _GraphForm(SettingsForm):
    """The base of every form: what it makes of what a client sets is a whole `Context`."""

    graph: ClassVar[str]

    if not TYPE_CHECKING:

        def __new__(cls, **given: Any) -> Context:
            """Return the context; raise BadInput if one setting is wrong, or there is none of its name."""
            return context_from(given)

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> JSON:
        """Return the form, each setting with the nodes at which Studio offers it (`langgraph_nodes`).

        None is of Studio's type `prompt`: our settings name prompts and policies, and hold no words of theirs.
        """
        form = super().model_json_schema(*args, **kwargs)
        for name, field in form["properties"].items() if cls.graph in GRAPHS else ():
            field["langgraph_nodes"] = nodes_heeding(name, cls.graph)
        return form


@cache
def settings_of(graph: str) -> type[Context]:
    """Return the form of a graph, as its `context_schema`. A node is given a whole `Context`, not this.

    Args:
        graph: one of `settings.GRAPHS`, or the name of a `System`.
    """
    seats = ", ".join(seats_in(graph))
    kinds: dict[str, Any] = {
        "seats": _by_seat(graph, {"type": "string", "examples": ["rehearsal"]}),
        "temperatures": _by_seat(graph, {"type": "number", "minimum": 0, "maximum": 2}),
        "views": {"type": "array", "items": {"type": "string", "enum": list(VIEWS)}, "uniqueItems": True},
    }
    words = {
        "mode": describe_modes(MODES.get(graph, ())),
        "seats": f"A model for one seat, by the seat's name: {seats}. It beats every other model.",
        "temperatures": f"A temperature for one seat, from 0 to 2, by the seat's name: {seats}.",
    }
    fields: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        if heeds_setting(graph, name):
            field = copy(Context.model_fields[name])
            field.description = f"{words.get(name, setting.does)} Default: {setting.default}."
            if name == "policy":
                field.examples = list(POLICIES if graph in SETTINGS["task"].graphs else POLICIES[:1])
            kind = Literal[MODES[graph]] if name == "mode" else field.annotation
            fields[name] = Annotated[kind, WithJsonSchema(kinds[name])] if name in kinds else kind, field
    form = create_model(
        f"Settings of {graph}", __base__=_GraphForm, __doc__=f"The settings that {graph} heeds.", **fields
    )
    form.graph = graph
    return cast("type[Context]", form)


def _by_seat(graph: str, value: JSON) -> JSON:
    """Return the JSON schema of a table by seat. Of several of a kind, one is named after a colon: view:surface."""
    several = [seat for seat in seats_in(graph) if seat in KINDS]
    table: JSON = {
        "type": "object",
        "properties": {seat: {"title": seat.capitalize(), **value} for seat in seats_in(graph)},
        "additionalProperties": False,
    }
    return {**table, "patternProperties": {f"^{seat}:": value for seat in several}} if several else table


class GraphNode(NamedTuple):
    """A node of one of our graphs.

    `top` is the node of the graph itself that it is, or lies in; `drawn` its name in the drawing: `deep_dive:defend`.
    """

    name: str
    top: str
    drawn: str
    asks: bool


@cache
def nodes_of(graph: str) -> list[GraphNode]:
    """Return the nodes of one of our graphs, with those inside its subgraphs."""
    # On a floor above, and imported only when somebody asks: a server loads the file of a graph under another name.
    return list(_nodes_in(import_module(f"tribunal.graphs.{graph}").builder, "", ""))


def _nodes_in(builder: Any, top: str, around: str) -> Iterator[GraphNode]:
    for name, spec in builder.nodes.items():
        asks = getattr(spec.runnable, "asks_a_model", False)
        yield GraphNode(name, top or name, f"{around}{name}", asks)
        if hasattr(spec.runnable, "builder"):
            yield from _nodes_in(spec.runnable.builder, top or name, f"{around}{name}:")


def agents_of(graph: str) -> list[str]:
    """Return the names of the nodes of a graph that ask a model, in the order in which they stand in it."""
    return list(dict.fromkeys(node.name for node in nodes_of(graph) if node.asks))


def nodes_heeding(setting: str, graph: str) -> list[str]:
    """Return the nodes of a graph at which Studio offers a setting.

    Each stands there by the name of the graph's own node, and if it lies inside one, by its name in the drawing too.
    """
    named = SETTINGS[setting].nodes
    if setting == "aux_model":
        heeding = [node for node in nodes_of(graph) if node.asks and node.name not in (*DECIDING, "triage")]
    else:
        heeding = [node for node in nodes_of(graph) if (node.name in named if named else node.asks)]
    return list(dict.fromkeys(name for node in heeding for name in (node.top, node.drawn)))
