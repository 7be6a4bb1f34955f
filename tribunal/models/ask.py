"""Ask a model: every call of the project is made by `ask`.

A role is data: a prompt file, a form to answer in, a temperature, a seat. Everything else about a call is in this
folder, once: which model sits in the seat, structured output and its ladder, refusals, retries, keys, budgets, the
cache, and what is noted of it all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.runtime import Runtime

from tribunal.core.calls import REHEARSED, was_rehearsed
from tribunal.errors import BadModelOutput, CallFailed, ModelError, Refused
from tribunal.models.budget import Budget
from tribunal.models.exam_results import find_unfit, warn_of_other_name
from tribunal.models.faults import DONE, LENGTH
from tribunal.models.image import load_picture
from tribunal.models.model_call import REFUSED, ModelCall
from tribunal.models.model_request import raise_output_limit, request_completion
from tribunal.models.prompt_values import (
    SharedPrompt,
    appeal_prompt,
    policy_shown,
    shows_clauses,
    standing_instructions,
)
from tribunal.models.providers import ResponseFormat
from tribunal.models.registry import (
    ModelRegistry,
    current_registry,
    extra_fields_for,
    models_of_seat,
    provider_of,
)
from tribunal.models.role import (
    END_OF_THINKING,
    Contradicts,
    Filled,
    Question,
    Role,
    SaysNothing,
    UnreadableAnswer,
    is_unended_thinking,
    read_in_own_names,
)
from tribunal.models.saved_calls import Answer as Answer
from tribunal.models.saved_calls import save_answer
from tribunal.models.stops import find_given_up, is_stopped_at, note_call, stop_before
from tribunal.models.substance import repeats_itself
from tribunal.process.model_objects import is_opaque, models_in
from tribunal.prompts.marks import material_text
from tribunal.prompts.policy import policy_of, translate_policy
from tribunal.prompts.sets import prompts_of_case, recorded_prompts
from tribunal.prompts.template import OF_THE_RUN
from tribunal.schema import JSON, Post, Scheme
from tribunal.settings.contents import apply_line_up
from tribunal.settings.context import Context, context_of
from tribunal.settings.names import POLICIES


async def ask(
    role: Role[Filled],
    state: Mapping[str, Any],
    runtime: Runtime[Context],
    *,
    check: Callable[[Filled], None] | None = None,
    mend: Callable[[Filled, list[str]], Filled] | None = None,
    draw: int = 0,
    shared: SharedPrompt | None = None,
    **material: Any,
) -> Answer[Filled]:
    """Ask the model in the role's seat about the post of this case.

    Args:
        role: the role, which has the prompt and the form of the answer.
        state: the case; `post` and `calls` are read.
        runtime: its context decides on models, policy, budget, where the case has none of its own (`context_of`).
        check: raises ValueError where an answer of the right form is still wrong; the model is then asked again. An
            answer that raises `Contradicts` a second time is taken, with a warning.
        mend: puts right what can be put right without a guess, before the check: is given the form and a list to add
            warnings to, and returns the form to use. Raises ValueError as `check` does.
        draw: which of several draws of the same call this is.
        shared: material that every seat of the case is shown beside the post; it precedes the role's own words, so that
            providers' prompt caches serve it to the next seat.
        material: what the role's prompt is filled with beside the post, each text by the functions of
            `tribunal.prompts.marks`: ours, or between marks.

    Raises:
        PromptError: a text is neither, or the prompt takes other material; no call was made.
        Refused: every model of the seat declined, or failed after the first had declined.
        BudgetSpent: the post's budget leaves nothing for this seat.
        CallFailed: a technical failure of every model of the seat.
        BadModelOutput: the same, because the answer can't be read.
    """
    context = context_of(state, runtime)
    registry = await current_registry()
    own_fields = context.extra_body
    if context.line_up is not None:
        context = await apply_line_up(context, state)
    if not role.final:
        Budget.from_state(context, state).check(role.seat)
    begun = recorded_prompts(state).get("sha")
    prompts = await prompts_of_case(state, context)
    warnings: list[str] = []
    if begun and begun != prompts.sha:
        warnings.append(
            "the prompts have changed since this case began; its later calls were asked with the new ones"
        )
    prompts = prompts.with_prompt(role.prompt, role.text)
    scheme = context.scheme
    post = Post.model_validate(state["post"])
    policy = await policy_of(state, runtime)
    if context.policy_language == "post":
        policy = translate_policy(policy, post.language)
    named_policy = context.policy != POLICIES[context.task]
    own_policy = named_policy or context.policy_definition is not None
    own = role.request(post, policy, scheme) if role.request else None
    if "clauses" not in prompts.variables(role.prompt) or not shows_clauses(
        context, own_policy=named_policy
    ):
        policy = policy.without_clauses()
    # Only the prosecution is told of boxes, so that no other graph reads the setting.
    asked = prompts.variables(role.prompt) & OF_THE_RUN
    label_first = (context.answer_order or role.answer_order) == "label-first"
    of_the_run: JSON = {"label_first": label_first} if "label_first" in asked else {}
    if "boxes" in asked:
        of_the_run["boxes"] = post.image is not None and context.boxes
    # Who answers a question with yes or no is told the two labels.
    labels: Scheme = "binary" if role.system == "task" else scheme
    form = role.form(policy, scheme)
    if "cue_limit" in asked:
        of_the_run["cue_limit"] = context.cue_limit
    if "rejects_in_both_tracks" in asked:
        of_the_run["rejects_in_both_tracks"] = context.judge_rejects == "both-tracks"
    if "sure" in asked:
        of_the_run["sure"] = "confidence" in form.model_fields
    of_the_policy = policy_shown(prompts, role.prompt, policy, labels, context, state)
    beside = [
        prompts.render(each.prompt, each.material)
        for each in (appeal_prompt(post, role.seat), shared)
        if each
    ]
    role = read_in_own_names(role, form, post.text, prompts)
    if own is not None:
        system = own.system
    else:
        system = standing_instructions(prompts, role.system, policy, scheme, own_policy=own_policy)
    decides = role.final and role.falls_to == "judge_model"  # after the last round, and in none
    question = Question(
        role=role,
        form=form,
        system=system,
        own=own,
        post=post,
        shared="\n\n".join(beside),
        shared_material=shared.material if shared else {},
        prompts=prompts,
        own_policy=own_policy,
        label_first=label_first,
        reading=state.get("reading") or "",
        mend=mend,
        variables={**of_the_policy, **of_the_run, **material},
        material={name: material_text(value) for name, value in material.items()},
        policy=policy,
        scheme=scheme,
        check=check,
        repeat=context.repeat,
        draw=draw,
        round=None if decides else material.get("round", state.get("round")),
    )
    question.write_task()  # what doesn't fit is said before any call
    limit = role.max_output_tokens or context.max_output_tokens
    names = models_of_seat(context, role.seat, role.falls_to, registry.environment)
    models = [
        ModelCall(
            name,
            provider_of(name),
            question,
            context,
            limit,
            has_substitute=name != names[-1],
            own_fields=extra_fields_for(name, own_fields),
        )
        for name in names
    ]
    ask_in_turn = partial(_ask_models_in_turn, models, registry, runtime, warnings)
    if not is_stopped_at(role.seat, state, runtime):
        return await ask_in_turn()
    mark = stop_before(await _describe_question(models[0], registry), runtime)
    try:
        answer = await save_answer(form, runtime, ask_in_turn)
    except ModelError as fault:
        fault.warnings = [*fault.warnings, mark]
        raise
    return replace(answer, log={**answer.log, "warnings": [*answer.log["warnings"], mark]})


async def _ask_models_in_turn(
    models: Sequence[ModelCall],
    registry: ModelRegistry,
    runtime: Runtime[Context],
    warnings: list[str],
) -> Answer[Any]:
    """Ask a seat's models, the first one first, until one answers.

    Args:
        models: the calls, one a model.
        registry: the models of the process.
        runtime: that of the run.
        warnings: the warnings so far; the calls add theirs.

    Raises:
        ModelError: that of the first model, if none answered.
    """
    role = models[0].question.role
    context = models[0].context
    calls: list[JSON] = []
    first: ModelError | None = None
    for call in models:
        given_up = find_given_up(call.model, role.seat, role.name)
        if given_up is not None:
            first = first or given_up
            calls = [*calls, *given_up.calls]
            continue
        runtime.stream_writer(
            {"event": "asking", "seat": role.seat, "role": role.name, "model": str(call.model)}
        )
        started = time.perf_counter()
        failed = None
        try:
            value = await _answer_call(call, registry)
        except ModelError as error:
            error.seat = role.seat
            error.role = role.name
            error.model = str(call.model)
            failed = (
                f"{REFUSED}{error.form}"
                if isinstance(error, Refused)
                else getattr(error, "kind", "failed")
            )
            first = first or error
        record = call.as_record(time.perf_counter() - started, error=failed)
        calls.append(record)
        note_call(record)
        warnings += [REHEARSED] if was_rehearsed([record]) else []
        warnings += find_unfit(registry.exams, str(call.model), call.base_url)
        if call.provider.client is None or not is_opaque(call.provider.client):
            warnings += warn_of_other_name(str(call.model), call.model.model, call.served)
        warnings += call.warnings
        words = {"prompt": [[*turn] for turn in call.prompt_turns()], "answer": call.answer_text}
        traced = words if context.trace else {}
        runtime.stream_writer({"event": "call", **record, **traced})
        if failed is None:
            if first is not None:
                warnings.append(
                    f"{role.seat}: {call.model} answered in place of {first.model}: {first}"
                )
            return Answer(value, {"calls": calls, "warnings": warnings})
    assert first is not None  # noqa: S101 (a seat has at least one model)
    first.calls = calls
    first.warnings = warnings
    raise first


async def _describe_question(call: ModelCall, registry: ModelRegistry) -> JSON:
    """Return a question as a person is shown it at a stop: who is asked, and every word that would be sent."""
    call = replace(call)
    with suppress(
        CallFailed
    ):  # a model that can't see the image of a post without words; the call itself will say so
        await _prepare_call(call, registry)
    role = call.question.role
    image = call.question.post.image
    speakers = {"human": "user", "system": "system"}
    return {
        "seat": role.seat,
        "role": role.name,
        "model": str(call.model),
        "temperature": call.temperature,
        "round": call.question.round or None,
        "prompt": [
            {"role": speakers[speaker], "content": words} for speaker, words in call.prompt_turns()
        ],
        "image": image.ref if image and call.image else None,
    }


async def _prepare_call(call: ModelCall, registry: ModelRegistry) -> None:
    """Leave out parts that the model is known to refuse, and load the image."""
    provider = call.provider
    image = call.question.post.image
    client = registry.chat_client(
        call.model, provider, registry.key_pool(call.model, provider).keys[0]
    )
    learnt = registry.lessons_of(call.model, provider)
    first = models_in(client)[0]
    profile = (first.profile or {}) if isinstance(first, BaseChatModel) else {}
    call.forms = (
        ("prompt",) if call.question.role.plain else forms_by_profile(provider.forms, profile)
    )
    call.takes_tool_choice = bool(profile.get("tool_choice", True))
    call.left_out = {}
    learnt.start(call)
    takes_one = provider.takes_temperature and profile.get("temperature", True)
    call.set_temperature = call.wanted_temperature if takes_one else None
    own = [
        words
        for words, is_taken in (
            ("temperature", provider.takes_temperature),
            ("limit of answers", provider.takes_limit),
        )
        if not is_taken and provider.client is not None
    ]
    if own:
        call.warn(f"{call.model} takes no {' and no '.join(own)} with a request, and keeps its own")
    call.provider_bounds = provider.schema_bounds(registry.environment)
    added = call.question.own.extra if call.question.own and not provider.sees_question else {}
    if added and not provider.takes_extra:
        fields = ", ".join(added)
        raise CallFailed(f"{call.model}: {fields} can't be sent to {provider.name}", kind="request")
    added = {**added, **extra_fields_for(call.model, call.context.extra_body)}
    call.added_fields = {
        name: value for name, value in added.items() if name not in call.own_fields
    }
    call.base_url = provider.base_url(registry.environment)
    if image is not None:
        if not profile.get("image_inputs", True) or call.without_image:
            call.leave_out_image()
        else:
            seen = await load_picture(image.ref, call.context.image_edge, sha256=image.sha256)
            call.image = (seen.data_uri, seen.sha256)


def forms_by_profile(
    forms: tuple[ResponseFormat, ...], profile: Mapping[str, Any]
) -> tuple[ResponseFormat, ...]:
    """Return the ways to ask for a form that a model's published profile leaves, the best one first."""
    if len(forms) > 1 and profile.get("structured_output") is False and profile.get("tool_calling"):
        return ("tool_call", *(form for form in forms if form not in ("json_schema", "tool_call")))
    if profile.get("tool_calling") is False:
        return tuple(form for form in forms if form != "tool_call")
    return forms


