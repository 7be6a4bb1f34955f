"""The defender's part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tribunal.nodes.rehearsal.material import Statement, evidence, heard, ids, round_of
from tribunal.nodes.rehearsal.pleading import HARMLESS, admitted, argument, excuse_for, is_harmless, match_of
from tribunal.nodes.rehearsal.reading import reading_of
from tribunal.nodes.rehearsal.spelling import cut
from tribunal.schema import JSON

if TYPE_CHECKING:
    from tribunal.models.question import Question

_STANDS_BY = "The defence stands by its reason: "


def defend(question: Question) -> JSON:
    """Refute what the post itself excuses, try a harmless reading of what is only implied, concede the rest."""
    own = heard(question, "own")
    said = [
        argument(cue, *_answered(question, cue, own.get(cue.cue_id))) for cue in heard(question, "prosecution").values()
    ]
    return {"arguments": admitted(question, said)}


def _answered(question: Question, cue: Statement, before: Statement | None) -> tuple[str, str]:
    """The stance on one cue, and why."""
    reading, round_ = reading_of(question), round_of(question)
    match = match_of(reading, cue)
    if cue.stance == "withdraw":
        return "refute", "The prosecution has withdrawn this cue; nothing is left to answer."
    if excuse := excuse_for(reading, match):
        opening = {1: "", 2: "The answer doesn't touch the reason. "}.get(
            round_, "The reason still stands in the post. "
        )
        return "refute", opening + excuse.plea
    if before and before.stance == "refute" and not is_harmless(before.argument):
        return "refute", _STANDS_BY + before.argument.removeprefix(_STANDS_BY)
    direct = (match.type if match else cue.type) == "Direct"
    if not direct and (passages := ids(evidence(question.shared), "refutes")):
        return "refute", f"What was read on the web calls these words harmless [{passages[0]}]."
    if before and before.stance == "concede":
        return "concede", "The defence conceded this cue in the round before, and has found nothing since."
    if direct:
        return "concede", (
            "The words are the author's own and are said of the group; nothing in the post denies or condemns them."
        )
    if round_ == 1 or (match and reading.stands_alone(match)):
        words, harmless = (f"“{cut(match.found)}”", match.kind.harmless) if match else ("It", "an everyday remark")
        return "refute", f"{words} has a {HARMLESS}: {harmless}. Nothing is said outright against the group."
    return "concede", (
        "The reading offered before finds no support in the post, and the prosecution's reason has not been met."
    )
