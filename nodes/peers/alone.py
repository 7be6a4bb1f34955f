"""Deciding alone, in one call: the peer of every debate.

Of hate this is ARCADE's classifier (Appendix D.3), in the scheme in force. Of the other tasks, and of hate in the mode
zero-shot, it is MV-Debate's (Baseline Methods): the task's question, YES or NO, at temperature 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.errors import BadInput
from tribunal.models.ask import Answer, ask
from tribunal.models.role import Role
from tribunal.nodes.arcade.judge import CLASSIFIER
from tribunal.nodes.mv_debate.views import YES, answer_form
from tribunal.nodes.state import Views, agent
from tribunal.nodes.verdict import deliver
from tribunal.prompts.policy import policy_in_force
from tribunal.schema import JSON, Scheme

MODES = ("full", "zero-shot")
ZERO_SHOT = Role(
    name="classifier.task",
    seat="classifier",
    prompt="peers/zero_shot",
    form=answer_form,
    temperature=0.0,
    falls_to="judge_model",
    system="task",
    final=True,
)


@dataclass(frozen=True)
class Decision:
    """What was decided: a label of `scheme_of` by number and name, why, and the answer that said so."""

    label: int
    category: str
    words: str
    answer: Answer[Any]


def scheme_of(context: Context) -> Scheme:
    """The scheme of the decision: a question that is answered YES or NO has two labels."""
    return "binary" if _zero_shot(context) else context.scheme


def _zero_shot(context: Context) -> bool:
    return context.task != "hate" or context.mode == "zero-shot"


async def decide_alone(state: Views, runtime: Runtime[Context], draw: int | None = None) -> Decision:
    """Ask once; the one who is asked sees the post alone.

    Args:
        state: the case.
        runtime: its context says which of the two calls it is.
        draw: which of several draws this is, all of them at the same temperature; None: the only one.

    Raises:
        BadInput: the mode is another graph's; no call was made.
        ModelError: as `ask`.
    """
    context = context_of(runtime)
    if context.mode not in MODES:
        raise BadInput(f"mode: {context.mode}: is not one of this graph's; they are {', '.join(MODES)}")
    policy = await policy_in_force(context.policy)
    names = [category.name for category in policy.categories(scheme_of(context))]
    drawn = draw is not None
    if _zero_shot(context):
        said = await ask(replace(ZERO_SHOT, drawn_alike=drawn), state, runtime, draw=draw or 0)
        label = int(said.value.answer == YES)
        return Decision(label, names[label], said.value.reason, said)
    given = await ask(
        replace(CLASSIFIER, drawn_alike=drawn), state, runtime, draw=draw or 0, categories=", ".join(names)
    )
    label = policy.label(context.scheme, given.value.category)
    return Decision(label, names[label], given.value.explanation, given)


async def classify(state: Views, runtime: Runtime[Context]) -> JSON:
    """Decide in one call; sees the post alone. The scheme is said of a refusal and a failure too."""
    return {"scheme": scheme_of(context_of(runtime)), **await _classify(state, runtime)}


@agent
async def _classify(state: Views, runtime: Runtime[Context]) -> JSON:
    made = await decide_alone(state, runtime)
    verdict = await deliver(made.label, scheme_of(context_of(runtime)), made.words, runtime, track="baseline")
    return {"track": "baseline", **verdict, **made.answer.log}
