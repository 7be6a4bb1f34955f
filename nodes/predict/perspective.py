"""PRE: each perspective takes a stance, by its own criterion and three similar texts (PREDICT, section 3.1).

A perspective that refuses, fails or can't be searched is left out, and the verdict says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from langgraph.types import Overwrite, Send
from pydantic import create_model

from tribunal.errors import BadInput, BudgetSpent, ModelError, TribunalError
from tribunal.events import PerspectiveBrief
from tribunal.models.ask import ask
from tribunal.models.budget import LAST_WORD, Budget
from tribunal.models.role import Role
from tribunal.nodes.agents import asking_node, node, router
from tribunal.nodes.channels import Like
from tribunal.nodes.forms import Form, Reason, citing_form, one_of, same_form
from tribunal.nodes.state import (
    CaseRuntime,
    PanelState,
    SeatState,
    case_for_seat,
    log_of_fault,
    outcome_of,
    post_of,
)
from tribunal.nodes.verdict import is_closed
from tribunal.prompts.marks import Entry, entries, operator_words, ours
from tribunal.prompts.policy import Policy
from tribunal.schema import JSON, Example, Failure, Opinion, Scheme
from tribunal.settings.context import Context, context_of

if TYPE_CHECKING:
    from tribunal.retrievers.perspectives.perspective import Perspective, Searcher

SMALL_EXAMPLES = (
    "no perspective was named, so this project's five small examples were used; build and name real "
    "ones (tribunal perspectives show)"
)


class StanceForm(Form):
    """Why, and a label in a perspective's own words."""

    reason: Reason
    label: str


@lru_cache(maxsize=64)
def stance_form(hate: str, not_hate: str) -> Callable[[Policy, Scheme], type[StanceForm]]:
    """Return a maker of the form for a stance, by the names of the two labels."""
    return same_form(
        create_model("Stance", __base__=StanceForm, label=(one_of((hate, not_hate)), ...))
    )


_PLAIN = stance_form("hate", "non-hate")
PERSPECTIVE = Role("perspective", "perspective", "predict/perspective", _PLAIN, 0.0, system="panel")
ANNOTATOR = Role("annotator", "annotator", "predict/base", citing_form(_PLAIN), 0.0, system="panel")


class PerspectiveSeat(SeatState, total=False):
    """What one perspective is sent: the post, itself, its examples, and the calls so far, for the budget."""

    own: Annotated[
        JSON, Like(PerspectiveBrief, "The perspective that speaks, and what it goes by.")
    ]
    examples: list[JSON]
    calls: list[JSON]
    outcome: JSON | None


@node
async def convene_panel(state: PanelState, runtime: CaseRuntime) -> JSON:
    """Clear the table of what an earlier post on this thread left."""
    return {"panel": [], "examples": {}, "absent": Overwrite([]), "scheme": "binary"}


@node
async def recall_examples(state: PanelState, runtime: CaseRuntime) -> JSON:
    """Open the perspectives that are to be heard, and search them all together for the texts most like the post.

    Raises:
        BadInput: one is unknown or has no index, or the mode and the names don't fit together; no call was made.
    """
    if is_closed(state):
        return {}
    context = context_of(state)
    text = post_of(state).text
    if not text.strip():
        raise BadInput(
            "text: the post has none, and perspectives compare texts; give one, or choose another graph"
        )
    stores = await open_searchers(context)
    found: Mapping[str, list[Example] | TribunalError] = {
        each.perspective.name: [] for each in stores
    }
    if context.mode != "criterion-only":
        from tribunal.retrievers.perspectives.store import search_all

        found = await search_all(stores, text, context.examples_k)
    lost = [
        _absence_record(name, each)
        for name, each in found.items()
        if isinstance(each, TribunalError)
    ]
    heard = {name: each for name, each in found.items() if not isinstance(each, TribunalError)}
    # They are asked at once, so none sees the budget spent.
    most = Budget.from_state(context, state).most(len(heard), kept=LAST_WORD)
    kept = [*heard][:most]
    unheard = [*heard][most:]
    warnings = [*map(_absence_in_words, lost)]
    if context.perspectives in ([], ["all"]):
        from tribunal.retrievers.perspectives.perspective import EXAMPLES as SMALL

        if {each.perspective.name for each in stores} <= set(SMALL):
            warnings.insert(0, SMALL_EXAMPLES)
    if unheard:
        warnings.append(
            f"the budget of {context.max_calls} calls left {', '.join(unheard)} unheard"
        )
    return {
        "panel": [
            _perspective_facts(each.perspective) for each in stores if each.perspective.name in kept
        ],
        "examples": {name: [example.dump() for example in heard[name]] for name in kept},
        "absent": lost,
        "warnings": warnings,
    }


