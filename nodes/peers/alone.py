"""Deciding alone, in one call: the peer of every debate.

Of hate this is ARCADE's classifier (Appendix D.3), in the scheme in force. Of the other tasks, and of hate in the mode
zero-shot, it is MV-Debate's (Baseline Methods): the task's question, YES or NO, at temperature 0.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, cast

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.models.ask import Answer, ask
from tribunal.models.role import Role
from tribunal.nodes.agents import Node, agent, node
from tribunal.nodes.arcade.judge import CLASSIFIER
from tribunal.nodes.mv_debate.views import YES, answer_form
from tribunal.nodes.state import Views
from tribunal.nodes.verdict import deliver
from tribunal.prompts.marks import operators
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON, Scheme

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
        state: the case; its settings say which of the two calls it is.
        runtime: that of the run.
        draw: which of several draws this is, all of them at the same temperature; None: the only one.

    Raises:
        ModelError: as `ask`.
    """
    context = context_of(state)
    policy = await policy_of(state)
    names = [category.name for category in policy.categories(scheme_of(context))]
    drawn = draw is not None
    if _zero_shot(context):
        said = await ask(replace(ZERO_SHOT, drawn_alike=drawn), state, runtime, draw=draw or 0)
        label = int(said.value.answer == YES)
        return Decision(label, names[label], said.value.reason, said)
    given = await ask(
        replace(CLASSIFIER, drawn_alike=drawn), state, runtime, draw=draw or 0, categories=operators(", ".join(names))
    )
    label = policy.label(context.scheme, given.value.category)
    return Decision(label, names[label], given.value.explanation, given)


def _with_scheme(classifier: Node) -> Node:
    """Return the node, which gives the scheme of its decision too, even where it ends in a refusal or a failure."""

    @functools.wraps(classifier)
    async def decide(state: Views, runtime: Runtime[Context]) -> JSON:
        return {"scheme": scheme_of(context_of(state)), **await classifier(state, runtime)}

    return cast("Node", decide)


@node
@_with_scheme
@agent
async def classify(state: Views, runtime: Runtime[Context]) -> JSON:
    """Decide in one call; sees the post alone."""
    made = await decide_alone(state, runtime)
    scheme, calls = scheme_of(context_of(state)), made.answer.log["calls"]
    verdict = await deliver(made.label, scheme, made.words, state, runtime, calls, track="baseline")
    return {"track": "baseline", **verdict, **made.answer.log}
