"""Ollama's chat."""

from __future__ import annotations

from tribunal.eval.doubles.scripted.replies import Reply, encoded
from tribunal.eval.doubles.scripted.request import JSON, Asked, Request, schema_in

ENDS: tuple[str, ...] = ("/api/chat",)
FINISH: dict[str, str] = {}


def read(body: JSON, path: str) -> Asked:
    settings, form = body.get("options") or {}, body.get("format") or None
    asked = Asked(
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
    """One answer, or where the client streams, which its library does unless told otherwise, two lines of it."""
    head = {"model": request.model, "created_at": "2025-01-01T00:00:00Z"}
    message = {"role": "assistant", "content": reply.text if reply.refusal is None else reply.refusal}
    end = {"done": True, "done_reason": finish, "prompt_eval_count": prompt, "eval_count": completion} | reply.extra
    if not request.body.get("stream", True):
        return encoded(head | {"message": message} | end)
    last = head | {"message": {"role": "assistant", "content": ""}} | end
    return encoded(head | {"message": message, "done": False}) + b"\n" + encoded(last) + b"\n"


def error(status: int, message: str, code: str | None) -> JSON:
    return {"error": message}
