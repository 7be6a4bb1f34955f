"""What servers have shown of their models and keys so far, and how a request is sent within it.

A key that is declined is retired, and one that is limited rests. What was refused of a request isn't sent each time;
but nothing of it holds for ever. A lesson is of one model; of the format and its bounds it is of one role too, since a
server may refuse one form's grammar and take another's. It is forgotten when the server takes what it refused, and from
time to time a call is sent in full to see whether it does.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tribunal.errors import BadModelOutput, CallFailed
from tribunal.models.diagnosis import Diagnosis, parse_token_space
from tribunal.models.model_call import RESPONSE_FORMATS, ModelCall, RequestPart
from tribunal.models.providers import ResponseFormat
from tribunal.models.role import END_OF_THINKING, is_unended_thinking

Result = TypeVar("Result")
LONGEST_REST = 120.0


def retry_delay(tries: int) -> float:
    """Return the seconds to wait after so many tries, where no server asked for some: doubling, with jitter."""
    return float(min(20.0, 0.5 * 2 ** (tries - 1)) * random.uniform(0.75, 1.25))


class KeyPool:
    """The keys of one provider, known outside by their number alone."""

    def __init__(
        self, provider: str, keys: list[str], on_rest: Callable[[str, int, float], None] = lambda *rest: None
    ) -> None:
        """Begin with the first key.

        Args:
            provider: its name.
            keys: the keys themselves; none where it takes none.
            on_rest: is told of every rest that a server asks for: the provider, the key's number, the seconds.
        """
        self._provider, self._on_rest = provider, on_rest
        self.keys: list[str | None] = list(keys) or [None]
        self._retired: dict[int, tuple[str, str]] = {}
        self._rests_until: dict[int, float] = {}
        self._next = 0

    async def send(
        self,
        send: Callable[[int], Awaitable[Result | Diagnosis]],
        most_tries: int,
        adapt: Callable[[Diagnosis], bool] = lambda diagnosis: False,
    ) -> Result | Diagnosis:
        """Send a request, again after passing faults, and return its answer.

        A key that is declined is retired, and one that is limited rests; another takes over. A rate limit that all
        keys share, a server's error, a timeout or a lost connection costs a try.

        Args:
            send: sends the request with the key of this number; gives its answer, or what went wrong.
            most_tries: how many tries there are.
            adapt: is told what went wrong, unless it was the key; says whether it has changed the request so that it
                is worth sending again at once.

        Returns:
            The answer; or what went wrong, where that doesn't pass or the tries are used up.

        Raises:
            CallFailed: no key is left, or all rest for too long.
        """
        requests = tries = 0
        other_keys = len(self.keys) - 1
        while True:
            key = await self.next_key()
            outcome = await send(key)
            if not isinstance(outcome, Diagnosis):
                return outcome
            requests += 1
            pause: float | None = None
            if outcome.kind in ("authentication", "quota"):
                self._retired[key] = outcome.kind, outcome.message
                continue
            if outcome.kind == "rate_limit":
                self.rest_key(key, retry_delay(requests) if outcome.retry_after is None else outcome.retry_after)
                if other_keys and self.rested_keys():
                    other_keys -= 1  # another key can be used at once, which is no new try
                    continue
                pause = 0.0  # `next_key` waits
            elif adapt(outcome):
                continue
            elif not outcome.is_transient:
                return outcome
            elif outcome.retry_after is not None:
                if outcome.retry_after > LONGEST_REST:
                    return replace(outcome, message=f"{outcome.message}: asks to wait {outcome.retry_after:.0f} s")
                pause = outcome.retry_after
            tries += 1
            if tries == most_tries:
                return outcome
            await asyncio.sleep(retry_delay(tries) if pause is None else pause)
            other_keys = len(self.keys) - 1

    async def next_key(self) -> int:
        """Return the number of the next key that may be used; where all of them rest, wait for one.

        Raises:
            CallFailed: every key was refused, or the shortest rest is longer than `LONGEST_REST` seconds.
        """
        if len(self.keys) == 1 and not self._retired and not self._rests_until:
            return 0
        while len(self._retired) < len(self.keys):
            if rested := self.rested_keys():
                number = min(rested, key=lambda each: (each - self._next) % len(self.keys))
                self._next = number + 1
                return number
            rests = (until for number, until in self._rests_until.items() if number not in self._retired)
            wait = min(rests) - time.monotonic()
            if wait > LONGEST_REST:
                words = f"{self._provider}: rate limit: the server asks to wait {wait:.0f} s"
                raise CallFailed(words, kind="rate_limit")
            await asyncio.sleep(wait)
        kind, why = next(iter(self._retired.values()))
        number_of_keys = "" if len(self.keys) == 1 else f" (all {len(self.keys)} keys)"
        raise CallFailed(f"{self._provider}: {kind}: {why}{number_of_keys}", kind=kind)

    def rested_keys(self) -> list[int]:
        """Return the numbers of the keys that may be used at once."""
        now, usable = time.monotonic(), [each for each in range(len(self.keys)) if each not in self._retired]
        return [number for number in usable if self._rests_until.get(number, 0.0) <= now]

    def restore_keys(self) -> None:
        """Use keys again that were declined."""
        self._retired.clear()

    def rest_key(self, number: int, seconds: float, *, quietly: bool = False) -> None:
        """Don't use a key for so long, as a server asked.

        Args:
            number: the key's.
            seconds: how long.
            quietly: whether others that use it know of it, and aren't told.
        """
        self._rests_until[number] = max(self._rests_until.get(number, 0.0), time.monotonic() + seconds)
        if not quietly:
            self._on_rest(self._provider, number, seconds)


# After so many calls without a part, one is sent in full; each time that it is refused again, after twice as many.
RETRY_AFTER, LONGEST_RETRY = 32, 1024
# So many calls have to show that bare 500s are for the format, with none in between that was answered in it.
CONFIRMATIONS_NEEDED = 3
# A server that has answered in a format knows it; so many bare 500s in a row say that it may be another by now.
OUTAGE = 20
# With less room than this an answer isn't asked for.
LEAST_OUTPUT_TOKENS, MOST_OUTPUT_TOKENS = 256, 32_768
_NO_ROOM = "the answer was cut off at {} tokens, and the model's context has room for no more"


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
    """Limits that a server has shown of one model so far.

    Attributes:
        sees_images: whether it has taken an image.
        context_size: how many tokens its context has; None: that isn't known.
        concurrency: how many requests may be under way at a time.
    """

    sees_images: bool = False
    context_size: int | None = None
    concurrency: ConcurrencyLimit = field(default_factory=ConcurrencyLimit)
    _refused_parts: dict[tuple[str, RequestPart], RefusedPart] = field(default_factory=dict)
    _bare_500s: dict[tuple[str, ResponseFormat], int] = field(default_factory=dict)  # of a role, since the last answer
    _confirmations: dict[str, int] = field(default_factory=dict)

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
        at = call.question.role.name, call.response_format
        if at in self._bare_500s:
            self._bare_500s[at] += 1
        return self._bare_500s.get(at, OUTAGE) >= OUTAGE

    def learn_from_answer(self, call: ModelCall) -> None:
        """Take note of what has just been answered to."""
        if call.image and not call.without_image:
            self.sees_images = True
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
        limit, context = call.max_output_tokens, self.context_size
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

    def fit_output_limit(self, call: ModelCall, complaint: str) -> bool:
        """Ask for no longer an answer than the context has room for; return whether there is room for one.

        Raises:
            BadModelOutput: it was cut off before, and there is room for no more.
        """
        space, limit = parse_token_space(complaint), call.max_output_tokens
        if space.context:
            self.context_size = space.context
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
        role, form = call.question.role.name, call.response_format
        self._bare_500s[role, form] = 0
        if form == RESPONSE_FORMATS[0]:
            self._refused_parts.pop(_part_key("format", call), None)
            self._confirmations.pop(role, None)
            return
        if call.format_confirmed:
            call.format_confirmed = False
            self._confirmations[role] = self._confirmations.get(role, 0) + 1
        if "format" in call.refused or self._confirmations.get(role, 0) >= CONFIRMATIONS_NEEDED:
            self.note_refusal("format", call).response_format = form


def _part_key(part: RequestPart, call: ModelCall) -> tuple[str, RequestPart]:
    return call.question.role.name if part in ("format", "bounds") else "", part
