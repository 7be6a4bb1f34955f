"""The deciding agents: the judge, after a debate, and the classifier, without a debate (Appendix D.3)."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from tribunal.models.ask import Answer, ask
from tribunal.models.role import Role
from tribunal.models.saved_calls import save_call
from tribunal.models.stops import is_stepped_through
from tribunal.nodes.agents import agent, router
from tribunal.nodes.arcade.contradictions import check_decision, is_contradictory
from tribunal.nodes.arcade.cues import quote_transcript
from tribunal.nodes.exhibits import cited_ids, show_exhibits, strike_unknown_citations
from tribunal.nodes.forms import (
    DecisionForm,
    chain_menders,
    cited_clauses,
    decision_form,
    mend_percent,
    strike_unknown_clauses,
)
from tribunal.nodes.poll import poll
from tribunal.nodes.state import CaseRuntime, CaseState, cues_in, transcript_of
from tribunal.nodes.verdict import deliver, is_closed, with_confidence
from tribunal.prompts.marks import operator_words
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON, Saving, Step, Vote
from tribunal.settings.context import context_of

JUDGE = Role(
    "judge", "judge", "arcade/judge", decision_form, 0.1, falls_to="judge_model", final=True
)
# The published baseline gives the label first, so no reason moves it.
CLASSIFIER = Role(
    "classifier",
    "classifier",
    "arcade/classifier",
    decision_form,
    0.8,
    falls_to="judge_model",
    final=True,
    answer_order="label-first",
)


@router
async def to_judge(state: CaseState) -> Literal["debated", "dismissed or failed"]:
    """Send a case to the judge, unless it was dismissed or a fault has ended it."""
    return "dismissed or failed" if is_closed(state) else "debated"


@agent
async def judge_debate(state: CaseState, runtime: CaseRuntime) -> JSON:
    """Decide; sees the post, the case's material beside it, and every round of both sides (equation 7).

    Asked several times, the judge is counted: the most frequent category decides, and no draw is made that can't turn
    the vote. The confidence is the mean over all votes of what each gives to that category, a dissenting vote nothing.
    A decision that the cues contradict is uncertain.
    """
    context = context_of(state)
    names = await categories_in_force(state)
    role = with_confidence(JUDGE, state)
    policy = await policy_of(state, runtime)
    scheme = context.scheme
    mend = chain_menders(
        strike_unknown_citations(state, "explanation", who="judge"),
        strike_unknown_clauses(policy, "judge"),
        mend_percent,
    )
    shared = show_exhibits(state)
    transcript = quote_transcript(transcript_of(state), cues_in(state))

    async def ask_judge(number: int) -> Answer[DecisionForm]:
        # The first draw decides even where the budget is spent; the others have to be affordable.
        return await ask(
            replace(role, final=False) if number else role,
            state,
            runtime,
            draw=number,
            mend=mend,
            check=check_decision(policy, scheme, state),
            shared=shared,
            transcript=transcript,
            categories=operator_words(", ".join(names)),
            not_hate=operator_words(names[0]),
            # In the binary scheme a cue's category is a kind of hate, and not a label.
            hateful=operator_words(names[1]) if scheme == "binary" else "",
            deep=state.get("track") == "deep_dive",
        )

    def draw(number: int) -> Awaitable[Answer[DecisionForm]]:
        if context.judge_draws == 1:  # the node saves its only call itself
            return ask_judge(number)
        return save_call(f"draw {number}", role, state, runtime, partial(ask_judge, number))

    def as_vote(drawn: Answer[DecisionForm]) -> Vote:
        category = drawn.value.category
        words = drawn.value.explanation
        return Vote(
            label=names.index(category),
            category=category,
            confidence=drawn.confidence,
            explanation=words,
        )

    in_turn = is_stepped_through(state, runtime)
    votes = await poll(context.judge_draws, draw, lambda vote: vote.value.category, in_turn=in_turn)
    calls = [call for each in votes.drawn for call in each.log["calls"]]
    calls += [call for fault in votes.faults for call in fault.calls]
    if not votes.drawn:
        fault = votes.faults[0]
        fault.calls = calls
        raise fault
    won = next(each for each in votes.drawn if each.value.category == votes.winner)
    stated = [each.confidence for each in votes.drawn if each.value.category == votes.winner]
    known = [each for each in stated if each is not None]
    confidence = round(sum(known) / len(votes.drawn), 4) if known else None
    cited = tuple(cited_ids(state, won.value.explanation))
    warnings = [warning for each in votes.drawn for warning in each.log["warnings"]]
    warnings += [f"a draw of the judge was not counted: {fault}" for fault in votes.faults]
    update = await deliver_decision(
        won.value,
        state,
        runtime,
        {"calls": calls, "warnings": warnings},
        track=state.get("track"),
        tie=votes.tie,
        uncertain=True if is_contradictory(policy, scheme, won.value.category, state) else None,
        confidence=confidence,
        votes=tuple(map(as_vote, votes.drawn)) if context.judge_draws > 1 else (),
        steps=(Step(claim=won.value.explanation, evidence=cited),) if cited else (),
    )
    if votes.spared:
        how = f"{len(votes.drawn)} votes of the judge settled it"
        saving = Saving(id="judge_draws", calls=votes.spared, how=how)
        update["saved"] = [*state.get("saved", []), saving.dump()]
    return update


async def categories_in_force(state: CaseState) -> list[str]:
    """Return the names of the labels of the scheme in force, in the order of their numbers."""
    return [
        category.name for category in (await policy_of(state)).categories(context_of(state).scheme)
    ]


async def deliver_decision(
    decision: DecisionForm, state: CaseState, runtime: CaseRuntime, log: JSON, **more: Any
) -> JSON:
    """Return the verdict of a decision, as an update of the state; the arguments are those of `deliver`."""
    scheme = context_of(state).scheme
    label = (await policy_of(state)).label(scheme, decision.category)
    return await deliver(
        label,
        scheme,
        decision.explanation,
        state,
        runtime,
        log,
        clauses=cited_clauses(decision),
        **more,
    )
