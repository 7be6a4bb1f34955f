"""The upload of a batch: the file of a form, or the body itself, written to the disk as it comes."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile

from tribunal.service.replica.problems import Problem
from tribunal.service.replica.uploads import Upload
from tribunal.service.routes.batch_shapes import Options
from tribunal.service.routes.bodies import fields_as, form, kind_of, pieces
from tribunal.text import one_line, wellformed

_KINDS = {
    "application/x-ndjson": ".jsonl",
    "application/ndjson": ".jsonl",
    "application/jsonl": ".jsonl",
    "application/x-jsonlines": ".jsonl",
    "text/csv": ".csv",
}
_SUFFIXES = {".jsonl": ".jsonl", ".ndjson": ".jsonl", ".csv": ".csv"}
_FORM = "multipart/form-data"
_PIECE = 1024**2


async def received(request: Request, folder: Path, given: Mapping[str, str], most: int) -> tuple[Upload, Options]:
    """The file, now in this folder, and what is to be done with its rows.

    Args:
        request: that brings it.
        folder: where it is put.
        given: what the address says.
        most: how many bytes the file may have.

    Raises:
        Problem: it is too large, or of no known kind.
        RequestValidationError: a field is wrong.
    """
    kind = kind_of(request)
    if kind == _FORM:
        fields, files, read = await form(request)
        try:
            twice = next((name for name in fields if name in given), None)
            if twice is not None:
                raise Problem("bad_input", f"{twice}: is given in the form and in the address; give it once")
            asked = fields_as(Options, {**given, **fields})
            return await _kept(_only(files), folder, most), asked
        finally:
            await read.close()
    if kind not in _KINDS:
        raise Problem(
            "wrong_type", f"Content-Type: {kind[:80] or 'none'}: send {_FORM}, application/x-ndjson or text/csv"
        )
    asked = fields_as(Options, given)
    path = folder / f"posts{_KINDS[kind]}"
    digest, size = hashlib.sha256(), 0
    with await asyncio.to_thread(path.open, "wb") as file:
        async for piece in pieces(request):
            size += len(piece)
            if size > most:
                raise Problem("too_large", f"body: is over {most:,} bytes (batch_bytes); send it in parts")
            digest.update(piece)
            await asyncio.to_thread(file.write, piece)
    return Upload(path, path.name, digest.hexdigest()), asked


def _only(files: Mapping[str, UploadFile]) -> UploadFile:
    wrong = next((name for name in files if name != "file"), None)
    if wrong is not None or "file" not in files:
        raise Problem(
            "bad_input", f"file: there is none{f', but {wrong[:80]}' if wrong else ''}; send the posts as file"
        )
    return files["file"]


async def _kept(sent: UploadFile, folder: Path, most: int) -> Upload:
    name = PurePath((sent.filename or "").replace("\\", "/")).name
    kind = (sent.content_type or "").partition(";")[0].strip().casefold()
    suffix = _SUFFIXES.get(PurePath(name).suffix.casefold()) or _KINDS.get(kind)
    if suffix is None:
        raise Problem("wrong_type", f"file: {name[:80]!r}: is neither .jsonl, .ndjson nor .csv")
    if (sent.size or 0) > most:
        raise Problem("too_large", f"file: is over {most:,} bytes (batch_bytes); send it in parts")
    path = folder / f"posts{suffix}"
    digest = await asyncio.to_thread(_copied, sent, path)
    called = "".join(each for each in one_line(wellformed(name)) if each.isprintable())[:200]
    return Upload(path, called or path.name, digest)


def _copied(sent: UploadFile, path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        while piece := sent.file.read(_PIECE):
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def _in_json(about: Mapping[str, Any]) -> dict[str, Any]:
    return {"examples": [json.dumps(each) for each in about["examples"]]} if "examples" in about else {}


def _body() -> dict[str, Any]:
    described = Options.model_json_schema()
    fields: dict[str, Any] = {"file": {"type": "string", "format": "binary", "description": "posts, as .jsonl or .csv"}}
    for name, about in described["properties"].items():
        fields[name] = about
        if about.get("type") == "object":
            fields[name] = {"type": "string", "description": f"{about['description']}; as JSON", **_in_json(about)}
    table = {"type": "string", "description": "one post a row, with a column text or image"}
    return {"content": {
        _FORM: {"schema": {"type": "object", "properties": fields, "required": ["file"]}},
        "application/x-ndjson": {"schema": table, "example": '{"id": "1", "text": "Good morning!"}\n'},
        "text/csv": {"schema": table, "example": "id,text\n1,Good morning!\n"},
    }, "required": True}  # fmt: skip


OPENAPI = {"requestBody": _body()}