async def _answer_call(call: ModelCall, registry: ModelRegistry) -> Any:
    """Return one model's answer in the requested form, or the cached answer to the same call.

    Raises:
        Refused, CallFailed, BadModelOutput: as `ask`.
    """
    await _prepare_call(call, registry)
    if call.context.cache is None:
        return await _ask_for_answer(call, registry)
    from tribunal.models.cache import (  # SQLite, for those who keep answers
        cache_key,
        open_cache,
        read_answer,
        write_answer,
    )

    cache = await open_cache(call.context.cache)
    key = cache_key(call, registry)
    value = await read_answer(cache, key, call)
    if value is None:
        value = await _ask_for_answer(call, registry)
        await write_answer(cache, key, call)
    return value


async def _ask_for_answer(call: ModelCall, registry: ModelRegistry) -> Any:
    """Return the form, filled in.

    An answer whose reasons say nothing, or that contradicts itself, is taken if no better one comes.
    """
    try:
        return await _ask_until_readable(call, registry)
    except ModelError as error:
        if call.flawed_answer is None:
            raise
        call.answer_text = call.flawed_answer
        try:
            return call.read_answer(take_empty=True)
        except UnreadableAnswer:
            raise error from None


async def _ask_until_readable(call: ModelCall, registry: ModelRegistry) -> Any:
    """Return the form, filled in.

    An answer that was cut off is asked for again, with a higher limit. One that can't be read, or whose reasons say
    nothing, is asked for again once, and told what was wrong.
    """
    role = call.question.role
    asked_again = False
    while True:
        completion = await request_completion(call, registry)
        refusal = completion.find_refusal()
        if refusal:
            form, words = refusal
            raise Refused(f"the model declined: {words[:300]}", form=form)
        cut = completion.finish_reason in LENGTH and not role.may_be_cut
        if cut and not repeats_itself(call.answer_text):
            raise_output_limit(call, registry.lessons_of(call.model, call.provider))
            continue
        try:
            if cut:
                repeated = "the answer went on repeating itself until it was cut off"
                thinks = is_unended_thinking(call.answer_text)
                raise UnreadableAnswer(
                    f"{repeated}: {END_OF_THINKING}" if thinks else repeated, repeated
                )
            return call.read_answer(take_empty=asked_again)
        except UnreadableAnswer as problem:
            if asked_again:
                reason = (
                    ""
                    if completion.finish_reason in DONE | LENGTH
                    else f" (finish reason: {completion.finish})"
                )
                raise BadModelOutput(
                    f"the answer could not be read, even when asked again: {problem}{reason}"
                ) from problem
            asked_again = True
            if isinstance(problem, SaysNothing | Contradicts):
                call.flawed_answer = call.answer_text
            call.quote_problem(problem)
