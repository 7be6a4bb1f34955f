"""Make nodes of functions: agents that take part in a case while it is open, other nodes, and routers.

Each runs with an event loop (`ainvoke`) and without one (`invoke`), and names the channel that it can't read.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from langgraph.runtime import Runtime

from tribunal.context import Context, overruled
from tribunal.errors import BadInput, BudgetSpent, ModelError, WrongState
from tribunal.nodes.chat import answered
from tribunal.nodes.functions import NodeFunction, make_router
from tribunal.nodes.state import Court, channel_forms, closed, outcome_of
from tribunal.nodes.state_check import find_wrong_channel
from tribunal.rehearsed import rehearsed
from tribunal.schema import JSON
from tribunal.stops import stop_at_head, stops_in_force, stops_passed_by
from tribunal.telling import tell

Node = TypeVar("Node", bound=Callable[..., Awaitable[JSON]])
Part = TypeVar("Part", bound=Callable[..., Awaitable[Any]])


def node(function: Part) -> Part:
    """Return an async function as a node that runs in `invoke` and in `ainvoke` of a graph."""
    return cast("Part", NodeFunction(_name_wrong_channel(function)))


def router(function: Part) -> Part:
    """Return an async function of the state as a router that runs in `invoke` and in `ainvoke` of a graph."""
    return cast("Part", make_router(_name_wrong_channel(function)))


def agent(function: Node) -> Node:
    """Return the node of an agent that asks a model: it takes part, and is stopped at where `stops` names it."""
    return take_part_while_open(stop_at_head(function))


def take_part_while_open(function: Node) -> Node:
    """Return a node that acts in a case only while it is open, and whose faults end the case as the outcome they are.

    A refusal becomes a `Refusal` and a technical failure a `Failure`; both keep the log of every call. A spent
    budget leaves the seat silent, and the verdict says so.
    """

    @functools.wraps(function)
    async def take_part(state: Any, runtime: Runtime[Context]) -> JSON:
        if closed(state):
            return {}
        warnings = overruled(state, runtime)
        try:
            update = await function(state, runtime)
            warnings += _stops_passed_by(update, state, runtime)
            return {**update, "warnings": [*update.get("warnings", ()), *warnings]} if warnings else update
        except BudgetSpent as spent:
            return {"budget_spent": True, "calls": list(spent.calls), "warnings": [str(spent)]}
        except ModelError as fault:
            by_rules = rehearsed([*state.get("calls", ()), *fault.calls], state.get("warnings", ()))
            outcome = {**outcome_of(fault), "rehearsed": by_rules}
            tell(runtime, {"event": "outcome", **outcome})
            log = {"calls": list(fault.calls), "warnings": list(fault.warnings)}
            return {"outcome": outcome, **answered(state, outcome), **log}

    return cast("Node", node(take_part))


@contextmanager
def naming_wrong_channel(state: Mapping[str, Any]) -> Iterator[None]:
    """Raise `WrongState` in place of what a node or a router breaks on, where a channel holds what they can't read."""
    try:
        yield
    except (ModelError, BadInput):
        raise
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        if wrong := find_wrong_channel(state, channel_forms()):
            raise WrongState(wrong[1]) from error
        raise


def _name_wrong_channel(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call_and_name(state: Any, *more: Any, **named: Any) -> Any:
        with naming_wrong_channel(state):
            return await function(state, *more, **named)

    return call_and_name


def _stops_passed_by(update: JSON, state: Court, runtime: Runtime[Context]) -> list[str]:
    """Return a warning for each stop that the case never came to, once it has its outcome."""
    if not update.get("outcome") or not (names := stops_in_force(state, runtime)):
        return []
    return stops_passed_by(names, [*state.get("warnings", ()), *update.get("warnings", ())])
