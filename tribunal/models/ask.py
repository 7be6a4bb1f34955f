"""The one way to ask a model: `ask`.

A role is data: a prompt file, a form to answer in, a temperature, a seat. Everything else about a call is in this
folder, once: which model sits in the seat, structured output and its ladder, refusals, retries, keys, budgets, the
cache, and what is noted of it all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import ensure_config
from langgraph.runtime import Runtime

from tribunal.budget import Budget
from tribunal.calls import REHEARSED, was_rehearsed
from tribunal.context import POLICIES, Context, context_of
from tribunal.errors import BadModelOutput, BudgetSpent, CallFailed, ModelError, Refused
from tribunal.line_up import apply_line_up
from tribunal.models.diagnosis import Diagnosis, diagnose
from tribunal.models.exam_results import find_unfit
from tribunal.models.image import load_picture
from tribunal.models.model_call import LENGTH, REFUSED, Completion, ModelCall, repeats_itself
from tribunal.models.paid_request import send_paid
from tribunal.models.prompt_values import SharedPrompt, appeal_prompt, policy_shown, standing_instructions
from tribunal.models.registry import ModelRegistry, current_registry, extra_fields_for, models_of_seat, provider_of
from tribunal.models.role import (
    END_OF_THINKING,
    Filled,
    Question,
    Role,
    UnreadableAnswer,
    is_unended_thinking,
    read_in_own_names,
)
from tribunal.models.served_name import warn_of_other_name
from tribunal.models.unanswered import find_given_up, note_call
from tribunal.prompts.marks import material_text
from tribunal.prompts.policy import policy_of, translate_policy
from tribunal.prompts.sets import prompts_of_case, recorded_prompts
from tribunal.prompts.variables import OF_THE_RUN
from tribunal.schema import JSON, Post, Scheme
from tribunal.stops import show_question

_SLOW = (
    "The model may be slow or go round in circles, or its server may answer fewer requests at a time than it is sent: "
    "raise --timeout, lower --max-output-tokens or --concurrency, or give the server more slots"
)
_SMALLEST_CONTEXT = 500


@dataclass(frozen=True)
class Answer(Generic[Filled]):
    """The filled-in form, and the update of the state that goes with it: `calls` and `warnings`."""

    value: Filled
    log: JSON = field(default_factory=dict)

    @property
    def confidence(self) -> float | None:
        """Return the confidence that the form states, from 0 to 1, or None; the rehearsal model is never sure."""
        by_rules = was_rehearsed(self.log.get("calls", ())[-1:])  # the last call is the one that answered
        return None if by_rules else getattr(self.value, "confidence", None)


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
    context, registry = context_of(state, runtime), await current_registry()
    if context.line_up is not None:
        context = await apply_line_up(context, state)
    if not role.final:
        Budget.from_state(context, state).check(role.seat)
    begun = recorded_prompts(state).get("sha")
    prompts = await prompts_of_case(state, context.prompts)
    calls: list[JSON] = []
    warnings: list[str] = []
    if begun and begun != prompts.sha:
        warnings.append("the prompts have changed since this case began; its later calls were asked with the new ones")
    prompts, scheme = prompts.with_prompt(role.prompt, role.text), context.scheme
    post, policy = Post.model_validate(state["post"]), await policy_of(state, runtime)
    if context.policy_language == "post":
        policy = translate_policy(policy, post.language)
    own_policy = context.policy != POLICIES[context.task]
    # Only the prosecution is told of boxes, so that no other graph reads the setting.
    asked = prompts.variables(role.prompt) & OF_THE_RUN
    label_first = (context.answer_order or role.answer_order) == "label-first"
    of_the_run: JSON = {"label_first": label_first} if "label_first" in asked else {}
    if "boxes" in asked:
        of_the_run["boxes"] = post.image is not None and context.boxes
    # Who answers a question with yes or no is told the two labels.
    labels: Scheme = "binary" if role.system == "task" else scheme
    of_the_policy = policy_shown(prompts, role.prompt, policy, labels, context, state)
    beside = [prompts.render(each.prompt, each.material) for each in (appeal_prompt(post, role.seat), shared) if each]
    form = role.form(policy, scheme)
    role = read_in_own_names(role, form, post.text, prompts)
    question = Question(
        role=role,
        form=form,
        system=standing_instructions(prompts, role.system, policy, scheme, own_policy=own_policy),
        post=post,
        shared="\n\n".join(beside),
        shared_material=shared.material if shared else {},
        prompts=prompts,
        own_policy=own_policy,
        label_first=label_first,
        mend=mend,
        variables={**of_the_policy, **of_the_run, **material},
        material={name: material_text(value) for name, value in material.items()},
        policy=policy,
        scheme=scheme,
        check=check,
        repeat=context.repeat,
        draw=draw,
    )
    question.write_task()  # what doesn't fit is said before any call
    limit = role.max_output_tokens or context.max_output_tokens
    names = models_of_seat(context, role.seat, role.falls_to, registry.environment)
    models = [ModelCall(name, provider_of(name), question, context, limit) for name in names]
    number = material.get("round", state.get("round"))
    await show_question(role.seat, lambda: _describe_question(models[0], registry, number))
    first: ModelError | None = None
    for call in models:
        if (given_up := find_given_up(call.model, role.seat, role.name)) is not None:
            first, calls = first or given_up, [*calls, *given_up.calls]
            continue
        runtime.stream_writer({"event": "asking", "seat": role.seat, "role": role.name, "model": str(call.model)})
        started, failed = time.perf_counter(), None
        try:
            value: Filled = await _answer_call(call, registry)
        except ModelError as error:
            error.seat, error.role, error.model = role.seat, role.name, str(call.model)
            failed = f"{REFUSED}{error.form}" if isinstance(error, Refused) else getattr(error, "kind", "failed")
            first = first or error
        record = call.as_record(time.perf_counter() - started, error=failed)
        calls.append(record)
        note_call(record)
        warnings += [REHEARSED] if was_rehearsed([record]) else []
        warnings += find_unfit(registry.exams, str(call.model), call.base_url)
        warnings += warn_of_other_name(str(call.model), call.model.model, call.served)
        warnings += call.warnings
        runtime.stream_writer({"event": "call", **record, **(call.trace_entry if context.trace else {})})
        if failed is None:
            if first is not None:
                warnings.append(f"{role.seat}: {call.model} answered in place of {first.model}: {first}")
            return Answer(value, {"calls": calls, "warnings": warnings})
    assert first is not None  # noqa: S101 (a seat has at least one model)
    first.calls, first.warnings = calls, warnings
    raise first


async def _describe_question(call: ModelCall, registry: ModelRegistry, number: int | None) -> JSON:
    """Return a question as a person is shown it at a stop: who is asked, and every word that would be sent."""
    call = ModelCall(call.model, call.provider, call.question, call.context, call.max_output_tokens)
    with suppress(CallFailed):  # a model that can't see the image of a post without words; the call itself will say so
        await _prepare_call(call, registry)
    role, image = call.question.role, call.question.post.image
    speakers = {"human": "user", "system": "system"}
    return {
        "seat": role.seat,
        "role": role.name,
        "model": str(call.model),
        "temperature": call.temperature,
        "round": number or None,
        "prompt": [{"role": speakers[speaker], "content": words} for speaker, words in call.prompt_turns()],
        "image": image.ref if image and call.image else None,
    }


async def _prepare_call(call: ModelCall, registry: ModelRegistry) -> None:
    """Leave out what the model is known not to take, and load the image."""
    provider, image, limits = call.provider, call.question.post.image, registry.limits[call.model]
    client = registry.chat_client(call.model, provider, registry.key_pool(call.model, provider).keys[0])
    call.response_format = limits.choose_format(call)
    takes_one = provider.takes_temperature and profile_takes(client, "temperature")
    left_out = limits.leaves_out("temperature", call)
    call.temperature = call.wanted_temperature if takes_one and not left_out else None
    call.bounds = frozenset() if limits.leaves_out("bounds", call) else provider.schema_bounds(registry.environment)
    call.no_system = limits.leaves_out("system", call)
    call.extra = extra_fields_for(call.model, call.context.extra_body)
    call.stream = not limits.leaves_out("stream", call)
    call.base_url = provider.base_url(registry.environment)
    if image is not None:
        if not profile_takes(client, "image_inputs") or limits.leaves_out("image", call):
            call.leave_out_image()
        else:
            seen = await load_picture(image.ref, call.context.image_edge, sha256=image.sha256)
            call.image = (seen.data_uri, seen.sha256)


def profile_takes(client: BaseChatModel, what: Literal["image_inputs", "temperature"]) -> bool:
    """Return whether a model takes this, as far as its published profile says; an unknown one is taken to."""
    return bool((client.profile or {}).get(what, True))


async def _answer_call(call: ModelCall, registry: ModelRegistry) -> Any:
    """Return what one model answers in the form asked for, or what it answered before to the same call.

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

    cache, key = await open_cache(call.context.cache), cache_key(call, registry)
    value = await read_answer(cache, key, call)
    if value is None:
        value = await _ask_for_answer(call, registry)
        await write_answer(cache, key, call)
    return value


