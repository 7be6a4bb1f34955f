"""How much room a context leaves for an answer, by what servers say when it isn't enough."""

from __future__ import annotations

import re
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Space:
    """The numbers of tokens in a server's complaint; None where it says none: of the context, the prompt, an answer."""

    context: int | None
    prompt: int | None
    answer: int | None

    def left(self, prompt_tokens: int) -> int | None:
        """How long an answer may be; None where that isn't said.

        Args:
            prompt_tokens: how many the prompt has by an earlier answer's count; 0: there was none.
        """
        prompt = self.prompt or prompt_tokens
        beside = self.context - prompt if self.context and prompt else None
        return min((each for each in (self.answer, beside) if each is not None), default=None)


def space_in(complaint: str) -> Space:
    """What a server says of the room that there is, when a request asks for more."""
    return Space(_number(_CONTEXT, complaint), _number(_PROMPT, complaint), _number(_OUTPUT, complaint))


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(next(group for group in found.groups() if group)) if found else None
