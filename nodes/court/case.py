"""The hybrid court's case: opened and checked, looked at first (triage), sent to those who look things up, assigned.

What is found is an exhibit of the court (`evidence`, `opinions`, `precedents`); the verdict says what was not found.
"""

from __future__ import annotations

from typing import Any, Literal

from langgraph.types import Overwrite, Send

from tribunal.core.calls import lacks_a_reason
from tribunal.core.disguises import undo_disguises
from tribunal.errors import BadInput, ModelError, TribunalError
from tribunal.models.ask import ask
from tribunal.models.budget import reserve_requests
from tribunal.models.role import Role
from tribunal.nodes.agents import asking_node, node, router
from tribunal.nodes.antihate.research import begin_research
from tribunal.nodes.arcade.judge import categories_in_force, deliver_decision
from tribunal.nodes.channels import SENT_ALONE
from tribunal.nodes.forms import decision_form, mend_decision, sure_form
from tribunal.nodes.predict.perspective import open_searchers
from tribunal.nodes.state import Case, CaseRuntime, CaseState, log_of_fault, post_of
from tribunal.nodes.verdict import is_closed, is_uncertain
from tribunal.prompts.marks import operator_words
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON, Precedent, Saving
from tribunal.settings.context import Context, context_of

WIDE_RULES = ("hateful", "all")
# The fewest calls of a trial beside the judge's: scan, indictment, defence.
TRIAL = 3


@node
async def open_case(state: Case, runtime: CaseRuntime) -> JSON:
    """Check the court's own settings, before any call, and clear the state of an earlier case.

    Raises:
        BadInput: a perspective, the store of precedents, the search, the archive or the review rule is wrong.
    """
    context = context_of(state)
    policy = await policy_of(state)
    known = [*WIDE_RULES, *(category.name for category in policy.categories(context.scheme))]
    unknown = next((each for each in context.review_rule if each not in known), None)
    if unknown:
        raise BadInput(f"review_rule: {unknown!r}: is no rule; they are {', '.join(known)}")
    warnings = list[str]()
    if context.web:
        from tribunal.retrievers.web.library import open_library

        await open_library(context, post_of(state))
    if hears_perspectives(context):
        await open_searchers(context)
    if context.precedents:
        from tribunal.retrievers.precedents.store import open_precedents

        await open_precedents(context.precedents)
    if (context.web or hears_perspectives(context) or context.precedents) and not _has_text(state):
        warnings.append(
            "the post has no text, so nothing was looked up: searches and perspectives begin with words"
        )
    return {
        "early_exit": True,
        "policy_examples": True,
        "reading": undo_disguises(post_of(state).text),
        "absent": Overwrite([]),
        "trials": Overwrite([]),
        "review": None,
        "warnings": warnings,
    }


def _has_text(state: Case) -> bool:
    """Return whether there is anything to look up: searches and perspectives begin with words."""
    return bool(post_of(state).text.strip())


def hears_perspectives(context: Context) -> bool:
    """Return whether this court hears perspectives: only if some are named."""
    return context.perspectives not in ([], ["none"])


@router
async def to_triage(state: Case) -> list[Send | str]:
    """Go to the triage if there is one, else straight to the court."""
    return (
        ["first look"]
        if context_of(state).triage
        else await _branch_to_court(state, "no first look")
    )


@router
async def to_court_unless_clear(state: Case) -> list[Send | str]:
    """Decide a post that the triage found clear; send any other to the court."""
    return (
        [_route_triaged(state)] if is_closed(state) else await _branch_to_court(state, "not clear")
    )


@router
async def to_trial(state: Case) -> Literal["not clear", "for review", "clear"]:
    """Send a post to the trial unless the triage has decided it; then perhaps to a person."""
    return _route_triaged(state)


def _route_triaged(state: Case) -> Literal["not clear", "for review", "clear"]:
    if not is_closed(state):
        return "not clear"
    return "for review" if needs_review(state) else "clear"


async def _branch_to_court(state: Case, scan: str) -> list[Send | str]:
    """Return the paths to the gatekeeper (called `scan`) and to the agents that look things up.

    They run at the same time and see nothing of each other's calls, so each leaves a share of the budget to the others.
    All but the gatekeeper are sent for: of two that are branched to, a server couldn't tell whose an edit is to be.
    """
    context = context_of(state)
    text = _has_text(state)
    heard = len(await open_searchers(context)) if hears_perspectives(context) and text else 0
    sent: list[Send | str] = [scan]
    if context.web and text:
        sent.append(Send("web", {**reserve_requests(state, heard + TRIAL), SENT_ALONE: True}))
    if heard:
        sent.append(Send("perspectives", {**reserve_requests(state, TRIAL), SENT_ALONE: True}))
    if context.precedents and text:
        sent.append(Send("find_precedents", state))
    return sent


@node
async def assign_track(state: Case, runtime: CaseRuntime) -> JSON:
    """Join the scan and the research; the scan decides the track."""
    context = context_of(state)
    if is_closed(state) or not context.web or not _has_text(state) or state.get("evidence"):
        return {}
    return {"warnings": ["no passage from the web was found: the court had only the post"]}


@node
async def report_research(state: Case, runtime: CaseRuntime) -> JSON:
    """Give the research's results to the court; if the research broke off, say so, and the trial goes on."""
    outcome: Any = state.get("outcome") or {}
    if not outcome:
        return {}
    how = "was refused" if outcome["outcome"] == "refusal" else "failed"
    return {
        "warnings": [f"the look at the web {how} ({outcome['role']}): {outcome['explanation']}"]
    }


