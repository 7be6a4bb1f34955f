"""Ollama's chat."""

from __future__ import annotations

from tribunal.testing.messages import (
    JSON,
    Events,
    Reply,
    Request,
    RequestContent,
    encoded,
    pieces,
    schema_in,
)

ENDS: tuple[str, ...] = ("/api/chat",)
FINISH: dict[str, str] = {}
STREAM = "application/x-ndjson"


def read_request(body: JSON, path: str) -> RequestContent:
    settings, form = body.get("options") or {}, body.get("format") or None
    asked = RequestContent(
        model=body["model"],
        temperature=settings.get("temperature"),
        max_tokens=settings.get("num_predict"),
        response_format=form,
        schema=schema_in(form),
    )
    for message in body["messages"]:
        asked.images.extend(f"data:image/*;base64,{data}" for data in message.get("images") or ())
        asked.add(message["role"], [message.get("content") or ""])
    return asked


def write(request: Request, reply: Reply, finish: str, prompt: int, completion: int) -> bytes:
    message = {
        "role": "assistant",
        "content": reply.text if reply.refusal is None else reply.refusal,
    }
    message |= {"thinking": reply.thinking} if reply.thinking else {}
    return encoded(
        _HEAD
        | {"model": request.model, "message": message}
        | _end(reply, finish, prompt, completion)
    )


def streams(request: Request) -> bool:
    """Ollama streams unless told otherwise."""
    return bool(request.body.get("stream", True))


def stream(request: Request, reply: Reply, finish: str, prompt: int, completion: int) -> Events:
    head = _HEAD | {"model": request.model}

    def line(message: JSON, last: JSON) -> bytes:
        return (
            encoded(head | {"message": {"role": "assistant", "content": "", **message}} | last)
            + b"\n"
        )

    words = reply.text if reply.refusal is None else reply.refusal
    said = [line({"thinking": piece}, {"done": False}) for piece in pieces(reply.thinking)]
    said += [line({"content": piece}, {"done": False}) for piece in pieces(words)]
    return said, [line({}, _end(reply, finish, prompt, completion))]


def failed(error: JSON) -> bytes:
    return encoded(error) + b"\n"


def _end(reply: Reply, finish: str, prompt: int, completion: int) -> JSON:
    counted = {"prompt_eval_count": prompt, "eval_count": completion}
    return {"done": True, "done_reason": finish, **counted, **reply.extra}


_HEAD: JSON = {"created_at": "2025-01-01T00:00:00Z"}


def error(status: int, message: str, code: str | None) -> JSON:
    return {"error": message}
