"""Decisions at the desk: submitted of a case, and undone in the first seconds, before anything comes of them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fastapi import APIRouter
from fastapi.responses import Response

from tribunal.cases import waiting_cases as notes
from tribunal.cases.problem import Problem
from tribunal.prompts.policy import Policy, translate_policy
from tribunal.schema import JSON, Frozen, Scheme
from tribunal.service.desk.case_lists import filters_from_query, go_to_next_case, query_string
from tribunal.service.desk.visits import DeskVisit, ReviewerVisit

router = APIRouter()
_SOON = 1.0  # seconds in which a decision is usually carried out


class CategoryChoice(Frozen):
    """A category that one may choose, with its reasons: each as it reads here, and in the author's language."""

    name: str
    meaning: str = ""
    reasons: tuple[tuple[str, str], ...] = ()


def list_choices(
    names: Sequence[str], policy: Policy | None, scheme: Scheme, language: str | None
) -> list[CategoryChoice]:
    """Return the categories of these names; without a policy, or where it lacks one, the name alone."""
    if policy is None:
        return [CategoryChoice(name=name) for name in names]
    translated = translate_policy(policy, language)
    known = {
        own.name: CategoryChoice(
            name=own.name,
            meaning=own.meaning,
            reasons=tuple(zip(policy.reasons_for(own), translated.reasons_for(theirs), strict=True)),
        )
        for own, theirs in zip(policy.categories(scheme), translated.categories(scheme), strict=True)
    }
    return [known.get(name, CategoryChoice(name=name)) for name in names or known]


def read_decision(visit: DeskVisit, action: str) -> JSON:
    """Return what the form decides, as `Reviews.decide` takes it; raise Problem if something is missing."""
    note, question, category = (visit.text(name) for name in ("note", "question", "category"))
    note = note or (visit.text("canned") if action == "change" else "")
    if action == "ask":
        if not question:
            raise Problem("bad_input", "question: is empty; write a question for the model")
        return {"action": action, "question": question}
    if action == "accept":
        return {"action": action, "note": note}
    if not category:
        raise Problem("bad_input", "category: choose a category")
    if not note:
        raise Problem("bad_input", "note: say why, or choose a reason; it becomes the explanation")
    return {"action": action, "note": note, "category": category}


async def submit_decision(visit: DeskVisit, case_id: str, action: str) -> Response:
    """Write down what the form decides of a case, and go on to the next one.

    Raises:
        Problem, BadInput: as `Reviews.decide`, or something is missing in the form.
    """
    decision, replica = read_decision(visit, action), visit.replica
    undo_seconds = replica.options.desk_undo
    before = await replica.case_store.case(case_id)
    answers = visit.form.get("answers") or None
    opened = await replica.reviews.decide(
        case_id, visit.person, decision, answers, visit.who, leads=visit.leads, undo_seconds=undo_seconds
    )
    if action == "ask" and (note := visit.text("note")):  # it isn't part of what is asked, and not to be lost
        await notes.write_note(replica.store, case_id, visit.person, note, visit.who)
    elif action != "ask" and not undo_seconds:  # which asks no model, so that it has nearly always come to its end then
        await opened.outcome(_SOON)
    done: JSON = {"said": action, "about": case_id, "category_now": decision.get("category", "")}
    if undo_seconds:
        done |= {"undo": case_id, "until": round(time.time() + undo_seconds)}
    wanted, most = filters_from_query(visit), replica.options.desk_break
    hard = await visit.sessions.count_hard_case(visit.session, hard=_is_hard_case(before))
    if most and hard >= most:
        return visit.go(f"/break{query_string(wanted, **done)}")
    return await go_to_next_case(visit, wanted, **done)


def _is_hard_case(row: JSON) -> bool:
    """Return whether it is a case that wears people down: the court found it hateful, or it has an image."""
    court: JSON = ((row["record"] or {}).get("review") or {}).get("court") or {}
    return bool(row["hateful"] or court.get("hateful") or (row["post"] or {}).get("image"))


@router.post("/undo")
async def undo_decisions(visit: ReviewerVisit) -> Response:
    """Take back what this person has just decided; each case waits for them again, as if nothing had been said."""
    wanted, reviews, lease = filters_from_query(visit), visit.replica.reviews, visit.replica.options.desk_lease
    case_ids = visit.text("cases").split(",")
    for case_id in case_ids:
        await reviews.undo(case_id, visit.person, lease, visit.who)
    if len(case_ids) == 1:
        return visit.go(f"/cases/{case_ids[0]}{query_string(wanted, said='undo', about=case_ids[0])}")
    return visit.go(f"/queue{query_string(wanted, said='undo_all', about=len(case_ids))}")
