"""A scripted model server on loopback: what the tests and the benchmark talk to in place of a provider.

It speaks the providers' own wire protocols (OpenAI, Gemini, Anthropic, Ollama), answers what a script says, and keeps
what it was shown. HTTP is read straight off asyncio's transport, since in a benchmark the server shares the machine
with the client that is measured.

    async with ScriptedServer(in_order(["first answer", Fault(status=429), {"label": 1}])) as server:
        ...  # a client on f"{server.url}/v1"
    assert "the post" in server.seen(0)

As a process of its own, it says its port in one line of JSON:
`python -m tribunal.eval.doubles.scripted --port 0 --latency 0.2`.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import hashlib
import importlib
import inspect
import json
import math
import random
import re
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import unquote

from tribunal.eval.doubles.in_thread import InThread

JSON = dict[str, Any]
Protocol = Literal["openai", "gemini", "anthropic", "ollama"]
Path = tuple[str | int, ...]
Choose = Callable[[Path, JSON], Any]

OUT_OF_SCRIPT = 599
MAX_HEAD = 65_536
MAX_DEPTH = 16
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


class ScriptError(Exception):
    """A script ran out, raised, or answered something that is no answer."""


@dataclass
class Request:
    """One request to a chat model, as it came. Times are seconds of the machine's monotonic clock.

    `messages` are (role, text), roles by their OpenAI names (system, user, assistant). `images` are the picture parts
    in order, as data URIs or URLs. `response_format` is as it was sent, whatever the provider calls it. `latency` is
    what the server was told to take. `finished` stays None while the request is under way; `status` stays None for one
    whose connection was dropped, or that the client didn't wait for.
    """

    protocol: Protocol
    path: str
    headers: dict[str, str]
    body: JSON
    model: str
    messages: list[tuple[str, str]]
    images: list[str]
    temperature: float | None
    response_format: Any
    max_tokens: int | None
    index: int
    arrived: float
    latency: float = 0.0
    finished: float | None = None
    status: int | None = None

    @cached_property
    def text(self) -> str:
        """Everything in words that the model was shown."""
        return "\n\n".join(text for _, text in self.messages)

    @cached_property
    def hints(self) -> dict[str, str]:
        """The marks `[[name=value]]` in what was shown; of two with one name the first counts."""
        return dict(reversed(_HINT.findall(self.text))) if "[[" in self.text else {}

    @cached_property
    def schema(self) -> JSON | None:
        """The JSON schema that the answer is to follow, wherever the provider puts it; None where there is none."""
        return _schema(self.protocol, self.response_format)

    @property
    def format(self) -> Literal["json_schema", "json_object", ""]:
        """Whether a schema, bare JSON or nothing was asked for."""
        if self.schema is not None:
            return "json_schema"
        return "json_object" if self.response_format else ""


@dataclass(frozen=True)
class Reply:
    """An answer.

    Attributes:
        content: the text; a dict is sent as JSON.
        finish_reason: `stop`, `length` or `content_filter`, sent in the provider's own word; any other as it is.
        refusal: declines with this text: OpenAI's refusal field, Gemini's SAFETY (without the text), Anthropic's stop
            reason; Ollama has no form of its own, so there it is the content.
        prompt_tokens, completion_tokens: None for an estimate of four characters a token.
        delay: seconds, on top of the server's latency.
        extra: put at the top of the answer's body (`stop_reason`, `system_fingerprint`, …); for Gemini `block_reason`
            makes it a blocked prompt, which has no candidate.
    """

    content: str | JSON = ""
    finish_reason: str = "stop"
    refusal: str | None = None
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


Answer = Reply | Fault | str | JSON
Script = Callable[[Request], Answer | Awaitable[Answer]]


@dataclass(frozen=True)
class Latency:
    """How long the server takes for an answer: `seconds`, or drawn evenly from `seconds` ± `spread` × `seconds`.

    A draw depends on the seed, the request's key (its mark `[[key=…]]`) and which request of that key it is, and not on
    the order of arrival: so the same posts take the same time whatever the client does.
    """

    seconds: float = 0.0
    spread: float = 0.0
    seed: int = 0

    def of(self, key: str, nth: int) -> float:
        """Seconds for the nth request (from 0) of this key."""
        if not self.spread:
            return self.seconds
        return self.seconds * random.Random(f"{self.seed}:{key}:{nth}").uniform(1 - self.spread, 1 + self.spread)


# Scripts


class InOrder:
    """A script of given answers, one a request; it fails loudly when it has run out."""

    def __init__(self, answers: Iterable[Answer | Script]) -> None:
        self._answers = list(answers)
        self.played = 0

    @property
    def left(self) -> int:
        """How many answers haven't been asked for."""
        return len(self._answers) - self.played

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        if not self.left:
            raise ScriptError(f"the script of {self.played} answers has run out")
        answer = self._answers[self.played]
        self.played += 1
        return answer(request) if callable(answer) else answer


