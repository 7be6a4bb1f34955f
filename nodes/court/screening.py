"""The screening classifier as a node: it decides the posts that it was shown to decide well, without a call."""

from __future__ import annotations

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.nodes.arcade.judge import categories_in_force
from tribunal.nodes.state import CaseState, post_of
from tribunal.nodes.verdict import deliver, is_uncertain
from tribunal.prompts.policy import policy_of
from tribunal.retrievers.screening.audit import ScreenedPost, screen_post
from tribunal.retrievers.screening.screener import Screener, ScreeningResult
from tribunal.schema import JSON, Saving


async def screen_by_classifier(folder: str, state: CaseState, runtime: Runtime[Context]) -> JSON:
    """Decide a post, or leave it to the trial.

    It knows no category of hate: in the fine scheme it decides harmless posts alone. What is sampled for the audit
    goes to trial, and nobody there is told of it.
    """
    screened = await screen_post(folder, post_of(state))
    warnings = await _screening_warnings(screened, state)
    names = await categories_in_force(state)
    result, scheme = screened.result, context_of(state).scheme
    label = 1 if result.kind == "hateful" else 0
    able = screened.screener.may_decide(result.kind, scheme)
    clear = able and not screened.audited and not await is_uncertain(state, label, scheme, result.confidence)
    words = _explain_screening(screened.screener, result, clear=clear, audited=able and screened.audited)
    decision = {"category": names[label] if able else "", "confidence": result.confidence, "explanation": words}
    runtime.stream_writer({"event": "triage", "clear": clear, **decision})
    if not clear:
        return {"warnings": warnings} if warnings else {}
    how: JSON = {"track": "triage", "confidence": result.confidence, "first_look": screened.screener.sha}
    decided = await deliver(label, scheme, words, state, runtime, {"calls": [], "warnings": warnings}, **how)
    spared = "the screening classifier decided by itself; a trial takes 2 calls at least"
    saving = Saving(id="triage", calls=2, how=spared)
    return {"track": "triage", **decided, "saved": [saving.dump()]}


def _explain_screening(screener: Screener, result: ScreeningResult, *, clear: bool, audited: bool) -> str:
    name = f"The screening classifier ({screener.sha[:12]})"
    if audited:
        return f"{name} leaves this post to the trial, for its audit."
    if not clear or result.chance is None:
        return f"{name} leaves this post to the trial: {result.why or 'what it says is not sure enough'}."
    return (
        f"{name}, a classifier of words that was fitted on posts that people decided, gives a chance of "
        f"{result.chance:.1%} that this is hate. Nobody argued it."
    )


async def _screening_warnings(screened: ScreenedPost, state: CaseState) -> list[str]:
    held, name = screened.screener.manifest, f"the screening classifier ({screened.screener.sha[:12]})"
    if screened.off:
        return [f"{name} is switched off, and every post goes to trial: {screened.off}"]
    if screened.fault:
        return [f"{name} gave no decision, and the post went to trial: {screened.fault}"]
    policy = (await policy_of(state)).sha
    if held.policy is not None and held.policy != policy:
        then, now = held.policy[:12], policy[:12]
        return [f"{name} was fitted to another policy ({then}, now {now}), and promises nothing for this one"]
    return []
