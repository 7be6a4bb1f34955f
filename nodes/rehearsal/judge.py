"""The parts of those who decide: the court's judge, the triage, and the baseline's classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tribunal.nodes.rehearsal.material import Statement, transcript
from tribunal.nodes.rehearsal.pleading import HARMLESS, is_harmless
from tribunal.nodes.rehearsal.protection import category_for
from tribunal.nodes.rehearsal.reading import reading_of
from tribunal.rehearsed import NOTHING_FOUND
from tribunal.schema import JSON

if TYPE_CHECKING:
    from tribunal.models.question import Question


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether a cue stands, and why."""

    cue: Statement
    stands: bool
    why: str


def judge(question: Question) -> JSON:
    """The court's judge, by the debate alone: hateful if a cue is left standing, of the first such cue's category."""
    rulings = _rulings(question)
    if not rulings and "(opening):" in str(question.material.get("transcript", "")):
        decision = classify(question)  # a debate without cues, which these rules can't count: the post decides
    else:
        decision = _decision(question, rulings)
    return {**decision, **unsure(question)}


def unsure(question: Question) -> JSON:
    """The confidence of a form that takes one. It fills the field alone: no verdict of the rules states it."""
    return {"confidence": 0.0} if "confidence" in question.form.model_fields else {}


def _rulings(question: Question) -> list[Ruling]:
    """One for each cue that the prosecution brought, by the last word of each side."""
    charged: dict[str, Statement] = {}
    prosecution: dict[str, Statement] = {}
    defence: dict[str, Statement] = {}
    for turn in transcript(question):
        for cue_id, statement in turn.statements.items():
            if turn.seat == "prosecutor":
                charged.setdefault(cue_id, statement)
                if statement.stance in ("press", "withdraw"):
                    prosecution[cue_id] = statement
            elif turn.seat == "defender" and statement.stance in ("refute", "concede"):
                defence[cue_id] = statement
    return [_ruling(cue, prosecution.get(cue_id), defence.get(cue_id)) for cue_id, cue in charged.items()]


def _ruling(cue: Statement, pressed: Statement | None, answer: Statement | None) -> Ruling:
    if pressed and pressed.stance == "withdraw":
        return Ruling(cue, False, "the prosecution withdrew it")
    if answer is None:
        return Ruling(cue, True, "the defence had no answer to it")
    if answer.stance == "concede":
        return Ruling(cue, True, "the defence conceded it")
    if is_harmless(answer.argument):
        why = f"the defence had only a {HARMLESS} to offer, which no words of the post support"
        return Ruling(cue, True, why)
    return Ruling(cue, False, f"the defence refuted it ({answer.argument.rstrip('.')})")


def _decisive(rulings: list[Ruling]) -> Ruling:
    """The first cue that stands, Direct ones first."""
    standing = [each for each in rulings if each.stands]
    return next((each for each in standing if each.cue.type == "Direct"), standing[0])


def _decision(question: Question, rulings: list[Ruling]) -> JSON:
    names = [category.name for category in question.policy.categories(question.scheme)]
    if not rulings:
        return {
            "category": names[0],
            "explanation": f"No cue was brought against the post. {NOTHING_FOUND}",
        }
    standing = sum(each.stands for each in rulings)
    if not standing:
        fell = " ".join(f"{_named(each.cue)} falls: {each.why}." for each in rulings[:3])
        return {"category": names[0], "explanation": f"No cue is left standing. {fell}"}
    decisive = _decisive(rulings)
    cue = decisive.cue
    category = cue.category if cue.category in names[1:] else ""
    category = category or category_for(question.policy, question.scheme, cue.characteristic or cue.group)
    whom = f"{cue.group}, for {cue.characteristic}" if cue.characteristic else f"people for {cue.group}"
    count = "The one cue brought" if len(rulings) == 1 else f"{standing} of {len(rulings)} cues"
    stand = "stand" if standing > 1 else "stands"
    return {
        "category": category,
        "explanation": f"{count} {stand} after the defence. {_named(cue)} decides it: {decisive.why}. "
        f"It is an attack on {whom}, which is {category} under the policy.",
    }


def _named(cue: Statement) -> str:
    return f"{cue.cue_id}, {cue.claim.rstrip('.')}," if cue.claim else cue.cue_id


def first_look(question: Question) -> JSON:
    """As the classifier."""
    return {**classify(question), **unsure(question)}


def classify(question: Question) -> JSON:
    """The baseline, decided alone: hateful if anything was found that the post doesn't excuse, faint signs apart."""
    reading, policy, scheme = reading_of(question), question.policy, question.scheme
    none = policy.categories(scheme)[0].name
    if not reading.matches:
        return {"category": none, "explanation": NOTHING_FOUND}
    if found := reading.gravest:
        category = category_for(policy, scheme, found.key)
        return {
            "category": category,
            "explanation": f"“{found.words}” {found.charge}, and nothing in the post quotes, denies or condemns it; "
            f"this is {category} under the policy.",
        }
    first = (*reading.direct, *reading.implied)[0]
    if first.excuse is None:
        why = f"“{first.words}” is too faint a sign to hold against the post, and there is no second one."
        return {"category": none, "explanation": why}
    return {"category": none, "explanation": first.excuse.plea}
