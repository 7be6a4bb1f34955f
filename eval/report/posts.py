"""The posts a reader will ask about, with all that was said of them: those judged wrongly, and the uncertain ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePosixPath

import numpy as np
from pydantic import ValidationError

from tribunal.cases.trial_table import spoken_turn
from tribunal.eval.measures.columns import OUTCOMES, Bools, RunColumns
from tribunal.runner.results import read_full_line
from tribunal.schema import JSON, Turn

LONGEST = 4000  # characters of one utterance that are shown


Part = tuple[str, list[str]]  # the title of an utterance, or of something it rests on, and its words


def reported_posts(columns: RunColumns, most: int) -> list[tuple[str, str, JSON]]:
    """Return verdicts that disagree with the gold, and results that are uncertain or wait for a person.

    Of each kind its title, its order, and so many posts at most.
    """
    wrong = columns.is_decided & ~columns.is_right
    marked = (columns.uncertain > 0) | np.equal(columns.outcome, OUTCOMES.index("pending"))
    return [
        ("Wrong verdicts", "the most confident first", _first_posts(columns, wrong, most, sign=-1)),
        ("Uncertain posts", "the least confident first", _first_posts(columns, marked, most, sign=1)),
    ]


def _first_posts(columns: RunColumns, chosen: Bools, most: int, sign: int) -> JSON:
    confidence = np.nan_to_num(sign * columns.confidence, nan=np.inf)
    rows = np.flatnonzero(chosen).tolist()
    rows.sort(key=lambda row: (confidence[row], columns.ids[columns.post[row]], columns.repeat[row]))
    return {"total": len(rows), "shown": [_reported_post(columns, row) for row in rows[:most]]}


def _reported_post(columns: RunColumns, row: int) -> JSON:
    """Return a post, what people say of it, what was decided, and what was said on the way."""
    line = read_full_line(columns.folder, int(columns.offset[row]))
    label, confidence = int(columns.verdict_label[row]), columns.confidence[row]
    outcome = OUTCOMES[columns.outcome[row]]
    return {
        "post_id": columns.ids[columns.post[row]],
        "repeat": int(columns.repeat[row]),
        "gold": columns.names.get(int(columns.gold_label[row])) if columns.is_labelled[row] else None,
        "answer": columns.names.get(label, str(label)) if outcome == "verdict" else outcome,
        "confidence": None if np.isnan(confidence) else float(confidence),
        "parts": [
            {"title": title, "words": [_shorten_words(each) for each in words if each]}
            for title, words in _parts_of_post(line)
        ],
    }


def _parts_of_post(line: JSON) -> Iterator[Part]:
    fields = line.get("fields") or {}
    text, image = line.get("text") or fields.get("text"), line.get("image") or fields.get("image")
    if text:
        yield "The post", [str(text)]
    if image:
        name = PurePosixPath(str(image).replace("\\", "/")).name
        yield "Its image", ["a data URI" if str(image).startswith("data:") else name]
    for opinion in line.get("opinions") or ():
        yield f"Perspective {opinion['id']}: {opinion['label_name']}", [opinion["reason"]]
    for turn in line.get("transcript") or ():
        yield _part_of_turn(turn)
    for found in line.get("evidence") or ():
        yield f"Evidence {found['id']}, {found['stance']}", [found["url"], found["passage"]]
    for case in line.get("precedents") or ():
        cited = f", cited by {', '.join(case['cited_by'])}" if case.get("cited_by") else ""
        yield f"Precedent {case['id']}, {case['category']}{cited}", [f"the case {case['case']}"]
    yield "Explanation", [str(line.get("explanation") or "none")]
    if line.get("warnings"):
        yield "Notes", [str(warning) for warning in line["warnings"]]


def _part_of_turn(turn: JSON) -> Part:
    """Return a turn as every picture of a case has it; one of another version as it is."""
    try:
        spoken = spoken_turn(Turn.model_validate(turn))
    except ValidationError:
        return str(turn.get("seat")), [json.dumps(turn, ensure_ascii=False)]
    return spoken.title, list(spoken.words)


def _shorten_words(words: str) -> str:
    return words if len(words) <= LONGEST else f"{words[:LONGEST]} … [{len(words) - LONGEST:,} more characters]"
