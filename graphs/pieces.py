"""The contract between pieces: which channels of the state `Case` each needs, uses and writes.

A piece is a node or a compiled subgraph. `checked` holds a builder to the contract before it is compiled, so that a
wrong composition fails when it is built, by the name of the channel, and not with a post in its hands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from langgraph.graph import START, StateGraph

from tribunal.errors import TribunalError
from tribunal.nodes.state import Case


class WrongComposition(TribunalError):
    """Pieces were put together in a way that can't work; `channel` is the one that shows it."""

    def __init__(self, message: str, channel: str) -> None:
        super().__init__(message)
        self.channel = channel


@dataclass(frozen=True)
class Contract:
    """The channels of a piece.

    `needs`: something before it must write them. `uses`: it shows them to its agents where they are there. `writes`: it
    gives them.
    """

    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    def channels(self) -> Iterator[str]:
        yield from dict.fromkeys((*self.needs, *self.uses, *self.writes))


# What every agent touches besides: the log of its calls, and how the case ends if it fails.
LOG = ("calls", "warnings", "budget_spent")
EXHIBITS = ("evidence", "opinions", "question")

# By the place of each piece in `tribunal`, so that a graph imports none but its own.
PIECES: dict[str, Contract] = {
    "nodes.intake:receive": Contract(writes=("post", "policy", "prompts", *LOG)),
    "nodes.court.case:open_case": Contract(needs=("post", "policy"), writes=("early_exit", "question", "review", *LOG)),
    "nodes.court.triage:triage": Contract(needs=("post",), writes=("outcome", "track", "saved", *LOG)),
    "nodes.arcade.gatekeeper:gatekeeper": Contract(needs=("post",), writes=("scan", "transcript", *LOG)),
    "graphs.web:graph": Contract(needs=("post",), writes=("evidence", "run", "pages", *LOG)),
    "graphs.perspectives:graph": Contract(needs=("post",), writes=("opinions", "absent", *LOG)),
    "nodes.court.case:assign": Contract(needs=("scan",), uses=EXHIBITS, writes=("warnings",)),
    "graphs.fast_track:graph": Contract(needs=("post",), uses=EXHIBITS, writes=("cues", "transcript", "track", *LOG)),
    "graphs.deep_dive:graph": Contract(
        needs=("post",), uses=(*EXHIBITS, "early_exit"), writes=("cues", "transcript", "track", "saved", *LOG)
    ),
    "graphs.debate:graph": Contract(
        needs=("post", "opinions"), uses=("evidence", "question"), writes=("transcript", *LOG)
    ),
    "nodes.arcade.judge:judge": Contract(
        needs=("post", "transcript"), uses=EXHIBITS, writes=("outcome", "saved", *LOG)
    ),
    "nodes.court.review:review": Contract(needs=("outcome",), uses=EXHIBITS, writes=("review", "trials", "outcome")),
}

_own: list[tuple[object, Contract]] = []
Node = TypeVar("Node", bound=Callable[..., Any])


def piece(*, needs: Iterable[str] = (), uses: Iterable[str] = (), writes: Iterable[str] = ()) -> Callable[[Node], Node]:
    """Declare a node of one's own: `@piece(needs=["post"], writes=["evidence"])`."""

    def declared(node: Node) -> Node:
        _own.append((node, Contract(tuple(needs), tuple(uses), tuple(writes))))
        return node

    return declared


def checked(builder: StateGraph[Any, Any, Any, Any]) -> StateGraph[Any, Any, Any, Any]:
    """The same builder, if its pieces fit together.

    Raises:
        WrongComposition: a node is no piece; a channel that a piece needs is written by nothing before it, or isn't one
            of the graph's state, or is merged in another way there; or nothing gives an outcome.
    """
    contracts = {name: _contract(name, spec.runnable) for name, spec in builder.nodes.items()}
    ours = _reducers(StateGraph(Case))
    theirs = _reducers(builder)
    for name, contract in contracts.items():
        for channel in contract.channels():
            if channel not in theirs:
                raise WrongComposition(f"{name}: its channel {channel!r} is not in the graph's state", channel)
            as_in_ours = theirs[channel] == ours.get(channel, theirs[channel])
            if not as_in_ours and channel not in contract.uses:
                raise WrongComposition(
                    f"{name}: the graph's state merges the channel {channel!r} otherwise than `Case`",
                    channel,
                )
        written = {channel for each in _before(builder, name) for channel in contracts[each].writes}
        for channel in contract.needs:
            if channel not in written:
                raise WrongComposition(
                    f"{name}: needs the channel {channel!r}, which nothing before it writes", channel
                )
    if not any("outcome" in contract.writes for contract in contracts.values()):
        raise WrongComposition("no piece writes the channel 'outcome', in which a case ends", "outcome")
    return builder


def _contract(name: str, runnable: Any) -> Contract:
    functions = (runnable, getattr(runnable, "afunc", None), getattr(runnable, "func", None))
    for known, contract in (*reversed(_own), *_ours()):
        if any(known is each for each in functions):
            return contract
    raise WrongComposition(f"{name}: is no piece; say what it needs and writes with @piece", name)


def _ours() -> Iterator[tuple[object, Contract]]:
    """Our own pieces, of the modules that are there: whoever uses a piece has imported it."""
    for place, contract in PIECES.items():
        module, _, name = f"tribunal.{place}".partition(":")
        if module in sys.modules:
            yield getattr(sys.modules[module], name), contract


def _reducers(builder: StateGraph[Any, Any, Any, Any]) -> dict[str, Any]:
    """How each channel of a graph's state takes in what is new: a reducer, or None where the last one stands."""
    return {name: getattr(channel, "operator", None) for name, channel in builder.channels.items()}


def _before(builder: StateGraph[Any, Any, Any, Any], name: str) -> set[str]:
    """Every node from which a way leads to this one."""
    steps = {(start, end) for start, end in builder.edges}
    steps |= {(start, end) for starts, end in builder.waiting_edges for start in starts}
    for start, branches in builder.branches.items():
        for branch in branches.values():
            steps |= {(start, end) for end in (branch.ends.values() if branch.ends else builder.nodes)}
    found: set[str] = set()
    fresh = {name}
    while fresh:
        fresh = {start for start, end in steps if end in fresh and start != START} - found
        found |= fresh
    return found
