"""The requests and replies of a scripted model, and its wire, OpenAI's."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import struct
import time
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
    """Return the object under these nested names; None if there is none."""
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


ENDS: tuple[str, ...] = ("/chat/completions",)
FINISH: dict[str, str] = {}
STREAM = "text/event-stream; charset=utf-8"


def read_request(body: JSON, path: str) -> RequestContent:
    """Read a request."""
    form = body.get("response_format")
    asked = RequestContent(
        model=body["model"],
        temperature=body.get("temperature"),
        max_tokens=body.get("max_completion_tokens", body.get("max_tokens")),
        response_format=form,
        # llama.cpp takes a schema beside `json_object`
        schema=schema_in(form, "json_schema", "schema") or schema_in(form, "schema"),
    )
    for message in body["messages"]:
        content = message.get("content")
        parts: list[JSON] = [{"text": content}] if isinstance(content, str) else content or []
        asked.images.extend(
            part["image_url"]["url"] for part in parts if part.get("type") == "image_url"
        )
        asked.add(message["role"], [part["text"] for part in parts if "text" in part])
    return asked


def write(request: Request, reply: Reply, finish: str, prompt: int, completion: int) -> bytes:
    """Write an answer."""
    content = reply.text if reply.refusal is None else None
    message = {"role": "assistant", "content": content, "refusal": reply.refusal}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    body: JSON = {
        "id": f"chatcmpl-scripted-{request.index}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    }
    return encoded(body | reply.extra)


def streams(request: Request) -> bool:
    """Return whether the request asks for a stream."""
    return bool(request.body.get("stream"))


def stream(request: Request, reply: Reply, finish: str, prompt: int, completion: int) -> Events:
    """Write an answer in events."""
    head: JSON = {
        "id": f"chatcmpl-scripted-{request.index}",
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": request.model,
        **reply.extra,
    }

    def chunk(delta: JSON, finish: str | None = None) -> bytes:
        return event(
            head
            | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]}
        )

    said = [chunk({"role": "assistant", "content": "", "refusal": None})]
    said += [chunk({"reasoning_content": piece}) for piece in pieces(reply.thinking)]
    field, words = ("content", reply.text) if reply.refusal is None else ("refusal", reply.refusal)
    said += [chunk({field: piece}) for piece in pieces(words)]
    end = [chunk({}, finish)]
    if (request.body.get("stream_options") or {}).get("include_usage"):
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
        end.append(event({**head, "choices": [], "usage": usage}))
    return said, [*end, b"data: [DONE]\n\n"]


def failed(error: JSON) -> bytes:
    """Write an error in the middle of a stream."""
    return event(error)


def error(status: int, message: str, code: str | None) -> JSON:
    """Return the body of an error."""
    kind = "invalid_request_error" if status < 500 and status != 429 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def embedding(text: str, dimensions: int = 256) -> list[float]:
    """Return a unit vector of a text by a hash of each word: texts that share words lie near each other."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [""]:
        number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
        vector[(number >> 1) % dimensions] += 1.0 if number & 1 else -1.0
    length = math.hypot(*vector) or 1.0
    return [value / length for value in vector]


def embeddings(body: JSON) -> JSON:
    """Answer a request for embeddings: of one text or several, as words or as token numbers."""
    given = body["input"]
    texts = [given] if isinstance(given, str) or (given and isinstance(given[0], int)) else given
    data = []
    for index, text in enumerate(texts):
        words = text if isinstance(text, str) else " ".join(map(str, text))
        vector: Any = embedding(words, body.get("dimensions") or 256)
        if body.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return {"object": "list", "data": data, "model": body["model"], "usage": usage}
