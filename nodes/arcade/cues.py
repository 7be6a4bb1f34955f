"""What ARCADE's two sides say: as forms for a model to fill in, and as words for the others to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, cast

from pydantic import Field, create_model

from tribunal.nodes.forms import Form, one_of
from tribunal.prompts import quote
from tribunal.prompts.policy import Policy
from tribunal.schema import Argument, Cue, CueType, Scheme, Turn


class CueForm(Form):
    """One cue, as a prosecutor names it; its id is given by the court."""

    type: str
    target_group: str
    claim: str = Field(min_length=1)
    category: str
    justification: str


class CuesForm(Form):
    """The cues that were found."""

    cues: list[CueForm]


class ArgumentForm(Form):
    """What is said of one cue."""

    cue_id: str
    target_group: str
    claim: str
    stance: str
    argument: str = Field(min_length=1)


class ArgumentsForm(Form):
    """What is said, cue by cue."""

    arguments: list[ArgumentForm]


def cues_form(types: tuple[CueType, ...], least: int = 0) -> Callable[[Policy, Scheme], type[CuesForm]]:
    """A maker of the form for cues of these types, at least so many of them."""

    @lru_cache(maxsize=32)
    def form(policy: Policy, scheme: Scheme) -> type[CuesForm]:
        cue = create_model(
            "Cue",
            __base__=CueForm,
            type=(one_of(types), ...),
            target_group=(one_of(policy.protected_groups), ...),
            category=(one_of([category.name for category in policy.categories(scheme)[1:]]), ...),
        )
        listed = cast("Any", list[cue])
        return create_model("Cues", __base__=CuesForm, cues=(listed, Field(min_length=least)))

    return form


def arguments_form(*stances: str) -> Callable[[Policy, Scheme], type[ArgumentsForm]]:
    """A maker of the form for arguments that take one of these stances."""

    @lru_cache(maxsize=32)
    def form(policy: Policy, scheme: Scheme) -> type[ArgumentsForm]:
        argument = create_model("Argument", __base__=ArgumentForm, stance=(one_of(stances), ...))
        listed = cast("Any", list[argument])
        return create_model("Arguments", __base__=ArgumentsForm, arguments=(listed, ...))

    return form


def numbered(found: Sequence[CueForm], most: int, who: str) -> tuple[list[Cue], list[str]]:
    """The court's cues C1, C2, … from an answer, at most so many, and a warning where some were left out."""
    cues = [Cue(id=f"C{place}", **cue.model_dump()) for place, cue in enumerate(found[:most], start=1)]
    extra = len(found) - most
    return cues, [f"the {who} named {len(found)} cues; the first {most} were heard"] if extra > 0 else []


def known_cues(cues: Iterable[Cue]) -> Callable[[ArgumentsForm], None]:
    """A check that arguments speak of these cues."""
    ids = [cue.id for cue in cues]

    def check(answer: ArgumentsForm) -> None:
        for argument in answer.arguments:
            if argument.cue_id not in ids:
                raise ValueError(f"arguments.cue_id: {argument.cue_id!r} is not one of the cues {', '.join(ids)}")

    return check


def arguments_in(answer: ArgumentsForm) -> tuple[Argument, ...]:
    return tuple(Argument(**argument.model_dump()) for argument in answer.arguments)


def in_words(turn: Turn) -> str:
    """A turn as the others read it: who spoke, and each cue or argument in full.

    Each field is one line, whatever line breaks a model quoted from the post, so that no field can pass for another.
    """
    lines = [
        f"{cue.id} ({cue.type}) against {cue.target_group}: {_one_line(cue.claim)}\n"
        f"  category: {cue.category}\n  justification: {_one_line(cue.justification)}"
        for cue in turn.cues
    ]
    lines += [
        f"{argument.cue_id} against {_one_line(argument.target_group)}: {_one_line(argument.claim)}\n"
        f"  {argument.says}: {_one_line(argument.argument)}"
        for argument in turn.arguments
    ]
    if turn.text:
        lines.append(f"{turn.stance}s: {_one_line(turn.text)}" if turn.stance else _one_line(turn.text))
    return "\n".join(lines) or "(nothing)"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def quoted(turn: Turn) -> str:
    """A turn as material in a prompt."""
    return quote(turn.stage, in_words(turn))


def minutes(turns: Iterable[Turn]) -> str:
    """A whole debate as material in a prompt, turn by turn."""
    # The gatekeeper's scan only routes a case; the judge is not shown it.
    heard = [
        f"{turn.seat.capitalize()}, round {turn.round} ({turn.stage}):\n{quoted(turn)}"
        for turn in turns
        if turn.stage != "scan"
    ]
    return "\n\n".join(heard) or "Neither side was heard."
