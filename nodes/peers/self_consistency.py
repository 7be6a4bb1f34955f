"""Self-consistency: the one call of `baseline` is drawn several times, and the most frequent answer decides.

All draws are made at one temperature, so that they are of one distribution (Wang et al., *Self-Consistency Improves
Chain of Thought Reasoning in Language Models*, ICLR 2023). The peer that every debate has to beat at equal cost:
`max_tokens` lets it spend what another graph's run has spent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from tribunal.budget import DrawBudget
from tribunal.context import Context, context_of
from tribunal.errors import BudgetSpent
from tribunal.nodes.agents import agent, node
from tribunal.nodes.peers.alone import Decision, decide_alone, scheme_of
from tribunal.nodes.state import Views, spoke
from tribunal.nodes.verdict import deliver
from tribunal.nodes.vote import Poll, poll
from tribunal.schema import JSON, Turn

Draw = tuple[int, Decision]


@node
async def open_vote(state: Views, runtime: Runtime[Context]) -> JSON:
    """Clear the table of what an earlier post on this thread left."""
    return {"scheme": scheme_of(context_of(state)), "debate": Overwrite([])}


@agent
async def draw(state: Views, runtime: Runtime[Context]) -> JSON:
    """Draw until the vote can't turn, or the budget doesn't reach for another draw. Each draw sees the post alone.

    Of several answers given equally often the one that was given first is taken, and the verdict is marked as a tie.
    """
    context = context_of(state)
    budget = DrawBudget(context)

    async def drawn(number: int) -> Draw:
        async def paid() -> tuple[Draw, Sequence[JSON]]:
            made = await decide_alone(state, runtime, number)
            return (number, made), made.answer.log["calls"]

        return await budget.pay(number, paid)

    result = await poll(context.draws, drawn, lambda each: each[1].category)
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
        **await _counted(result, state, runtime, budget.calls),
        "calls": budget.calls,
        "transcript": [turn for said in turns for turn in said["transcript"]],
        "warnings": [*(warning for said in turns for warning in said["warnings"]), *warnings],
    }


def _turn(drawn: Draw, runtime: Runtime[Context]) -> JSON:
    number, made = drawn
    turn = Turn(
        id=f"classifier/{number + 1}",
        seat="classifier",
        stage="answer",
        round=0,
        stance=made.category,
        text=made.words,
    )
    return spoke(turn, made.answer, runtime)


async def _counted(result: Poll[Draw], state: Views, runtime: Runtime[Context], calls: Sequence[JSON]) -> JSON:
    """The verdict of a vote, and how it was cast."""
    context = context_of(state)
    made = [each for _, each in result.drawn]
    votes = Counter(each.category for each in made)
    won = next(each for each in made if each.category == result.winner)
    words = won.words
    if len(made) > 1:
        tie = "; of answers given equally often the first counts" if result.tie else ""
        words = f"{votes[won.category]} of {len(made)} draws say {won.category}{tie}. {words}"
    vote = {"id": "vote", "votes": dict(votes), "draws": context.draws, "spared": result.spared}
    verdict = await deliver(won.label, scheme_of(context), words, state, runtime, calls, tie=result.tie)
    return {**verdict, "debate": [vote]}
