"""Gemini's generateContent."""

from __future__ import annotations

import json
from urllib.parse import unquote

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

ENDS: tuple[str, ...] = (":generateContent", ":streamGenerateContent")
FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
STREAM = "text/event-stream"
_FORMATS = ("responseMimeType", "responseSchema", "responseJsonSchema")
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def read_request(body: JSON, path: str) -> RequestContent:
    settings = body.get("generationConfig", {})
    form = {name: settings[name] for name in _FORMATS if name in settings} or None
    asked = RequestContent(
        model=body.get("model") or unquote(path.rpartition("/")[2].partition(":")[0]),
        temperature=settings.get("temperature"),
        max_tokens=settings.get("maxOutputTokens"),
        response_format=form,
        schema=schema_in(form, "responseJsonSchema") or schema_in(form, "responseSchema"),
    )
    for content in ({"role": "system", **body.get("systemInstruction", {})}, *body["contents"]):
        words = []
        for part in content.get("parts", ()):
            if "text" in part:
                words.append(part["text"])
            elif data := part.get("inlineData"):
                # the client sends the URL-safe alphabet
                plain = data["data"].replace("-", "+").replace("_", "/")
                asked.images.append(
                    f"data:{data.get('mimeType') or data['mime_type']};base64,{plain}"
                )
            elif file := part.get("fileData"):
                asked.images.append(file["fileUri"])
        if "parts" in content:
            asked.add(content.get("role", "user"), words)
    return asked


def write(request: Request, reply: Reply, finish: str, prompt: int, completion: int) -> bytes:
    extra = dict(reply.extra)
    usage = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": completion,
        "totalTokenCount": prompt + completion,
    }
    body: JSON = {
        "modelVersion": request.model,
        "responseId": f"scripted-{request.index}",
        "usageMetadata": usage,
    }
    if blocked := extra.pop("block_reason", None):
        body["promptFeedback"] = {"blockReason": blocked}
        body["usageMetadata"] = {"promptTokenCount": prompt, "totalTokenCount": prompt}
    else:
        candidate: JSON = {
            "index": 0,
            "finishReason": finish if reply.refusal is None else "SAFETY",
        }
        parts: list[JSON] = [{"text": reply.thinking, "thought": True}] if reply.thinking else []
        parts += [{"text": reply.text}] if reply.text and reply.refusal is None else []
        if parts:
            candidate["content"] = {"role": "model", "parts": parts}
        body["candidates"] = [candidate]
    return encoded(body | extra)


def streams(request: Request) -> bool:
    return request.path.endswith(":streamGenerateContent")


def stream(request: Request, reply: Reply, finish: str, prompt: int, completion: int) -> Events:
    head: JSON = {"modelVersion": request.model, "responseId": f"scripted-{request.index}"}
    whole = json.loads(write(request, reply, finish, prompt, completion))
    if "candidates" not in whole:
        return [], [event(whole)]
    said = []
    for part in whole["candidates"][0].pop("content", {"parts": []})["parts"]:
        for number, piece in enumerate(pieces(part["text"]), 1):
            content = {"role": "model", "parts": [{**part, "text": piece}]}
            so_far = {
                "promptTokenCount": prompt,
                "candidatesTokenCount": number,
                "totalTokenCount": prompt + number,
            }
            said.append(
                event(
                    {
                        **head,
                        "candidates": [{"index": 0, "content": content}],
                        "usageMetadata": so_far,
                    }
                )
            )
    return said, [event(whole)]


def failed(error: JSON) -> bytes:
    return event(error)


def error(status: int, message: str, code: str | None) -> JSON:
    return {
        "error": {
            "code": status,
            "message": message,
            "status": code or _STATUS.get(status, "UNKNOWN"),
        }
    }
