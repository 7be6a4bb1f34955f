"""The contract between pieces: which channels of the state `Case` each needs, uses and writes.

A piece is a node or a compiled subgraph. `checked` holds a builder to the contract before it is compiled, so that a
wrong composition fails when it is built, by the name of the channel, and not with a post in its hands. A node that is
declared with `piece` is checked against its own contract whenever it returns.

A composed graph has the settings that its pieces heed: `checked` derives their class from the contracts.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langchain_core.runnables import Runnable
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command
from langgraph.typing import ContextT, InputT, OutputT, StateT

from tribunal.core.text import suggest_name
from tribunal.errors import TribunalError
from tribunal.graphs.derived import Contract as Contract
from tribunal.graphs.derived import apply_derived_settings
from tribunal.nodes.agents import NodeFunction
from tribunal.nodes.state import Case
from tribunal.settings.graph_settings import PieceSettings, PredictSettings
from tribunal.settings.systems import check_heeded

if TYPE_CHECKING:
    from tribunal.typed_names import Channel as Channel
else:
    Channel = str


class WrongComposition(TribunalError):
    """Pieces were combined in a way that can't work; `channel` is the channel that shows it."""

    def __init__(self, message: str, channel: str) -> None:
        """Keep the channel."""
        super().__init__(message)
        self.channel = channel


# What every agent touches besides: the log of its calls, and how the case ends if it fails.
LOG = ("calls", "warnings", "budget_spent")
FAILED = ("outcome", "messages")  # as which a case ends in a piece that has several agents
EXHIBITS = ("evidence", "opinions", "precedents", "question")

