"""OpenAI's chat completions and embeddings, and those of every server that speaks like it."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import struct
import time
from typing import Any

from tribunal.testing.messages import JSON, Events, Reply, Request, RequestContent, encoded, event, pieces, schema_in

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
        asked.images.extend(part["image_url"]["url"] for part in parts if part.get("type") == "image_url")
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
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion},
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
        return event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]})

    said = [chunk({"role": "assistant", "content": "", "refusal": None})]
    said += [chunk({"reasoning_content": piece}) for piece in pieces(reply.thinking)]
    field, words = ("content", reply.text) if reply.refusal is None else ("refusal", reply.refusal)
    said += [chunk({field: piece}) for piece in pieces(words)]
    end = [chunk({}, finish)]
    if (request.body.get("stream_options") or {}).get("include_usage"):
        usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
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
