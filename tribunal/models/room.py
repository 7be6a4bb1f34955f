"""The room that an answer has: a limit that cut one off is raised, and one that doesn't fit the context is lowered."""

from __future__ import annotations

import re
from typing import NamedTuple

from tribunal.errors import BadModelOutput
from tribunal.models.ladder import Learnt
from tribunal.models.model_call import ModelCall
from tribunal.models.role import END_OF_THINKING, is_unended_thinking

# With less room than this an answer isn't asked for.
LEAST_OUTPUT_TOKENS, MOST_OUTPUT_TOKENS = 256, 32_768
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
    limit, context = call.max_output_tokens, learnt.context_size
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
    call.cut_at, most = limit, MOST_OUTPUT_TOKENS
    if context and call.last_prompt_tokens:
        most = min(most, context - call.last_prompt_tokens)
        if most <= limit:
            raise BadModelOutput(_NO_ROOM.format(limit) + (f": {END_OF_THINKING}" if thinks else ""))
    call.max_output_tokens = max(limit, min(limit * 4, most))


def fit_output_limit(call: ModelCall, learnt: Learnt, complaint: str) -> bool:
    """Ask for no longer an answer than the context has room for; return whether there is room for one.

    Raises:
        BadModelOutput: it was cut off before, and there is room for no more.
    """
    space, limit = parse_token_space(complaint), call.max_output_tokens
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
