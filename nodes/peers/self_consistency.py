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
from tribunal.nodes.peers.single_call import LoneDecision, decide_alone, decision_scheme
from tribunal.nodes.state import Views, write_turn
from tribunal.nodes.verdict import deliver
from tribunal.nodes.vote import poll
from tribunal.schema import JSON, Turn


@node
async def open_vote(state: Views, runtime: Runtime[Context]) -> JSON:
    """Clear the table of what an earlier post on this thread left."""
    return {"scheme": decision_scheme(context_of(state)), "debate": Overwrite([])}


@agent
async def draw_votes(state: Views, runtime: Runtime[Context]) -> JSON:
    """Draw until the vote can't turn, or the budget doesn't reach for another draw. Each draw sees the post alone.

    Of several answers given equally often the one that was given first is taken, and the verdict is marked as a tie.
    """
    context = context_of(state)
    budget, decisions = DrawBudget(context), dict[int, LoneDecision]()

    async def draw_vote(number: int) -> LoneDecision:
        async def ask_and_pay() -> tuple[LoneDecision, Sequence[JSON]]:
            made = decisions[number] = await decide_alone(state, runtime, number)
            return made, made.answer.log["calls"]

        return await budget.pay(number, ask_and_pay)

    result = await poll(context.draws, draw_vote, lambda made: made.category)
    lost = [fault for fault in result.faults if not isinstance(fault, BudgetSpent)]
    if result.winner is None:
        lost[0].calls = budget.calls
        raise lost[0]
    warnings = [f"a draw has no vote: {fault}" for fault in lost]
    if left_out := len(result.faults) - len(lost):
        warnings.append(f"the budget of {budget.limits} left {left_out} of {context.draws} draws unmade")
    transcript: list[JSON] = []
    logged: list[str] = []
    for number, made in sorted(decisions.items()):
        about: JSON = {"seat": "classifier", "stage": "answer", "stance": made.category, "text": made.words}
        said = write_turn(Turn(id=f"classifier/{number + 1}", round=0, **about), made.answer, runtime)
        transcript += said["transcript"]
        logged += said["warnings"]
    votes = Counter(made.category for made in result.drawn)
    won = next(made for made in result.drawn if made.category == result.winner)
    words = won.words
    if len(result.drawn) > 1:
        tie = "; of answers given equally often the first counts" if result.tie else ""
        words = f"{votes[won.category]} of {len(result.drawn)} draws say {won.category}{tie}. {words}"
    scheme = decision_scheme(context)
    log = {"calls": budget.calls, "warnings": [*logged, *warnings]}
    return {
        **await deliver(won.label, scheme, words, state, runtime, log, tie=result.tie),
        "debate": [{"id": "vote", "votes": dict(votes), "draws": context.draws, "spared": result.spared}],
        "transcript": transcript,
    }
