"""Symmetric debate: equals who see all the others' answers, round after round, and then vote.

The peer that MV-Debate calls MAD: Du et al., *Improving Factuality and Reasoning in Language Models through Multiagent
Debate*, ICML 2024. It takes no Judge and no roles. `max_tokens` lets it spend what another graph's run has spent.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from langgraph.types import Send

from tribunal.errors import WrongState
from tribunal.models.budget import Budget, count_tokens_paid
from tribunal.models.role import Role
from tribunal.nodes.agents import asking_node, router, take_part_while_open
from tribunal.nodes.channels import says
from tribunal.nodes.forms import MOST_CLAUSES, citing_form, mend_decision
from tribunal.nodes.mv_debate.views import (
    NO,
    YES,
    answer_form,
    answer_in_words,
    answers_in_words,
    outcome_of_dropouts,
    round_entry,
    spent_budget_update,
    take_turn,
    turns_at_stage,
)
from tribunal.nodes.state import CaseRuntime, SeatState, Views, case_for_seat
from tribunal.nodes.verdict import deliver, is_closed, vote_confidence
from tribunal.prompts.marks import ours
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON
from tribunal.settings.context import Context, context_of

# `final`: the budget is looked at before a round, which is held whole or not at all.
AGENT = Role(
    "agent", "agent", "peers/agent", citing_form(answer_form), 0.0, system="task", final=True
)


class AgentSeat(SeatState, total=False):
    """What one agent is sent: the post, its number, and what was said."""

    agent: Annotated[int, says("Which of the equals speaks, by number from 1.")]
    round: int
    transcript: list[JSON]


@take_part_while_open
async def open_next_round(state: Views, runtime: CaseRuntime) -> JSON:
    """Open the first round, or close one and open the next, if there is one to come and the budget reaches for it."""
    context = context_of(state)
    number = state.get("round", 0)
    seated = _affordable_agents(context)
    if not number:
        short = (
            f"the budget of {context.max_calls} calls seated {seated} of {context.agents} agents"
        )
        return {"round": 1, "warnings": [short] if seated < context.agents else []}
    answers = turns_at_stage(state, "answer", number)
    if not answers:
        return outcome_of_dropouts(state, 0, runtime)
    before = sum(entry["calls"] for entry in state.get("debate", []))
    calls = state["calls"][before:]
    said = {turn.seat: turn.stance for turn in answers}
    entry = {"id": f"round/{number}", "round": number, "answers": said, "calls": len(calls)}
    if number >= context.rounds:
        return {"debate": [entry]}
    # Round 2 costs what round 1 did and the answers that every agent now reads; later ones what the last one did.
    read = sum(call["completion_tokens"] for call in calls) * seated if number == 1 else 0
    budget = Budget.from_state(context, state)
    if not budget.reaches(seated, count_tokens_paid(calls) + read):
        return {"debate": [entry], **spent_budget_update(budget, f"round {number + 1}")}
    return {"debate": [entry], "round": number + 1}


def _affordable_agents(context: Context) -> int:
    """Return how many agents debate: no more than the budget has calls."""
    return Budget(context).most(context.agents)


@router
async def to_agents(
    state: Views,
) -> list[Send] | Literal["round to close", "K rounds done", "too few left"]:
    """Send all agents at once, each with what was said; once their round is closed, go to the vote.

    A round that they have answered and nobody has closed is closed first: a person stopped the case after they spoke.
    """
    if is_closed(state):
        return "too few left"
    if turns_at_stage(state, "answer"):
        return "K rounds done" if round_entry(state) else "round to close"
    seen = case_for_seat(state, "round", "transcript")
    return [
        Send("speak", {**seen, "agent": each})
        for each in range(1, _affordable_agents(context_of(state)) + 1)
    ]


@asking_node
async def answer_as_agent(state: AgentSeat, runtime: CaseRuntime) -> JSON:
    """Answer as one agent; sees the post, its own last answer and all the others'."""
    # Agents of one model are draws of one call: at temperature 0 they would all say the same.
    seat = f"agent:{state['agent']}"
    last = turns_at_stage(state, "answer", state["round"] - 1)
    own = next((answer_in_words(turn) for turn in last if turn.seat == seat), "")
    others = answers_in_words([turn for turn in last if turn.seat != seat], ours("agent "))
    mend = mend_decision(await policy_of(state, runtime), seat)
    return await take_turn(
        AGENT,
        seat,
        "answer",
        state,
        runtime,
        draw=state["agent"] - 1,
        own=own,
        others=others,
        mend=mend,
    )


@take_part_while_open
async def vote_on_answers(state: Views, runtime: CaseRuntime) -> JSON:
    """Decide by more than half of the last round's answers; a tie is NO, and marked.

    The verdict cites the clauses that most of those who gave the answer cite.
    """
    answers = turns_at_stage(state, "answer")
    if not answers:
        raise WrongState(
            f"round: {state['round']}: nobody answered in it; give the last round that was held"
        )
    yes = sum(turn.stance == YES for turn in answers)
    side = YES if yes * 2 > len(answers) else NO
    tie = yes * 2 == len(answers)
    count = yes if side == YES else len(answers) - yes
    words = f"{count} of {len(answers)} agents answered {side}{', and a tie counts as NO' if tie else ''}. "
    words += next(turn.text for turn in answers if turn.stance == side)
    confidence = vote_confidence(state, count, len(answers), state.get("calls", ()))
    cited = Counter(clause for turn in answers if turn.stance == side for clause in turn.clauses)
    clauses = [clause for clause, _ in cited.most_common(MOST_CLAUSES)]
    how: JSON = {"tie": tie, "confidence": confidence, "clauses": clauses}
    return await deliver(int(side == YES), "binary", words, state, runtime, **how)
