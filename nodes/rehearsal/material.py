"""What a role is shown beside the post, read back: turns of the transcript, statements on cues, evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tribunal.models.question import Question

STANCES = ("press", "withdraw", "refute", "concede")

_OPEN = re.compile(r"^<<<(\S+) ([0-9a-f]{16})\n", re.MULTILINE)
_HEADER = re.compile(r"^(?P<seat>[^\n]+), round (?P<round>\d+) \([^\n]*\):\s*\Z", re.MULTILINE)
_FIELD = re.compile(r"^  (target_group|characteristic|claim|category): (.*)$", re.MULTILINE)
_STANCE = re.compile(rf"^  ({'|'.join(STANCES)})(?:es|s)?(?:, as before)?: (.*)$", re.MULTILINE)
_EVIDENCE = re.compile(r"^\[([A-Z]\d+)\] (supports|refutes|neutral)$", re.MULTILINE)
_HEAD = re.compile(r"^([\w.:%+-]+)(?: \(([\w-]+)\))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Statement:
    """What a speaker said of one cue: the cue itself, or an argument about it."""

    cue_id: str
    group: str
    claim: str
    characteristic: str = ""
    type: str = ""
    category: str = ""
    stance: str = ""
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Spoken:
    """One turn of the transcript, as it is read back."""

    seat: str
    round: int
    statements: dict[str, Statement] = field(default_factory=dict)


def blocks(material: str) -> Iterator[tuple[str, str]]:
    """Each marked text in a material, after what stands before it. Marks inside a marked text are part of that text."""
    at = 0
    while opened := _OPEN.search(material, at):
        close = f"\n{opened[1]} {opened[2]}>>>"
        end = material.find(close, opened.end() - 1)
        if end == -1:
            return
        yield material[at : opened.start()], material[opened.end() : end]
        at = end + len(close)


def statements(turn: str) -> dict[str, Statement]:
    """What a turn, as `cues.quoted` writes it, says of each cue by its id, the first time it speaks of it."""
    said: dict[str, Statement] = {}
    heads = list(_HEAD.finditer(turn))
    for place, head in enumerate(heads):
        body = turn[head.end() + 1 : heads[place + 1].start() if place + 1 < len(heads) else len(turn)]
        fields, stance = dict(_FIELD.findall(body)), _STANCE.search(body)
        said.setdefault(
            head[1],
            Statement(
                cue_id=head[1],
                group=fields.get("target_group", ""),
                claim=fields.get("claim", ""),
                characteristic=fields.get("characteristic", ""),
                type=head[2] or "",
                category=fields.get("category", ""),
                stance=stance[1] if stance else "",
                argument=stance[2] if stance else "",
            ),
        )
    return said


def heard(question: Question, name: str) -> dict[str, Statement]:
    """What one turn in a role's material says."""
    material = str(question.material.get(name, ""))
    return {cue_id: statement for _, turn in blocks(material) for cue_id, statement in statements(turn).items()}


def transcript(question: Question) -> list[Spoken]:
    """The turns of a judge's transcript, round by round."""
    turns = []
    for before, turn in blocks(str(question.material.get("transcript", ""))):
        if header := _HEADER.search(before):
            said = statements(turn)
            turns.append(Spoken(header["seat"].strip().casefold(), int(header["round"]), said))
    return sorted(turns, key=lambda turn: turn.round)


def round_of(question: Question) -> int:
    """The round that a side of the court speaks in."""
    return int(question.material.get("round", 1))


def evidence(material: str) -> dict[str, str]:
    """Each piece of evidence in a material by its id, with its stance: supports, refutes or neutral."""
    return dict(_EVIDENCE.findall(material))


def ids(evidence: dict[str, str], stance: str) -> list[str]:
    """The ids of the evidence that speaks this way."""
    return [each for each, its in evidence.items() if its == stance]