def in_order(answers: Iterable[Answer | Script]) -> InOrder:
    """A script of these answers in turn; an item may itself be a script, asked for that one request.

    The request after the last one gets HTTP 599, and leaving the server's `with` block raises ScriptError.
    """
    return InOrder(answers)


def structured(choose: Callable[[Request, Path, JSON], Any] | None = None) -> Script:
    """A script that answers any request for structured output with an instance of its own schema.

    Args:
        choose: what stands at a path of the answer to this request (see `instance`); None from it, or no `choose`,
            leaves it to the marks in what was shown (see `hinted`).

    A request without a schema is answered with the word `scripted`.
    """

    def script(request: Request) -> Reply:
        if request.schema is None:
            return Reply("scripted")
        by_hint = hinted(request.hints) if request.hints else None

        def pick(path: Path, schema: JSON) -> Any:
            value = choose(request, path, schema) if choose else None
            return by_hint(path, schema) if value is None and by_hint else value

        return Reply(instance(request.schema, pick))

    return script


EXAMPLE: Script = structured()
"""What the process answers by if it is given no script of its own: an instance of whatever schema is asked for."""


def hinted(hints: dict[str, str]) -> Choose:
    """A choice by field name: `{"label": "2"}` makes every `label` 2, `{"cues": "0"}` every list `cues` empty.

    A value that the field can't take (another type, not in its enum) is left out of account.
    """

    def choose(path: Path, schema: JSON) -> Any:
        value = hints.get(str(path[-1])) if path else None
        if value is None:
            return None
        if "enum" in schema:
            return next((member for member in schema["enum"] if str(member) == value), None)
        kind = _type(schema)
        with contextlib.suppress(ValueError):
            if kind in ("integer", "array"):
                return int(value)
            if kind == "number":
                return float(value)
        if kind == "boolean" and value in ("true", "false"):
            return value == "true"
        return value if kind == "string" else None

    return choose


def instance(schema: JSON, choose: Choose | None = None) -> Any:
    """A small instance of a JSON schema: what is required, the first of an enum, one item in a list, short texts.

    Args:
        schema: JSON schema, or Gemini's dialect of it (type names in capitals); `$ref` within it is followed. `pattern`
            and `format` are not.
        choose: given a path such as `("cues", 0, "type")` and the schema there, the value that stands there, taken as
            it is; a whole number for a list is how many items it has; None leaves it to this function. A field that
            isn't required appears only if it was chosen.

    Returns:
        Plain JSON data.
    """
    return _instance((), schema, choose or (lambda path, schema: None), schema)


def _instance(path: Path, schema: JSON, choose: Choose, root: JSON) -> Any:
    schema = _resolved(schema, root)
    kind = _type(schema)
    value = choose(path, schema)
    if value is not None and not (kind == "array" and isinstance(value, int)):
        return value
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if kind == "object":
        return _object(path, schema, choose, root)
    if kind == "array":
        count = max(schema.get("minItems", 0), 0 if len(path) > MAX_DEPTH else 1) if value is None else value
        return [_instance((*path, number), schema.get("items", {}), choose, root) for number in range(count)]
    if kind in ("integer", "number"):
        return _number(schema, whole=kind == "integer")
    if kind == "boolean":
        return False
    if kind == "null":
        return None
    return "scripted".ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]