async def open_searchers(context: Context) -> Sequence[Searcher]:
    """Return the stores of the perspectives in force, in the order in which they were named.

    Raises:
        BadInput: one is unknown or has no index, or the mode and the names don't fit together.
    """
    if context.mode == "leave-out" and not context.leave_out:
        raise BadInput("leave_out: mode leave-out needs the name of the perspective to leave out")
    if "none" in context.perspectives or (
        "all" in context.perspectives and len(context.perspectives) > 1
    ):
        raise BadInput(
            f"perspectives: {', '.join(context.perspectives)}: all and none stand alone, and none is for a graph that "
            "can do without; name those to hear"
        )
    # numpy, for a court that hears some
    from tribunal.retrievers.perspectives.store import list_usable_perspectives, open_stores

    every = context.perspectives == ["all"]
    wanted = await asyncio.to_thread(list_usable_perspectives) if every else context.perspectives
    stores = await open_stores(wanted, embedding=context.embedding)
    names = [store.perspective.name for store in stores]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise BadInput(f"perspectives: {twice!r} is named twice")
    if context.leave_out and context.leave_out not in names:
        raise BadInput(f"leave_out: {context.leave_out!r}: is not among {', '.join(names)}")
    kept = [store for store in stores if store.perspective.name != context.leave_out]
    if not kept:
        raise BadInput("perspectives: none is left; name more, or leave out none")
    if context.mode == "single" and len(kept) != 1:
        raise BadInput(
            f"mode: single: takes one perspective, and {len(kept)} are named; name one with perspectives"
        )
    return kept


def _perspective_facts(own: Perspective) -> JSON:
    """Return what its agent has to know of a perspective."""
    facts = {"id": own.name, "title": own.title or own.name, "language": own.language}
    return {**facts, "criterion": own.criterion.strip(), **own.labels.model_dump()}


@router
async def to_perspectives(state: PanelState) -> list[Send]:
    """Send one call for each perspective, all of them at once."""
    shared = case_for_seat(state, "outcome", "calls")
    examples = state.get("examples", {})
    return [
        Send("perspective", {**shared, "own": own, "examples": examples.get(own["id"], [])})
        for own in state["panel"]
    ]


@asking_node
async def take_stance(state: PerspectiveSeat, runtime: CaseRuntime) -> JSON:
    """Take one perspective's stance, with a reason; sees its criterion, its examples, and the post."""
    if state.get("outcome") is not None:
        return {}
    own = state["own"]
    shown = [Example.model_validate(example) for example in state["examples"]]
    role = replace(
        PERSPECTIVE, seat=f"perspective:{own['id']}", form=stance_form(own["hate"], own["not_hate"])
    )
    listed = [
        Entry(ours("{}.", number), [("label", example.label_name), ("text", example.text)])
        for number, example in enumerate(shown, start=1)
    ]
    try:
        answer = await ask(
            role,
            state,
            runtime,
            criterion=operator_words(
                "" if context_of(state).mode == "examples-only" else own["criterion"]
            ),
            examples=entries("examples", listed) if listed else "",
            hate=operator_words(own["hate"]),
            not_hate=operator_words(own["not_hate"]),
        )
    except BudgetSpent as spent:
        return {"budget_spent": True, "warnings": [str(spent)]}
    except ModelError as fault:
        lost = {"id": own["id"], **outcome_of(fault)}
        return {"absent": [lost], **log_of_fault(fault, _absence_in_words(lost))}
    opinion = Opinion(
        id=own["id"],
        title=own["title"],
        language=own["language"],
        stance="hate" if answer.value.label == own["hate"] else "not_hate",
        label_name=answer.value.label,
        reason=answer.value.reason,
        examples=tuple(shown),
    ).dump()
    runtime.stream_writer({"event": "opinion", **opinion})
    return {"opinions": [opinion], **answer.log}


def _absence_record(name: str, error: TribunalError) -> JSON:
    kind = getattr(error, "kind", "retrieval")
    seat = f"perspective:{name}"
    return {
        "id": name,
        **Failure(
            seat=seat, role="perspective", model="", error=kind, explanation=str(error)
        ).dump(),
    }


def _absence_in_words(lost: Any) -> str:
    """Return a perspective's absence, in words for the verdict."""
    how = "refused" if lost["outcome"] == "refusal" else "failed"
    return f"perspective {lost['id']} {how} and was left out: {lost['explanation']}"