async def _ask_for_answer(call: ModelCall, registry: ModelRegistry) -> Any:
    """Return the form, filled in; ask again where an answer was cut off, with a higher limit, or can't be read."""
    role = call.question.role
    asked_again = False
    while True:
        completion = await _request_completion(call, registry)
        if refusal := completion.find_refusal():
            form, words = refusal
            raise Refused(f"the model declined: {words[:300]}", form=form)
        cut = completion.finish_reason in LENGTH and not role.may_be_cut
        if cut and not repeats_itself(call.answer_text):
            registry.limits[call.model].raise_output_limit(call)
            continue
        try:
            if cut:
                repeated = "the answer went on repeating itself until it was cut off"
                thinks = is_unended_thinking(call.answer_text)
                raise UnreadableAnswer(f"{repeated}: {END_OF_THINKING}" if thinks else repeated, repeated)
            return call.question.parse_answer(call.answer_text, call.warnings)
        except UnreadableAnswer as problem:
            if asked_again:
                raise BadModelOutput(f"the answer could not be read, even when asked again: {problem}") from problem
            asked_again = True
            call.quote_problem(problem)


async def _request_completion(call: ModelCall, registry: ModelRegistry) -> Completion:
    """Return one answer, past every passing fault."""
    pool, limits = registry.key_pool(call.model, call.provider), registry.limits[call.model]
    failed: Diagnosis | None = None

    async def send(number: int) -> Completion | Diagnosis:
        nonlocal failed
        key = pool.keys[number]
        call.key = None if key is None else number
        try:
            outcome = await _send_once(call, registry, key)
        except (BudgetSpent, CallFailed) as unpaid:
            if failed is None:
                raise
            # What kept it from being answered is why the try before failed; a trial that can wait then goes on later.
            raise CallFailed(
                f"{failed.kind.replace('_', ' ')}: {failed.message}; {unpaid}", kind=failed.kind
            ) from unpaid
        failed = outcome if isinstance(outcome, Diagnosis) and outcome.is_transient else None
        if isinstance(outcome, Diagnosis) or not call.format_under_test:
            return outcome
        # It came below a format that bare 500s answered. The same request goes out once more in that format. The
        # answer below counts only where that gets a bare 500 again, and nobody else was answered there meanwhile; else
        # there was an outage, and the call goes on above.
        below, call.response_format, call.format_under_test = call.response_format, call.format_under_test, None
        call.server_errors = 0
        again = await _send_once(call, registry, key)
        if isinstance(again, Completion) or not again.bare_500 or not limits.count_bare_500(call):
            return again
        call.response_format, call.format_confirmed = below, True
        return outcome

    most_tries = call.question.role.tries or call.context.attempts
    outcome = await pool.send(send, most_tries, lambda diagnosis: _adapt_request(call, registry, diagnosis))
    if isinstance(outcome, Completion):
        limits.learn_from_answer(call)
        return outcome
    call.response_format = call.format_under_test or call.response_format
    if outcome.kind == "refused":
        raise Refused(f"the provider declined: {outcome.message}", form="safety_error")
    tries = f" ({call.attempts} tries)" if outcome.is_transient and call.attempts > 1 else ""
    where = call.provider.describe_address_setting(outcome.kind, registry.environment)
    raise CallFailed(f"{outcome.kind.replace('_', ' ')}: {outcome.message}{tries}{where}", kind=outcome.kind)