@node
async def begin_lookup(state: Case, runtime: CaseRuntime) -> JSON:
    """Open the search and the archive; another scheme than the research's own stays the court's."""
    return {
        name: value
        for name, value in (await begin_research(state, runtime)).items()
        if name != "scheme"
    }


@router
async def to_review(state: Case) -> Literal["for review", "decided"]:
    """Send a case with an outcome to a person, if review is on and there is a reason."""
    return "for review" if needs_review(state) else "decided"


@router
async def to_judge(state: Case) -> Literal["debated", "for review", "dismissed or failed"]:
    """Send a case to the judge, unless it has ended; then perhaps to a person."""
    if not is_closed(state):
        return "debated"
    return "for review" if needs_review(state) else "dismissed or failed"


def needs_review(state: Case) -> bool:
    """Return whether a person should see the outcome of this case."""
    return is_closed(state) and bool(review_reason(state, context_of(state)))


def review_reason(state: Any, context: Context) -> str:
    """Return why a person should see this outcome, in words; empty if nothing calls for it."""
    outcome: JSON = state.get("outcome") or {}
    if not context.review or not outcome:
        return ""
    unsure = outcome.get("uncertain")
    rules = context.review_rule
    category = outcome.get("category")
    reasons = {
        "it was tried again for a reviewer's question": state.get("question"),
        "the model refused": outcome["outcome"] == "refusal",
        "the models reached no verdict": outcome["outcome"] == "failure",
        "the verdict is a tie": unsure and outcome.get("tie"),
        "a model gave no reason": unsure and lacks_a_reason(state.get("calls", ())),
        "the verdict is uncertain": unsure and outcome.get("confidence") is not None,
        "no confidence is stated": unsure,
        "every case is reviewed": "all" in rules,
        "every hateful post is reviewed": outcome.get("hateful") and "hateful" in rules,
        f"every case of {category} is reviewed": category in rules,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


# Triage: one cheap call with a confidence; a clear post needs no trial


TRIAGE = Role("triage", "triage", "court/triage", sure_form(decision_form), 0.0, falls_to="triage")


@asking_node
async def triage_post(state: CaseState, runtime: CaseRuntime) -> JSON:
    """Decide posts that are clear at a first look; sees only the post.

    A decision that isn't sure enough stays in the log: nobody who argues or judges is shown it. A first look that
    refuses or fails leaves the post to the trial. Without the setting `triage` nobody is asked.
    """
    context = context_of(state)
    if is_closed(state) or not context.triage:
        return {}
    names = await categories_in_force(state)
    mend = mend_decision(await policy_of(state, runtime), "first look")
    try:
        answer = await ask(
            TRIAGE, state, runtime, mend=mend, categories=operator_words(", ".join(names))
        )
    except ModelError as fault:
        return log_of_fault(
            fault, f"the first look gave no decision, and the post went to trial: {fault}"
        )
    confidence = answer.confidence
    least_sure = context.triage_confidence
    # The rehearsal model states none: nothing is clear to its rules.
    clear = confidence is not None and confidence >= least_sure
    # A verdict that would be uncertain at once is not clear.
    clear = clear and not await is_uncertain(
        state, names.index(answer.value.category), context.scheme, confidence
    )
    runtime.stream_writer(
        {"event": "triage", "clear": clear, **answer.value.model_dump(), "confidence": confidence}
    )
    if not clear:
        return answer.log
    how = f"the first look was clear; a trial takes 2 to {2 + 2 * context.rounds} calls"
    return {
        "track": "triage",
        **await deliver_decision(
            answer.value, state, runtime, answer.log, track="triage", confidence=confidence
        ),
        "saved": [Saving(id="triage", calls=1, how=how).dump()],
    }


# Precedents: the cases most like the post that people decided


# The fields that a precedent has from the case that was decided.
_SHARED = ("case", "text", "category", "hateful", "how", "note", "at", "policy", "policy_sha")


@node
async def find_precedents(state: Case, runtime: CaseRuntime) -> JSON:
    """Find the nearest cases of the store in force.

    No model is asked but that of the store's embedding, if it has one.

    A search that fails takes nothing from the case: the trial goes on without precedents, and a warning says so.

    Raises:
        BadInput: there is no such store, or it is damaged.
    """
    context = context_of(state, runtime)
    if is_closed(state) or not context.precedents:
        return {"precedents": []}
    # numpy, where a store is named
    from tribunal.retrievers.precedents.store import open_precedents

    store = await open_precedents(context.precedents)
    post = post_of(state)
    try:
        found = await store.search(post.text, context.precedents_k, post_id=post.id)
    except TribunalError as error:
        return {"precedents": [], "warnings": [f"no precedent was at hand: {error}"]}
    policy = await policy_of(state, runtime)
    names = {each.name for each in policy.categories(context.scheme)}
    fine = {each.name: each for each in policy.fine}
    brought = []
    for number, each in enumerate(found, start=1):
        case = each.decided
        fields = {name: getattr(case, name) for name in _SHARED}
        same = case.policy_sha == policy.sha
        # The category in the scheme in force: by its name, or in two labels by whether this policy takes it for hate.
        here = case.category if case.category in names else None
        if here is None and context.scheme == "binary" and case.category in fine:
            here = policy.binary[int(bool(fine[case.category].hate))].name
        shown = Precedent(
            id=f"P{number}", here=here, same_policy=same, similarity=each.similarity, **fields
        )
        runtime.stream_writer({"event": "precedent", **shown.without_words().dump()})
        brought.append(shown.dump())
    return {"precedents": brought}
