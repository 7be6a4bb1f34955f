"""Run one piece with exactly the channels that it declares."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from tribunal.errors import BadInput, WrongState
from tribunal.graphs.contracts import LOG, Contract, WrongComposition, contract_of
from tribunal.nodes.channels import read_as
from tribunal.nodes.intake import receive
from tribunal.nodes.state import Case, PostInput, channel_forms
from tribunal.schema import JSON
from tribunal.settings.context import Context, context_from

_CHANNELS = tuple(StateGraph(Case).channels)


async def run_alone(piece: Any, states: Sequence[Mapping[str, Any]], settings: JSON) -> list[JSON]:
    """`check_piece`, on the running loop."""
    name = str(
        getattr(piece, "__name__", None) or getattr(piece, "name", None) or type(piece).__name__
    )
    contract = contract_of(piece)
    context = context_from(settings)
    written = [await _run_piece(name, piece, contract, state, context) for state in states]
    for channel in contract.writes:
        if channel not in LOG and not any(channel in update for update in written):
            raise WrongComposition(
                f"{name}: doesn't write the channel {channel!r}, which it declares; write it, or take it from writes",
                channel,
            )
    for update in written:
        for channel, value in update.items():
            _check_read(name, channel, value)
    return written


async def _run_piece(
    name: str, piece: Any, contract: Contract, given: Mapping[str, Any], context: Context
) -> JSON:
    """Return what the piece writes, given the channels that it declares."""
    post = {key: value for key, value in given.items() if key in PostInput.__annotations__}
    # the settings of the case are every piece's
    shown = (
        "context",
        *contract.needs,
        *contract.uses,
    )
    extra = next((each for each in given if each not in (*post, *shown)), None)
    if extra:
        raise BadInput(
            f"{extra}: {name} doesn't declare this channel; leave it out, or add it to its needs or uses"
        )
    taken = await _compile_alone("receive", receive).ainvoke(post, context=context)
    state = {**{each: taken[each] for each in shown if each in taken}, **given}
    missing = next((each for each in contract.needs if each not in state), None)
    if missing:
        raise BadInput(f"{missing}: {name} needs this channel; give it in the state")
    update: JSON = {}
    try:
        async for step in _compile_alone("piece", piece).astream(
            state, context=context, stream_mode="updates"
        ):
            for each in step["piece"] if isinstance(step["piece"], list) else [step["piece"]]:
                update |= each or {}
    except KeyError as error:
        channel = error.args[0] if error.args else ""
        if channel in shown or channel not in _CHANNELS:
            raise
        raise WrongComposition(
            f"{name}: reads the channel {channel!r}, which it doesn't declare; add it to needs",
            channel,
        ) from error
    return {
        channel: value.value if isinstance(value, Overwrite) else value
        for channel, value in update.items()
    }


def _compile_alone(name: str, node: Any) -> Any:
    # Nothing is merged: what is written is looked at as it is.
    table: Any = TypedDict("table", dict.fromkeys(_CHANNELS, Any), total=False)  # type: ignore[misc]
    builder = StateGraph(table, context_schema=Context)
    builder.add_node(name, node, input_schema=table)
    builder.add_edge(START, name)
    builder.add_edge(name, END)
    return builder.compile(name=name)


def _check_read(name: str, channel: str, value: Any) -> None:
    """Refuse what no court could read, or no checkpoint hold.

    Raises:
        WrongComposition: with the channel, and what is wrong in it.
    """
    try:
        json.dumps(value)
        if channel in channel_forms():
            read_as(channel_forms()[channel], channel, value)
    except (TypeError, ValueError, WrongState) as error:
        why = str(error).removeprefix(f"{channel}.")
        raise WrongComposition(
            f"{name}: wrote the channel {channel!r} as the court can't read it: {why}", channel
        ) from error
