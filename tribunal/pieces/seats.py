"""A custom agent in the court, asked like the built-in agents; it ends a case by a verdict or a refusal."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast

from langgraph.runtime import Runtime, get_runtime
from pydantic import BaseModel

from tribunal.core.calls import was_rehearsed
from tribunal.core.text import one_line, suggest_name
from tribunal.errors import BadInput, ModelError
from tribunal.graphs.contracts import FAILED, piece
from tribunal.models.ask import Answer, ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent
from tribunal.nodes.arcade.cues import quote_transcript
from tribunal.nodes.exhibits import show_exhibits, strike_unknown_citations
from tribunal.nodes.forms import Maker, Mend, same_form
from tribunal.nodes.state import CaseState, cues_in, log_of_fault, transcript_of, write_turn
from tribunal.nodes.verdict import announce_outcome, deliver
from tribunal.prompts.marks import Entry, Material, entries, listing, quote
from tribunal.prompts.policy import policy_of
from tribunal.prompts.sets import prompts_of_case
from tribunal.prompts.template import FILLED_IN
from tribunal.schema import JSON, Refusal, Step, Track
from tribunal.settings.context import Context, context_of
from tribunal.settings.systems import check_prompt_name, register_seats, resource

Filled = TypeVar("Filled", bound=BaseModel)
_EXHIBITS = ("evidence", "opinions", "precedents", "question")
_CITED = ("evidence", "precedents")
# what `ask` itself is given
_TAKEN = frozenset({"role", "state", "runtime", "check", "mend", "draw", "shared"})


class SeatNode(Protocol):
    """A node that asks a seat."""

    async def __call__(self, state: Any, runtime: Runtime[Context]) -> JSON:
        """Return the update of the state."""


def seat(
    name: str,
    *,
    prompt: str | Path,
    form: type[Filled] | Maker[Filled],
    shows: Sequence[str] = (),
    system: str = "court",
    temperature: float | None = None,
    falls_to: Literal["aux_model", "judge_model"] = "aux_model",
    final: bool = False,
    required: bool = True,
    writes: Sequence[str] = ("transcript",),
    write: Callable[[Filled, Any], JSON | Awaitable[JSON]] | None = None,
    heeds: Sequence[str] = (),
) -> SeatNode:
    """Return a node that asks a custom seat, in the same way as the built-in agents.

        builder.add_node("sarcasm", seat("sarcasm", prompt="my_package:prompts/sarcasm.md", form=Sarcasm))

    The call is recorded, budgeted, cached and traced. A model and a temperature may be set for the seat by its name.
    It is shown the post, and whatever `shows` names. Its citations are held to the evidence and the precedents that it
    is shown.

    Args:
        name: the seat. One of several of a kind has a colon: `annotator:left`.
        prompt: a `Path`; `package:path` of a file in an installed package; the text itself, of several words; or the
            name of a prompt, SYSTEM/PROMPT, such as `two_annotators/annotate`. The prompt has a variable for each
            channel in `shows`.
        form: the form of the answer: a pydantic model, or a function that makes one of the policy and the scheme in
            force, such as `decision_form`.
        shows: the channels of the state that it is shown beside the post, such as `transcript` or `evidence`. What
            seat: foreign words in it are quoted, so that a model doesn't obey them.
        system: whose standing instructions it gets: `court`, `panel`, `research`, `task`, `plain`, or those of a
            `System`, by its name.
        temperature: None leaves it to the model.
        falls_to: the setting that names its model where the seat has none.
        final: whether it is asked even when the budget is spent, as a judge is.
        required: whether its refusal or failure ends the case. Otherwise a warning says so and the case goes on. Seats
            that are asked at the same time are not required: only one node of a step can end a case.
        writes: the channels that it writes.
        write: returns the update of the state, from the form and the state. It may be a coroutine, and may return what
            `verdict` gives. Without it the seat says its answer in the transcript.
        heeds: the settings that its prompt, its form or `write` depend on, such as `policy_clauses`.

    Raises:
        BadInput: the name is no seat's, the prompt's name is none, a channel can't be shown, or no `write` fills what
            `writes` names. When asked: the prompt can't be read, or doesn't name what it is shown.
    """
    register_seats([name])
    if write is None and tuple(writes) != ("transcript",):
        raise BadInput(
            f"seat: {name}: writes {', '.join(writes)}, and nothing fills them; give write as well"
        )
    taken = sorted({*shows} & _TAKEN)
    if taken:
        raise BadInput(
            f"seat: {name}: shows {taken[0]}: can't be shown under this name; give the channel another one"
        )
    maker = cast("Maker[Filled]", same_form(form) if isinstance(form, type) else form)
    called, read_text = _prompt_source(name, prompt)

    async def speak(state: Any, runtime: Runtime[Context]) -> JSON:
        text = await asyncio.to_thread(read_text)
        role = Role(name, name, called, maker, temperature, falls_to, system, final, text=text)
        await _check_prompt(role, shows, state, runtime)
        material: JSON = {channel: _material(channel, state) for channel in shows}
        try:
            answer = await ask(
                role, state, runtime, mend=_citation_mender(name, shows, state), **material
            )
        except ModelError as fault:
            if required:
                raise
            # Seats of one step may all fall silent: nothing is written here that only one of them may write.
            return log_of_fault(
                fault, f"{name} gave no answer, and the case went on without it: {fault}"
            )
        if write is None:
            return _write_answer(name, answer, state, runtime)
        return await _apply_write(write, answer, state)

    speak.__name__ = name.replace(":", "_")
    settings = {"scheme", falls_to, "max_calls", "max_tokens", *heeds}
    declare = piece(
        needs=["post"], uses=shows, writes=writes, besides=FAILED, heeds=settings, seats=[name]
    )
    return declare(agent(speak))


async def _apply_write(
    write: Callable[[Filled, Any], JSON | Awaitable[JSON]],
    answer: Answer[Filled],
    state: Mapping[str, Any],
) -> JSON:
    """Return what `write` makes of an answer, with the log of its call. It is given the state with this call in it."""
    calls = answer.log["calls"]
    warnings = answer.log["warnings"]
    with_call = {
        **state,
        "calls": [*state.get("calls", ()), *calls],
        "warnings": [*state.get("warnings", ()), *warnings],
    }
    made = write(answer.value, with_call)
    update = await made if inspect.isawaitable(made) else made
    return {**update, "calls": calls, "warnings": [*warnings, *update.get("warnings", ())]}


def _prompt_source(name: str, prompt: str | Path) -> tuple[str, Callable[[], str]]:
    """Return the name of a prompt, and what reads its text: an empty one for a prompt of the set in force."""
    own = f"own/{name.partition(':')[0]}"
    if isinstance(prompt, str) and len(prompt.split()) > 1:
        return own, lambda: prompt.strip()
    if isinstance(prompt, str) and ":" not in prompt:
        check_prompt_name(f"seat: {name}: prompt", prompt)
        return prompt, lambda: ""

    @cache
    def read_prompt() -> str:
        try:
            return resource(prompt).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BadInput(
                f"seat: {name}: prompt: {prompt}: {reason}; give a file that can be read"
            ) from error

    return own, read_prompt


async def _check_prompt(
    role: Role[Any], shows: Sequence[str], state: Any, runtime: Runtime[Context]
) -> None:
    """Check that a prompt exists, and uses exactly the variables that it is filled with.

    Raises:
        BadInput: it isn't, or doesn't; with the name that is wrong.
    """
    prompts = (await prompts_of_case(state, context_of(state, runtime))).with_prompt(
        role.prompt, role.text
    )
    for name in (role.prompt, f"system/{role.system}"):
        if name not in prompts.sources:
            raise BadInput(
                f"seat: {role.seat}: there is no prompt {name!r}; give its text, its path or its name"
            )
    named = prompts.variables(role.prompt) - FILLED_IN
    unknown = sorted(named - {*shows})
    if unknown:
        raise BadInput(
            f"prompts: {role.prompt}.md: there is no {unknown[0]!r} here; add it to shows of the seat {role.seat}, or "
            "leave it out of the prompt"
        )
    missing = sorted({*shows} - named)
    if missing:
        raise BadInput(
            f"prompts: {role.prompt}.md: leaves out {missing[0]}, which the seat {role.seat} is shown; write "
            f"{{{{ {missing[0]} }}}} alone where it is to stand"
        )


def _material(channel: str, state: Any) -> Material | str:
    """Return the content of a channel as a prompt shows it, between marks; nothing if it is empty."""
    if channel == "transcript":
        turns = transcript_of(state)
        return quote_transcript(turns, cues_in(state)) if turns else ""
    if channel in _EXHIBITS:
        held = show_exhibits(state)
        shown: Material | str = held.material.get(channel, "") if held else ""
        return shown
    value = state.get(channel)
    if not value:
        return ""
    if isinstance(value, Mapping):
        return entries(channel, [_entry(value)])
    if isinstance(value, list | tuple):
        if any(isinstance(each, Mapping) for each in value):
            return entries(
                channel,
                [_entry(each if isinstance(each, Mapping) else {"": each}) for each in value],
            )
        return listing(channel, map(str, value))
    return quote(channel, str(value), lines=True)


def _entry(held: Mapping[str, Any]) -> Entry:
    return Entry(
        None, [(str(name), str(value)) for name, value in held.items() if value not in (None, "")]
    )


def _citation_mender(name: str, shows: Sequence[str], state: Any) -> Mend[Any] | None:
    """Return a mender that removes citations of unknown ids; None if nothing citable is shown."""
    if not {*shows} & {*_CITED}:
        return None

    def mend(answer: Any, warnings: list[str]) -> Any:
        for field, value in answer:
            if type(value) is str:
                answer = strike_unknown_citations(state, field, who=name)(answer, warnings)
        return answer

    return mend


def _write_answer(name: str, answer: Answer[Any], state: Any, runtime: Runtime[Context]) -> JSON:
    """Write a seat's answer as a turn of the transcript."""
    number = 1 + sum(turn["seat"] == name for turn in state.get("transcript", ()))
    fields = answer.value.model_dump(mode="json", exclude_none=True)
    text = "; ".join(f"{field}: {_in_words(value)}" for field, value in fields.items())
    return write_turn(answer, runtime, name, "answer", number, text=text)


