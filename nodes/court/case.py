"""The hybrid court's case: opened with everything checked, sent to those who look things up, assigned to a track.

What is found is an exhibit of the court (`evidence`, `opinions`); what could not be found is said in the verdict.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Overwrite, Send

from tribunal.budget import leaving
from tribunal.context import Context, context_of
from tribunal.errors import BadInput
from tribunal.learnt import learnt
from tribunal.nodes.agents import node, router
from tribunal.nodes.antihate.opening import begin
from tribunal.nodes.predict.perspective import searchers
from tribunal.nodes.state import Case, closed, post_of
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON

WIDE_RULES = ("hateful", "all")
# The fewest calls of a trial beside the judge's: scan, indictment, defence.
TRIAL = 3


@node
async def open_case(state: Case, runtime: Runtime[Context]) -> JSON:
    """Check what the court's own settings name, before any call, and clear what an earlier case left.

    Raises:
        BadInput: a perspective, the first look, the store of precedents, the search, the archive or the review rule is
            wrong.
    """
    context = context_of(state)
    await _check_rule(state, context)
    warnings = list[str]()
    if context.web:
        from tribunal.retrievers.web.library import library

        await library(context, post_of(state))
    if hears_perspectives(context):
        await searchers(context)
    first_look = None
    if (folder := learnt(context.triage)) is not None:
        from tribunal.retrievers.first_look.look import open_look

        first_look = (await asyncio.to_thread(open_look, folder)).sha
    if context.precedents:
        from tribunal.retrievers.precedents.opening import open_precedents

        await open_precedents(context.precedents)
    if (context.web or hears_perspectives(context) or context.precedents) and not _has_words(state):
        warnings.append("the post has no text, so nothing was looked up: searches and perspectives begin with words")
    return {
        "early_exit": True,
        "absent": Overwrite([]),
        "first_look": first_look,
        "trials": Overwrite([]),
        "review": None,
        "warnings": warnings,
    }


async def _check_rule(state: Case, context: Context) -> None:
    policy = await policy_of(state)
    known = [*WIDE_RULES, *(category.name for category in policy.categories(context.scheme))]
    if unknown := next((each for each in context.review_rule if each not in known), None):
        raise BadInput(f"review_rule: {unknown!r}: is no rule; they are {', '.join(known)}")


def _has_words(state: Case) -> bool:
    """Whether there is anything to look up: searches and perspectives begin with words."""
    return bool(post_of(state).text.strip())


def hears_perspectives(context: Context) -> bool:
    """Whether this court hears perspectives: only where some are named."""
    return context.perspectives not in ([], ["none"])


@router
async def to_triage(state: Case) -> list[Send | str]:
    """To the first look where there is one, else straight to the court."""
    return ["first look"] if context_of(state).triage else await _to_court(state, "no first look")


@router
async def to_court_unless_clear(state: Case) -> list[Send | str]:
    """A post that the first look found clear is decided; any other goes to the court."""
    if not closed(state):
        return await _to_court(state, "not clear")
    return ["for review" if needs_review(state) else "clear"]


async def _to_court(state: Case, scan: str) -> list[Send | str]:
    """Return the way to the gatekeeper, which is called `scan`, and beside it the ways to whoever looks things up.

    They run at the same time and see nothing of each other's calls, so each leaves a share of the budget to the others.
    All but the gatekeeper are sent for: of two that are branched to, a server couldn't tell whose an edit is to be.
    """
    context = context_of(state)
    text = _has_words(state)
    heard = len(await searchers(context)) if hears_perspectives(context) and text else 0
    sent: list[Send | str] = [scan]
    if context.web and text:
        sent.append(Send("web", leaving(state, heard + TRIAL)))
    if heard:
        sent.append(Send("perspectives", leaving(state, TRIAL)))
    if context.precedents and text:
        sent.append(Send("find_precedents", state))
    return sent


@node
async def assign(state: Case, runtime: Runtime[Context]) -> JSON:
    """Where those who scan and those who look things up meet; the scan decides the track."""
    context = context_of(state)
    if closed(state) or not context.web or not _has_words(state) or state.get("evidence"):
        return {}
    return {"warnings": ["no passage from the web was at hand: the court had the post alone to go by"]}


@node
async def report(state: Case, runtime: Runtime[Context]) -> JSON:
    """What a look at the web hands to the court. Where it broke off, that is said, and the trial goes on."""
    outcome: JSON = state.get("outcome") or {}
    if not outcome:
        return {}
    how = "was refused" if outcome["outcome"] == "refusal" else "failed"
    return {"warnings": [f"the look at the web {how} ({outcome['role']}): {outcome['explanation']}"]}


@node
async def look_up(state: Case, runtime: Runtime[Context]) -> JSON:
    """Open the search and the archive; another scheme than the research's own stays the court's."""
    return {name: value for name, value in (await begin(state, runtime)).items() if name != "scheme"}


@router
async def to_review(state: Case) -> Literal["for review", "decided"]:
    """Where a case with an outcome goes: before a person, if review is on and there is a reason."""
    return "for review" if needs_review(state) else "decided"


@router
async def to_judge(state: Case) -> Literal["debated", "for review", "dismissed or failed"]:
    """A case that was dismissed, or that a fault has ended, needs no judge, and perhaps a person."""
    if not closed(state):
        return "debated"
    return "for review" if needs_review(state) else "dismissed or failed"


def needs_review(state: Case) -> bool:
    """Return whether a person should see the outcome of this case."""
    return closed(state) and bool(review_reason(state, context_of(state)))


def review_reason(state: Any, context: Context) -> str:
    """Why a person should see this outcome, in words; empty where nothing calls for it."""
    outcome: JSON = state.get("outcome") or {}
    if not context.review or not outcome:
        return ""
    if state.get("question"):
        return "it was tried again for a reviewer's question"
    if outcome["outcome"] == "refusal":
        return "the model refused"
    if outcome.get("uncertain"):
        if outcome.get("tie"):
            return "the verdict is a tie"
        return "the verdict is uncertain" if outcome.get("confidence") is not None else "no confidence is stated"
    if "all" in context.review_rule:
        return "every case is reviewed"
    if outcome.get("hateful") and "hateful" in context.review_rule:
        return "every hateful post is reviewed"
    if outcome.get("category") in context.review_rule:
        return f"every case of {outcome['category']} is reviewed"
    return ""
