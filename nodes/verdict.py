"""Delivering a verdict: by label, in the names of the policy in force, streamed to whoever watches."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.prompts.policy import policy_in_force
from tribunal.schema import JSON, Scheme, Verdict


async def deliver(label: int, scheme: Scheme, words: str, runtime: Runtime[Context], **more: Any) -> JSON:
    """The outcome that a label is, as an update of the state.

    Args:
        label: the number of a category of the scheme.
        words: the explanation.
        more: further fields of `Verdict`: track, tie, confidence, steps.
    """
    context = context_of(runtime)
    policy = await policy_in_force(context.policy)
    category, hateful = policy.categories(scheme)[label].name, policy.hate(scheme, label)
    verdict = Verdict(
        task=context.task, label=label, category=category, hateful=hateful, explanation=words, **more
    ).dump()
    runtime.stream_writer({"event": "outcome", **verdict})
    return {"outcome": verdict}
