"""What `POST /v1/judge` is asked: a JSON object, or a form with an image in it."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.datastructures import UploadFile

from tribunal.models.image import FORMATS, MAX_BYTES, MAX_PIXELS
from tribunal.models.image_header import BrokenHeader, header
from tribunal.parsed import from_json
from tribunal.service.replica.problems import Problem
from tribunal.service.routes.bodies import JSON_KIND, checked, fields_as, form, is_json, kind_of, whole
from tribunal.service.routes.shapes import JudgeRequest

_FORM = "multipart/form-data"


async def _read(request: Request) -> JudgeRequest:
    kind = kind_of(request)
    if is_json(kind):
        try:
            given = from_json(await whole(request))
        except ValueError as error:
            raise Problem("bad_input", f"body: is not JSON: {error}") from None
        return checked(JudgeRequest, given)
    if kind == _FORM:
        fields, files, read = await form(request)
        try:
            wrong = next((name for name in files if name != "image"), None)
            if wrong is not None:
                raise Problem("bad_input", f"{wrong[:80]}: is a file; the only file is image")
            if "image" in files:
                fields["image"] = await _as_uri(files["image"])
        finally:
            await read.close()
        return fields_as(JudgeRequest, fields)
    raise Problem("wrong_type", f"Content-Type: {kind[:80] or 'none'}: send {JSON_KIND} or {_FORM}")


async def _as_uri(file: UploadFile) -> str:
    """An image that was sent, looked at as far as its header goes; its pixels are looked at when it is decided on."""
    raw = await file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise Problem("too_large", f"image: is over {MAX_BYTES // 1024**2} MB; scale it down")
    try:
        found = header(raw)
    except BrokenHeader as error:
        raise Problem("wrong_type", f"image: can't be read: {error}; save it again as PNG or JPEG") from None
    if found is None:
        known = ", ".join(sorted(FORMATS))
        raise Problem("wrong_type", f"image: is not an image of a known format; send {known}")
    if found.pixels > MAX_PIXELS:
        size = f"{found.width} × {found.height}"
        raise Problem("too_large", f"image: {size} is over {MAX_PIXELS // 10**6} million pixels; scale it down")
    encoded = await asyncio.to_thread(base64.b64encode, raw)
    return f"data:{FORMATS[found.format]};base64,{encoded.decode()}"


JudgeAsked = Annotated[JudgeRequest, Depends(_read)]


def _body() -> dict[str, Any]:
    """The two forms of the body, for OpenAPI, which FastAPI can't tell from a dependency."""
    described = JudgeRequest.model_json_schema()
    image = {"type": "string", "format": "binary", "description": "a file: PNG, JPEG, WEBP, GIF or BMP"}
    fields = {**described["properties"], "image": image}
    for name, about in described["properties"].items():
        if about.get("type") in ("object", "array"):
            shown = [json.dumps(each) for each in about.get("examples", ())]
            fields[name] = {"type": "string", "description": f"{about['description']}; as JSON", "examples": shown}
    return {"content": {
        JSON_KIND: {"schema": described, "example": {"text": "Good morning!", "graph": "arcade"}},
        _FORM: {"schema": {**described, "properties": fields}},
    }, "required": True}  # fmt: skip


OPENAPI = {"requestBody": _body()}
