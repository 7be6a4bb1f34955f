"""Paying for a request from its trial's allowance: the most it can cost before it is sent, then what it did cost."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from tribunal.allowance import Allowance, PaidRequest, current_allowance
from tribunal.errors import BudgetSpent, CallFailed
from tribunal.models.completion import Completion
from tribunal.models.faults import Fault
from tribunal.models.model_call import ModelCall


async def send_paid(call: ModelCall, send: Callable[[], Awaitable[Completion | Fault]]) -> Completion | Fault:
    """Send a request, and count what it cost.

    An answer costs what the provider says, or an estimate; a request that failed costs no tokens; one
    that timed out or was broken off costs its most, since it may have been answered.

    Raises:
        BudgetSpent: the allowance reaches for it, but not for the last word of the case after it; it wasn't sent.
        CallFailed: the allowance doesn't reach for the last word itself.
    """
    allowance = current_allowance()
    request = _begin_request(allowance, call)
    try:
        outcome = await send()
        if isinstance(outcome, Fault):
            if outcome.kind != "timeout":
                allowance.note_tokens(request, 0, 0, 0)
        else:
            usage = outcome.usage
            allowance.note_tokens(request, usage.prompt or 0, usage.cached, usage.answer or 0)
    finally:
        allowance.end(request)
    return outcome


def _begin_request(allowance: Allowance, call: ModelCall) -> PaidRequest:
    prompt_tokens = call.most_prompt_tokens
    if allowance.counts_tokens and call.response_format == "json_schema":  # else the form is part of the words
        prompt_tokens += len(json.dumps(call.answer_schema(call.bounds))) // 3
    role = call.question.role
    request = allowance.begin(str(call.model), prompt_tokens, call.max_output_tokens, final=role.final)
    if request is not None:
        return request
    words = f"what this post may take of its key's daily budget was spent before the {role.seat} could"
    if role.final:
        raise CallFailed(f"{words} decide", kind="budget")
    raise BudgetSpent(f"{words} speak")
