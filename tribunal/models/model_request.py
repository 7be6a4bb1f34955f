"""One request to a model: paid for, made to fit the context, and sent down the ladder."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig, ensure_config

from tribunal.errors import BadModelOutput, BudgetSpent, CallFailed, Refused
from tribunal.models.budget import current_allowance
from tribunal.models.completion import Completion
from tribunal.models.faults import Fault, read_fault, read_finish
from tribunal.models.ladder import Ladder, Learnt
from tribunal.models.model_call import ModelCall
from tribunal.models.providers.langchain import bind_form
from tribunal.models.registry import ModelRegistry
from tribunal.models.role import END_OF_THINKING, is_unended_thinking
from tribunal.process.model_objects import model_settings_in, replace_models

# With less room than this an answer isn't asked for.
LEAST_OUTPUT_TOKENS = 256
MOST_OUTPUT_TOKENS = 32_768
_NO_ROOM = "the answer was cut off at {} tokens, and the model's context has room for no more"

_CONTEXT = re.compile(
    r"maximum context length (?:is|of) (\d+)|context (?:size|length|window)\w* (?:of only |of |is )?\(?(\d+)"
    r"|['\"]n_ctx['\"]: ?(\d+)|context limit: \d+ \+ \d+ > (\d+)",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    r"(\d+) (?:tokens )?in the messages|(\d+) input tokens|['\"]n_prompt_tokens['\"]: ?(\d+)|request \((\d+) tokens\)"
    r"|context limit: (\d+) \+",
    re.IGNORECASE,
)
_OUTPUT = re.compile(
    r"at most (\d+) (?:completion|output) tokens|max_tokens: \d+ > (\d+)|range of max_tokens should be \[\d+, ?(\d+)\]",
    re.IGNORECASE,
)


class TokenSpace(NamedTuple):
    """The numbers of tokens in a server's complaint; None where it says none: of the context, the prompt, an answer."""

    context: int | None
    prompt: int | None
    answer: int | None

    def room_for_answer(self, prompt_tokens: int) -> int | None:
        """Return the longest possible answer in tokens, or None if it isn't known.

        Args:
            prompt_tokens: how many the prompt has by an earlier answer's count; 0: there was none.
        """
        prompt = self.prompt or prompt_tokens
        beside = self.context - prompt if self.context and prompt else None
        return min((each for each in (self.answer, beside) if each is not None), default=None)


def parse_token_space(complaint: str) -> TokenSpace:
    """Read the room that a server reports when a request asks for too much."""
    found = (pattern.search(complaint) for pattern in (_CONTEXT, _PROMPT, _OUTPUT))
    return TokenSpace(*(each and int(next(filter(None, each.groups()))) for each in found))


def raise_output_limit(call: ModelCall, learnt: Learnt) -> None:
    """Let an answer be longer that was cut off, once, and no longer than the model's context is known to hold.

    Raises:
        BadModelOutput: it was cut off before, or there is room for no more.
    """
    limit = call.max_output_tokens
    context = learnt.context_size
    # A server that keeps thoughts apart answers nothing where they fill the limit.
    thinks = not call.answer_text.strip() or is_unended_thinking(call.answer_text)
    if call.cut_at is not None:
        why = f": {END_OF_THINKING}" if thinks else ""
        raise BadModelOutput(
            f"the answer was cut off twice, the second time at {call.last_completion_tokens or limit} of "
            f"{limit} tokens, after a prompt of {call.last_prompt_tokens}{why}"
        )
    if thinks:
        call.warn(f"{call.model} was cut off at {limit} tokens, and asked again: {END_OF_THINKING}")
    call.cut_at = limit
    most = MOST_OUTPUT_TOKENS
    if context and call.last_prompt_tokens:
        most = min(most, context - call.last_prompt_tokens)
        if most <= limit:
            raise BadModelOutput(
                _NO_ROOM.format(limit) + (f": {END_OF_THINKING}" if thinks else "")
            )
    call.max_output_tokens = max(limit, min(limit * 4, most))


