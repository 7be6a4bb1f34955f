"""Anthropic's messages."""

from __future__ import annotations

from tribunal.testing.messages import (
    JSON,
    Events,
    Reply,
    Request,
    RequestContent,
    encoded,
    event,
    pieces,
    schema_in,
)

ENDS: tuple[str, ...] = ("/messages",)
FINISH = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
STREAM = "text/event-stream; charset=utf-8"
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def read_request(body: JSON, path: str) -> RequestContent:
    form = body.get("output_config", {}).get("format")
    asked = RequestContent(
        model=body["model"],
        temperature=body.get("temperature"),
        max_tokens=body.get("max_tokens"),
        response_format=form,
        schema=schema_in(form, "schema"),
    )
    system = [{"role": "system", "content": body["system"]}] if "system" in body else []
    for message in (*system, *body["messages"]):
        content = message.get("content")
        parts: list[JSON] = [{"text": content}] if isinstance(content, str) else content or []
        for part in parts:
            if part.get("type") == "image":
                source = part["source"]
                asked.images.append(
                    source.get("url") or f"data:{source['media_type']};base64,{source['data']}"
                )
        asked.add(message["role"], [part["text"] for part in parts if "text" in part])
    return asked


def write(request: Request, reply: Reply, finish: str, prompt: int, completion: int) -> bytes:
    words = reply.text if reply.refusal is None else reply.refusal
    body: JSON = {
        "id": f"msg_scripted_{request.index}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": _blocks(reply.thinking, words),
        "stop_reason": finish if reply.refusal is None else "refusal",
        "stop_sequence": None,
        "usage": {"input_tokens": prompt, "output_tokens": completion},
    }
    return encoded(body | reply.extra)


def _blocks(thinking: str, words: str) -> list[JSON]:
    thought: list[JSON] = (
        [{"type": "thinking", "thinking": thinking, "signature": "signed"}] if thinking else []
    )
    return [*thought, {"type": "text", "text": words}] if words else thought


def streams(request: Request) -> bool:
    return bool(request.body.get("stream"))


def stream(request: Request, reply: Reply, finish: str, prompt: int, completion: int) -> Events:
    words = reply.text if reply.refusal is None else reply.refusal
    message: JSON = {
        "id": f"msg_scripted_{request.index}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": prompt, "output_tokens": 1},
    }
    said = [
        _typed({"type": "message_start", "message": message | reply.extra}),
        _typed({"type": "ping"}),
    ]
    for index, block in enumerate(_blocks(reply.thinking, words)):
        kind = block["type"]
        empty: JSON = {"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {})
        said.append(_typed({"type": "content_block_start", "index": index, "content_block": empty}))
        deltas: list[JSON] = [
            {"type": f"{kind}_delta", kind: piece} for piece in pieces(block[kind])
        ]
        deltas += [{"type": "signature_delta", "signature": "signed"}] if kind == "thinking" else []
        said += [
            _typed({"type": "content_block_delta", "index": index, "delta": delta})
            for delta in deltas
        ]
        said.append(_typed({"type": "content_block_stop", "index": index}))
    stopped = {"stop_reason": finish if reply.refusal is None else "refusal", "stop_sequence": None}
    stopped |= {
        name: reply.extra[name] for name in ("stop_reason", "stop_sequence") if name in reply.extra
    }
    usage = {"input_tokens": prompt, "output_tokens": completion}
    return said, [
        _typed({"type": "message_delta", "delta": stopped, "usage": usage}),
        _typed({"type": "message_stop"}),
    ]


def failed(error: JSON) -> bytes:
    return event(error, "error")


def _typed(body: JSON) -> bytes:
    return event(body, body["type"])


def error(status: int, message: str, code: str | None) -> JSON:
    kind = code or _KINDS.get(status, "api_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_scripted",
    }
