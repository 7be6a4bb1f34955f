"""A first look that was fitted on decided posts: it decides what it was shown to decide well, without a call."""

from __future__ import annotations

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.nodes.arcade.judge import categories_in_force
from tribunal.nodes.certainty import is_uncertain
from tribunal.nodes.state import Court, post_of
from tribunal.nodes.verdict import deliver
from tribunal.prompts.policy import policy_of
from tribunal.retrievers.first_look.look import Look, Seen
from tribunal.retrievers.first_look.looking import Looked, look_at
from tribunal.schema import JSON, Saving
from tribunal.telling import tell


async def first_look(folder: str, state: Court, runtime: Runtime[Context]) -> JSON:
    """Decide a post, or leave it to the trial.

    It tells hate from none, and no category of hate: in the fine scheme it decides on harmless posts alone. What is
    drawn for the audit goes to trial, and nobody there is told of it.
    """
    looked = await look_at(folder, post_of(state))
    warnings = await _warnings(looked, state)
    names = await categories_in_force(state)
    seen, scheme = looked.seen, context_of(state).scheme
    label = 1 if seen.kind == "hateful" else 0
    able = looked.look.able(seen.kind, scheme)
    clear = able and not looked.audited and not await is_uncertain(state, names[label], seen.confidence)
    words = _words(looked.look, seen, clear=clear, audited=able and looked.audited)
    told = {"category": names[label] if able else "", "confidence": seen.confidence, "explanation": words}
    tell(runtime, {"event": "triage", "clear": clear, **told})
    if not clear:
        return {"warnings": warnings} if warnings else {}
    spared = "the first look decided by itself; a trial takes 2 calls at least"
    decided = await deliver(
        label, scheme, words, state, runtime, track="triage", confidence=seen.confidence, first_look=looked.look.sha
    )
    return {
        "track": "triage",
        **decided,
        "saved": [Saving(id="triage", calls=2, how=spared).dump()],
        "calls": [],
        "warnings": warnings,
    }


def _words(look: Look, seen: Seen, *, clear: bool, audited: bool) -> str:
    name = f"The first look ({look.sha[:12]})"
    if audited:
        return f"{name} leaves this post to the trial, for its audit."
    if not clear or seen.chance is None:
        return f"{name} leaves this post to the trial: {seen.why or 'what it says is not sure enough'}."
    return (
        f"{name}, a classifier of words that was fitted on posts that people decided, gives a chance of "
        f"{seen.chance:.1%} that this is hate. Nobody argued it."
    )


async def _warnings(looked: Looked, state: Court) -> list[str]:
    held, name = looked.look.manifest, f"the first look ({looked.look.sha[:12]})"
    if looked.off:
        return [f"{name} is switched off, and every post goes to trial: {looked.off}"]
    if looked.fault:
        return [f"{name} gave no decision, and the post went to trial: {looked.fault}"]
    policy = (await policy_of(state)).sha
    if held.policy is not None and held.policy != policy:
        then, now = held.policy[:12], policy[:12]
        return [f"{name} was fitted to another policy ({then}, now {now}), and promises nothing for this one"]
    return []
