"""Delivering a verdict: by label, in the names of the policy in force, streamed to whoever watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langgraph.runtime import Runtime

from tribunal.calls import parts_shown, was_rehearsed
from tribunal.context import Context, context_of
from tribunal.nodes.chat import answer_message
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON, Post, Scheme, Task, Verdict
from tribunal.shared_settings import screener_path

if TYPE_CHECKING:
    from tribunal.retrievers.screening.audit import AuditSource

# What the two labels are called where no policy was shown that names them.
PLAIN: dict[Task, tuple[str, str]] = {
    "hate": ("NotHate", "Hateful"),
    "sarcasm": ("NO", "YES"),
    "misinformation": ("NO", "YES"),
}


async def deliver(
    label: int,
    scheme: Scheme,
    words: str,
    state: Mapping[str, Any],
    runtime: Runtime[Context],
    calls: Sequence[JSON] = (),
    *,
    reviewed: bool = False,
    by_policy: bool = False,
    **more: Any,
) -> JSON:
    """Return the outcome that a label is, as an update of the state.

    A policy that nobody was shown has no part in it: the label then has the plain name of a yes or a no.

    Args:
        label: the number of a category of the scheme.
        scheme: that which it is of.
        words: the explanation.
        state: the case so far.
        runtime: that of the run.
        calls: those that led to the verdict and aren't in the state yet.
        reviewed: whether it is a person's, who is shown the policy's categories.
        by_policy: whether the label is one of the policy in force, though no call says that a model was shown it.
        **more: further fields of `Verdict`: track, tie, confidence, steps.

    If a screening classifier is in force, its audit is told what was found of a post that went to trial.
    """
    context = context_of(state, runtime)
    led = [*state.get("calls", ()), *calls]
    told = parts_shown(led)
    by_policy = by_policy or reviewed or told is None or "policy" in told
    if by_policy:
        policy = await policy_of(state, runtime)
        category, hateful = policy.categories(scheme)[label].name, policy.is_hate(scheme, label)
    else:
        category = PLAIN[context.task][label]
        hateful = bool(label) if context.task == "hate" else None
    verdict = Verdict(
        task=context.task,
        label=label,
        category=category,
        hateful=hateful,
        explanation=words,
        rehearsed=was_rehearsed(led, state.get("warnings", ())),
        **more,
    ).dump()
    runtime.stream_writer({"event": "outcome", **verdict})
    # The rehearsal model's rules are no trial; a person's word counts whoever argued before.
    counts = reviewed or not (more.get("first_look") or verdict["rehearsed"])
    if counts and context.triage and screener_path(context.triage) is not None and state.get("post"):
        from tribunal.retrievers.screening.audit import audit_decision  # SQLite, for those who have one

        by: AuditSource = "person" if reviewed else "trial"
        await audit_decision(context.triage, Post.model_validate(state["post"]), scheme, hateful, by=by)
    ending: JSON = {"outcome": verdict}
    if state.get("messages"):
        ending |= answer_message(state, verdict, "Decided by a reviewer." if reviewed else "")
    return ending if by_policy else {**ending, "policy": {}}
