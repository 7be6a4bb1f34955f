"""One request of a call, past every passing fault: by which key, what is left out of it, and when it is sent again."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.runnables import ensure_config

from tribunal.errors import BudgetSpent, CallFailed, Refused
from tribunal.models.completion import Completion
from tribunal.models.diagnosis import Diagnosis, diagnose
from tribunal.models.model_call import ModelCall
from tribunal.models.paid_request import send_paid
from tribunal.models.registry import ModelRegistry

_SLOW = (
    "The model may be slow or go round in circles, or its server may answer fewer requests at a time than it is sent: "
    "raise timeout, lower max_output_tokens (both by --set) or --concurrency, or give the server more slots"
)
_SMALLEST_CONTEXT = 500


async def request_completion(call: ModelCall, registry: ModelRegistry) -> Completion:
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
            raise CallFailed(f"{failed.in_words}; {unpaid}", kind=failed.kind) from unpaid
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

    async def send_with_retries(tries: int | None = None) -> Completion | Diagnosis:
        return await pool.send(send, tries or most_tries, lambda diagnosis: _adapt_request(call, registry, diagnosis))

    if registry.server_wait is None or call.has_substitute:
        outcome = await send_with_retries()
    else:
        outcome = await registry.server_wait.send(call.provider, registry.environment, send_with_retries)
    if isinstance(outcome, Completion):
        limits.learn_from_answer(call)
        return outcome
    call.response_format = call.format_under_test or call.response_format
    if outcome.kind == "refused":
        raise Refused(f"the provider declined: {outcome.message}", form="safety_error")
    tries = f" ({call.attempts} tries)" if outcome.is_transient and call.attempts > 1 else ""
    where = call.provider.describe_address_setting(outcome.kind, registry.environment)
    raise CallFailed(f"{outcome.in_words}{tries}{where}", kind=outcome.kind)


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
        # Some servers answer a format they don't know so, every time. The next format shows whether this one does.
        call.server_errors += 1
        if registry.limits[call.model].count_bare_500(call) and call.server_errors >= 2:
            call.format_under_test = call.format_under_test or call.response_format
            call.use_next_format()
            call.server_errors = 0
