"""A first look: one cheap call with a confidence, by which clear posts spare the trial."""

from __future__ import annotations

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.errors import ModelError
from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.arcade.judge import categories_in_force, decided
from tribunal.nodes.certainty import confidence_wanted, threshold_in_force
from tribunal.nodes.forms import confidence_of, in_percent, sure_decision_form
from tribunal.nodes.state import Court, closed
from tribunal.schema import JSON, Saving

TRIAGE = Role(
    name="triage",
    seat="triage",
    prompt="court/triage",
    form=sure_decision_form,
    temperature=0.0,
    falls_to="triage",
)


async def triage(state: Court, runtime: Runtime[Context]) -> JSON:
    """Decide what is clear at a first look; sees the post alone.

    A decision that isn't sure enough stays in the log: nobody who argues or judges is shown it. A first look that
    refuses or fails leaves the post to the trial.
    """
    if closed(state):
        return {}
    context = context_of(runtime)
    names = await categories_in_force(runtime)
    try:
        answer = await ask(TRIAGE, state, runtime, mend=in_percent, categories=", ".join(names))
    except ModelError as fault:
        said = f"the first look gave no decision, and the post went to trial: {fault}"
        return {"calls": list(fault.calls), "warnings": [*fault.warnings, said]}
    confidence = confidence_of(answer.value) or 0.0
    clear = confidence >= context.triage_confidence
    # A verdict that would be uncertain at once is not clear.
    if clear and confidence_wanted(context):
        clear = confidence >= await threshold_in_force(runtime)
    runtime.stream_writer({"event": "triage", "clear": clear, **answer.value.model_dump()})
    if not clear:
        return answer.log
    least, most = 2, 2 + 2 * context.rounds
    how = f"the first look was clear; a trial takes {least} to {most} calls"
    return {
        "track": "triage",
        **await decided(answer, "triage", runtime, confidence=confidence),
        "saved": [Saving(id="triage", calls=least - 1, how=how).dump()],
    }
