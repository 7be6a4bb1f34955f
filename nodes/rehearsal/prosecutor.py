"""The prosecutor's parts, and the gatekeeper's, whose scan looks for the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tribunal.nodes.rehearsal.matches import ExcuseKind, Match
from tribunal.nodes.rehearsal.material import Statement, evidence, heard, ids, round_of
from tribunal.nodes.rehearsal.pleading import HARMLESS, admitted, argument, excuse_for, is_harmless, match_of
from tribunal.nodes.rehearsal.protection import category_for, protected_by
from tribunal.nodes.rehearsal.reading import Reading, reading_of
from tribunal.nodes.rehearsal.spelling import cut
from tribunal.schema import JSON

if TYPE_CHECKING:
    from tribunal.models.question import Question

SCANNED, INDICTED, INVESTIGATED = 2, 3, 2  # cues at most
_UNNAMED = "people it doesn't name"

_NOT_ENOUGH: dict[ExcuseKind, str] = {
    "quoted": "Quotation marks are no distance: nothing the author says in their own voice turns against “{words}”.",
    "praised": "Praise doesn't undo it: beside “{words}” the post still says the same of all of them.",
}


def scan(question: Question) -> JSON:
    """The gatekeeper: the open attacks."""
    return {"cues": [_cue(question, match) for match in reading_of(question).direct[:SCANNED]]}


def indict(question: Question) -> JSON:
    """The open attacks and then what is implied; where there is nothing, what the scan may have seen."""
    reading = reading_of(question)
    if found := [*reading.direct, *reading.implied][:INDICTED]:
        return {"cues": [_cue(question, match) for match in found]}
    why = (
        "The scan found the post suspect on its face. The rehearsal's rules find no attack in its words, and leave it "
        "to the defence to say so."
    )
    return {"cues": [_cue_on_all_of_it(question, "Direct", why)]}


def investigate(question: Question) -> JSON:
    """What is implied; an open attack, which no gate has taken out, implies something too.

    Where the rules find nothing, a passage that calls the post's words hateful is a cue.
    """
    reading = reading_of(question)
    opened = [replace(match, type="Metaphor" if match.is_figure else "Socio-cultural") for match in reading.direct]
    if found := [*reading.implied, *opened][:INVESTIGATED]:
        return {"cues": [_cue(question, match) for match in found]}
    if not (passages := ids(evidence(question.shared), "supports")):
        return {"cues": []}
    why = f"What was read on the web calls words of the post hateful [{passages[0]}]."
    return {"cues": [_cue_on_all_of_it(question, "Socio-cultural", why)]}


def _cue_on_all_of_it(question: Question, type: str, justification: str) -> JSON:
    return {
        "target_group": _UNNAMED,
        "claim": f"“{cut(reading_of(question).text[:200]) or 'the post'}”",
        "justification": justification,
        "type": type,
        "characteristic": question.policy.protected_groups[0],
        "category": question.policy.categories("fine")[-1].name,
    }


def _cue(question: Question, match: Match) -> JSON:
    policy, implies, found = question.policy, match.kind.implies, cut(match.found)
    who = f"“{cut(match.term)}”" if match.term else _UNNAMED
    if match.type == "Direct":
        claim = f"“{match.words}”"
        reason = f"“{found}” {match.charge}, and it is said of {who}: the words show it on their face."
    elif match.type == "Metaphor":
        people = cut(match.term) or match.key or "outsiders"
        claim = f"{people} – {found} – {implies}: “{match.words}”"
        reason = f"The metaphor likens {who} to something {implies}; a reader is meant to hear it so."
    else:
        claim = f"the stereotype that {implies}: “{match.words}”"
        reason = f"“{found}”, said of {who}, calls up the stereotype that {implies}."
    if question.post.image:
        reason += " The text carries this alone; the rehearsal doesn't see the image."
    return {
        "target_group": cut(match.term) or match.key or _UNNAMED,
        "claim": claim,
        "justification": reason,
        "type": match.type,
        "characteristic": protected_by(policy, match.key) or policy.protected_groups[0],
        "category": category_for(policy, "fine", match.key),
    }


def prosecute(question: Question) -> JSON:
    """Round k: withdraw what the post itself excuses, press the rest with a reason that meets what the defence said."""
    own, defence = heard(question, "own"), heard(question, "defence")
    cues = own | {cue_id: cue for cue_id, cue in defence.items() if cue_id not in own}
    said = [argument(cue, *_pressed(question, cue, defence.get(cue.cue_id))) for cue in cues.values()]
    return {"arguments": admitted(question, said)}


def _pressed(question: Question, cue: Statement, answer: Statement | None) -> tuple[str, str]:
    """The stance on one cue, and why."""
    reading, later = reading_of(question), round_of(question) > 2
    match = match_of(reading, cue)
    excuse = excuse_for(reading, match)
    if cue.stance == "withdraw":
        return "withdraw", "The prosecution has withdrawn this cue, and lets it rest."
    if answer is None or answer.stance not in ("refute", "concede"):
        again = "still " if later else ""
        return "press", f"The defence has {again}no answer to this cue, so the reason given for it stands."
    if answer.stance == "concede":
        if later:
            return "press", "The defence has granted this cue, and nothing has been found against it since."
        return "press", "The defence grants this cue, and the reason given for it stands."
    if excuse and excuse.kind == "nobody":
        return "withdraw", "The defence has a point: the post names no group that the policy protects."
    if excuse and excuse.weak and not later:
        return "press", _NOT_ENOUGH[excuse.kind].format(words=excuse.words)
    if excuse:
        return "withdraw", (
            f"The defence has a point: “{excuse.words}” in the post bears it out, and no reason is left."
        )
    if is_harmless(answer.argument):
        return _beyond_harmless(reading, match, later)
    if later:
        return "press", "The defence says it again, and still points to no words of the post that bear it out."
    return "press", "The defence's reason is not borne out by any words in the post, so the cue stands."


def _beyond_harmless(reading: Reading, match: Match | None, later: bool) -> tuple[str, str]:
    """What is left to say where the defence has only a harmless reading."""
    if match and reading.stands_alone(match):
        return "withdraw", f"By itself “{cut(match.found)}” is too faint a sign, and the post gives no second one."
    if match and not later:
        return "press", (
            f"The {HARMLESS} leaves out “{cut(match.found)}”: said of these people, it tells the reader that "
            f"{match.meaning}, and nothing in the post takes it back."
        )
    return "press", f"The {HARMLESS} rests on nothing that the post says; the cue needs no more than it says."
