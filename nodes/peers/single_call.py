"""Deciding alone, in one call: the peer of every debate.

Of hate this is ARCADE's classifier (Appendix D.3), in the scheme in force. Of the other tasks, and of hate in the mode
zero-shot, it is MV-Debate's (Baseline Methods): the task's question, YES or NO, at temperature 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.models.ask import Answer, ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, node
from tribunal.nodes.arcade.judge import CLASSIFIER
from tribunal.nodes.mv_debate.views import YES, answer_form
from tribunal.nodes.state import Views
from tribunal.nodes.verdict import deliver
from tribunal.prompts.marks import operator_words
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON, Scheme

ZERO_SHOT = Role(
    "classifier.task",
    "classifier",
    "peers/zero_shot",
    answer_form,
    0.0,
    falls_to="judge_model",
    system="task",
    final=True,
)


class LoneDecision(NamedTuple):
    """A decision of one call: a label of `decision_scheme` by number and name, why, and the answer that said so."""

    label: int
    category: str
    words: str
    answer: Answer[Any]


def decision_scheme(context: Context) -> Scheme:
    """Return the scheme of the decision: a question that is answered YES or NO has two labels."""
    return "binary" if context.task != "hate" or context.mode == "zero-shot" else context.scheme


async def decide_alone(state: Views, runtime: Runtime[Context], draw: int | None = None) -> LoneDecision:
    """Ask once; the one who is asked sees the post alone.

    Args:
        state: the case; its settings say which of the two calls it is.
        runtime: that of the run.
        draw: which of several draws this is, all of them at the same temperature; None: the only one.

    Raises:
        ModelError: as `ask`.
    """
    context, policy = context_of(state), await policy_of(state)
    names = [category.name for category in policy.categories(decision_scheme(context))]
    drawn, number = draw is not None, draw or 0
    if context.task != "hate" or context.mode == "zero-shot":
        said = await ask(replace(ZERO_SHOT, shares_draw_temperature=drawn), state, runtime, draw=number)
        label = int(said.value.answer == YES)
        return LoneDecision(label, names[label], said.value.reason, said)
    role, listed = replace(CLASSIFIER, shares_draw_temperature=drawn), operator_words(", ".join(names))
    given = await ask(role, state, runtime, draw=number, categories=listed)
    label = policy.label(context.scheme, given.value.category)
    return LoneDecision(label, names[label], given.value.explanation, given)


@agent
async def _classify(state: Views, runtime: Runtime[Context]) -> JSON:
    made = await decide_alone(state, runtime)
    scheme, log = decision_scheme(context_of(state)), made.answer.log
    return {"track": "baseline", **await deliver(made.label, scheme, made.words, state, runtime, log, track="baseline")}


@node
async def classify_post(state: Views, runtime: Runtime[Context]) -> JSON:
    """Decide in one call; sees the post alone. A refusal or a failure has the scheme of the decision, too."""
    return {"scheme": decision_scheme(context_of(state)), **await _classify(state, runtime)}


vars(classify_post)["asks_a_model"] = True  # as the agent that it calls
