"""Self-consistency: the one-call classifier is drawn several times, and the most frequent answer decides.

The peer that every debate has to beat at equal cost: `max_tokens` lets it spend what another graph's run has spent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from langgraph.runtime import Runtime

from tribunal.budget import DrawBudget
from tribunal.context import Context, context_of
from tribunal.errors import BudgetSpent
from tribunal.models.ask import Answer, ask
from tribunal.nodes.arcade.judge import categories_in_force, classifier
from tribunal.nodes.forms import DecisionForm
from tribunal.nodes.state import Views, agent, spoke
from tribunal.nodes.verdict import deliver
from tribunal.nodes.vote import Poll, poll
from tribunal.prompts.policy import policy_in_force
from tribunal.schema import JSON, Turn

Draw = tuple[int, Answer[DecisionForm]]


@agent
async def draw(state: Views, runtime: Runtime[Context]) -> JSON:
    """Draw until the vote can't turn, or the budget doesn't reach for another draw. Each draw sees the post alone.

    Of several answers given equally often the one that was given first is taken, and the verdict is marked as a tie.
    """
    context = context_of(runtime)
    role, names = classifier(context.task), await categories_in_force(runtime)
    budget = DrawBudget(context)

    async def drawn(number: int) -> Draw:
        async def paid() -> tuple[Draw, Sequence[JSON]]:
            answer = await ask(role, state, runtime, draw=number, categories=", ".join(names))
            return (number, answer), answer.log["calls"]

        return await budget.pay(number, paid)

    result = await poll(context.draws, drawn, lambda each: each[1].value.category)
    lost = [fault for fault in result.faults if not isinstance(fault, BudgetSpent)]
    if result.winner is None:
        lost[0].calls = budget.calls
        raise lost[0]
    left_out = len(result.faults) - len(lost)
    warnings = [f"a draw has no vote: {fault}" for fault in lost]
    if left_out:
        warnings.append(f"the budget of {budget.limits} left {left_out} of {context.draws} draws unmade")
    turns = [_turn(each, runtime) for each in result.drawn]
    return {
        **await _counted(result, runtime),
        "calls": budget.calls,
        "transcript": [turn for said in turns for turn in said["transcript"]],
        "warnings": [*(warning for said in turns for warning in said["warnings"]), *warnings],
    }


def _turn(drawn: Draw, runtime: Runtime[Context]) -> JSON:
    number, answer = drawn
    turn = Turn(
        id=f"classifier/{number + 1}",
        seat="classifier",
        stage="answer",
        round=0,
        stance=answer.value.category,
        text=answer.value.explanation,
    )
    return spoke(turn, answer, runtime)


async def _counted(result: Poll[Draw], runtime: Runtime[Context]) -> JSON:
    """The verdict of a vote, and how it was cast."""
    context = context_of(runtime)
    values = [answer.value for _, answer in result.drawn]
    votes = Counter(value.category for value in values)
    category = str(result.winner)
    words = next(value.explanation for value in values if value.category == category)
    if len(values) > 1:
        tie = "; of answers given equally often the first counts" if result.tie else ""
        words = f"{votes[category]} of {len(values)} draws say {category}{tie}. {words}"
    label = (await policy_in_force(context.policy)).label(context.scheme, category)
    vote = {"id": "vote", "votes": dict(votes), "draws": context.draws, "spared": result.spared}
    return {**await deliver(label, context.scheme, words, runtime, tie=result.tie), "debate": [vote]}
