"""Decisions at the desk: submitted of a case, and undone in the first seconds, before anything comes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi import APIRouter
from fastapi.responses import Response
from sqlalchemy import select

from tribunal.case_decider import find_models_outcome
from tribunal.cases import waiting_cases as notes
from tribunal.cases.problem import Problem
from tribunal.cases.waiting_cases import names_of_person
from tribunal.clock import database_now
from tribunal.errors import BadInput
from tribunal.nodes.clauses import clause_list
from tribunal.prompts.policy import Policy, translate_policy
from tribunal.schema import JSON, Frozen, Scheme
from tribunal.service.desk.case_lists import filters_from_query, go_to_next_case, query_string
from tribunal.service.desk.visits import DeskVisit, ReviewerVisit
from tribunal.service.replica.case_intake import OpenCase
from tribunal.service.replica.case_queries import model_category
from tribunal.service.replica.near_copies import MOST_TOGETHER
from tribunal.store import audit as audit_log
from tribunal.store.tables import audit

router = APIRouter()
_MOST_NAMED = 10  # of the cases that could not be decided
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
    clauses = clause_list(visit.text("clauses"))
    if action == "accept":
        return {"action": action, "note": note, "clauses": clauses}
    if not category:
        raise Problem("bad_input", "category: choose a category")
    if not note:
        raise Problem("bad_input", "note: say why, or choose a reason; it becomes the explanation")
    return {"action": action, "note": note, "category": category, "clauses": clauses}


async def submit_decision(visit: DeskVisit, case_id: str, action: str) -> Response:
    """Write down what the form decides of a case, and go on to the next one.

    Raises:
        Problem, BadInput: as `Reviews.decide`, or something is missing in the form.
    """
    decision, replica = read_decision(visit, action), visit.replica
    undo_seconds = replica.options.desk_undo
    before = await replica.case_store.case(case_id)
    answers = visit.form.get("answers") or None
    others = _read_others(visit, case_id) if action != "ask" else {}
    together = [case_id, *others] if others else []
    blind = action != "ask" and await decides_blind(visit, case_id)
    opened = await _decide_one(visit, before, decision, answers, together, blind=blind)
    left_out = await _decide_others(visit, before, decision, others, together)
    decided = [each for each in together if each not in left_out] or [case_id]
    if action == "ask" and (note := visit.text("note")):  # it isn't part of what is asked, and not to be lost
        await notes.write_note(replica.store, case_id, visit.person, note, visit.who)
    elif action != "ask" and not undo_seconds:  # which asks no model, so that it has nearly always come to its end then
        await opened.outcome(_SOON)
    done: JSON = {"said": action, "about": case_id, "category_now": decision.get("category", "")}
    if blind:
        done |= {"said": "blind", "court": model_category(before) or ""}
    if others:
        done |= {"others": len(decided) - 1, "left_out": ",".join(left_out[:_MOST_NAMED])}
    if undo_seconds:
        done |= {"undo": ",".join(decided), "until": round(database_now() + undo_seconds)}
    wanted, most = filters_from_query(visit), replica.options.desk_break
    hateful = before["hateful"] or find_models_outcome(before["record"]).get("hateful")
    hard = await visit.sessions.count_hard_case(
        visit.session, hard=bool(hateful or (before["post"] or {}).get("image"))
    )
    if most and hard >= most:
        return visit.go(f"/break{query_string(wanted, **done)}")
    return await go_to_next_case(visit, wanted, **done)


def _read_others(visit: DeskVisit, case_id: str) -> dict[str, str]:
    """Return the cases that are to be decided together with this one, each with the question that was before them."""
    ticked = {name.removeprefix("also."): value for name, value in visit.form.items() if name.startswith("also.")}
    if len(ticked) > MOST_TOGETHER:
        raise Problem("bad_input", f"also: {len(ticked)} cases are ticked; tick at most {MOST_TOGETHER}")
    return {each: question for each, question in ticked.items() if each != case_id}


async def decides_blind(visit: DeskVisit, case_id: str) -> bool:
    """Return whether this person decides a case without seeing the model verdict: by the setting, the first time.

    Whoever has undone a decision has seen the verdict.
    """
    if not visit.hides_verdicts:
        return False
    rows = await visit.replica.store.fetch_rows(
        select(audit.c.details).where(audit.c.subject == case_id, audit.c.kind == "case.undone")
    )
    names = names_of_person(visit.person)
    return not any((audit_log.readable(dict(row))["details"] or {}).get("reviewer") in names for row in rows)


async def _decide_one(
    visit: DeskVisit, row: JSON, decision: JSON, question: str | None, together: Sequence[str], *, blind: bool
) -> OpenCase:
    """Decide a case. Blind, whoever chooses the model's category has accepted its verdict."""
    court = model_category(row)
    noted: JSON = {"together": list(together)} if together else {}
    if blind:
        noted |= {"blind": True, "court": court}
        if decision["action"] == "change" and decision["category"] == court:
            decision = {"action": "accept", "note": decision["note"], "clauses": decision["clauses"]}
    return await visit.replica.reviews.decide(
        row["id"], visit.person, decision, question, visit.who, leads=visit.leads,
        undo_seconds=visit.replica.options.desk_undo, noted=noted,
    )  # fmt: skip


async def _decide_others(
    visit: DeskVisit, first: JSON, decision: JSON, others: Mapping[str, str], together: Sequence[str]
) -> list[str]:
    """Decide the cases that were ticked beside the first one in the same way; return which could not be.

    Such a case is somebody else's, was tried again meanwhile, or has no such category; or the model verdict that is
    accepted is another one there.
    """
    replica, left_out = visit.replica, []
    for case_id, question in others.items():
        try:
            row = await replica.case_store.case(case_id)
            if decision["action"] == "accept" and model_category(row) != model_category(first):
                raise Problem("conflict", f"case: {case_id}: the model's verdict is another one")
            blind = await decides_blind(visit, case_id)
            await _decide_one(visit, row, decision, question or None, together, blind=blind)
        except (Problem, BadInput):
            left_out.append(case_id)
    return left_out


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
