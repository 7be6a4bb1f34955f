"""Those who decide: the judge, who has heard a debate, and the classifier, who decides alone (Appendix D.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.models.ask import Answer, ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, router
from tribunal.nodes.arcade.cues import minutes
from tribunal.nodes.certainty import confidence_wanted, is_uncertain
from tribunal.nodes.exhibits import citations_mended, exhibits, passages_cited
from tribunal.nodes.forms import DecisionForm, decision_form, in_percent, in_turn, sure_decision_form
from tribunal.nodes.state import Court, closed, cues_in, transcript_of
from tribunal.nodes.verdict import deliver
from tribunal.nodes.vote import Poll, poll
from tribunal.prompts.marks import operators
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON, Saving, Step, Vote

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


@router
async def to_judge(state: Court) -> Literal["debated", "dismissed or failed"]:
    """A case that was dismissed, or that a fault has ended, needs no judge."""
    return "dismissed or failed" if closed(state) else "debated"


@agent
async def judge(state: Court, runtime: Runtime[Context]) -> JSON:
    """Decide; sees the post, what the case holds beside it, and every round of both sides (equation 7).

    Asked several times, the judge is counted: the most frequent category decides, and no draw is made that can't turn
    the vote. The confidence is the mean over all votes of what each gives to that category, a dissenting vote nothing.
    """
    context, names = context_of(state), await categories_in_force(state)
    sure = confidence_wanted(context)
    role = replace(JUDGE, form=sure_decision_form) if sure else JUDGE
    mend = in_turn(citations_mended(state, "explanation", who="judge"), in_percent)
    shared, transcript = exhibits(state), minutes(transcript_of(state), cues_in(state))

    async def draw(number: int) -> Answer[DecisionForm]:
        # The first draw decides even where the budget is spent; the others have to be affordable.
        return await ask(
            replace(role, final=False) if number else role,
            state,
            runtime,
            draw=number,
            mend=mend,
            shared=shared,
            transcript=transcript,
            categories=operators(", ".join(names)),
            not_hate=operators(names[0]),
            # In the binary scheme a cue's category is a kind of hate, and not a label.
            hateful=operators(names[1]) if context.scheme == "binary" else "",
            deep=state.get("track") == "deep_dive",
            evidence=bool(state.get("evidence")),
            sure=sure,
        )

    return await _ruled(await poll(context.judge_draws, draw, lambda vote: vote.value.category), state, runtime)


async def _ruled(votes: Poll[Answer[DecisionForm]], state: Court, runtime: Runtime[Context]) -> JSON:
    """The verdict that the judge's draws come to."""
    calls = [call for each in votes.drawn for call in each.log["calls"]]
    calls += [call for fault in votes.faults for call in fault.calls]
    warnings = [warning for each in votes.drawn for warning in each.log["warnings"]]
    if not votes.drawn:
        fault = votes.faults[0]
        fault.calls = calls
        raise fault
    warnings += [f"a draw of the judge was not counted: {fault}" for fault in votes.faults]
    context = context_of(state)
    won = next(each for each in votes.drawn if each.value.category == votes.winner)
    confidence = _confidence(votes)
    cited = passages_cited(state, won.value.explanation)
    update = await decided(
        won,
        state.get("track"),
        state,
        runtime,
        calls=calls,
        tie=votes.tie,
        confidence=confidence,
        uncertain=votes.tie or await is_uncertain(state, won.value.category, confidence),
        votes=await _votes(votes, state) if context.judge_draws > 1 else (),
        steps=(Step(claim=won.value.explanation, evidence=tuple(cited)),) if cited else (),
    )
    saved = {"saved": [*state.get("saved", []), _spared(votes)]} if votes.spared else {}
    return {**update, **saved, "calls": calls, "warnings": warnings}


def _confidence(votes: Poll[Answer[DecisionForm]]) -> float | None:
    """The mean over all votes of the confidence in what won; None where none was asked for, or none stated."""
    given = [each.confidence for each in votes.drawn if each.value.category == votes.winner]
    stated = [each for each in given if each is not None]
    return round(sum(stated) / len(votes.drawn), 4) if stated else None


async def _votes(votes: Poll[Answer[DecisionForm]], state: Court) -> tuple[Vote, ...]:
    policy, scheme = await policy_of(state), context_of(state).scheme
    return tuple(
        Vote(
            label=policy.label(scheme, each.value.category),
            category=each.value.category,
            confidence=each.confidence,
            explanation=each.value.explanation,
        )
        for each in votes.drawn
    )


def _spared(votes: Poll[Answer[DecisionForm]]) -> JSON:
    how = f"{len(votes.drawn)} votes of the judge settled it"
    return Saving(id="judge_draws", calls=votes.spared, how=how).dump()


async def categories_in_force(state: Court) -> list[str]:
    """The names of the labels of the scheme in force, in the order of their numbers."""
    return [category.name for category in (await policy_of(state)).categories(context_of(state).scheme)]


async def decided(
    answer: Answer[DecisionForm],
    track: Any,
    state: Court,
    runtime: Runtime[Context],
    calls: Sequence[JSON] = (),
    **more: Any,
) -> JSON:
    """The verdict that a decision is, as an update of the state.

    Args:
        calls: those that led to it beside the answer's own.
        more: further fields of `Verdict`.
    """
    scheme = context_of(state).scheme
    label = (await policy_of(state)).label(scheme, answer.value.category)
    heard, words = [*calls, *answer.log["calls"]], answer.value.explanation
    return {**await deliver(label, scheme, words, state, runtime, heard, track=track, **more), **answer.log}