async def _send_once(call: ModelCall, registry: ModelRegistry, key: str | None) -> Completion | Diagnosis:
    """Send one request with this key, if the allowance of the trial reaches for it. As `send_paid`."""
    return await send_paid(call, lambda: _send_request(call, registry, key))


async def _send_request(call: ModelCall, registry: ModelRegistry, key: str | None) -> Completion | Diagnosis:
    """Send one request with this key. Whoever listens by LangChain's callbacks hears it, as LangChain has it."""
    client, turns = registry.chat_client(call.model, call.provider, key), registry.limits[call.model].concurrency
    question, role = call.question, call.question.role
    asked = {"seat": role.seat, "role": role.name, "post_id": question.post.id, "policy": question.policy.sha}
    turn, timed_out, answered = await turns.acquire_slot(), False, False
    call.attempts += 1
    try:
        async with asyncio.timeout(call.context.timeout):
            one = client if call.stream else client.model_copy(update={"disable_streaming": True})
            metadata = {**(ensure_config().get("metadata") or {}), **asked}
            sent: list[Any] = [*call.messages()]
            message = await one.ainvoke(sent, {"metadata": metadata}, **call.request_options())
            completion = Completion.from_message(message, registry.secrets)
        answered = True
    except TimeoutError:
        timed_out = True
        return Diagnosis("timeout", f"no answer within {call.context.timeout:g} s. {_SLOW}")
    except Exception as error:  # noqa: BLE001 (every client has a tree of its own; `diagnose` tells them apart)
        shown = "\n".join(words for _, words in call.prompt_turns())
        return diagnose(error, sent=call.refusable_parts(), secrets=registry.secrets, shown=shown)
    finally:
        turns.release_slot(turn, timed_out=timed_out, answered=answered)
    call.note_completion(completion)
    # A server of one's own may cut a prompt and not say so. Of what it has in its cache it may not count anything; a
    # prompt that was cut fills a whole context.
    read = call.last_prompt_tokens
    is_cut = _SMALLEST_CONTEXT <= read < call.fewest_prompt_tokens
    if is_cut and not call.provider.needs_key(registry.environment):
        call.warn(f"{call.model} read {read} tokens of a longer prompt: its server cut the rest; give it more context")
    return completion


