"""One post through one graph, to its record."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from graphs import graph as graph_named
from nodes.context import Context
from nodes.errors import BadInput
from nodes.schema import JSON, Call, Cue, Evidence, Opinion, Record, Step, Turn, Usage

Listener = Callable[[JSON], None]
DEBATED = ("rebuttal", "opening", "response", "answer")  # the stages that a round of debate is known by


async def hear(
    text: str | None = None,
    image: str | None = None,
    *,
    graph: str,
    context: Context,
    post_id: str | None = None,
    language: str | None = None,
    listen: Listener | None = None,
) -> Record:
    """Decide a post.

    Args:
        text: its words.
        image: its image: a path or a data URI.
        graph: one of `graphs.GRAPHS`.
        context: the settings.
        post_id: what to call it; by default an id made from what it holds.
        language: such as `en`.
        listen: is given every event as it happens: `asking`, `call`, `turn`, `outcome`.

    Raises:
        BadInput: the post or a setting is wrong; no model was called.
    """
    post = {"text": text or "", "image": image, "post_id": post_id, "language": language}
    compiled = graph_named(graph)
    if listen is None:
        return record(await compiled.ainvoke(post, context=context), graph, context)
    state: JSON = {}
    async for subgraph, mode, event in compiled.astream(
        post, context=context, stream_mode=["custom", "values"], subgraphs=True
    ):
        if mode == "custom":
            listen(event)
        elif not subgraph:
            state = event
    return record(state, graph, context)


def settle() -> None:
    """Before a long run: set aside what the imports left, which the garbage collector would walk time and again."""
    gc.collect()
    gc.freeze()


def record(state: JSON, graph: str, context: Context) -> Record:
    """The record of a case from the last state of its graph.

    Raises:
        BadInput: the case has no outcome, because its state was edited out of it.
    """
    outcome: JSON = state.get("outcome") or {}
    if not outcome:
        raise BadInput("outcome: the case has none; run its graph to the end")
    turns = tuple(Turn.model_validate(turn) for turn in state.get("transcript") or [])
    kind = outcome["outcome"]
    return Record(
        outcome=kind,
        post_id=state["post"]["id"],
        graph=graph,
        task=context.task,
        scheme=state.get("scheme") or context.scheme,
        label=outcome.get("label"),
        category=outcome.get("category"),
        hateful=outcome.get("hateful"),
        explanation=outcome["explanation"],
        track=state.get("track"),
        rounds=max((turn.round for turn in turns if turn.stage in DEBATED), default=0),
        transcript=turns,
        cues=tuple(Cue.model_validate(cue) for cue in state.get("cues") or []),
        opinions=tuple(Opinion.model_validate(opinion) for opinion in state.get("opinions") or []),
        calls=tuple(Call.model_validate(call) for call in state.get("calls") or []),
        usage=Usage.of(state.get("calls") or []),
        policy=state["policy"],
        warnings=tuple(state.get("warnings") or []),
        tie=outcome.get("tie", False),
        confidence=outcome.get("confidence"),
        steps=tuple(Step.model_validate(step) for step in outcome.get("steps") or []),
        evidence=tuple(Evidence.model_validate(each) for each in state.get("evidence") or []),
        research=_research(state),
        fault=_fault(outcome) if kind != "verdict" else None,
        debate=tuple(state.get("debate") or []),
    )


def _research(state: JSON) -> JSON | None:
    """How a verdict on evidence was come by; the record of the run has all of it."""
    if "run" not in state:
        return None
    return {name: state.get(name) for name in ("run", "turn", "tried", "pages", "judgements", "sufficient")}


def _fault(outcome: JSON) -> dict[str, Any]:
    where = {name: outcome[name] for name in ("seat", "role", "model")}
    return {**where, "kind": outcome.get("form") or outcome.get("error")}
