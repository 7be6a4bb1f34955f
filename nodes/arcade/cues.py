"""The words of ARCADE's two sides: forms for a model to fill in, and turns for the others to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model
from pydantic.json_schema import SkipJsonSchema

from tribunal.exhibit import EDGES, box_of
from tribunal.nodes.forms import (
    CLAIM,
    GROUP,
    REASON,
    Form,
    Maker,
    Mend,
    Reason,
    clause_field,
    name_meant,
    offer_names,
    one_of,
    same_form,
    text_bounds,
)
from tribunal.prompts.marks import Entry, Material, entries, ours, together
from tribunal.prompts.policy import Policy
from tribunal.schema import Argument, Cue, CueType, Scheme, Turn


class CueForm(Form):
    """One cue, as a prosecutor names it: who, what, why, and then the labels. Its id is given by the court."""

    target_group: Annotated[str, text_bounds(GROUP, least=1)]
    claim: Annotated[str, text_bounds(CLAIM, least=1)]
    justification: Annotated[str, text_bounds(REASON)]
    type: str
    characteristic: str
    category: str


# Its schema offers a box or null; what comes back is looked at by `numbered`, and is never a reason to ask again.
_EDGE = {"type": "number", "minimum": 0, "maximum": 1}
_BOX = {"type": "object", "properties": dict.fromkeys(EDGES, _EDGE), "required": list(EDGES)}


class BoxedCueForm(CueForm):
    """One cue, and where in the image it is seen."""

    box: Annotated[Any, WithJsonSchema({"anyOf": [_BOX, {"type": "null"}]})] = None


class CuesForm(Form):
    """The cues that were found."""

    cues: list[CueForm]


class ArgumentForm(Form):
    """An argument about one cue."""

    cue_id: str
    target_group: Annotated[str, text_bounds(GROUP)] = ""
    claim: Annotated[str, text_bounds(CLAIM)] = ""
    argument: Reason
    stance: str


class ArgumentsForm(Form):
    """The arguments, cue by cue."""

    arguments: list[ArgumentForm]


@lru_cache(maxsize=32)
def cues_form(types: tuple[CueType, ...], most: int, *, boxes: bool = False) -> Maker[CuesForm]:
    """Return a maker of the form for cues of these types: none, or at most so many on the wire.

    With `boxes` it asks where in the image each is seen.

    The categories are the fine ones in both schemes: a binary court decides in two labels, and its prosecution still
    says which kind of hate it sees (ARCADE, D.3).
    """

    @lru_cache(maxsize=32)
    def form(policy: Policy, scheme: Scheme) -> type[CuesForm]:
        cue = create_model(
            "Cue",
            __base__=BoxedCueForm if boxes else CueForm,
            type=(one_of(types), ...),
            characteristic=(one_of(policy.protected_groups), ...),
            category=(one_of([kind.name for kind in policy.kinds]), ...),
            **clause_field(policy),
        )
        listed = cast("Any", list[cue])
        bounds = Field(json_schema_extra={"maxItems": most})
        return create_model("Cues", __base__=CuesForm, cues=(listed, bounds))

    return form


@lru_cache(maxsize=256)
def arguments_form(
    stances: tuple[str, ...], cue_ids: tuple[str, ...] = (), *, left_out: str = "", says: str = ""
) -> Maker[ArgumentsForm]:
    """Return a maker of the form for arguments that take one of these stances, on the cues of these ids.

    Args:
        stances: the stances; a single one isn't asked for.
        cue_ids: the cues of the case.
        left_out: the stance that leaving a cue out means. It isn't asked for, but understood.
        says: what leaving a cue out means, as the form says it.
    """
    stance: Any = (one_of(stances), ...)
    if len(stances) == 1:

        def read_stance(given: Any) -> str:
            return (
                left_out if left_out and name_meant((left_out,), given) == left_out else stances[0]
            )

        stance = (Annotated[SkipJsonSchema[str], BeforeValidator(read_stance)], stances[0])
    argument = create_model(
        "Argument", __base__=ArgumentForm, cue_id=(offer_names(cue_ids), ...), stance=stance
    )
    bounds = Field(
        description=says or None, json_schema_extra={"maxItems": len(cue_ids)} if cue_ids else None
    )
    listed = cast("Any", list[argument])
    return same_form(create_model("Arguments", __base__=ArgumentsForm, arguments=(listed, bounds)))


def number_cues(
    found: Sequence[CueForm], most: int, who: str, *, seen: bool = False
) -> tuple[list[Cue], list[str]]:
    """Return the court's cues C1, C2, … from an answer, at most so many, and a warning if some were left out.

    A cue whose claim and justification say nothing is left out. A box that is none is left out too, with a warning,
    and so is one in an image that wasn't `seen`; its cue stands.
    """
    cues = []
    warnings = []
    told = [cue for cue in found if cue.claim or cue.justification]
    without = len(found) - len(told)
    if without:
        warnings.append(
            f"of the {who}'s cues {without} had neither a claim nor a reason, and were left out"
        )
    for place, cue in enumerate(told[:most], start=1):
        held = cue.model_dump()
        try:
            box = box_of(held.pop("box", None))
            if box and not seen:
                raise ValueError("it was not shown the image")
        except ValueError as problem:
            box = None  # it is the model's slip, and no reason to lose the cue
            warnings.append(
                f"the {who} gave C{place} a box that is none ({problem}); it was left out"
            )
        cues.append(Cue(id=f"C{place}", box=box, **held))
    if len(told) > most:
        warnings.append(f"the {who} named {len(told)} cues; the first {most} were heard")
    return cues, warnings


def argument_mender(cues: Iterable[Cue], who: str) -> Mend[ArgumentsForm]:
    """Return a mender of arguments: one on each cue of the case, and none on any other.

    One that speaks of no cue of the case is left out; of several on one cue the last counts; a group or a claim that
    isn't restated is the court's.

    Args:
        cues: the cues of the case.
        who: the seat that argues, for the warnings.

    Raises (when mending):
        ValueError: something was said, and nothing of it on a cue of the case.
    """
    known = {cue.id: cue for cue in cues}
    by_spelling = {
        spelling: cue for cue in known.values() for spelling in (cue.id, f"CUE{cue.id}", cue.id[1:])
    }

    def mend(answer: ArgumentsForm, warnings: list[str]) -> ArgumentsForm:
        kept: dict[str, ArgumentForm] = {}
        for each in answer.arguments:
            cue = known.get(each.cue_id) or by_spelling.get(
                "".join(filter(str.isalnum, each.cue_id)).upper()
            )
            if cue is None:
                warnings.append(
                    f"the {who} argued on {each.cue_id!r}, which is no cue of this case; that was left out"
                )
                continue
            if cue.id in kept:
                warnings.append(
                    f"the {who} argued on {cue.id} more than once; the last argument counts"
                )
            as_held = {"cue_id": cue.id, "target_group": cue.target_group, "claim": cue.claim}
            said = {
                name: value
                for name, value in as_held.items()
                if name == "cue_id" or not getattr(each, name)
            }
            if len(said) > 1:
                warnings.append(
                    f"the {who} did not restate {cue.id}; it was taken as the court holds it"
                )
            kept[cue.id] = each.model_copy(update=said)
        if answer.arguments and known and not kept:
            said_of = answer.arguments[0].cue_id
            raise ValueError(
                f"arguments.cue_id: {said_of!r} is not one of the cues {', '.join(known)}"
            )
        return answer.model_copy(update={"arguments": list(kept.values())})

    return mend


def arguments_from_form(answer: ArgumentsForm) -> tuple[Argument, ...]:
    """Return the arguments that a form holds."""
    return tuple(Argument(**argument.model_dump()) for argument in answer.arguments)


def concede_unanswered(cues: Iterable[Cue], said: Sequence[Argument]) -> tuple[Argument, ...]:
    """Return a concession of each cue that the defence left out."""
    answered = {each.cue_id for each in said}
    return tuple(
        Argument(
            cue_id=cue.id,
            target_group=cue.target_group,
            claim=cue.claim,
            stance="concede",
            argument="(not answered)",
        )
        for cue in cues
        if cue.id not in answered
    )


def carry_over_arguments(
    cues: Iterable[Cue], before: Iterable[Turn], said: Sequence[Argument]
) -> tuple[Argument, ...]:
    """Return the prosecution's last arguments about cues that it now leaves out and never withdrew.

    Args:
        cues: the cues of the case.
        before: the turns of earlier rounds, in order.
        said: the prosecution's arguments of this round.
    """
    as_brought = {
        cue.id: Argument(
            cue_id=cue.id,
            target_group=cue.target_group,
            claim=cue.claim,
            stance="press",
            argument=cue.justification,
        )
        for cue in cues
    }
    argued = {
        each.cue_id: each for turn in before if turn.seat == "prosecutor" for each in turn.arguments
    }
    last = {cue_id: argued.get(cue_id, first) for cue_id, first in as_brought.items()}
    spoken_of = {each.cue_id for each in said}
    return tuple(
        each.model_copy(update={"stance": "press", "held": True})
        for cue_id, each in last.items()
        if cue_id not in spoken_of and each.stance != "withdraw"
    )


def quote_turn(turn: Turn, cues: Iterable[Cue] = (), *, whole: bool = False) -> Material:
    """Return a turn as the others read it: each cue or argument, with a line for every field of it.

    Args:
        turn: the turn.
        cues: the cues of the case: an argument is shown with the type and the characteristic of its cue.
        whole: whether an argument is shown with its cue's first justification and category, too.
    """
    known = {cue.id: cue for cue in cues}
    said = [_quote_on_cue(cue.id, cue, cue, _reason_fields(cue)) for cue in turn.cues]
    for argument in turn.arguments:
        cue = known.get(argument.cue_id)
        first = _reason_fields(cue) if cue and whole else []
        said.append(
            _quote_on_cue(
                argument.cue_id, argument, cue, [*first, (argument.says, argument.argument)]
            )
        )
    if turn.text:
        said.append(Entry(None, [(f"{turn.stance}s" if turn.stance else "says", turn.text)]))
    return entries(turn.stage, said or [Entry(ours("(nothing)"))])


def _quote_on_cue(
    cue_id: str, said: Cue | Argument, cue: Cue | None, reasons: list[tuple[str, str]]
) -> Entry:
    """Return what is said of a cue, under its id and type, with whom it attacks and how, as the speaker says it."""
    heading = ours("{} ({})", cue_id, cue.type) if cue else ours("{}", cue_id)
    characteristic = [("characteristic", cue.characteristic)] if cue and cue.characteristic else []
    return Entry(
        heading,
        [("target_group", said.target_group), *characteristic, ("claim", said.claim), *reasons],
    )


def _reason_fields(cue: Cue) -> list[tuple[str, str]]:
    clause = [("clause", cue.clause)] if cue.clause else []
    return [("justification", cue.justification), ("category", cue.category), *clause]


def quote_transcript(turns: Iterable[Turn], cues: Iterable[Cue] = ()) -> Material:
    """Return a whole debate as material in a prompt, turn by turn."""
    held = list(cues)
    heard = []
    for turn in turns:
        if turn.stage != "scan":  # it only routes a case; the judge is not shown it
            head = ours("{}, round {} ({}):", turn.seat.capitalize(), turn.round, turn.stage)
            heard.append(together([head, quote_turn(turn, held)], "\n"))
    return together(heard or [ours("Neither side was heard.")])
