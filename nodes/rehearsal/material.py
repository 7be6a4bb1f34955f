"""Read back what a role is shown beside the post: texts between marks, the entries in them, statements on cues."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tribunal.models.role import Question

_OPEN = re.compile(r"^<<<(\S+) ([0-9a-f]{16})\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\S.*)\n?((?:  .*\n?)*)", re.MULTILINE)
_FIELD = re.compile(r"^  ([\w ,-]+): (.*)$", re.MULTILINE)
_SPEAKER = re.compile(r"^(?P<seat>[^\n]+), round (?P<round>\d+) \([^\n]*\):\s*\Z", re.MULTILINE)
_CUE = re.compile(r"([\w.:%+-]+)(?: \(([\w-]+)\))?")
_STANCE = re.compile(r"(press|withdraw|refute|concede)(?:es|s)?(?:, as before)?")

# The line that an entry begins with, and its fields by name.
MaterialEntry = tuple[str, dict[str, str]]


class CueStatement(NamedTuple):
    """A statement on one cue, as a speaker made it: the cue itself, or an argument about it."""

    cue_id: str
    type: str
    stance: str
    argument: str
    target_group: str
    claim: str
    characteristic: str
    category: str


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


def marked_text(material: str) -> str:
    """Return the first marked text in a material, or nothing if there is none."""
    return next((text for _, text in read_blocks(material)), "")


def read_entries(material: str) -> list[MaterialEntry]:
    """Return the entries in the marked texts of a material, as `marks.entries` writes them."""
    return [entry for _, text in read_blocks(material) for entry in _split_entries(text)]


def _split_entries(text: str) -> list[MaterialEntry]:
    # Of several fields of one name the first counts.
    return [(head, dict(reversed(_FIELD.findall(body)))) for head, body in _ENTRY.findall(text)]


def evidence_ids(material: str, stance: str) -> list[str]:
    """Return the ids of the evidence in a material that takes this stance: supports, refutes or neutral."""
    return [
        head[1:].partition("]")[0]
        for head, _ in read_entries(material)
        if f"{head} ".partition("] ")[2].startswith(f"{stance} ")
    ]


def _read_statements(turn: str) -> dict[str, CueStatement]:
    """Return what a turn, as `cues.quote_turn` writes it, first says of each cue, by the cue's id."""
    statements: dict[str, CueStatement] = {}
    for head, fields in _split_entries(turn):
        if cue := _CUE.fullmatch(head):
            stances = ((said[1], text) for name, text in fields.items() if (said := _STANCE.fullmatch(name)))
            stance, argument = next(stances, ("", ""))
            named = {name: fields.get(name, "") for name in ("target_group", "claim", "characteristic", "category")}
            statements.setdefault(cue[1], CueStatement(cue[1], cue[2] or "", stance, argument, **named))
    return statements


def statements_in(question: Question, name: str) -> dict[str, CueStatement]:
    """Return what the turns in one part of a role's material say of each cue, by its id."""
    material = str(question.material.get(name, ""))
    return {cue_id: each for _, turn in read_blocks(material) for cue_id, each in _read_statements(turn).items()}


def read_transcript(question: Question) -> list[tuple[str, dict[str, CueStatement]]]:
    """Return the seat and the statements of each turn of a judge's transcript, round by round."""
    turns = []
    for before, turn in read_blocks(str(question.material.get("transcript", ""))):
        if speaker := _SPEAKER.search(before):
            turns.append((int(speaker["round"]), speaker["seat"].strip().casefold(), _read_statements(turn)))
    return [(seat, statements) for _, seat, statements in sorted(turns, key=lambda turn: turn[0])]
