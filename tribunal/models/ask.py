"""The one way to ask a model: `ask`.

A role is data: a prompt file, a form to answer in, a temperature, a seat. Everything else about a call is in this
folder, once: which model sits in the seat, structured output and its ladder, refusals, retries, keys, budgets, the
cache, and what is noted of it all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic

from langgraph.runtime import Runtime

from tribunal.budget import Budget
from tribunal.context import Context, context_of
from tribunal.errors import CallFailed, ModelError, Refused
from tribunal.line_up import in_force
from tribunal.models.call import carry_out, prepare
from tribunal.models.door import Door, door_here
from tribunal.models.exchange import REFUSED, Exchange
from tribunal.models.providers import provider_of
from tribunal.models.question import (
    Question,
    Shown,
    appeal_shown,
    from_the_policy,
    from_the_run,
    standing_instructions,
)
from tribunal.models.role import Filled, Role
from tribunal.models.seating import models_for
from tribunal.prompts.in_force import prompts_begun, prompts_of
from tribunal.prompts.marks import Material, shown
from tribunal.prompts.policy import in_language, policy_of
from tribunal.rehearsed import REHEARSED, rehearsed
from tribunal.schema import JSON, Post
from tribunal.stops import show_question
from tribunal.telling import tell


@dataclass(frozen=True)
class Answer(Generic[Filled]):
    """What came back: the form filled in, and the state's update that goes with it: `calls` and `warnings`.

    `confidence` is what the form states, from 0 to 1; None where it states none, or the rehearsal model filled it in.
    """

    value: Filled
    log: JSON = field(default_factory=dict)

    @property
    def confidence(self) -> float | None:
        by_rules = rehearsed(self.log.get("calls", ())[-1:])  # the last call is the one that answered
        return None if by_rules else getattr(self.value, "confidence", None)


async def ask(
    role: Role[Filled],
    state: Mapping[str, Any],
    runtime: Runtime[Context],
    *,
    check: Callable[[Filled], None] | None = None,
    mend: Callable[[Filled, list[str]], Filled] | None = None,
    draw: int = 0,
    shared: Shown | None = None,
    **material: Any,
) -> Answer[Filled]:
    """Ask the model in the role's seat about the post of this case.

    Args:
        role: what is asked.
        state: the case; `post` and `calls` are read.
        runtime: its context decides on models, policy, budget, where the case has none of its own (`context_of`).
        check: raises ValueError where an answer of the right form is still wrong; the model is then asked again.
        mend: puts right what can be put right without a guess, before the check: is given the form and a list to add
            warnings to, and returns the form to use. Raises ValueError as `check` does.
        draw: which of several draws of the same call this is.
        shared: what every seat of the case is shown beside the post; it stands before the role's own words, so that
            providers' prompt caches serve it to the next seat.
        material: what the role's prompt is filled with beside the post, each text by the functions of
            `tribunal.prompts.marks`: ours, or between marks.

    Raises:
        PromptError: a text is neither, or the prompt takes other material; no call was made.
        Refused: every model of the seat declined, or failed after the first had declined.
        BudgetSpent: the post's budget leaves nothing for this seat.
        CallFailed: a technical failure of every model of the seat.
        BadModelOutput: the same, because of what was answered.
    """
    context, door = await in_force(context_of(state, runtime), state), await door_here()
    if not role.final:
        Budget.of(context, state).check(role.seat)
    post = Post.model_validate(state["post"])
    begun = prompts_begun(state).get("sha")
    of_the_case = await prompts_of(state, context.prompts)
    prompts = of_the_case.including(role.prompt, role.text)
    policy = await policy_of(state, runtime)
    if context.policy_language == "post":
        policy = in_language(policy, post.language)
    of_the_policy = from_the_policy(prompts, role.prompt, policy, context.scheme)
    label_first = context.answer_order == "label-first"
    # Only the prosecution is told of boxes, so that no other graph reads the setting.
    boxes = post.image is not None and "boxes" in prompts.variables(role.prompt) and context.boxes
    of_the_run = from_the_run(prompts, role.prompt, label_first=label_first, boxes=boxes)
    question = Question(
        role=role,
        form=role.form(policy, context.scheme),
        system=standing_instructions(prompts, role.system, policy, context.scheme),
        post=post,
        shared="\n\n".join(
            prompts.render(each.prompt, each.material) for each in (appeal_shown(post, role), shared) if each
        ),
        prompts=prompts,
        mend=mend,
        task=prompts.render(role.prompt, {**of_the_policy, **of_the_run, **material}),
        material={name: shown(value) if isinstance(value, Material) else value for name, value in material.items()},
        policy=policy,
        scheme=context.scheme,
        check=check,
        repeat=context.repeat,
        draw=draw,
    )
    calls: list[JSON] = []
    warnings: list[str] = []
    if begun and begun != of_the_case.sha:
        warnings.append("the prompts have changed since this case began; its later calls were asked with the new ones")
    first: ModelError | None = None
    limit = role.max_output_tokens or context.max_output_tokens
    models = models_for(context, role.seat, role.falls_to, door.environment)
    number = material.get("round", state.get("round"))
    await show_question(
        role.seat,
        lambda: _describe(Exchange(models[0], provider_of(models[0]), question, context, limit), door, number),
    )
    for model in models:
        tell(runtime, {"event": "asking", "seat": role.seat, "role": role.name, "model": str(model)})
        exchange = Exchange(model, provider_of(model), question, context, limit)
        started = time.perf_counter()
        try:
            value = await carry_out(exchange, door)
        except ModelError as error:
            error.seat, error.role, error.model = role.seat, role.name, str(model)
            call = exchange.call(time.perf_counter() - started, error=_kind(error))
            first = first or error
        else:
            call = exchange.call(time.perf_counter() - started)
        calls.append(call)
        warnings += [REHEARSED] if rehearsed([call]) else []
        warnings += exchange.warnings
        tell(runtime, {"event": "call", **call, **(exchange.traced if context.trace else {})})
        if call["error"] is None:
            if first is not None:
                warnings.append(f"{role.seat}: {model} answered in place of {first.model}: {first}")
            return Answer(value, {"calls": calls, "warnings": warnings})
    assert first is not None  # noqa: S101 (a seat has at least one model)
    first.calls, first.warnings = calls, warnings
    raise first


async def _describe(exchange: Exchange, door: Door, number: int | None) -> JSON:
    """Return a question as a person is shown it at a stop: who is asked, and every word that would be sent."""
    with suppress(CallFailed):  # a model that can't see the image of a post without words; the call itself will say so
        await prepare(exchange, door)
    role, image = exchange.question.role, exchange.question.post.image
    return {
        "seat": role.seat,
        "role": role.name,
        "model": str(exchange.model),
        "temperature": exchange.temperature,
        "round": number or None,
        "prompt": [
            {"role": "user" if speaker == "human" else speaker, "content": words} for speaker, words in exchange.told()
        ],
        "image": image.ref if image and exchange.image else None,
    }


def _kind(error: ModelError) -> str:
    return f"{REFUSED}{error.form}" if isinstance(error, Refused) else getattr(error, "kind", "failed")
