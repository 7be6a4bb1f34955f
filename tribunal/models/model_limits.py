"""What servers have shown of their models so far, so that what was refused isn't sent each time.

Nothing of it holds for ever. A lesson is of one model; of the format and its bounds it is of one role too, since a
server may refuse one form's grammar and take another's. It is forgotten when the server takes what it refused, and from
time to time a call is sent in full to see whether it does.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tribunal.errors import BadModelOutput
from tribunal.models.model_call import RESPONSE_FORMATS, ModelCall, RequestPart
from tribunal.models.providers import ModelName, ResponseFormat

# After so many calls without a part, one is sent in full; each time that it is refused again, after twice as many.
RETRY_AFTER, LONGEST_RETRY = 32, 1024
# So many calls have to show that bare 500s are for the format, with none in between that was answered in it.
CONFIRMATIONS_NEEDED = 3
# A server that has answered in a format knows it; so many bare 500s in a row say that it may be another by now.
OUTAGE = 20
# With less room than this an answer isn't asked for.
LEAST_OUTPUT_TOKENS, MOST_OUTPUT_TOKENS = 256, 32_768
_NO_ROOM = "the answer was cut off at {} tokens, and the model's context has room for no more"


@dataclass
class RefusedPart:
    """A part of the request that was refused; of the format, the one that was taken instead."""

    response_format: ResponseFormat = "json_schema"
    asked: int = 0
    patience: int = RETRY_AFTER

    def is_due(self) -> bool:
        """Return whether this call is the one that is sent in full."""
        self.asked += 1
        if self.asked < self.patience:
            return False
        self.asked, self.patience = 0, min(2 * self.patience, LONGEST_RETRY)
        return True


@dataclass
class ModelLimits:
    """Limits that servers have shown of their models so far.

    Attributes:
        sees_images: models that have taken an image.
        context_sizes: how many tokens a model's context has.
        concurrency: how many requests to a model may be under way at a time.
    """

    sees_images: set[ModelName] = field(default_factory=set)
    context_sizes: dict[ModelName, int] = field(default_factory=dict)
    concurrency: defaultdict[ModelName, ConcurrencyLimit] = field(default_factory=lambda: defaultdict(ConcurrencyLimit))
    _refused_parts: dict[tuple[ModelName, str, RequestPart], RefusedPart] = field(default_factory=dict)
    _bare_500s: dict[tuple[ModelName, str, ResponseFormat], int] = field(default_factory=dict)  # since the last answer
    _confirmations: dict[tuple[ModelName, str], int] = field(default_factory=dict)

    def drop_objects(self, numbers: set[int]) -> None:
        """Forget the lessons of model objects that are gone."""
        self.sees_images = {model for model in self.sees_images if model.number not in numbers}
        for model in [each for each in self.context_sizes if each.number in numbers]:
            del self.context_sizes[model]
        for model in [each for each in self.concurrency if each.number in numbers]:
            del self.concurrency[model]
        lessons: tuple[dict[Any, Any], ...] = (self._refused_parts, self._bare_500s, self._confirmations)
        for held in lessons:
            for at in [each for each in held if each[0].number in numbers]:
                del held[at]

    def leaves_out(self, part: RequestPart, call: ModelCall) -> bool:
        """Return whether a call is sent without this part."""
        lesson = self._refused_parts.get(_part_key(part, call)) if self._refused_parts else None
        return lesson is not None and not lesson.is_due()

    def choose_format(self, call: ModelCall) -> ResponseFormat:
        """Return the response format to ask a call's answer in."""
        if call.question.role.plain or not call.provider.takes_schema:
            return "prompt"
        return (
            self._refused_parts[_part_key("format", call)].response_format
            if self.leaves_out("format", call)
            else RESPONSE_FORMATS[0]
        )

    def note_refusal(self, part: RequestPart, call: ModelCall) -> RefusedPart:
        """Take note that a server has named this part as one that it doesn't take."""
        return self._refused_parts.setdefault(_part_key(part, call), RefusedPart())

    def count_bare_500(self, call: ModelCall) -> bool:
        """Count a bare 500; return whether the format may be why: not where the server has answered in it."""
        at = (*_role_key(call), call.response_format)
        if at in self._bare_500s:
            self._bare_500s[at] += 1
        return self._bare_500s.get(at, OUTAGE) >= OUTAGE

    def learn_from_answer(self, call: ModelCall) -> None:
        """Take note of what has just been answered to."""
        if call.image and not call.without_image:
            self.sees_images.add(call.model)
        if call.stream and not call.last_prompt_tokens:
            call.refused.add("stream")  # it may say what was used of a whole answer alone
            call.stream = False
        if self._refused_parts or call.refused:
            sent = call.refusable_parts()
            for part in sent - {"format"}:
                self._refused_parts.pop(_part_key(part, call), None)
            for part in call.refused - sent:
                self.note_refusal(part, call)
        if not call.question.role.plain:
            self._learn_format(call)

    def raise_output_limit(self, call: ModelCall) -> None:
        """Let an answer be longer that was cut off, once, and no longer than the model's context is known to hold.

        Raises:
            BadModelOutput: it was cut off before, or there is room for no more.
        """
        limit, context = call.max_output_tokens, self.context_sizes.get(call.model)
        if call.cut_at is not None:
            raise BadModelOutput(
                f"the answer was cut off twice, the second time at {call.last_completion_tokens or limit} of "
                f"{limit} tokens, after a prompt of {call.last_prompt_tokens}"
            )
        call.cut_at, most = limit, MOST_OUTPUT_TOKENS
        if context and call.last_prompt_tokens:
            most = min(most, context - call.last_prompt_tokens)
            if most <= limit:
                raise BadModelOutput(_NO_ROOM.format(limit))
        call.max_output_tokens = max(limit, min(limit * 4, most))

    def fit_output_limit(self, call: ModelCall, complaint: str) -> bool:
        """Ask for no longer an answer than the context has room for; return whether there is room for one.

        Raises:
            BadModelOutput: it was cut off before, and there is room for no more.
        """
        space, limit = parse_token_space(complaint), call.max_output_tokens
        if space.context:
            self.context_sizes[call.model] = space.context
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

    def _learn_format(self, call: ModelCall) -> None:
        of, rung = _role_key(call), call.response_format
        self._bare_500s[*of, rung] = 0
        if rung == RESPONSE_FORMATS[0]:
            self._refused_parts.pop(_part_key("format", call), None)
            self._confirmations.pop(of, None)
            return
        if call.format_confirmed:
            call.format_confirmed = False
            self._confirmations[of] = self._confirmations.get(of, 0) + 1
        if "format" in call.refused or self._confirmations.get(of, 0) >= CONFIRMATIONS_NEEDED:
            self.note_refusal("format", call).response_format = rung


