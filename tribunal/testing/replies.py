"""What a script answers with, and how long it takes."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from tribunal.testing.request import JSON, Request

_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_PIECE = 7
Events = tuple[list[bytes], list[bytes]]  # those that say an answer, and those that end it


class ScriptError(Exception):
    """A script ran out, raised, or answered something that is no answer."""


@dataclass(frozen=True)
class Reply:
    """An answer.

    Attributes:
        content: the text; a dict is sent as JSON.
        finish_reason: `stop`, `length` or `content_filter`, sent in the provider's own word; any other as it is.
        refusal: declines with this text: OpenAI's refusal field, Gemini's SAFETY (without the text), Anthropic's stop
            reason; Ollama has no form of its own, so there it is the content.
        thinking: what the model thinks aloud first, in the protocol's own field for it.
        prompt_tokens, completion_tokens: None for an estimate of four characters a token.
        delay: seconds, on top of the server's latency.
        extra: put at the top of the answer's body (`stop_reason`, `system_fingerprint`, …); for Gemini `block_reason`
            makes it a blocked prompt, which has no candidate.
    """

    content: str | JSON = ""
    finish_reason: str = "stop"
    refusal: str | None = None
    thinking: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    delay: float = 0.0
    extra: JSON = field(default_factory=dict)

    @cached_property
    def text(self) -> str:
        """The content as it goes out."""
        return self.content if isinstance(self.content, str) else _ENCODE(self.content)


@dataclass(frozen=True)
class Fault:
    """Anything but an answer.

    Attributes:
        status: HTTP status.
        message, code: put into the provider's own form of an error, unless `body` or `raw` is given.
        body: the JSON body as it goes out.
        raw: the body as it goes out, byte for byte.
        headers: further headers, such as Retry-After.
        delay: seconds until it happens.
        drop: close the connection: True before a byte of the answer, "middle" when half of it is out.
        hang: never answer; the request ends when the client goes.
        after: what is streamed of an answer before it happens, where the client streams: the fault is then in the
            middle of the stream, and a status is an event of that stream.
    """

    status: int = 500
    message: str = "scripted fault"
    code: str | None = None
    body: JSON | None = None
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool | Literal["middle"] = False
    hang: bool = False
    after: str = ""


Answer = Reply | Fault | str | JSON
Script = Callable[[Request], Answer | Awaitable[Answer]]


class InOrder:
    """A script of given answers in turn, one a request; an item may itself be a script, asked for that one request.

    The request after the last one gets HTTP 599, and leaving the server's `with` block raises ScriptError.
    """

    def __init__(self, answers: Iterable[Answer | Script]) -> None:
        """Begin before the first answer."""
        self._answers = list(answers)
        self.played = 0

    @property
    def remaining(self) -> int:
        """How many answers haven't been asked for."""
        return len(self._answers) - self.played

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        """Return the next answer."""
        if not self.remaining:
            raise ScriptError(f"the script of {self.played} answers has run out")
        answer = self._answers[self.played]
        self.played += 1
        return answer(request) if callable(answer) else answer


in_order = InOrder


@dataclass(frozen=True)
class Latency:
    """How long the server takes for an answer: `seconds`, or drawn evenly from `seconds` ± `spread` × `seconds`.

    A draw depends on the seed, the request's key (its mark `[[key=…]]`) and which request of that key it is, and not on
    the order of arrival: so the same posts take the same time whatever the client does.
    """

    seconds: float = 0.0
    spread: float = 0.0
    seed: int = 0

    def seconds_for(self, key: str, nth: int) -> float:
        """Return the seconds for the nth request (from 0) of this key."""
        if not self.spread:
            return self.seconds
        return self.seconds * random.Random(f"{self.seed}:{key}:{nth}").uniform(1 - self.spread, 1 + self.spread)


def encoded(body: Any) -> bytes:
    """Encode JSON as it goes out."""
    return _ENCODE(body).encode()


def pieces(text: str) -> list[str]:
    """Cut a text as it is streamed, without regard to its words, as tokens are."""
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def event(body: JSON, kind: str = "") -> bytes:
    """Encode an event of a stream, as browsers know it."""
    return (f"event: {kind}\n".encode() if kind else b"") + b"data: " + encoded(body) + b"\n\n"
