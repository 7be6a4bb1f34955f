"""The history of a debate, as its rounds hold it and as later speakers see it (paper, History Update)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tribunal.prompts.marks import Entry, Material, Ours, entries, ours, quote, together
from tribunal.schema import JSON, Turn


def turns_at_stage(state: Mapping[str, Any], stage: str, round: int) -> list[Turn]:
    """Return what was said at a stage of a round, in the order in which the speakers were called up."""
    said = [turn for turn in state.get("transcript", []) if turn["stage"] == stage and turn["round"] == round]
    return [Turn.model_validate(turn) for turn in said]


def round_entry(state: Mapping[str, Any]) -> JSON:
    """Return the entry of the round under way. Don't change it in place."""
    return next((entry for entry in state.get("debate", []) if entry["round"] == state["round"]), {})


def answers_in_words(turns: Iterable[Turn], title: Ours | None = None) -> Material:
    """Return answers as material in a prompt, each under its view's name and with what it says."""
    return together(
        together([ours("{}{}: ", title or "", view_of_turn(turn)), answer_in_words(turn)], "") for turn in turns
    )


def answer_in_words(turn: Turn) -> Material:
    """Return one answer as material in a prompt."""
    return together([ours("{}", turn.stance or ""), quote("answer", turn.text)], "\n")


def reflection_in_words(lines: Iterable[str]) -> Material:
    """Return what a reflection says of each view, a line each, as material in a prompt."""
    said = (line.partition(": ") for line in lines)
    return entries("reflection", [Entry(None, [(view, words)]) for view, _, words in said])


def view_of_turn(turn: Turn) -> str:
    """Return the name of the view whose turn this is."""
    return turn.seat.partition(":")[2]


def history_in_words(state: Mapping[str, Any]) -> Material:
    """Return what the rounds so far have left, as material in a prompt.

    Of each round the answers that it kept (the best, or all). Where a reflection was adopted, they stand as they were
    first given, then what the reflection said of them, then the revised answers: nobody reads a reflection on an
    answer that isn't shown.
    """
    rounds = [_round_in_words(state, entry) for entry in state.get("debate", []) if entry.get("kept")]
    return together(each for each in rounds if each)


def _round_in_words(state: Mapping[str, Any], entry: JSON) -> Material | None:
    number, kept = entry["round"], entry["kept"]
    first = _turns_of_views(kept, turns_at_stage(state, "answer", number))
    if not first:
        return None
    which = ours("The best answer") if len(kept) == 1 else ours("All answers")
    if not entry.get("adopted"):
        return together([ours("Round {}. {}:", number, which), answers_in_words(first)])
    parts: list[Ours | Material] = [ours("Round {}. {}, as first given:", number, which), answers_in_words(first)]
    said = [line for turn in turns_at_stage(state, "reflection", number) for line in _lines_on_views(kept, turn.text)]
    if said:
        parts += [ours("What a reviewer said of {}:", "it" if len(kept) == 1 else "them"), reflection_in_words(said)]
    if revised := _turns_of_views(kept, turns_at_stage(state, "revision", number)):
        gain = ours("{:+g}", entry["delta"]) if "delta" in entry else ours("unknown")
        parts += [
            ours("Revised after that. The new answers were adopted (mean change of their scores: {}):", gain),
            answers_in_words(revised),
        ]
    return together(parts)


def _turns_of_views(views: Sequence[str], turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns of these views, in the order of the views."""
    by_view = {view_of_turn(turn): turn for turn in turns}
    return [by_view[view] for view in views if view in by_view]


def _lines_on_views(views: Sequence[str], reflection: str) -> list[str]:
    """Return the lines of a reflection, which has one for each view, that are on these views."""
    return [line for line in reflection.splitlines() if line.partition(": ")[0] in views]
