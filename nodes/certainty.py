"""The certainty of a verdict: when the judge is asked for a confidence, and below which one it counts as uncertain."""

from __future__ import annotations

from tribunal.context import Context, context_of
from tribunal.nodes.state import CaseState
from tribunal.prompts.policy import policy_of
from tribunal.threshold import THRESHOLDS, Threshold, parse_threshold

USUAL_THRESHOLD = 0.75


def confidence_wanted(context: Context) -> bool:
    """Return whether anything in this run needs the judge's confidence; if nothing does, it isn't asked for."""
    return bool(context.review or context.judge_draws > 1 or context.threshold is not None or context.threshold_file)


async def is_uncertain(state: CaseState, category: str, confidence: float | None) -> bool:
    """Return whether a verdict of a judge is one for a person: the confidence stated isn't enough.

    Args:
        state: the case.
        category: that the verdict chose.
        confidence: that it states, from 0 to 1.

    Raises:
        BadInput: the threshold file that the run names isn't one.
    """
    context = context_of(state)
    if not confidence_wanted(context):
        return False
    fitted = await fitted_threshold(context, state)
    if fitted is None:
        return confidence is None or confidence < (USUAL_THRESHOLD if context.threshold is None else context.threshold)
    policy = await policy_of(state)
    label = policy.label(context.scheme, category)
    hate = policy.is_hate(context.scheme, label)
    return not fitted.accepts("hateful" if (label > 0 if hate is None else hate) else "harmless", confidence)


async def dismissal_is_uncertain(state: CaseState) -> bool:
    """Return whether a summary dismissal, which states no confidence, is one for a person.

    It is if the run names a fitted threshold that wasn't shown to hold for such verdicts. A threshold that is a number,
    or the usual one, says nothing of them.

    Raises:
        BadInput: as `is_uncertain`.
    """
    fitted = await fitted_threshold(context_of(state), state)
    return fitted is not None and not fitted.accepts("harmless", None)


async def fitted_threshold(context: Context, case: CaseState | None = None) -> Threshold | None:
    """Return the threshold of the file that the run names, if it names one and sets no threshold of its own.

    Args:
        context: the settings of a run.
        case: a case that has begun: the file whose text lies in it is the one.

    Raises:
        BadInput: it isn't one, or a client of this server may not set what lies in the case.
    """
    name = context.threshold_file
    if context.threshold is not None or not name:
        return None
    return parse_threshold(await THRESHOLDS.text_of_case(case, name), name)


async def threshold_file_text(context: Context) -> str | None:
    """Return the text of that file, as it stands now; None where there is none.

    Raises:
        BadInput: it isn't one.
    """
    name = context.threshold_file
    return None if context.threshold is not None or not name else await THRESHOLDS.load(name, afresh=True)


def describe_misfits(fitted: Threshold, graph: str | None, context: Context, policy_sha: str) -> list[str]:
    """Say, for the verdict, what a threshold was fitted to and this run isn't; no graph: one without a name."""
    models = {name: getattr(context, name) for name in ("model", "aux_model", "judge_model", "seats")}
    differ = {
        "graph": (fitted.graph, graph or fitted.graph),
        "scheme": (fitted.scheme, context.scheme),
        "policy": ((fitted.policy or "")[:12], policy_sha[:12]),
        "line-up of models": (fitted.models, {name: value for name, value in models.items() if value}),
    }
    return [
        f"the threshold was fitted to another {what} ({then}, now {now}), and promises nothing for this one"
        for what, (then, now) in differ.items()
        if then != now
    ]
