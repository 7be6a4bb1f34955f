"""Those who decide: the judge, who has heard a debate, and the classifier, who decides alone (the baseline)."""

from __future__ import annotations

from typing import Any, Literal

from langgraph.runtime import Runtime

from nodes.context import Context, context_of
from nodes.cues import DecisionReply, decision_form, minutes
from nodes.model import Answer, Role, ask
from nodes.schema import JSON, Task
from nodes.state import Court, agent, closed, transcript_of
from nodes.verdict import deliver
from prompts.policy import Policy, policy_in_force

JUDGE = Role(
    name="judge",
    seat="judge",
    prompt="arcade/judge",
    form=decision_form,
    temperature=0.1,
    falls_to="judge_model",
    final=True,
)
CLASSIFIER = Role(
    name="classifier",
    seat="classifier",
    prompt="arcade/classifier",
    form=decision_form,
    temperature=0.8,
    falls_to="judge_model",
    final=True,
)

# The same question for the other tasks (MV-Debate, Baseline Methods: zero-shot, at temperature 0).
ZERO_SHOT = Role(
    name="classifier.task",
    seat="classifier",
    prompt="peers/zero_shot",
    form=decision_form,
    temperature=0.0,
    falls_to="judge_model",
    system="task",
    final=True,
)


def classifier(task: Task) -> Role[DecisionReply]:
    """The one call that decides a post of this task."""
    return CLASSIFIER if task == "hate" else ZERO_SHOT


async def to_judge(state: Court) -> Literal["judge", "__end__"]:
    """A case that was dismissed, or that a fault has ended, needs no judge."""
    return "__end__" if closed(state) else "judge"


@agent
async def judge(state: Court, runtime: Runtime[Context]) -> JSON:
    """Decide; sees the post and every round of both sides (equation 7)."""
    names = await categories_in_force(runtime)
    answer = await ask(
        JUDGE,
        state,
        runtime,
        transcript=minutes(transcript_of(state)),
        categories=", ".join(names),
        not_hate=names[0],
    )
    return await decided(answer, state.get("track"), runtime)


@agent
async def classify(state: Court, runtime: Runtime[Context]) -> JSON:
    """Decide in one call; sees the post alone (of hate, ARCADE's baseline, Appendix D.3)."""
    role = classifier(context_of(runtime).task)
    answer = await ask(role, state, runtime, categories=", ".join(await categories_in_force(runtime)))
    return {"track": "baseline", **await decided(answer, "baseline", runtime)}


async def _policy(runtime: Runtime[Context]) -> Policy:
    return await policy_in_force(context_of(runtime).policy)


async def categories_in_force(runtime: Runtime[Context]) -> list[str]:
    """The names of the labels of the scheme in force, in the order of their numbers."""
    return [category.name for category in (await _policy(runtime)).categories(context_of(runtime).scheme)]


async def decided(answer: Answer[DecisionReply], track: Any, runtime: Runtime[Context]) -> JSON:
    """The verdict that a decision is, as an update of the state."""
    scheme = context_of(runtime).scheme
    label = (await _policy(runtime)).label(scheme, answer.value.category)
    return {**await deliver(label, scheme, answer.value.explanation, runtime, track=track), **answer.record}
