"""The contract of a piece, and the settings of a composed graph: the settings that its pieces read.

They take the place of `Context`, which has every setting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from langgraph.graph import StateGraph

from tribunal.nodes.intake import graph_received, received_by
from tribunal.settings.base import GRAPH_SETTINGS, EveryGraph
from tribunal.settings.context import Context
from tribunal.settings.graph_settings import GRAPHS
from tribunal.settings.names import GraphNode, Mode, node_heeds, nodes_in
from tribunal.settings.setting import DECLARED
from tribunal.settings.systems import OF_ANY_AGENT, derive_settings, system_of

_CERTAINTY = ("threshold", "threshold_file")  # which every verdict is held to


@dataclass(frozen=True)
class Contract:
    """The channels of a piece.

    Attributes:
        needs: something before it must write them.
        uses: it shows them to its agents where they are there.
        writes: it gives them.
        letter: that of the ids of the evidence it gives, where it gives any: E, of E1 and E2.
        besides: it gives them where the state has them: an outcome where an agent failed, and what a record shows.
        heeds: the settings that it reads beside those of every graph. Of ours: those that it may read, of which
            `tribunal.settings` knows the nodes.
        seats: the seats that it asks; of several of a kind, the kind.
        modes: the modes that it can run in, beside `full`.
        node: the name of a node of ours in our own graphs; empty for a piece of the user.
    """

    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    letter: str = ""
    besides: tuple[str, ...] = ()
    heeds: tuple[str, ...] = ()
    seats: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = ()
    node: str = ""


def apply_derived_settings(
    builder: StateGraph[Any, Any, Any, Any], contracts: Mapping[str, Contract]
) -> None:
    """Give a builder the settings that its pieces heed, as its context schema and in its `receive`.

    A context schema that isn't ours stays. So does the class of one of our own graphs.

    Args:
        builder: the builder.
        contracts: the contract of each of its nodes.
    """
    received = {name: graph_received(spec.runnable) for name, spec in builder.nodes.items()}
    graph = next((each for each in received.values() if isinstance(each, str)), None)
    if graph in GRAPHS:
        return
    system = system_of(graph) if graph else None
    settings = _derive(builder, contracts, system.name if system else "this graph", system)
    if system:
        settings.about = system.about
        GRAPH_SETTINGS[system.name] = settings
    schema = builder.context_schema
    if isinstance(schema, type) and issubclass(schema, EveryGraph):
        builder.context_schema = settings
    for name, each in received.items():
        if each is not None and not isinstance(each, str):
            builder.nodes[name] = replace(builder.nodes[name], runnable=received_by(settings))


def _derive(
    builder: Any, contracts: Mapping[str, Contract], graph: str, system: Any
) -> type[EveryGraph]:
    pieces = list(contracts.values())
    nodes = [*_known_nodes(builder, contracts)]
    modes = ("full", *dict.fromkeys(mode for each in pieces for mode in each.modes))
    heeding = {}
    for setting in Context.model_fields:
        named = [
            name
            for node, contract in nodes
            if _heeds(node, contract, setting)
            for name in (node.top, node.drawn)
        ]
        if named:
            heeding[setting] = list(dict.fromkeys(named))
    if "review" not in heeding:
        heeding.pop("review_rule", None)  # `open_case` only checks it
    # An agent that declares no seat may ask anybody.
    unknown = any(node.asks and not contract.seats for node, contract in nodes)
    seats = () if unknown else tuple(dict.fromkeys(seat for each in pieces for seat in each.seats))
    return derive_settings(
        graph,
        {*heeding, *(system.heeds if system else ())},
        system.seats if system else seats,
        modes=modes,
        heeding=heeding,
    )


def _known_nodes(
    builder: Any, contracts: Mapping[str, Contract]
) -> Iterator[tuple[GraphNode, Contract]]:
    """Yield each node, by the name under which our settings know it, with the contract of its piece."""
    for node in nodes_in(builder):
        contract = contracts[node.top]
        is_piece = node.drawn == node.top
        yield (node._replace(name=contract.node) if is_piece and contract.node else node), contract


def _heeds(node: GraphNode, contract: Contract, setting: str) -> bool:
    """Return whether a node of a composed graph reads a setting."""
    if contract.node:
        in_mode = setting == "mode" and bool(contract.modes) and node.drawn == node.top
        return in_mode or (
            setting in contract.heeds and node_heeds(node, setting, DECLARED[setting].nodes)
        )
    if setting in EveryGraph.model_fields:
        decides = "outcome" in contract.writes and setting in _CERTAINTY
        return decides or (node.asks and not DECLARED[setting].nodes)
    if setting in contract.heeds:
        return True
    if setting == "scheme" and "outcome" in contract.writes:
        return True
    return node.asks and not contract.seats and setting in OF_ANY_AGENT
