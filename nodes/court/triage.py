"""A first look, by which clear posts spare the trial: one cheap call with a confidence."""

from __future__ import annotations

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.errors import ModelError
from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.agents import node
from tribunal.nodes.arcade.judge import categories_in_force, deliver_decision
from tribunal.nodes.clauses import mend_decision
from tribunal.nodes.forms import decision_form, sure_form
from tribunal.nodes.state import CaseState, log_of_fault
from tribunal.nodes.verdict import is_closed, is_uncertain
from tribunal.prompts.marks import operator_words
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON, Saving
from tribunal.stops import stop_at_head

TRIAGE = Role("triage", "triage", "court/triage", sure_form(decision_form), 0.0, falls_to="triage")


@node
@stop_at_head
async def triage_post(state: CaseState, runtime: Runtime[Context]) -> JSON:
    """Decide what is clear at a first look; sees the post alone.

    A decision that isn't sure enough stays in the log: nobody who argues or judges is shown it. A first look that
    refuses or fails leaves the post to the trial.
    """
    if is_closed(state):
        return {}
    context = context_of(state)
    names = await categories_in_force(state)
    mend = mend_decision(await policy_of(state, runtime), "first look")
    try:
        answer = await ask(TRIAGE, state, runtime, mend=mend, categories=operator_words(", ".join(names)))
    except ModelError as fault:
        return log_of_fault(fault, f"the first look gave no decision, and the post went to trial: {fault}")
    confidence = answer.confidence
    # The rehearsal model states none: nothing is clear to its rules.
    clear = confidence is not None and confidence >= context.triage_confidence
    # A verdict that would be uncertain at once is not clear.
    clear = clear and not await is_uncertain(state, names.index(answer.value.category), context.scheme, confidence)
    runtime.stream_writer({"event": "triage", "clear": clear, **answer.value.model_dump(), "confidence": confidence})
    if not clear:
        return answer.log
    how = f"the first look was clear; a trial takes 2 to {2 + 2 * context.rounds} calls"
    return {
        "track": "triage",
        **await deliver_decision(answer.value, state, runtime, answer.log, track="triage", confidence=confidence),
        "saved": [Saving(id="triage", calls=1, how=how).dump()],
    }
