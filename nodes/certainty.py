"""How sure a verdict is: when the judge is asked for a confidence, and below which one it counts as uncertain."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tribunal.context import Context, context_of
from tribunal.nodes.state import Court
from tribunal.opened import opened
from tribunal.threshold import Threshold, read_threshold

USUAL_THRESHOLD = 0.75


def confidence_wanted(context: Context) -> bool:
    """Whether anything in this run needs the judge's confidence; where nothing does, it isn't asked for."""
    return bool(context.review or context.judge_draws > 1 or context.threshold is not None or context.threshold_file)


async def threshold_in_force(state: Court) -> float:
    """The confidence, from 0 to 1, below which a verdict is uncertain.

    Raises:
        BadInput: the file that the run names isn't one.
    """
    context = context_of(state)
    if context.threshold is not None:
        return context.threshold
    fitted = await fitted_threshold(context)
    return USUAL_THRESHOLD if fitted is None else fitted.threshold


async def fitted_threshold(context: Context, *, afresh: bool = False) -> Threshold | None:
    """What the file says that the run names, if it names one and sets no threshold of its own.

    Args:
        context: the settings of a run.
        afresh: read the file even where that was done before; so every post starts from it as it stands then.

    Raises:
        BadInput: it isn't one.
    """
    if context.threshold is not None or not context.threshold_file:
        return None
    if afresh or context.threshold_file not in _held:
        _held[context.threshold_file] = await asyncio.to_thread(_read_or_kept, context.threshold_file)
    return _held[context.threshold_file]


_held: dict[str, Threshold] = {}


def _read_or_kept(file: str) -> Threshold:
    return opened(("threshold", file), lambda: read_threshold(Path(file)))


def misfits(fitted: Threshold, graph: str, context: Context, state: Court) -> list[str]:
    """What a threshold was fitted to and this run isn't, in words for the verdict."""
    models = {name: getattr(context, name) for name in ("model", "aux_model", "judge_model", "seats")}
    differ = {
        "graph": (fitted.graph, graph),
        "scheme": (fitted.scheme, context.scheme),
        "policy": ((fitted.policy or "")[:12], state["policy"]["sha"][:12]),
        "line-up of models": (fitted.models, {name: value for name, value in models.items() if value}),
    }
    return [
        f"the threshold was fitted to another {what} ({then}, now {now}), and promises nothing for this one"
        for what, (then, now) in differ.items()
        if then != now
    ]
