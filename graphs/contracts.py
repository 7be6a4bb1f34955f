"""The contract between pieces: which channels of the state `Case` each needs, uses and writes.

A piece is a node or a compiled subgraph. `checked` holds a builder to the contract before it is compiled, so that a
wrong composition fails when it is built, by the name of the channel, and not with a post in its hands. A node that is
declared with `piece` is held to its own contract whenever it returns.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from langchain_core.runnables import Runnable
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command

from tribunal.errors import TribunalError
from tribunal.nodes.functions import NodeFunction
from tribunal.nodes.state import Case
from tribunal.text import meant

# The channels of `Case`, for editors to complete. Your own state may have others.
Channel = Literal[
    "text", "image", "post_id", "language", "earlier", "appeal", "messages", "post", "context", "policy", "prompts",
    "scan", "cues", "transcript", "round", "track", "calls", "warnings", "budget_spent", "outcome", "evidence",
    "opinions", "precedents", "question", "early_exit", "saved", "reserved", "budget_from", "panel", "examples",
    "absent", "scheme", "run", "turn", "started", "queries", "tried", "hits", "pending", "crawl", "page", "pages",
    "plans", "judgements", "exhausted", "sufficient", "missing", "first_look", "review", "trials",
]  # fmt: skip


class WrongComposition(TribunalError):
    """Pieces were put together in a way that can't work; `channel` is the one that shows it."""

    def __init__(self, message: str, channel: str) -> None:
        super().__init__(message)
        self.channel = channel


@dataclass(frozen=True)
class Contract:
    """The channels of a piece.

    Attributes:
        needs: something before it must write them.
        uses: it shows them to its agents where they are there.
        writes: it gives them.
        letter: that of the ids of the evidence it gives, where it gives any: E, of E1 and E2.
        besides: it gives them where the state has them: an outcome where an agent failed, and what a record shows.
    """

    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    letter: str = ""
    besides: tuple[str, ...] = ()

    def channels(self) -> Iterator[str]:
        yield from dict.fromkeys((*self.needs, *self.uses, *self.writes))


# What every agent touches besides: the log of its calls, and how the case ends if it fails.
LOG = ("calls", "warnings", "budget_spent")
FAILED = ("outcome", "messages")  # as which a case ends in a piece that has several agents
EXHIBITS = ("evidence", "opinions", "precedents", "question")

# By the place of each piece in `tribunal`, so that a graph imports none but its own.
# fmt: off
PIECES: dict[str, Contract] = {
    "nodes.intake:receive": Contract(writes=("post", "context", "policy", "prompts", *LOG)),
    "nodes.court.case:open_case": Contract(
        needs=("post", "policy"), writes=("early_exit", "absent", "first_look", "trials", "review", *LOG)
    ),
    "nodes.court.triage:triage": Contract(needs=("post",), writes=("outcome", "track", "saved", *LOG)),
    "nodes.arcade.gatekeeper:gatekeeper": Contract(needs=("post",), writes=("scan", "transcript", *LOG)),
    "graphs.web:graph": Contract(
        needs=("post",), writes=("evidence", "run", "pages", *LOG),
        besides=("turn", "tried", "plans", "judgements", "sufficient"), letter="E",
    ),
    "graphs.perspectives:graph": Contract(needs=("post",), writes=("opinions", "absent", *LOG), besides=("panel",)),
    "nodes.court.precedents:find_precedents": Contract(needs=("post",), writes=("precedents", *LOG), letter="P"),
    "nodes.court.case:assign": Contract(needs=("scan",), uses=EXHIBITS, writes=("warnings",)),
    "graphs.fast_track:graph": Contract(
        needs=("post",), uses=EXHIBITS, writes=("cues", "transcript", "track", *LOG),
        besides=("round", "saved", *FAILED),
    ),
    "graphs.deep_dive:graph": Contract(
        needs=("post",), uses=(*EXHIBITS, "early_exit"), writes=("cues", "transcript", "track", "saved", *LOG),
        besides=("round", *FAILED),
    ),
    "graphs.debate:graph": Contract(
        needs=("post", "opinions"), uses=("evidence", "precedents", "question"), writes=("transcript", *LOG),
        besides=FAILED,
    ),
    "nodes.arcade.judge:judge": Contract(
        needs=("post", "transcript"), uses=EXHIBITS, writes=("outcome", "saved", *LOG)
    ),
    "nodes.court.review:review": Contract(
        needs=("post", "outcome"), uses=(*EXHIBITS, "transcript", "cues"), writes=("review", "trials", "outcome")
    ),
}
# fmt: on

_own: list[tuple[object, Contract]] = []
Piece = TypeVar("Piece", bound=Callable[..., Any] | Runnable[Any, Any])


def piece(
    *,
    needs: Iterable[Channel | str] = (),
    uses: Iterable[Channel | str] = (),
    writes: Iterable[Channel | str] = (),
    letter: str = "",
) -> Callable[[Piece], Piece]:
    """Declare a node of one's own: `@piece(needs=["post"], writes=["evidence"])`.

    What is declared returns its channels, `calls`, `warnings` and `budget_spent`, and no others. A compiled graph can
    be declared too, `piece(…)(graph)`; its output schema has these channels alone.

    Args:
        needs: the channels that something before it must write.
        uses: those that it reads where they are there.
        writes: those that it gives.
        letter: the capital letter of the ids of its evidence. No two pieces of a graph may have the same.

    Raises:
        WrongComposition: the output schema of a compiled graph has another channel. When it is called: it returned a
            channel that it doesn't declare, or something that holds no channels.
    """
    writes = tuple(writes)
    besides = ("messages",) if "outcome" in writes else ()  # an outcome answers the message that the post came in
    return hold_to(Contract(tuple(needs), tuple(uses), writes, letter, besides))


