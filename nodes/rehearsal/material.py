"""What a role is shown beside the post, read back: turns of the transcript, statements on cues, evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tribunal.models.role import Question

_OPEN = re.compile(r"^<<<(\S+) ([0-9a-f]{16})\n", re.MULTILINE)
_HEADER = re.compile(r"^(?P<seat>[^\n]+), round (?P<round>\d+) \([^\n]*\):\s*\Z", re.MULTILINE)
_FIELD = re.compile(r"^  (target_group|characteristic|claim|category): (.*)$", re.MULTILINE)
_STANCE = re.compile(r"^  (press|withdraw|refute|concede)(?:es|s)?(?:, as before)?: (.*)$", re.MULTILINE)
_EVIDENCE = re.compile(r"^\[([A-Z]\d+)\] (supports|refutes|neutral)$", re.MULTILINE)
_HEAD = re.compile(r"^([\w.:%+-]+)(?: \(([\w-]+)\))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CueStatement:
    """What a speaker said of one cue: the cue itself, or an argument about it."""

    cue_id: str
    target_group: str = ""
    claim: str = ""
    characteristic: str = ""
    type: str = ""
    category: str = ""
    stance: str = ""
    argument: str = ""


def read_blocks(material: str) -> Iterator[tuple[str, str]]:
    """Yield each marked text in a material, after what stands before it. Marks inside a marked text belong to it."""
    at = 0
    while opened := _OPEN.search(material, at):
        close = f"\n{opened[1]} {opened[2]}>>>"
        end = material.find(close, opened.end() - 1)
        if end == -1:
            return
        yield material[at : opened.start()], material[opened.end() : end]
        at = end + len(close)


def _read_statements(turn: str) -> dict[str, CueStatement]:
    """Return what a turn, as `cues.quote_turn` writes it, first says of each cue, by the cue's id."""
    statements: dict[str, CueStatement] = {}
    heads = list(_HEAD.finditer(turn))
    for head, following in zip(heads, [*heads[1:], None], strict=False):
        body = turn[head.end() + 1 : following.start() if following else len(turn)]
        stance, argument = (_STANCE.findall(body) or [("", "")])[0]
        fields = dict(_FIELD.findall(body))
        statement = CueStatement(head[1], type=head[2] or "", stance=stance, argument=argument, **fields)
        statements.setdefault(head[1], statement)
    return statements


def statements_in(question: Question, name: str) -> dict[str, CueStatement]:
    """Return what the turns in one part of a role's material say of each cue, by its id."""
    material = str(question.material.get(name, ""))
    return {cue_id: each for _, turn in read_blocks(material) for cue_id, each in _read_statements(turn).items()}


def read_transcript(question: Question) -> list[tuple[str, dict[str, CueStatement]]]:
    """Return the seat and the statements of each turn of a judge's transcript, round by round."""
    turns = []
    for before, turn in read_blocks(str(question.material.get("transcript", ""))):
        if header := _HEADER.search(before):
            turns.append((int(header["round"]), header["seat"].strip().casefold(), _read_statements(turn)))
    return [(seat, statements) for _, seat, statements in sorted(turns, key=lambda turn: turn[0])]


def evidence_ids(material: str, stance: str) -> list[str]:
    """Return the ids of the evidence in a material that takes this stance: supports, refutes or neutral."""
    return [evidence_id for evidence_id, each in _EVIDENCE.findall(material) if each == stance]