def fit_output_limit(call: ModelCall, learnt: Learnt, complaint: str) -> bool:
    """Ask for no longer an answer than the context has room for; return whether there is room for one.

    Raises:
        BadModelOutput: it was cut off before, and there is room for no more.
    """
    space = parse_token_space(complaint)
    limit = call.max_output_tokens
    if space.context:
        learnt.context_size = space.context
    room = space.room_for_answer(call.last_prompt_tokens)
    if call.cut_at is not None:  # this much was refused, and less was too little
        room = limit // 2 if room is None else room
        if not call.cut_at < room < limit:
            raise BadModelOutput(_NO_ROOM.format(call.cut_at))
    elif room is None or not LEAST_OUTPUT_TOKENS <= room < limit:
        return False
    else:
        call.warn(f"{call.model} has room for {room} tokens of answer, and not for {limit}")
    call.max_output_tokens = room
    return True


_SLOW = (
    "The model may be slow or go round in circles, or its server may answer fewer requests at a time than it is sent: "
    "raise timeout, lower max_output_tokens (both by --set) or --concurrency, or give the server more slots"
)
_SMALLEST_CONTEXT = 500


async def request_completion(call: ModelCall, registry: ModelRegistry) -> Completion:
    """Return one answer, past every passing fault."""
    pool = registry.key_pool(call.model, call.provider)
    learnt = registry.lessons_of(call.model, call.provider)
    ladder = Ladder(call, learnt)
    failed: Fault | None = None
    is_proven = True

    async def send(number: int) -> Completion | Fault:
        nonlocal failed, is_proven
        key = pool.keys[number]
        call.key = None if key is None else number
        try:
            outcome = await _send_once(call, registry, key)
        except (BudgetSpent, CallFailed) as unpaid:
            if failed is None:
                raise
            # What kept it from being answered is why the try before failed; a trial that can wait then goes on later.
            raise CallFailed(f"{failed.in_words}; {unpaid}", kind=failed.kind) from unpaid
        failed = outcome if isinstance(outcome, Fault) and outcome.is_transient else None
        if isinstance(outcome, Fault) or not ladder.is_unsure:
            return outcome
        # It came after bare 500s, without what may be refused. The full request goes out once more: if it is answered
        # now, there was an outage, and nothing is refused.
        left_out = ladder.restore()
        again = await _send_once(call, registry, key)
        if isinstance(again, Completion):
            return again
        call.left_out = left_out
        is_proven = again.status == 500
        return outcome

    def adapt(fault: Fault) -> bool:
        if fault.kind == "too_long":
            return fit_output_limit(call, learnt, fault.details)
        if fault.kind == "timeout" and call.temperature == 0:
            # At this temperature a model that went round in circles does so again.
            call.raise_temperature()
            call.warn(f"no answer in time at temperature 0, asked again at {call.temperature:g}")
        return ladder.adapt(fault)

    async def send_with_retries(tries: int | None = None) -> Completion | Fault:
        most_tries = tries or call.question.role.tries or call.context.attempts
        return await pool.send(send, most_tries, adapt, longest_rest=call.context.timeout)

    if registry.server_wait is None or call.has_substitute:
        outcome = await send_with_retries()
    else:
        outcome = await registry.server_wait.send(
            call.provider, registry.environment, send_with_retries
        )
    if isinstance(outcome, Completion):
        ladder.note_answer(is_proven=is_proven)
        return outcome
    ladder.restore()
    if outcome.kind == "refused":
        raise Refused(f"the provider declined: {outcome.message}", form="safety_error")
    tries = f" ({call.attempts} tries)" if outcome.is_transient and call.attempts > 1 else ""
    where = call.provider.describe_address_setting(outcome.kind, registry.environment)
    raise CallFailed(f"{ladder.failure(outcome)}{tries}{where}", kind=outcome.kind)


