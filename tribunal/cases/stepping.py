"""Stepping through a trial that somebody watches: it pauses before each agent, and what was said can be edited.

It stops as `docs/studio.md` says, by the setting `stops` on the checkpoints of the case. A trial that was edited says
so in its warnings, and is no verdict of the court.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from textwrap import shorten
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, Interrupt, StateSnapshot
from pydantic import BaseModel, Field

from tribunal.schema import JSON, Record
from tribunal.stops import is_stop

_EDITED = "edited by a person: "
_LONGEST = 300  # characters of a passage in a warning
EDITED_WHY = "a person edited what its agents said, so it is not the court's verdict"
EDITED_NOTICE = "A person edited what the agents said: this is not the court’s verdict."
# What agents say, by channel: the fields with words, a dot before those of a list's entries.
_WORDS: dict[str, tuple[str, ...]] = {
    "transcript": ("text", "cues.claim", "cues.justification", "arguments.argument"),
    "opinions": ("reason",),
    "evidence": ("passage",),
    "plans": ("thought",),
    "judgements": ("reasoning",),
}


class Passage(BaseModel, extra="forbid"):
    """Words that an agent said, and a person may edit."""

    channel: str = Field(description="where they lie in the state of the case")
    id: str = Field(description="the turn, opinion or passage")
    field: str = Field(description="the field of it", examples=["text", "cues.0.claim"])
    text: str = Field(min_length=1, max_length=10_000, pattern=r"\S", description="the words")

    @property
    def key(self) -> tuple[str, str, str]:
        """The place of the words, which no others have."""
        return self.channel, self.id, self.field


class StepAnswer(BaseModel, extra="forbid"):
    """An answer to a pause: the edits, and whether the trial pauses again."""

    number: int = Field(ge=0, description="of the pause, as it was told")
    edits: tuple[Passage, ...] = Field((), max_length=100, description="words in place of those that were said")
    to_the_end: bool = Field(False, description="whether the trial doesn't pause any more")


# Shows a pause to whoever steps, and waits for their answer.
Pause = Callable[[JSON], Awaitable[StepAnswer]]


class _Place(NamedTuple):
    """A state in which agents wait; it can be edited unless a graph inside it is under way, which would begin anew."""

    state: StateSnapshot
    stops: list[Interrupt]
    editable: bool


class Stepping:
    """The pauses of one trial, and the edits that were made in them."""

    def __init__(self, pause: Pause, tell: Callable[[JSON], None]) -> None:
        """Keep who is asked at a pause, and who is told of edits."""
        self._pause, self._tell = pause, tell
        self._edits = dict[tuple[str, str, str], Passage]()
        self._answered = self._to_the_end = False

    async def go_on(self, graph: Any, config: RunnableConfig) -> Command[Any] | None:
        """Return what a graph goes on with from its stops, once somebody says so.

        None has it come to the same stops again, with what was edited. Every agent stops, so that each is shown all
        edits, also those of words that its own graph holds a copy of.
        """
        places = list(_find_places(await graph.aget_state(config, subgraphs=True)))
        if not self._answered and not self._to_the_end:
            answer = await self._pause(_describe(places))
            self._edits |= {each.key: each for each in answer.edits}
            self._to_the_end = answer.to_the_end
        changed = False
        for place in (each for each in places if each.editable):
            if update := _edit_state(place.state.values, self._edits.values()):
                await graph.aupdate_state(place.state.config, update)
                self._tell_edits(place.state.values, update)
                changed = True
        self._answered = changed
        return None if changed else Command(resume={each.id: "go on" for place in places for each in place.stops})

    def _tell_edits(self, before: Mapping[str, Any], update: JSON) -> None:
        for turn in update.get("transcript", ()):
            if turn not in before["transcript"]:
                self._tell({**turn, "event": "turn", "edited": True})
        for note in update["warnings"]:
            self._tell({"event": "edited", "note": note})


def edits_of(record: Record) -> tuple[str, ...]:
    """Return what a person edited in a trial, each as the record's warning of it; none: nobody did."""
    return tuple(each for each in record.warnings if each.startswith(_EDITED))


def _find_places(state: StateSnapshot) -> Iterator[_Place]:
    """Yield the states in which agents wait: of a graph inside another one, its own."""
    stops = list[Interrupt]()
    inside = False
    for task in state.tasks:
        if isinstance(task.state, StateSnapshot):
            inside = True
            yield from _find_places(task.state)
        elif task.result is None:
            stops += [each for each in task.interrupts if is_stop(each.value)]
    if stops:
        yield _Place(state, stops, not inside)


def _describe(places: list[_Place]) -> JSON:
    """Return a pause as its event: who is asked next, and what was said that can be edited."""
    questions = [question for place in places for stop in place.stops for question in stop.value["questions"]]
    said = {each.key: each for place in places if place.editable for each in _find_passages(place.state.values)}
    named = ("seat", "role", "model", "round")
    return {
        "event": "pause",
        "next": [{name: question.get(name) for name in named} for question in questions],
        "said": [each.model_dump() for each in said.values()],
    }


def _find_passages(values: Mapping[str, Any]) -> Iterator[Passage]:
    """Yield the words that agents said, of a state."""
    for channel, fields in _WORDS.items():
        for entry in values.get(channel) or ():
            for field in fields:
                name, _, inner = field.partition(".")
                held = enumerate(entry.get(name) or ()) if inner else ()
                found = {f"{name}.{place}.{inner}": each.get(inner) for place, each in held} or {name: entry.get(name)}
                for path, text in found.items():
                    if isinstance(text, str) and text.strip():
                        yield Passage.model_construct(channel=channel, id=entry["id"], field=path, text=text)


def _edit_state(values: Mapping[str, Any], edits: Iterable[Passage]) -> JSON:
    """Return the channels of a state that edits change, with a warning for each edit; nothing if none does."""
    said = {each.key: each.text for each in _find_passages(values)}
    update: JSON = {}
    for edit in edits:
        before = said.get(edit.key)
        if before is None or before == edit.text:
            continue
        entries = update.get(edit.channel, values[edit.channel])
        update[edit.channel] = [_replace(each, edit) if each["id"] == edit.id else each for each in entries]
        list_name, *path = edit.field.split(".")
        if list_name == "cues":  # the court keeps them beside the turns that brought them
            [turn] = [each for each in entries if each["id"] == edit.id]
            cue_id = turn["cues"][int(path[0])]["id"]
            for channel in ("cues", "scan"):
                held = update.get(channel, values.get(channel)) or []
                if any(cue["id"] == cue_id for cue in held):
                    update[channel] = [{**cue, path[1]: edit.text} if cue["id"] == cue_id else cue for cue in held]
        words = [shorten(each, _LONGEST, placeholder=" …") for each in (before, edit.text)]
        note = f"{_EDITED}{edit.id}: “{words[0]}” became “{words[1]}”"
        update.setdefault("warnings", []).append(note)
    return update


def _replace(entry: JSON, edit: Passage) -> JSON:
    """Return an entry with the words of an edit."""
    name, *path = edit.field.split(".")
    if not path:
        return {**entry, name: edit.text}
    place, inner = path
    held = [{**each, inner: edit.text} if number == int(place) else each for number, each in enumerate(entry[name])]
    return {**entry, name: held}
