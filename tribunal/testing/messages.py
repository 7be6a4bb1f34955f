"""What a chat model is asked over the wire, and what a script answers."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

JSON = dict[str, Any]
Protocol = Literal["openai", "gemini", "anthropic", "ollama", "moderations"]

_HINT = re.compile(r"\[\[(\w+)=([^\[\]]*)\]\]")
_ROLES = {"model": "assistant", "developer": "system"}
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_PIECE = 7
Events = tuple[list[bytes], list[bytes]]  # those that say an answer, and those that end it


@dataclass
class RequestContent:
    """A request by its body, whatever its protocol.

    `messages` are (role, text), roles by their OpenAI names (system, user, assistant). `images` are the picture parts
    in order, as data URIs or URLs. `response_format` is as it was sent, whatever the provider calls it; `schema` is the
    JSON schema in it.
    """

    model: str = ""
    messages: list[tuple[str, str]] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    temperature: float | None = None
    max_tokens: int | None = None
    response_format: Any = None
    schema: JSON | None = None

    def add(self, role: str, words: list[str]) -> None:
        """Add a message, by the name that the protocol has for its role."""
        self.messages.append((_ROLES.get(role, role), "\n".join(words)))

    @cached_property
    def text(self) -> str:
        """Everything in words that the model was shown."""
        return "\n\n".join(text for _, text in self.messages)

    @cached_property
    def hints(self) -> dict[str, str]:
        """The marks `[[name=value]]` in what was shown; of two with one name the first counts."""
        return dict(reversed(_HINT.findall(self.text))) if "[[" in self.text else {}

    @property
    def format(self) -> Literal["json_schema", "json_object", ""]:
        """Return whether a schema, bare JSON or nothing was asked for."""
        if self.schema is not None:
            return "json_schema"
        return "json_object" if self.response_format else ""


@dataclass(kw_only=True)
class Request(RequestContent):
    """One request. Times are seconds of the machine's monotonic clock.

    `latency` is what the server was told to take. `finished` stays None while the request is under way; `status` stays
    None for one whose connection was dropped, or that the client didn't wait for.
    """

    protocol: Protocol
    path: str
    headers: dict[str, str]
    body: JSON
    index: int
    arrived: float
    latency: float = 0.0
    finished: float | None = None
    status: int | None = None


def schema_in(held: Any, *names: str) -> JSON | None:
    """Return what stands under these names, one within the other, or None if that is no object."""
    for name in names:
        held = held.get(name) if isinstance(held, dict) else None
    return held if isinstance(held, dict) else None


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


def encoded(body: Any) -> bytes:
    """Encode JSON as it goes out."""
    return _ENCODE(body).encode()


def pieces(text: str) -> list[str]:
    """Cut a text as it is streamed, without regard to its words, as tokens are."""
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def event(body: JSON, kind: str = "") -> bytes:
    """Encode an event of a stream, as browsers know it."""
    return (f"event: {kind}\n".encode() if kind else b"") + b"data: " + encoded(body) + b"\n\n"
