"""OpenAI's chat completions, and those of every server that speaks like it."""

from __future__ import annotations

import time

from tribunal.eval.doubles.scripted.replies import Events, Reply, encoded, event, pieces
from tribunal.eval.doubles.scripted.request import JSON, Asked, Request, schema_in

ENDS: tuple[str, ...] = ("/chat/completions",)
FINISH: dict[str, str] = {}
STREAM = "text/event-stream; charset=utf-8"


def read(body: JSON, path: str) -> Asked:
    form = body.get("response_format")
    asked = Asked(
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
    return bool(request.body.get("stream"))


def stream(request: Request, reply: Reply, finish: str, prompt: int, completion: int) -> Events:
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
    return event(error)


def error(status: int, message: str, code: str | None) -> JSON:
    kind = "invalid_request_error" if status < 500 and status != 429 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
