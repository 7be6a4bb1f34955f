"""A run of the agents as a table: a row for each cue, a column for each step; without cues, a row for each speaker."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tribunal.cases.case_drawing import line_of_case
from tribunal.cases.case_view import ChipKind, SpokenTurn, StepRemark, StepRow, StepTable, ViewedCue, ViewedTrial
from tribunal.cases.quotations import MarkedCue, quoted_spans
from tribunal.schema import Argument, Cue, Turn

_CHIPS: dict[str, ChipKind] = {
    "press": "pressed", "withdraw": "withdrawn", "refute": "refuted", "concede": "conceded",
}  # fmt: skip
_CUE_STAGES = ("scan", "indictment", "investigation", "argument", "rebuttal")


def spoken_turn(turn: Turn, listed: Sequence[Cue] = ()) -> SpokenTurn:
    """Return a turn in words; `listed` are cues that stand in full beside it, so that it only names them."""
    ids = {cue.id for cue in listed}
    words = [
        f"{cue.id}, as above" if cue in listed else f"{line_of_case('cue', cue)} {cue.justification}"
        for cue in turn.cues
    ]
    for each in turn.arguments:
        claim = "" if each.cue_id in ids else f"{line_of_case('quoted', each.claim)} "
        words.append(f"{each.cue_id} {each.says}: {claim}{each.argument}")
    if turn.text or not words:
        nothing = "no sign of hate" if turn.stage == "scan" else "nothing"
        words.append(": ".join(each for each in (turn.stance, turn.text or nothing) if each))
    return SpokenTurn(title=line_of_case("turn", turn), words=tuple(words))


def mark_cues(turns: Sequence[Turn], cues: Sequence[Cue], text: str | None) -> list[MarkedCue]:
    """Return the cues of a run by their numbers, with the places in the post that they quote.

    The prosecutor's come first, then those that the gatekeeper alone saw. `text` is None where it isn't at hand.
    """
    marked = [MarkedCue(cue, number, quoted_spans(cue, text or "")) for number, cue in enumerate(cues, start=1)]
    for cue in (cue for turn in turns if turn.stage == "scan" for cue in turn.cues):
        spans = quoted_spans(cue, text or "")
        if _find_scanned(cue, marked, text) is None:
            marked.append(MarkedCue(cue, len(marked) + 1, spans, by_gate=True))
    return marked


def _find_scanned(cue: Cue, marked: Sequence[MarkedCue], text: str | None) -> MarkedCue | None:
    """Return a cue of the gatekeeper's among these: itself, or the prosecutor's with the same claim or words."""
    own = quoted_spans(cue, text or "")
    for each in marked:
        if each.by_gate:
            same = each.cue is cue
        else:
            overlaps = any(begin < end_ and begin_ < end for begin, end in own for begin_, end_ in each.spans)
            same = overlaps or each.cue.claim.casefold() == cue.claim.casefold()
        if same:
            return each
    return None


def view_trial(
    turns: Sequence[Turn],
    marked: Sequence[MarkedCue],
    text: str | None,
    *,
    title: str,
    last_column: str,
    outcome: str,
    reasons: str,
    question: str = "",
    notes: Sequence[str] = (),
) -> ViewedTrial:
    """Return a run of the agents as it is viewed.

    `last_column` names who ended it, `outcome` what it came to, and `reasons` why; `question` is what a reviewer asked
    afterwards, and `notes` say what came of its rounds.
    """
    brought = [each.cue for each in marked if not each.by_gate]
    tables = [_cue_table(marked, turns, text, last_column, reasons)] if marked else []
    if others := [turn for turn in turns if turn.stage not in _CUE_STAGES or (turn.text and not turn.cues)]:
        tables.append(_speaker_table(others))
    return ViewedTrial(
        title=title,
        question=question,
        of_cues=any(turn.stage in _CUE_STAGES for turn in turns),
        outcome=outcome,
        reasons=reasons,
        cues=tuple(_view_cue(each, turns, text) for each in marked),
        tables=tuple(tables),
        turns=tuple(spoken_turn(turn, brought) for turn in turns),
        notes=tuple(notes),
    )


def _view_cue(each: MarkedCue, turns: Sequence[Turn], text: str | None) -> ViewedCue:
    fields = {**dict(each.cue), "number": each.number, "marked": None if text is None else bool(each.spans)}
    if each.by_gate:
        return ViewedCue(**{**fields, "id": f"scan {each.cue.id}", "by": "the gatekeeper alone"})
    last: dict[bool, StepRemark] = {}  # the last word of each side, the prosecution's first
    for turn in turns:
        for argument in turn.arguments:
            if argument.cue_id == each.cue.id:
                last[argument.stance in ("press", "withdraw")] = _remark_on_cue(turn, argument)
    standing = tuple(last[side] for side in (True, False) if side in last)
    return ViewedCue(**fields, by="the prosecution", standing=standing)


def _remark_on_cue(turn: Turn, argument: Argument) -> StepRemark:
    """Return an argument as a remark with its chip."""
    kind = _CHIPS[argument.stance]
    chip = f"{kind}, unchanged" if argument.held else kind
    return StepRemark(speaker=line_of_case("speaker", turn.seat), chip=chip, kind=kind, text=argument.argument)


def _cue_table(
    marked: Sequence[MarkedCue], turns: Sequence[Turn], text: str | None, last_column: str, reasons: str
) -> StepTable:
    """Return the table of the cues."""
    cells: dict[str, dict[int, list[StepRemark]]] = {}  # by column and cue
    numbers = {each.cue.id: each.number for each in marked if not each.by_gate}
    for turn in (turn for turn in turns if turn.stage in _CUE_STAGES):
        scan = turn.stage == "scan"
        column = cells.setdefault("Gatekeeper" if scan else f"Round {turn.round}", {})
        for cue in turn.cues:
            same = _find_scanned(cue, marked, text) if scan else None
            if number := same.number if same else numbers.get(cue.id):
                chip, speaker = "found" if scan else "brought", line_of_case("speaker", turn.seat)
                remark = StepRemark(speaker=speaker, chip=chip, kind="found", text=cue.justification)
                column.setdefault(number, []).append(remark)
        for argument in turn.arguments:
            if number := numbers.get(argument.cue_id):
                column.setdefault(number, []).append(_remark_on_cue(turn, argument))
    rows = [
        StepRow(
            title=f"{each.number}. {each.cue.claim}",
            cue=each.number,
            cells=(*(tuple(column.get(each.number, ())) for column in cells.values()), (_judge_remark(each, reasons),)),
        )
        for each in marked
    ]
    return StepTable(caption="Cues, step by step", rows_are="cue", columns=(*cells, last_column), rows=tuple(rows))


def _judge_remark(each: MarkedCue, reasons: str) -> StepRemark:
    """Return whether the reasons name a cue. They aren't given cue by cue, so nothing more is taken from them."""
    if each.by_gate:
        return StepRemark(chip="not charged")
    if re.search(rf"(?<!\w){re.escape(each.cue.id)}(?!\w)", reasons):
        return StepRemark(chip="named in the reasons", kind="named")
    return StepRemark(chip="not named in the reasons")


def _speaker_table(turns: Sequence[Turn]) -> StepTable:
    """Return the turns that speak of no cue: a row for each speaker, a column for each step."""
    rows: dict[str, dict[str, list[StepRemark]]] = {}
    columns: dict[str, None] = {}
    for turn in turns:
        step = line_of_case("step", turn)
        columns[step] = None
        remark = StepRemark(chip=turn.stance or "", text=turn.text)
        rows.setdefault(line_of_case("speaker", turn.seat), {}).setdefault(step, []).append(remark)
    return StepTable(
        caption="Who said what, step by step",
        rows_are="speaker",
        columns=tuple(columns),
        rows=tuple(
            StepRow(title=speaker, cells=tuple(tuple(steps.get(column, ())) for column in columns))
            for speaker, steps in rows.items()
        ),
    )