def hold_to(contract: Contract) -> Callable[[Piece], Piece]:
    """Return what declares a node of one's own and holds it to this contract, as `piece` does.

    Raises:
        WrongComposition: as `piece` says.
    """

    def declared(node: Piece) -> Piece:
        kept: Any
        if isinstance(node, Pregel):
            kept = _checked_output(node, contract)
        elif isinstance(node, Runnable) and not isinstance(node, NodeFunction):
            name = node.get_name()
            kept = (node | functools.partial(_returned, name, contract)).with_config(run_name=name)
        else:
            kept = _kept(node, contract)
        _own.append((kept, contract))
        return cast("Piece", kept)

    return declared


def _checked_output(graph: Pregel[Any, Any, Any, Any], contract: Contract) -> Pregel[Any, Any, Any, Any]:
    """A compiled graph, if it gives back no channel that it doesn't declare.

    Raises:
        WrongComposition: it does.
    """
    given = graph.output_channels
    for channel in [given] if isinstance(given, str) else given:
        if channel not in (*contract.writes, *LOG):
            raise WrongComposition(
                f"{graph.name}: its output schema has the channel {channel!r}, which it doesn't declare; compile it "
                "with an output_schema of what it writes, or add it to writes",
                channel,
            )
    return graph


def _kept(node: Callable[..., Any], contract: Contract) -> Callable[..., Any]:
    """The node, held to its contract whenever it returns."""
    name = getattr(node, "__name__", type(node).__name__)
    call = getattr(node, "__call__", None)  # noqa: B004
    if isinstance(node, NodeFunction) or inspect.iscoroutinefunction(node) or inspect.iscoroutinefunction(call):

        @functools.wraps(node)
        async def awaited(*given: Any, **named: Any) -> Any:
            return _returned(name, contract, await node(*given, **named))

        return NodeFunction(awaited)

    @functools.wraps(node)
    def called(*given: Any, **named: Any) -> Any:
        return _returned(name, contract, node(*given, **named))

    return called


def _returned(name: str, contract: Contract, returned: Any) -> Any:
    """What a node returned, if it declares every channel in it.

    Raises:
        WrongComposition: it doesn't.
    """
    for each in returned if isinstance(returned, list | tuple) else [returned]:
        update = each.update if isinstance(each, Command) else each
        if update is None:
            continue
        if not isinstance(update, Mapping):
            raise WrongComposition(f"{name}: returned {type(update).__name__}; return a dict of channels", name)
        for channel in update:
            if channel not in (*contract.writes, *contract.besides, *LOG):
                raise WrongComposition(
                    f"{name}: returned the channel {channel!r}, which it doesn't declare; "
                    f"{meant(str(channel), contract.writes) or 'add it to writes'}",
                    str(channel),
                )
    return returned


def contract_of(node: object) -> Contract:
    """The contract of a piece: of ours, or of one's own that was declared with `piece`.

    Raises:
        WrongComposition: it is no piece.
    """
    return _contract(getattr(node, "__name__", None) or getattr(node, "name", None) or type(node).__name__, node)


def checked(builder: StateGraph[Any, Any, Any, Any]) -> StateGraph[Any, Any, Any, Any]:
    """The same builder, if its pieces fit together.

    Raises:
        WrongComposition: a node is no piece; a channel that a piece needs is written by nothing before it, or isn't one
            of the graph's state, or is merged in another way there; two pieces would give evidence of the same ids; or
            nothing gives an outcome.
    """
    contracts = {name: _contract(name, spec.runnable) for name, spec in builder.nodes.items()}
    ours = _reducers(StateGraph(Case))
    theirs = _reducers(builder)
    for name, contract in contracts.items():
        for channel in contract.channels():
            if channel not in theirs:
                near = meant(channel, theirs)
                hint = near and f"; {near}"
                raise WrongComposition(f"{name}: its channel {channel!r} is not in the graph's state{hint}", channel)
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
    lettered = [(contract.letter, name) for name, contract in contracts.items() if contract.letter]
    for at, (letter, name) in enumerate(lettered):
        if other := next((before for taken, before in lettered[:at] if taken == letter), None):
            raise WrongComposition(
                f"{name}: the ids of its evidence begin with {letter}, like those of {other}, and would take their "
                "place; give it another letter",
                "evidence",
            )
    if not any("outcome" in contract.writes for contract in contracts.values()):
        raise WrongComposition("no piece writes the channel 'outcome', in which a case ends", "outcome")
    return builder


def _contract(name: str, runnable: Any) -> Contract:
    functions = [runnable, getattr(runnable, "afunc", None), getattr(runnable, "func", None)]
    # `received_by` makes variants of `receive`.
    functions += [inner for each in functions for inner in _wrapped_functions(each)]
    for known, contract in (*reversed(_own), *_ours()):
        if any(known is each for each in functions):
            return contract
    raise WrongComposition(f"{name}: is no piece; say what it needs and writes with @piece", name)


def _wrapped_functions(function: Any) -> Iterator[Any]:
    """Yield every function that this one wraps, the outermost first."""
    while (function := getattr(function, "__wrapped__", None)) is not None:
        yield function


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
    # Where a node says itself where it goes next: `Command[Literal["judge"]]`, or `destinations` of `add_node`.
    steps |= {(start, end) for start, spec in builder.nodes.items() for end in spec.ends or ()}
    for start, branches in builder.branches.items():
        for branch in branches.values():
            steps |= {(start, end) for end in (branch.ends.values() if branch.ends else builder.nodes)}
    found: set[str] = set()
    fresh = {name}
    while fresh:
        fresh = {start for start, end in steps if end in fresh and start != START} - found
        found |= fresh
    return found