async def _send_once(
    call: ModelCall, registry: ModelRegistry, key: str | None
) -> Completion | Fault:
    """Send one request with this key, and count its cost.

    An answer costs the tokens that the provider reports, or an estimate; a failed request costs no tokens; one
    that timed out or was broken off costs its most, since it may have been answered.

    Raises:
        BudgetSpent: the allowance reaches for it, but not for the last word of the case after it; it wasn't sent.
        CallFailed: the allowance doesn't reach for the last word itself.
    """
    allowance = current_allowance()
    role = call.question.role
    prompt_tokens = call.most_prompt_tokens
    if (
        allowance.counts_tokens and call.response_format == "json_schema"
    ):  # else the form is part of the words
        prompt_tokens += len(json.dumps(call.answer_schema(call.bounds))) // 3
    request = allowance.begin(
        str(call.model), prompt_tokens, call.max_output_tokens, final=role.final
    )
    if request is None:
        words = f"what this post may take of its key's daily budget was spent before the {role.seat} could"
        if role.final:
            raise CallFailed(f"{words} decide", kind="budget")
        raise BudgetSpent(f"{words} speak")
    try:
        outcome = await _send_request(call, registry, key)
        if isinstance(outcome, Completion):
            usage = outcome.usage
            allowance.note_tokens(request, usage.prompt or 0, usage.cached, usage.answer or 0)
        elif outcome.kind != "timeout":
            allowance.note_tokens(request, 0, 0, 0)
    finally:
        allowance.end(request)
    return outcome


async def _send_request(
    call: ModelCall, registry: ModelRegistry, key: str | None
) -> Completion | Fault:
    """Send one request with this key. LangChain's callbacks see it as usual."""
    client = registry.chat_client(call.model, call.provider, key)
    turns = registry.concurrency[call.model]
    question = call.question
    role = call.question.role
    asked = {
        "seat": role.seat,
        "role": role.name,
        "post_id": question.post.id,
        "policy": question.policy.sha,
    }
    turn = await turns.acquire_slot()
    timed_out = False
    answered = False
    call.attempts += 1
    config = ensure_config()
    call.is_streamed = call.provider.always_streams or _is_listened_to(config.get("callbacks"))
    try:
        async with asyncio.timeout(call.context.timeout):
            wanted = call.request_settings()
            one = call.provider.adjust(client, wanted)
            if call.level("stream"):
                one = replace_models(one, _without_streaming)
            if call.response_format == "tool_call":
                one = bind_form(one, wanted.envelope, choose=call.chooses_tool)
            told: RunnableConfig = {
                "run_name": question.run_name,
                "metadata": {**(config.get("metadata") or {}), **asked},
            }
            if call.provider.client is not None:
                told["configurable"] = model_settings_in(config)
            sent: list[Any] = [*call.messages()]
            message = await one.ainvoke(sent, told, **call.request_options(wanted))
            completion = Completion.from_message(message, registry.secrets)
        answered = True
    except TimeoutError:
        timed_out = True
        return Fault("timeout", f"no answer within {call.context.timeout:g} s. {_SLOW}")
    except Exception as error:  # noqa: BLE001 (every client has a tree of its own; `read_fault` tells them apart)
        shown = "\n".join(words for _, words in call.prompt_turns())
        return read_fault(error, secrets=registry.secrets, shown=shown)
    finally:
        turns.release_slot(turn, timed_out=timed_out, answered=answered)
    completion = await call.estimate_missing(completion)
    call.note_completion(completion)
    # A server of one's own may cut a prompt and not say so. Of what it has in its cache it may not count anything; a
    # prompt that was cut fills a whole context.
    read = call.last_prompt_tokens
    is_cut = _SMALLEST_CONTEXT <= read < call.fewest_prompt_tokens
    if is_cut and not call.provider.needs_key(registry.environment):
        call.warn(
            f"{call.model} read {read} tokens of a longer prompt: its server cut the rest; give it more context"
        )
    fault = read_finish(completion.finish_reason)
    return fault if fault and fault.kind != "refused" else completion


def _without_streaming(model: Any) -> Any:
    can_be_told = "disable_streaming" in getattr(type(model), "model_fields", ())
    return model.model_copy(update={"disable_streaming": True}) if can_be_told else model


def _is_listened_to(callbacks: Any) -> bool:
    """Return whether a handler takes an answer word by word, for which LangChain has the client stream."""
    handlers = getattr(callbacks, "handlers", callbacks) or ()
    return any(hasattr(handler, "tap_output_aiter") for handler in handlers)