def _in_words(value: Any) -> str:
    return ", ".join(map(_in_words, value)) if isinstance(value, list) else str(value)


# The end of a case


async def verdict(
    state: CaseState,
    category: str,
    explanation: str,
    *,
    confidence: float | None = None,
    uncertain: bool = False,
    tie: bool = False,
    track: Track | None = None,
    steps: Sequence[Step] = (),
) -> JSON:
    """Return the update of the state that ends a case with a verdict.

    The label, and whether it is hateful, follow from the category by the policy in force.

    Args:
        state: the case.
        category: a category of the policy, by its name, in the scheme in force.
        explanation: why, for the person who posted.
        confidence: how sure the judge is, from 0 to 1, where it says so.
        uncertain: whether a person should look at it in any case. It is uncertain as well where the confidence isn't
            enough by the threshold in force.
        tie: whether it is a vote in which no side had more than half.
        track: by which track the case came here, as `Verdict.track`.
        steps: the steps of a rationale on evidence.

    Raises:
        BadInput: the policy has no such category, the confidence is none, or there is no explanation.
    """
    runtime = _runtime_here()
    policy = await policy_of(state, runtime)
    scheme = context_of(state, runtime).scheme
    names = [each.name for each in policy.categories(scheme)]
    if category not in names:
        near = suggest_name(str(category), names)
        raise BadInput(
            f"category: {one_line(str(category))[:80]!r}: the policy {policy.name} has none of this name in the scheme "
            f"{scheme}; {near or 'its categories are ' + ', '.join(names)}"
        )
    if confidence is not None and not 0 <= confidence <= 1:
        raise BadInput(
            f"confidence: {confidence}: is none; give a number from 0 to 1, or leave it out"
        )
    if not explanation.strip():
        raise BadInput("explanation: is empty; say why, for the person who posted")
    label = policy.label(scheme, category)
    how: JSON = {
        "confidence": confidence,
        "uncertain": uncertain or None,
        "tie": tie,
        "track": track,
    }
    return await deliver(
        label, scheme, explanation, state, runtime, by_policy=True, steps=tuple(steps), **how
    )


def refusal(state: Mapping[str, Any], explanation: str, *, seat: str, form: str = "own") -> JSON:
    """Return the update of the state that ends a case with a refusal: a model declined, and nothing was decided.

    A refusal by a provider ends the case by itself. This one is for a judge that reads a refusal out of an answer.

    Args:
        state: the case.
        explanation: the reason for the refusal, in its words.
        seat: who declined.
        form: how the refusal was recognised, in one word.

    Raises:
        BadInput: there is no explanation.
    """
    if not explanation.strip():
        raise BadInput("explanation: is empty; say what was declined")
    runtime = _runtime_here()
    calls = state.get("calls", ())
    asked: JSON = next((call for call in reversed(calls) if call["seat"] == seat), {})
    outcome = Refusal(
        seat=seat,
        role=asked.get("role", seat),
        model=asked.get("model", ""),
        form=form,
        explanation=explanation,
        rehearsed=was_rehearsed(calls, state.get("warnings", ())),
    ).dump()
    return announce_outcome(state, outcome, runtime)


def _runtime_here() -> Runtime[Context]:
    """Return the runtime of the run that this is called in; outside of one, a runtime that nobody listens to."""
    try:
        return get_runtime(Context)
    except RuntimeError:
        return Runtime()
