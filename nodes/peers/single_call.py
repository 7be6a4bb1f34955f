"""Deciding alone: in one call, or in several draws of it (self-consistency); the peers of every debate.

Of hate the call is ARCADE's classifier (Appendix D.3), in the scheme in force. Of the other tasks, and of hate in the
mode zero-shot, it is MV-Debate's (Baseline Methods): the task's question, YES or NO, at temperature 0.

All draws are made at one temperature, so that they are of one distribution (Wang et al., *Self-Consistency Improves
Chain of Thought Reasoning in Language Models*, ICLR 2023). `max_tokens` lets them spend what another graph's run has
spent: the peer that every debate has to beat at equal cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from langgraph.types import Overwrite
from pydantic import create_model

from tribunal.errors import BudgetSpent
from tribunal.models.ask import Answer, ask
from tribunal.models.budget import DrawBudget
from tribunal.models.role import Role
from tribunal.models.saved_calls import save_call
from tribunal.models.stops import is_stepped_through
from tribunal.nodes.agents import agent, asking_node, node
from tribunal.nodes.arcade.judge import CLASSIFIER
from tribunal.nodes.forms import (
    DecisionForm,
    category_field,
    cited_clauses,
    citing_form,
    mend_decision,
    text_bounds,
)
from tribunal.nodes.mv_debate.views import YES, answer_form
from tribunal.nodes.poll import poll
from tribunal.nodes.state import CaseRuntime, Views, write_turn
from tribunal.nodes.verdict import deliver, vote_confidence, with_confidence
from tribunal.prompts.marks import operator_words
from tribunal.prompts.policy import Policy, policy_of
from tribunal.schema import JSON, Scheme
from tribunal.settings.context import Context, context_of

ZERO_SHOT = Role(
    "classifier.task",
    "classifier",
    "peers/zero_shot",
    citing_form(answer_form),
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


async def decide_alone(state: Views, runtime: CaseRuntime, draw: int | None = None) -> LoneDecision:
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
    names = [category.name for category in policy.categories(decision_scheme(context))]
    zero_shot = context.task != "hate" or context.mode == "zero-shot"
    role: Role[Any] = ZERO_SHOT if zero_shot else CLASSIFIER
    if draw is None:
        role = with_confidence(role, state)
    else:  # the vote is the confidence, one over ways of reasoning: a draw reasons before it decides
        role = replace(role, shares_draw_temperature=True, answer_order="reason-first")
    shown: JSON = {} if zero_shot else {"categories": operator_words(", ".join(names))}

    async def ask_classifier() -> Answer[Any]:
        return await ask(
            role, state, runtime, draw=draw or 0, mend=mend_decision(policy, "classifier"), **shown
        )

    if draw is None:
        answer = await ask_classifier()
    else:
        answer = await save_call(f"draw {draw}", role, state, runtime, ask_classifier)
    said = answer.value
    if zero_shot:
        label = int(said.answer == YES)
        return LoneDecision(label, names[label], said.reason, answer)
    label = policy.label(context.scheme, said.category)
    return LoneDecision(label, names[label], said.explanation, answer)


@agent
async def _classify(state: Views, runtime: CaseRuntime) -> JSON:
    made = await decide_alone(state, runtime)
    how: JSON = {
        "confidence": made.answer.confidence,
        "clauses": cited_clauses(made.answer.value),
        "track": "baseline",
    }
    scheme = decision_scheme(context_of(state))
    log = made.answer.log
    return {
        "track": "baseline",
        **await deliver(made.label, scheme, made.words, state, runtime, log, **how),
    }


@asking_node
async def classify_post(state: Views, runtime: CaseRuntime) -> JSON:
    """Decide in one call; sees the post alone. A refusal or a failure has the scheme of the decision, too."""
    return {"scheme": decision_scheme(context_of(state)), **await _classify(state, runtime)}


@node
async def open_vote(state: Views, runtime: CaseRuntime) -> JSON:
    """Clear the table of what an earlier post on this thread left."""
    return {"scheme": decision_scheme(context_of(state)), "debate": Overwrite([])}


@agent
async def draw_votes(state: Views, runtime: CaseRuntime) -> JSON:
    """Draw until the vote can't turn, or the budget doesn't reach for another draw. Each draw sees the post alone.

    Of several answers given equally often the one that was given first is taken, and the verdict is marked as a tie.
    """
    context = context_of(state)
    budget = DrawBudget(context)
    decisions = dict[int, LoneDecision]()

    async def draw_vote(number: int) -> LoneDecision:
        async def ask_and_pay() -> tuple[LoneDecision, Sequence[JSON]]:
            made = decisions[number] = await decide_alone(state, runtime, number)
            return made, made.answer.log["calls"]

        return await budget.pay(number, ask_and_pay)

    in_turn = is_stepped_through(state, runtime)
    result = await poll(context.draws, draw_vote, lambda made: made.category, in_turn=in_turn)
    lost = [fault for fault in result.faults if not isinstance(fault, BudgetSpent)]
    if result.winner is None:
        lost[0].calls = budget.calls
        raise lost[0]
    warnings = [f"a draw has no vote: {fault}" for fault in lost]
    left_out = len(result.faults) - len(lost)
    if left_out:
        warnings.append(
            f"the budget of {budget.limits} left {left_out} of {context.draws} draws unmade"
        )
    transcript: list[JSON] = []
    logged: list[str] = []
    for number, made in sorted(decisions.items()):
        about = {"id": f"classifier/{number + 1}", "stance": made.category, "text": made.words}
        said = write_turn(made.answer, runtime, "classifier", "answer", 0, **about)
        transcript += said["transcript"]
        logged += said["warnings"]
    votes = Counter(made.category for made in result.drawn)
    won = next(made for made in result.drawn if made.category == result.winner)
    words = won.words
    if len(result.drawn) > 1:
        tie = "; of answers given equally often the first counts" if result.tie else ""
        words = (
            f"{votes[won.category]} of {len(result.drawn)} draws say {won.category}{tie}. {words}"
        )
    scheme = decision_scheme(context)
    log = {"calls": budget.calls, "warnings": [*logged, *warnings]}
    confidence = vote_confidence(state, votes[won.category], len(result.drawn), budget.calls)
    how: JSON = {
        "tie": result.tie,
        "confidence": confidence,
        "clauses": cited_clauses(won.answer.value),
    }
    return {
        **await deliver(won.label, scheme, words, state, runtime, log, **how),
        "debate": [
            {"id": "vote", "votes": dict(votes), "draws": context.draws, "spared": result.spared}
        ],
        "transcript": transcript,
    }


# The exam of a model: ten plain posts and the call that asks about each
#
# The call is ARCADE's one-call classifier with one field more, at temperature 0. The posts are our own.


class ExamPost(NamedTuple):
    """A post of the exam, and whether it is hate speech."""

    text: str
    is_hateful: bool


EXAM_POSTS = (
    ExamPost("Nobody should rent a flat to Muslims. Keep them out of our street.", is_hateful=True),
    ExamPost("Women are too stupid to vote, and they should never be hired.", is_hateful=True),
    ExamPost("Old people are a useless burden. They should not get a doctor.", is_hateful=True),
    ExamPost("All immigrants are dirty and lazy. Throw them out of the country.", is_hateful=True),
    ExamPost("Gay people are sick, and no school should employ them.", is_hateful=True),
    ExamPost("The bus was late again today, and then it started to rain.", is_hateful=False),
    ExamPost(
        "Our new neighbours are Muslims, and they brought us cake on Sunday.", is_hateful=False
    ),
    ExamPost(
        "My grandmother is eighty and still rides her bicycle to the market.", is_hateful=False
    ),
    ExamPost("This soup needs more salt, a little pepper and ten more minutes.", is_hateful=False),
    ExamPost("The women of our choir sang in the park, and everybody clapped.", is_hateful=False),
)


class ExamForm(DecisionForm):
    """A decision, and the words of the post that decide it."""

    quote: Annotated[str, text_bounds(200)]


@lru_cache(maxsize=32)
def exam_form(policy: Policy, scheme: Scheme) -> type[ExamForm]:
    """Return the form of a decision, with a quotation."""
    return create_model("ExamDecision", __base__=ExamForm, category=category_field(policy, scheme))


EXAMINED: Role[ExamForm] = Role(
    "exam",
    "classifier",
    "exam/post",
    exam_form,
    0.0,
    falls_to="judge_model",
    final=True,
    answer_order="label-first",
)