def _part_key(part: RequestPart, call: ModelCall) -> tuple[ModelName, str, RequestPart]:
    return call.model, call.question.role.name if part in ("format", "bounds") else "", part


def _role_key(call: ModelCall) -> tuple[ModelName, str]:
    return call.model, call.question.role.name


# After so many answers for each request at a time, a number that timed out before is tried again.
_PATIENCE = 10


class ConcurrencyLimit:
    """Turns at one model, of one event loop.

    A server that answers one request at a time makes the others wait, and they time out while it works. So a request
    that times out halves the number of those that may be under way, unless as many were answered while it waited: then
    it is slow by itself. Answers raise the number again, one by one: quickly to just below the one that timed out,
    slowly beyond it.

    Attributes:
        limit: how many may be under way now; None: any number.
        lowered: how often it was lowered.
        lowest: the lowest that it has been; None where it never was lowered.
    """

    def __init__(self) -> None:
        """Begin without a limit."""
        self.limit: int | None = None
        self.lowered = 0
        self.lowest: int | None = None
        self._under_way = self._answers = self._since = self._too_many = self._most = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire_slot(self) -> tuple[int, int]:
        """Wait for a turn; return what `release_slot` is to be told."""
        if self.limit is None or self._under_way < self.limit:
            self._under_way += 1
            return self.lowered, self._answers
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free_slot()
            raise
        return self.lowered, self._answers

    def release_slot(self, taken: tuple[int, int], *, timed_out: bool = False, answered: bool = False) -> None:
        """End a turn; `taken` is what `acquire_slot` gave."""
        if timed_out:
            self._lower_limit(*taken)
        elif answered:
            self._answers += 1
            self._raise_limit_after_enough_calls()
        self._free_slot()

    def _lower_limit(self, lowered: int, answers: int) -> None:
        # One crowd times out as one: of those that began before the number was lowered, none lowers it once more.
        if self._under_way < 2 or lowered < self.lowered or self._answers - answers >= self._under_way:
            return
        self._most = max(self._most, self._under_way)
        self._too_many, self._since = self._under_way, 0
        self.limit = self._under_way // 2
        self.lowered += 1
        self.lowest = min(self.limit, self.lowest or self.limit)

    def _raise_limit_after_enough_calls(self) -> None:
        if self.limit is None:
            return
        self._since += 1
        if self._since >= self.limit * (_PATIENCE if self.limit + 1 >= self._too_many else 1):
            self._since, self.limit = 0, self.limit + 1
            if self.limit >= self._most:
                self.limit = None

    def _free_slot(self) -> None:
        self._under_way -= 1
        while self._waiting and (self.limit is None or self._under_way < self.limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self._under_way += 1
                turn.set_result(None)


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