_ours = partial(Contract, heeds=tuple(PieceSettings.model_fields))
# By the place of each piece in `tribunal`, so that a graph imports none but its own.
# fmt: off
PIECES: dict[str, Contract] = {
    "nodes.intake:receive": _ours(writes=("post", "context", "policy", "prompts", *LOG), node="receive"),
    "nodes.court.case:open_case": _ours(
        needs=("post", "policy"), writes=("early_exit", "reading", "absent", "trials", "review", *LOG), node="open_case"
    ),
    "nodes.court.case:triage_post": _ours(
        needs=("post",), writes=("outcome", "track", "saved", *LOG), seats=("triage",), node="triage"
    ),
    "nodes.arcade.gatekeeper:scan_post": _ours(
        needs=("post",), writes=("scan", "transcript", *LOG), seats=("gatekeeper",), node="gatekeeper"
    ),
    "graphs.web:graph": _ours(
        needs=("post",), writes=("evidence", "run", "pages", *LOG),
        besides=("turn", "tried", "plans", "judgements", "sufficient"), letter="E",
        seats=("researcher",), modes=("no-search", "no-details"), node="web",
    ),
    "graphs.perspectives:graph": _ours(
        needs=("post",), writes=("opinions", "absent", *LOG), besides=("panel",),
        seats=("perspective",), modes=("leave-out", "criterion-only", "examples-only"), node="perspectives",
    ),
    "nodes.court.case:find_precedents": _ours(
        needs=("post",), writes=("precedents", *LOG), letter="P", node="find_precedents"
    ),
    "nodes.court.case:assign_track": _ours(needs=("scan",), uses=EXHIBITS, writes=("warnings",), node="assign"),
    "graphs.fast_track:graph": _ours(
        needs=("post",), uses=EXHIBITS, writes=("cues", "transcript", "track", *LOG),
        besides=("round", "saved", *FAILED), seats=("prosecutor", "defender"), node="fast_track",
    ),
    "graphs.deep_dive:graph": _ours(
        needs=("post",), uses=(*EXHIBITS, "early_exit"), writes=("cues", "transcript", "track", "saved", *LOG),
        besides=("round", *FAILED), seats=("prosecutor", "defender"), node="deep_dive",
    ),
    "graphs.debate:graph": _ours(
        needs=("post", "opinions"), uses=("evidence", "precedents", "question"), writes=("transcript", *LOG),
        besides=FAILED, heeds=tuple(PredictSettings.model_fields),
        seats=("debater",), modes=("round-1-only",), node="debate",
    ),
    "nodes.arcade.judge:judge_debate": _ours(
        needs=("post", "transcript"), uses=EXHIBITS, writes=("outcome", "saved", *LOG), seats=("judge",), node="judge"
    ),
    "nodes.court.review:review_case": _ours(
        needs=("post", "outcome"), uses=(*EXHIBITS, "transcript", "cues"), writes=("review", "trials", "outcome"),
        node="review",
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
    besides: Iterable[Channel | str] = (),
    heeds: Iterable[str] = (),
    seats: Iterable[str] = (),
) -> Callable[[Piece], Piece]:
    """Declare a custom node: `@piece(needs=["post"], writes=["evidence"])`.

    A declared node returns its channels, `calls`, `warnings` and `budget_spent`, and no others. A compiled graph can
    be declared too, `piece(…)(graph)`; its output schema has only these channels.

    Args:
        needs: the channels that something before it must write.
        uses: channels that it reads if they have a value.
        writes: channels that it always returns.
        letter: the capital letter of the ids of its evidence. No two pieces of a graph may have the same.
        besides: channels that it may return.
        heeds: the settings that it reads, with `context_of`. In a graph that nothing else reads them in, others are
            refused.
        seats: the seats that it asks, where it asks by `ask`.

    Raises:
        BadInput: there is no such setting.
        WrongComposition: the output schema of a compiled graph has another channel. When it is called: it returned a
            channel that it doesn't declare, or something that holds no channels.
    """
    writes = tuple(writes)
    # an outcome answers the message that the post came in
    answer = ("messages",) if "outcome" in writes else ()
    check_heeded("piece", heeds := tuple(heeds))
    asked = tuple(seat.partition(":")[0] for seat in seats)
    contract = Contract(
        tuple(needs), tuple(uses), writes, letter, (*besides, *answer), heeds, asked
    )

    def declare(node: Piece) -> Piece:
        kept: Any = node
        if isinstance(node, Pregel):
            given = node.output_channels
            for channel in [given] if isinstance(given, str) else given:
                if channel not in (*writes, *LOG):
                    raise WrongComposition(
                        f"{node.name}: its output schema has the channel {channel!r}, which it doesn't declare; "
                        "compile it with an output_schema of what it writes, or add it to writes",
                        channel,
                    )
        elif isinstance(node, Runnable) and not isinstance(node, NodeFunction):
            name = node.get_name()
            kept = (node | partial(_check_returned, name, contract)).with_config(run_name=name)
        else:
            kept = _hold_node(node, contract)
        _own.append((kept, contract))
        return cast("Piece", kept)

    return declare


def _hold_node(node: Callable[..., Any], contract: Contract) -> Callable[..., Any]:
    """Return the node, wrapped so that its result is checked against its contract."""
    name = getattr(node, "__name__", type(node).__name__)
    call = getattr(node, "__call__", None)  # noqa: B004
    if (
        isinstance(node, NodeFunction)
        or inspect.iscoroutinefunction(node)
        or inspect.iscoroutinefunction(call)
    ):

        @functools.wraps(node)
        async def call_and_check(*given: Any, **named: Any) -> Any:
            return _check_returned(name, contract, await node(*given, **named))

        return NodeFunction(call_and_check)

    @functools.wraps(node)
    def call_node(*given: Any, **named: Any) -> Any:
        return _check_returned(name, contract, node(*given, **named))

    return call_node


def _check_returned(name: str, contract: Contract, returned: Any) -> Any:
    """Return a node's result, if the node declares every channel in it.

    Raises:
        WrongComposition: it doesn't.
    """
    for each in returned if isinstance(returned, list | tuple) else [returned]:
        update = each.update if isinstance(each, Command) else each
        if not isinstance(update, Mapping | None):
            raise WrongComposition(
                f"{name}: returned {type(update).__name__}; return a dict of channels", name
            )
        for channel in update or ():
            if channel not in (*contract.writes, *contract.besides, *LOG):
                near = suggest_name(str(channel), contract.writes) or "add it to writes"
                raise WrongComposition(
                    f"{name}: returned the channel {channel!r}, which it doesn't declare; {near}",
                    str(channel),
                )
    return returned


def contract_of(node: object, name: str = "") -> Contract:
    """Return the contract of a piece: a built-in piece, or a custom piece declared with `piece`.

    Args:
        node: the piece.
        name: what to call it in an error; by default its own name.

    Raises:
        WrongComposition: it is no piece.
    """
    functions = [node, getattr(node, "afunc", None), getattr(node, "func", None)]
    for each in functions:  # `received_by` makes variants of `receive`, which they wrap
        inner = getattr(each, "__wrapped__", None)
        if inner:
            functions.append(inner)
    for known, contract in reversed(_own):
        if any(known is each for each in functions):
            return contract
    for place, contract in PIECES.items():
        module, _, member = f"tribunal.{place}".partition(":")
        # Whoever uses a piece of ours has imported it.
        if module in sys.modules and any(
            getattr(sys.modules[module], member) is each for each in functions
        ):
            return contract
    name = (
        name
        or getattr(node, "__name__", None)
        or getattr(node, "name", None)
        or type(node).__name__
    )
    raise WrongComposition(f"{name}: is no piece; say what it needs and writes with @piece", name)


def checked(
    builder: StateGraph[StateT, ContextT, InputT, OutputT],
) -> StateGraph[StateT, ContextT, InputT, OutputT]:
    """Return the same builder, if its pieces fit together.

    Where its context schema is `Context`, the settings that its pieces heed take its place: the graph offers these
    alone, with the nodes that read them, and `receive` refuses any other.

    Raises:
        WrongComposition: a node is no piece; a channel that a piece needs is written by nothing before it, or isn't one
            of the graph's state, or is merged in another way there; two pieces would give evidence of the same ids; or
            nothing gives an outcome.
    """
    contracts = {name: contract_of(spec.runnable, name) for name, spec in builder.nodes.items()}
    ours = _reducers(StateGraph(Case))
    theirs = _reducers(builder)
    letters: dict[str, str] = {}
    for name, contract in contracts.items():
        for channel in dict.fromkeys((*contract.needs, *contract.uses, *contract.writes)):
            if channel not in theirs:
                near = suggest_name(channel, theirs)
                hint = f"; {near}" if near else ""
                raise WrongComposition(
                    f"{name}: its channel {channel!r} is not in the graph's state{hint}", channel
                )
            if (
                theirs[channel] != ours.get(channel, theirs[channel])
                and channel not in contract.uses
            ):
                raise WrongComposition(
                    f"{name}: the graph's state merges the channel {channel!r} otherwise than `Case`",
                    channel,
                )
        written = {
            channel for each in _nodes_before(builder, name) for channel in contracts[each].writes
        }
        unwritten = next((channel for channel in contract.needs if channel not in written), None)
        if unwritten:
            raise WrongComposition(
                f"{name}: needs the channel {unwritten!r}, which nothing before it writes",
                unwritten,
            )
        if contract.letter and (other := letters.setdefault(contract.letter, name)) != name:
            raise WrongComposition(
                f"{name}: the ids of its evidence begin with {contract.letter}, like those of {other}, and would take "
                "their place; give it another letter",
                "evidence",
            )
    if not any("outcome" in contract.writes for contract in contracts.values()):
        raise WrongComposition(
            "no piece writes the channel 'outcome', in which a case ends", "outcome"
        )
    apply_derived_settings(builder, contracts)
    return builder


def _reducers(builder: StateGraph[Any, Any, Any, Any]) -> dict[str, Any]:
    """Return the reducer of each channel of a graph's state; None where a new value replaces the old value."""
    return {name: getattr(channel, "operator", None) for name, channel in builder.channels.items()}


def _nodes_before(builder: StateGraph[Any, Any, Any, Any], name: str) -> set[str]:
    """Return every node from which a path leads to this node."""
    steps = {(start, end) for start, end in builder.edges}
    steps |= {(start, end) for starts, end in builder.waiting_edges for start in starts}
    # Where a node says itself where it goes next: `Command[Literal["judge"]]`, or `destinations` of `add_node`.
    steps |= {(start, end) for start, spec in builder.nodes.items() for end in spec.ends or ()}
    for start, branches in builder.branches.items():
        for branch in branches.values():
            steps |= {
                (start, end) for end in (branch.ends.values() if branch.ends else builder.nodes)
            }
    found: set[str] = set()
    fresh = {name}
    while fresh:
        fresh = {start for start, end in steps if end in fresh and start != START} - found
        found |= fresh
    return found
