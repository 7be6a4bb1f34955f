"""The ways in which a judge of one's own ends a case: a verdict by the policy in force, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.runtime import Runtime, get_runtime

from tribunal.calls import was_rehearsed
from tribunal.context import Context, context_of
from tribunal.errors import BadInput
from tribunal.nodes.state import CaseState
from tribunal.nodes.verdict import announce_outcome, deliver
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON, Refusal, Step, Track
from tribunal.text import one_line, suggest_name


async def verdict(
    state: CaseState,
    category: str,
    explanation: str,
    *,
    confidence: float | None = None,
    uncertain: bool = False,
    tie: bool = False,
    track: Track | None = None,
    steps: Sequence[Step] = (),
) -> JSON:
    """Return the update of the state that ends a case with a verdict.

    The label, and whether it is hateful, follow from the category by the policy in force.

    Args:
        state: the case.
        category: a category of the policy, by its name, in the scheme in force.
        explanation: why, for the person who posted.
        confidence: how sure the judge is, from 0 to 1, where it says so.
        uncertain: whether a person should look at it in any case. It is uncertain as well where the confidence isn't
            enough by the threshold in force.
        tie: whether it is a vote in which no side had more than half.
        track: by which track the case came here, as `Verdict.track`.
        steps: the steps of a rationale on evidence.

    Raises:
        BadInput: the policy has no such category, the confidence is none, or there is no explanation.
    """
    runtime = _runtime_here()
    policy, scheme = await policy_of(state, runtime), context_of(state, runtime).scheme
    names = [each.name for each in policy.categories(scheme)]
    if category not in names:
        near = suggest_name(str(category), names)
        raise BadInput(
            f"category: {one_line(str(category))[:80]!r}: the policy {policy.name} has none of this name in the scheme "
            f"{scheme}; {near or 'its categories are ' + ', '.join(names)}"
        )
    if confidence is not None and not 0 <= confidence <= 1:
        raise BadInput(f"confidence: {confidence}: is none; give a number from 0 to 1, or leave it out")
    if not explanation.strip():
        raise BadInput("explanation: is empty; say why, for the person who posted")
    label = policy.label(scheme, category)
    how: JSON = {"confidence": confidence, "uncertain": uncertain or None, "tie": tie, "track": track}
    return await deliver(label, scheme, explanation, state, runtime, by_policy=True, steps=tuple(steps), **how)


def refusal(state: Mapping[str, Any], explanation: str, *, seat: str, form: str = "own") -> JSON:
    """Return the update of the state that ends a case with a refusal: a model declined, and nothing was decided.

    A refusal by a provider ends the case by itself. This one is for a judge that reads a refusal out of an answer.

    Args:
        state: the case.
        explanation: what was declined, and in which words.
        seat: who declined.
        form: how the refusal was recognised, in one word.

    Raises:
        BadInput: there is no explanation.
    """
    if not explanation.strip():
        raise BadInput("explanation: is empty; say what was declined")
    runtime, calls = _runtime_here(), state.get("calls", ())
    asked: JSON = next((call for call in reversed(calls) if call["seat"] == seat), {})
    outcome = Refusal(
        seat=seat,
        role=asked.get("role", seat),
        model=asked.get("model", ""),
        form=form,
        explanation=explanation,
        rehearsed=was_rehearsed(calls, state.get("warnings", ())),
    ).dump()
    return announce_outcome(state, outcome, runtime)


def _runtime_here() -> Runtime[Context]:
    """Return the runtime of the run that this is called in; outside of one, a runtime that nobody listens to."""
    try:
        return get_runtime(Context)
    except RuntimeError:
        return Runtime()