def _adapt_request(call: ModelCall, registry: ModelRegistry, diagnosis: Diagnosis) -> bool:
    """Leave out what a server refuses of a request's make-up; says whether to send it again at once.

    What was named is remembered once the request without it is answered.
    """
    if not diagnosis.bare_500:
        call.server_errors = 0
    match diagnosis.kind:
        case "format" if call.response_format != "prompt":
            call.use_next_format()
        case "bounds":
            call.bounds = frozenset()
        case "system":
            call.no_system = True
        case "too_long":
            return registry.limits[call.model].fit_output_limit(call, diagnosis.details)
        case "temperature":
            call.temperature = None
        case "stream":
            call.stream = False
        case "image" if registry.limits[call.model].sees_images:
            raise CallFailed(f"request: it takes images, but not this one: {diagnosis.message}", kind="request")
        case "image":
            registry.limits[call.model].note_refusal("image", call)  # without a text nothing more is answered
            call.leave_out_image()
        case _:
            _change_before_retry(call, registry, diagnosis)
            return False
    call.refused.add(diagnosis.kind)
    return True


def _change_before_retry(call: ModelCall, registry: ModelRegistry, diagnosis: Diagnosis) -> None:
    """Change a request whose fault may pass."""
    if diagnosis.kind == "timeout" and call.temperature == 0:
        # At this temperature a model that went round in circles does so again.
        call.raise_temperature()
        call.warn(f"no answer in time at temperature 0, asked again at {call.temperature:g}")
    if diagnosis.bare_500 and call.response_format != "prompt":
        # Some servers answer a format they don't know so, every time. Whether this one does is seen below the rung.
        call.server_errors += 1
        if registry.limits[call.model].count_bare_500(call) and call.server_errors >= 2:
            call.format_under_test = call.format_under_test or call.response_format
            call.use_next_format()
            call.server_errors = 0