def _object(path: Path, schema: JSON, choose: Choose, root: JSON) -> JSON:
    required = schema.get("required", ())
    found: JSON = {}
    for name, field_schema in schema.get("properties", {}).items():
        here = (*path, name)
        if name in required or choose(here, _resolved(field_schema, root)) is not None:
            found[name] = _instance(here, field_schema, choose, root)
    return found


def _number(schema: JSON, *, whole: bool) -> float:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if whole:
        floor = math.ceil(low) if low is not None else min(0, math.floor(high or 0))
        return floor + 1 if floor == schema.get("exclusiveMinimum") else floor
    if low is None or high is None:
        return float(low + 1 if low is not None else min(0.0, high - 1 if high is not None else 0.0))
    return float((low + high) / 2)


def _resolved(schema: JSON, root: JSON) -> JSON:
    """The schema with references, unions (the first member that isn't null) and conjunctions folded into it."""
    if reference := schema.get("$ref"):
        target: Any = root
        for part in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
            target = target[part]
        return _resolved({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, root)
    for union in ("anyOf", "oneOf"):
        if members := schema.get(union):
            resolved = [_resolved(member, root) for member in members]
            chosen = next((member for member in resolved if _type(member) != "null"), resolved[0])
            return {**{key: value for key, value in schema.items() if key != union}, **chosen}
    if members := schema.get("allOf"):
        folded = {key: value for key, value in schema.items() if key != "allOf"}
        for member in (_resolved(member, root) for member in members):
            properties = {**folded.get("properties", {}), **member.get("properties", {})}
            required = [*folded.get("required", ()), *member.get("required", ())]
            folded = {**folded, **member}
            if properties:
                folded |= {"properties": properties, "required": required}
        return folded
    return schema


def _type(schema: JSON) -> str:
    kinds = schema.get("type")
    if isinstance(kinds, list):
        kinds = next((kind for kind in kinds if kind != "null"), "null")
    if kinds is None:
        kinds = "object" if "properties" in schema else "array" if "items" in schema else "string"
    return str(kinds).lower()


# What the providers say, read and written

_HINT = re.compile(r"\[\[(\w+)=([^\[\]]*)\]\]")
_ROLES = {"model": "assistant", "developer": "system"}
_FINISH: dict[Protocol, dict[str, str]] = {
    "gemini": {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"},
    "anthropic": {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"},
}
_GEMINI_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_ANTHROPIC_TYPE = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _protocol(path: str) -> Protocol | None:
    if path.endswith("/chat/completions"):
        return "openai"
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return "gemini"
    if path.endswith("/messages"):
        return "anthropic"
    if path.endswith("/api/chat"):
        return "ollama"
    return None


def _schema(protocol: Protocol, asked: Any) -> JSON | None:
    if not isinstance(asked, dict):
        return None
    found: Any
    if protocol == "openai":
        found = asked.get("json_schema", asked).get("schema")  # llama.cpp takes a schema beside `json_object`
    elif protocol == "gemini":
        found = asked.get("responseJsonSchema", asked.get("responseSchema"))
    else:
        found = asked.get("schema") if protocol == "anthropic" else asked
    return found if isinstance(found, dict) else None


@dataclass
class _Said:
    """What a request body says, gathered while it is read."""

    messages: list[tuple[str, str]] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    temperature: float | None = None
    asked: Any = None
    room: int | None = None

    def add(self, role: str, content: str | list[JSON] | None) -> None:
        """A message in OpenAI's or Anthropic's parts."""
        words = []
        parts: list[JSON] = [{"text": content}] if isinstance(content, str) else content or []
        for part in parts:
            if "text" in part:
                words.append(part["text"])
            elif part["type"] == "image_url":
                self.images.append(part["image_url"]["url"])
            elif part["type"] == "image":
                source = part["source"]
                self.images.append(source.get("url") or f"data:{source['media_type']};base64,{source['data']}")
        self.messages.append((_ROLES.get(role, role), "\n".join(words)))


def _read(protocol: Protocol, body: JSON) -> _Said:
    """A request body of any of the four. Raises KeyError, TypeError or AttributeError for one that is in none."""
    if protocol == "gemini":
        return _read_gemini(body)
    said = _Said(temperature=body.get("temperature"), room=body.get("max_tokens"))
    if protocol == "openai":
        said.asked = body.get("response_format")
        said.room = body.get("max_completion_tokens", said.room)
    elif protocol == "anthropic":
        said.asked = body.get("output_config", {}).get("format")
        if "system" in body:
            said.add("system", body["system"])
    else:
        settings = body.get("options") or {}
        said.temperature, said.room = settings.get("temperature"), settings.get("num_predict")
        said.asked = body.get("format") or None
    for message in body["messages"]:
        said.add(message["role"], message.get("content"))
        said.images.extend(f"data:image/*;base64,{data}" for data in message.get("images") or ())  # Ollama's
    return said


def _read_gemini(body: JSON) -> _Said:
    settings = body.get("generationConfig", {})
    formats = ("responseMimeType", "responseSchema", "responseJsonSchema")
    asked = {name: settings[name] for name in formats if name in settings} or None
    said = _Said(temperature=settings.get("temperature"), asked=asked, room=settings.get("maxOutputTokens"))
    for content in ({"role": "system", **body.get("systemInstruction", {})}, *body["contents"]):
        words = []
        for part in content.get("parts", ()):
            if "text" in part:
                words.append(part["text"])
            elif data := part.get("inlineData"):
                plain = data["data"].replace("-", "+").replace("_", "/")  # the client sends the URL-safe alphabet
                said.images.append(f"data:{data.get('mimeType') or data['mime_type']};base64,{plain}")
            elif file := part.get("fileData"):
                said.images.append(file["fileUri"])
        if "parts" in content:
            role = content.get("role", "user")
            said.messages.append((_ROLES.get(role, role), "\n".join(words)))
    return said


def _written(request: Request, reply: Reply) -> bytes:
    """An answer in the protocol of its request."""
    finish = _FINISH.get(request.protocol, {}).get(reply.finish_reason, reply.finish_reason)
    asked = reply.prompt_tokens if reply.prompt_tokens is not None else len(request.text) // 4 + 1
    given = reply.completion_tokens if reply.completion_tokens is not None else len(reply.text) // 4 + 1
    return _WRITERS[request.protocol](request, reply, finish, asked, given)


def _write_openai(request: Request, reply: Reply, finish: str, asked: int, given: int) -> bytes:
    content = reply.text if reply.refusal is None else None
    message = {"role": "assistant", "content": content, "refusal": reply.refusal}
    body: JSON = {
        "id": f"chatcmpl-scripted-{request.index}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given},
    }
    return _dumped(body | reply.extra)


def _write_gemini(request: Request, reply: Reply, finish: str, asked: int, given: int) -> bytes:
    extra = dict(reply.extra)
    usage = {"promptTokenCount": asked, "candidatesTokenCount": given, "totalTokenCount": asked + given}
    body: JSON = {"modelVersion": request.model, "responseId": f"scripted-{request.index}", "usageMetadata": usage}
    if blocked := extra.pop("block_reason", None):
        body["promptFeedback"] = {"blockReason": blocked}
        body["usageMetadata"] = {"promptTokenCount": asked, "totalTokenCount": asked}
    else:
        candidate: JSON = {"index": 0, "finishReason": finish if reply.refusal is None else "SAFETY"}
        if reply.text and reply.refusal is None:
            candidate["content"] = {"role": "model", "parts": [{"text": reply.text}]}
        body["candidates"] = [candidate]
    return _dumped(body | extra)


def _write_anthropic(request: Request, reply: Reply, finish: str, asked: int, given: int) -> bytes:
    words = reply.text if reply.refusal is None else reply.refusal
    body: JSON = {
        "id": f"msg_scripted_{request.index}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [{"type": "text", "text": words}] if words else [],
        "stop_reason": finish if reply.refusal is None else "refusal",
        "stop_sequence": None,
        "usage": {"input_tokens": asked, "output_tokens": given},
    }
    return _dumped(body | reply.extra)


def _write_ollama(request: Request, reply: Reply, finish: str, asked: int, given: int) -> bytes:
    head = {"model": request.model, "created_at": "2025-01-01T00:00:00Z"}
    said = {"role": "assistant", "content": reply.text if reply.refusal is None else reply.refusal}
    end = {"done": True, "done_reason": finish, "prompt_eval_count": asked, "eval_count": given} | reply.extra
    if not request.body.get("stream", True):
        return _dumped(head | {"message": said} | end)
    last = head | {"message": {"role": "assistant", "content": ""}} | end
    return _dumped(head | {"message": said, "done": False}) + b"\n" + _dumped(last) + b"\n"


_WRITERS: dict[Protocol, Callable[[Request, Reply, str, int, int], bytes]] = {
    "openai": _write_openai,
    "gemini": _write_gemini,
    "anthropic": _write_anthropic,
    "ollama": _write_ollama,
}


def _error(protocol: Protocol, status: int, message: str, code: str | None) -> JSON:
    """An error in the provider's own form."""
    if protocol == "openai":
        kind = "invalid_request_error" if status < 500 and status != 429 else "server_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}
    if protocol == "gemini":
        return {"error": {"code": status, "message": message, "status": code or _GEMINI_STATUS.get(status, "UNKNOWN")}}
    if protocol == "anthropic":
        kind = code or _ANTHROPIC_TYPE.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"}
    return {"error": message}


def _dumped(body: Any) -> bytes:
    return _ENCODE(body).encode()


def embedding(text: str, dimensions: int = 256) -> list[float]:
    """A unit vector of a text by its words, so that texts that share words lie near each other. Deterministic."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [""]:
        number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
        vector[(number >> 1) % dimensions] += 1.0 if number & 1 else -1.0
    length = math.hypot(*vector) or 1.0
    return [value / length for value in vector]


def _embeddings(body: JSON) -> JSON:
    given = body["input"]
    texts = [given] if isinstance(given, str) or (given and isinstance(given[0], int)) else given
    data = []
    for index, text in enumerate(texts):
        words = text if isinstance(text, str) else " ".join(map(str, text))  # a list of token numbers
        vector: Any = embedding(words, body.get("dimensions") or 256)
        if body.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return {"object": "list", "data": data, "model": body["model"], "usage": usage}


# The server


class ScriptedServer(InThread):
    """A model server on 127.0.0.1 that answers by a script.

    Used with `async with` it runs on the loop it is in; with plain `with`, on a loop in a thread of its own. Leaving
    the block raises ScriptError if a script ran out or raised, unless `errors` was cleared or another exception is
    under way.

    Attributes:
        url: `http://127.0.0.1:PORT`. OpenAI's and other compatible clients take `{url}/v1`, the other three `{url}`.
        requests: every chat request so far, in order of arrival; stays empty with `keep=False`.
        others: the other requests, as (method, path, body): lists of models, embeddings.
        log: (index, key, latency in seconds) of every chat request that got an answer; the key is its `[[key=…]]`.
        served: how many chat requests have arrived.
        in_flight, peak: chat requests under way now, and the most there ever were.
        errors: what went wrong in the script.
    """

    def __init__(
        self,
        script: Script,
        *,
        latency: Latency | float = 0.0,
        keep: bool = True,
        models: Sequence[str] = ("scripted",),
        port: int = 0,
    ) -> None:
        """A server that isn't listening yet.

        Args:
            script: what is answered to a request; may be async. A bare str or dict counts as a Reply's content.
            latency: how long answers take, in seconds from the request's arrival; faults have their own delay.
            keep: whether requests are kept; without, memory stays bounded but for the log's few bytes a request.
            models: the names that are listed as served.
            port: 0 for a free one.
        """
        self.script = script
        self.latency = latency if isinstance(latency, Latency) else Latency(latency)
        self.keep = keep
        self.models = tuple(models)
        self.port = port
        self.reset()
        self._connections: set[_Connection] = set()
        self._listener: asyncio.Server | None = None
        self._held: list[BaseException] = []

    def reset(self) -> None:
        """Forget everything that was seen."""
        self.requests: list[Request] = []
        self.others: list[tuple[str, str, JSON]] = []
        self.log: list[tuple[int, str, float]] = []
        self.errors: list[BaseException] = []
        self.served = self.in_flight = self.peak = 0
        self._nth: Counter[str] = Counter()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def seen(self, index: int) -> str:
        """Everything in words that the model was shown in the request of this number, from 0; negative from the end."""
        return self.requests[index].text

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port, backlog=1024)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listener is not None:
            self._listener.close()
        tasks = [connection.task for connection in self._connections if connection.task]
        for connection in list(self._connections):
            connection.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # clients on this loop see their connections end before it closes
        self._complain(error)

    def _over(self) -> None:
        self._held, self.errors = self.errors, []  # the block that is left tells of them, and not the thread

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self.errors = self._held
        self._complain(error)

    def _complain(self, error: BaseException | None) -> None:
        if self.errors and error is None:
            raise ScriptError(f"{len(self.errors)} requests went wrong, first: {self.errors[0]}") from self.errors[0]

    def stats(self) -> JSON:
        """What another process may know: counts, the server's own CPU seconds, and the log."""
        return {
            "served": self.served,
            "in_flight": self.in_flight,
            "peak": self.peak,
            "errors": [str(error) for error in self.errors],
            "cpu_seconds": time.process_time(),
            "log": self.log,
        }

    async def _answer(self, connection: _Connection, request: Request) -> None:
        """Ask the script, wait, and write: one task a request, cancelled when the client goes."""
        answer = self.script(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Fault):
            await self._fault(connection, request, answer)
            return
        if not isinstance(answer, Reply):
            answer = Reply(answer)
        if request.protocol != "ollama" and (request.body.get("stream") or ":stream" in request.path):
            raise ScriptError(f"this server doesn't stream {request.protocol}; switch streaming off in the client")
        key = request.hints.get("key", "")
        request.latency = self.latency.of(key or str(request.index), self._nth[key]) + answer.delay
        self._nth[key] += 1
        self.log.append((request.index, key, request.latency))
        body = _written(request, answer)
        if request.latency:
            await asyncio.sleep(request.arrived + request.latency - time.monotonic())
        connection.send(200, body)
        request.status = 200

    async def _fault(self, connection: _Connection, request: Request, fault: Fault) -> None:
        request.latency = fault.delay
        if fault.delay:
            await asyncio.sleep(request.arrived + fault.delay - time.monotonic())
        if fault.hang:
            await asyncio.Event().wait()
        if fault.drop:
            connection.drop(_written(request, Reply("scripted")) if fault.drop == "middle" else b"")
            return
        body = fault.raw
        if body is None:
            told = fault.body
            body = _dumped(told or _error(request.protocol, fault.status, fault.message, fault.code))
        connection.send(fault.status, body, fault.headers)
        request.status = fault.status

    def _other(self, method: str, path: str, body: JSON) -> JSON | None:
        """Everything but chat; None for a path that isn't served."""
        if path == "/scripted":
            if method == "DELETE":
                self.reset()
            return self.stats()
        self.others.append((method, path, body))
        if path.endswith("/embeddings"):
            return _embeddings(body)
        if path.endswith("/api/tags"):
            return {"models": [{"name": name, "model": name, "size": 0, "digest": ""} for name in self.models]}
        if path.endswith("/v1beta/models"):
            return {"models": [{"name": f"models/{name}", "displayName": name} for name in self.models]}
        if path.endswith("/models"):
            return {
                "object": "list",
                "data": [
                    {"id": name, "object": "model", "created": 0, "owned_by": "scripted", "type": "model"}
                    for name in self.models
                ],
                "has_more": False,
            }
        return None


class _Connection(asyncio.Protocol):
    """One client's connection: HTTP/1.1, kept alive, one request at a time."""

    transport: asyncio.Transport

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.buffer = bytearray()
        self.head: tuple[str, str, dict[str, str], int, int] | None = None
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.server._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.server._connections.discard(self)
        if self.task:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.task is None:
            self.take()

    def take(self) -> None:
        """Begin on the next request, if all of it is here."""
        if self.head is None and not self.read_head():
            return
        method, path, headers, start, end = self.head or ("", "", {}, 0, 0)
        if len(self.buffer) < end:
            return
        data = bytes(self.buffer[start:end])
        del self.buffer[:end]
        self.head = None
        self.request(method, path, headers, data)

    def read_head(self) -> bool:
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self.buffer) > MAX_HEAD:
                self.transport.abort()
            return False
        first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if "transfer-encoding" in headers:
            self.send(411, b'{"error":"this server needs a Content-Length"}')
            self.transport.close()
            return False
        self.head = method, target.partition("?")[0], headers, end + 4, end + 4 + int(headers.get("content-length", 0))
        return True

    def request(self, method: str, path: str, headers: dict[str, str], data: bytes) -> None:
        server = self.server
        arrived = time.monotonic()
        protocol = _protocol(path) if method == "POST" else None
        try:
            body = json.loads(data) if data else {}
            if protocol is None:
                answer = server._other(method, path, body)
                self.send(404 if answer is None else 200, _dumped(answer or {"error": f"{method} {path}: not served"}))
                return
            said = _read(protocol, body)
            model = body.get("model") or unquote(
                path.rpartition("/")[2].partition(":")[0]
            )  # Gemini names it in the path
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            server.errors.append(ScriptError(f"{method} {path}: not a request of this protocol: {error!r}"))
            self.send(400, _dumped(_error(protocol or "openai", 400, f"scripted server: {error!r}", None)))
            return
        request = Request(
            protocol=protocol,
            path=path,
            headers=headers,
            body=body,
            model=model,
            messages=said.messages,
            images=said.images,
            temperature=said.temperature,
            response_format=said.asked,
            max_tokens=said.room,
            index=server.served,
            arrived=arrived,
        )
        server.served += 1
        server.in_flight += 1
        server.peak = max(server.peak, server.in_flight)
        if server.keep:
            server.requests.append(request)
        self.task = asyncio.get_running_loop().create_task(server._answer(self, request))
        self.task.add_done_callback(lambda task: self.done(task, request))

    def done(self, task: asyncio.Task[None], request: Request) -> None:
        self.task = None
        self.server.in_flight -= 1
        request.finished = time.monotonic()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.server.errors.append(error)
            request.status = OUT_OF_SCRIPT
            told = f"scripted server, request {request.index}: {type(error).__name__}: {error}"
            self.send(OUT_OF_SCRIPT, _dumped(_error(request.protocol, OUT_OF_SCRIPT, told, None)))
        if request.headers.get("connection", "").lower() == "close":
            self.transport.close()
        elif self.buffer:
            self.take()

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.transport.write(_head(status, len(body), headers or {}) + body)

    def drop(self, body: bytes) -> None:
        """Close; with a body, after the half of it."""
        if body:
            self.transport.write(_head(200, len(body), {}) + body[: len(body) // 2])
        self.transport.close()


def _head(status: int, length: int, headers: dict[str, str]) -> bytes:
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Scripted"
    told = {"content-type": "application/json", **{name.lower(): value for name, value in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    return f"HTTP/1.1 {status} {phrase}\r\n{lines}content-length: {length}\r\n\r\n".encode("latin-1")


async def _serve(server: ScriptedServer) -> None:
    over = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, over.set)
    async with server:
        sys.stdout.write(json.dumps({"port": server.port, "url": server.url}) + "\n")
        sys.stdout.flush()
        await over.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; the one line on standard output is `{"port": …, "url": …}`.

    `GET /scripted` tells the counts, the server's CPU seconds and the log; `DELETE /scripted` forgets them.
    Returns 0, or 1 (with the first error on standard error) if the script failed.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tribunal.eval.doubles.scripted", description="A scripted model server on loopback."
    )
    parser.add_argument("--port", type=int, default=0, help="0 for a free one")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds an answer takes")
    parser.add_argument("--spread", type=float, default=0.0, help="draw evenly from LATENCY ± SPREAD × LATENCY")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--keep", action="store_true", help="keep every request in memory")
    parser.add_argument("--script", default="tribunal.eval.doubles.scripted:EXAMPLE", help="the script, as module:name")
    given = parser.parse_args(arguments)
    module, _, name = given.script.partition(":")
    script: Script = getattr(importlib.import_module(module), name)
    latency = Latency(given.latency, given.spread, given.seed)
    try:
        asyncio.run(_serve(ScriptedServer(script, latency=latency, keep=given.keep, port=given.port)))
    except ScriptError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    # A script that is named by module imports this module under its own name: run that copy, not this one.
    from tribunal.eval.doubles.scripted import main as run

    raise SystemExit(run())
