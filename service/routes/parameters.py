"""Parts that several routes share: parameters, fields, the bodies of requests, and the errors that they answer with.

`tribunal.service.limits` limits each body.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path, PurePath
from typing import Annotated, Any, TypeVar

from fastapi import Header, Query, Request
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from starlette.datastructures import UploadFile

from tribunal.core.text import one_line, parse_json, suggest_name, wellformed, wellformed_json
from tribunal.errors import STATUS, Problem
from tribunal.models.image import MAX_BYTES, MAX_PIXELS
from tribunal.models.image_header import FORMATS, BrokenHeader, read_header
from tribunal.process.files import create_file, hash_file
from tribunal.schema import JSON
from tribunal.service.replica.batch_files import Upload
from tribunal.service.routes.storable import check_numbers

CASE_ID = "case-0198c5d1f3a1b2c3d4e5f"
APPEAL_ID = "appeal-0198c5d1f3a1b2c3d4e5f"
BATCH_ID = "batch-0198c5d1f3a1b2c3d4e5f"
_ID: JSON = {"max_length": 80, "pattern": r"^[\w-]+$"}

UNKNOWN_FIELD = "unknown_field"  # the type of an error that `RequestBody` raises

CaseId = Annotated[str, PathParameter(**_ID, description="the case's", examples=[CASE_ID])]
IdempotencyKey = Annotated[
    str | None,
    Header(
        max_length=200,
        description="your own name for this request, which is then done once",
        examples=["order-1"],
    ),
]
ReviewerQuery = Annotated[
    str | None, Query(max_length=200, description="who claimed it", examples=["kim"])
]
Seconds = Annotated[float, Field(examples=[1795330000.0])]  # of the epoch
Person = Annotated[str, Field(examples=["kim (desk)"])]
Category = Annotated[str, Field(examples=["NotHate"])]


class ResponseBody(BaseModel):
    """Part of an answer. The text below a field describes it in OpenAPI."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class RequestBody(ResponseBody):
    """What a client sends. An unknown field is refused, and the message names the nearest known field."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_fields(cls, content: Any) -> Any:
        known = [field.alias or name for name, field in cls.model_fields.items()]
        accepted = {*known, *(cls.model_fields if cls.model_config.get("populate_by_name") else ())}
        unknown = (
            [name for name in content if name not in accepted] if isinstance(content, dict) else []
        )
        if not unknown:
            return content
        name = str(unknown[0])
        parts = [each for each in known if name.casefold() in each.split("_")]
        hint = f"did you mean {parts[0]}?" if parts else suggest_name(name, known)
        context = {"field": name[:80], "hint": hint or f"use one of: {', '.join(known)}"}
        raise PydanticCustomError(UNKNOWN_FIELD, "unknown field; {hint}", context)


class PageQuery(RequestBody):
    """Choose a page of a list and how much it has. A parameter that the list lacks is refused: a misspelt filter."""

    before: str | None = Field(default=None, max_length=80, examples=[CASE_ID])
    """`next` of the page before"""
    limit: int = Field(default=50, ge=1, le=200, examples=[50])
    """how many a page has"""

    def filters(self) -> JSON:
        """Return the other fields, as far as they are given."""
        return self.model_dump(exclude={"before", "limit"}, exclude_none=True)

    def next_of(self, rows: list[Any]) -> str | None:
        """Return what leads to the next page; None if this one, of these rows, is the last."""
        return rows[-1]["id"] if len(rows) == self.limit else None


def id_path(what: str, example: str) -> Any:
    """Return the parameter of a path that is an id."""
    return PathParameter(**_ID, description=f"the {what}'s", examples=[example])


def id_field(description: str, example: str) -> Any:
    """Return a field of a query that is an id, and may be left out."""
    return Field(default=None, **_ID, description=description, examples=[example])


def since_field(what: str) -> Any:
    """Return the field of a query that is the begin of a time."""
    said = f"{what} at or after, in seconds of the epoch"
    return Field(default=None, allow_inf_nan=False, description=said, examples=[1795330000.0])


UNTIL: Any = Field(
    default=None, allow_inf_nan=False, description="before this time", examples=[1795330900.0]
)


def next_field(example: str) -> Any:
    """Return the field that leads to the next page."""
    description = "give it as `before` for the next page; none: that was the last"
    return Field(default=None, description=description, examples=[example])


def words_field(description: str, example: str, *, default: str | None = None) -> Any:
    """Return a field of a person's words, which have to be there unless there is a default."""
    limits: JSON = {"min_length": 1} if default is None else {"default": default}
    return Field(
        **limits,
        max_length=10_000,
        pattern=r"^[^\x00]*$",
        description=description,
        examples=[example],
    )


def person_field(description: str, example: str, **more: Any) -> Any:
    """Return a field that names somebody."""
    limits: JSON = {"min_length": 1, "max_length": 200, "pattern": r"^[^\x00-\x1f]*$"}
    return Field(**limits, description=description, examples=[example], **more)


_BESIDE_KEY = "several people use one key; the key's own name stands beside it"
REVIEWER = person_field(f"who decides, where {_BESIDE_KEY}", "kim", default=None)
LEAD = person_field(f"the lead, where {_BESIDE_KEY}", "lee", default=None)
CHANGED_CATEGORY = Field(
    default=None, max_length=200, description="of a change: a category of the case's policy, by its name or its number",
    examples=["NotHate"],
)  # fmt: skip
CLAUSES: list[str] = Field(
    default=[], max_length=20, description="the clauses of the case's policy that it rests on, by their ids",
    examples=[["1.1"]],
)  # fmt: skip


class ClaimRequest(RequestBody):
    """A reviewer has something before them."""

    reviewer: str | None = REVIEWER
    seconds: float = Field(default=900, gt=0, le=86_400, examples=[900])
    """for how long"""


# As one reads it; for OpenAPI.
_EXAMPLES = {
    "bad_input": "text: there is neither text nor image; give one",
    "no_key": "no valid key: send one as Authorization: Bearer tribunal_…",
    "forbidden": "this key's scopes are audit; this needs judge",
    "not_found": "case: case-0198c5d1f3a1b2c3d4e5f: there is none",
    "conflict": "Idempotency-Key: belongs to another request",
    "spent": "this key's calls of today are spent: 1000 of 1000",
    "too_many": "over 60 requests a minute",
    "busy": "1000 cases wait; come back later",
    "undecided": "no verdict: a model declined to judge this post (case case-0198c5d1f3a1b2c3d4e5f)",
    "unavailable": "this replica stops; ask another",
    "late": "this takes longer than the service waits; send it again to get its outcome",
}


class ProblemInside(ResponseBody):
    """What went wrong, for a program and for a person."""

    kind: str = Field(description="one of: " + ", ".join(STATUS), examples=["bad_input"])
    message: str = Field(examples=["text: 200000 characters: over …"])
    """the field, the value, the way out"""


class ProblemBody(ResponseBody):
    """An error."""

    error: ProblemInside
    """what went wrong"""


def responses(
    *kinds: str,
    model: type[BaseModel] = ProblemBody,
    body_of: Callable[[Problem], JSON] = Problem.body,
) -> dict[int | str, dict[str, Any]]:
    """Return the errors that a route can answer with, for OpenAPI.

    Args:
        kinds: those that not every route has.
        model: their shape.
        body_of: brings one into that shape.
    """
    by_status: dict[int, list[str]] = {}
    for kind in (*kinds, "bad_input", "no_key", "forbidden", "too_many", "unavailable"):
        by_status.setdefault(STATUS[kind], []).append(kind)
    return {
        status: {
            "model": model,
            "description": "error: " + " or ".join(named),
            "content": {
                "application/json": {"example": body_of(Problem(named[0], _EXAMPLES[named[0]]))}
            },
        }
        for status, named in sorted(by_status.items())
    }


_HEADERS = {
    "X-Request-ID": ("the request's id, which its lines in the log have: yours, if you sent one", "9f86d081884c7d65"),
    "Retry-After": ("after how many seconds to send the request again, where that is known", "10"),
    "WWW-Authenticate": ("how to send a key", 'Bearer realm="tribunal"'),
    "Location": ("the address of the resource", f"/v1/cases/{CASE_ID}"),
    "Content-Disposition": ("a name for the file", f'attachment; filename="{BATCH_ID}.jsonl"'),
    "Tribunal-Case": ("the case's id; those of several posts in their order", CASE_ID),
    "Tribunal-Batch-Status": ("the status of the batch", "done"),
    "Tribunal-Explanation": ("with for=poster, whether a model wrote the text: written or fixed", "written"),
    "Tribunal-Score": ("where the probability of each post comes from", "votes"),
    "Tribunal-Uncertain": ("whether the verdict on each post is uncertain", "false"),
    "Tribunal-Rehearsed": ("whether the rehearsal model judged each post", "false"),
    "Tribunal-Categories": ("the categories that are judged; all others are false with score 0", "hate"),
    "Tribunal-Dropped-Attributes": (
        "the attributes that were asked for and are not judged, where that is not refused", "SEXUALLY_EXPLICIT"
    ),
}  # fmt: skip


def describe_headers(*names: str) -> dict[str, JSON]:
    """Return response headers by their names, for OpenAPI."""
    return {
        name: {
            "description": _HEADERS[name][0],
            "schema": {"type": "string"},
            "example": _HEADERS[name][1],
        }
        for name in names
    }


Model = TypeVar("Model", bound=BaseModel)
JSON_TYPE = "application/json"
FORM_TYPE = "multipart/form-data"
_MAX_FIELDS = 20
_MAX_FIELD_BYTES = 8 * 1024**2  # of a field that is no file
_TABLE_TYPES = {
    "application/x-ndjson": ".jsonl",
    "application/ndjson": ".jsonl",
    "application/jsonl": ".jsonl",
    "application/x-jsonlines": ".jsonl",
    "text/csv": ".csv",
}
_TABLE_SUFFIXES = {".jsonl": ".jsonl", ".ndjson": ".jsonl", ".csv": ".csv"}


def media_type_of(request: Request | UploadFile) -> str:
    """Return the media type of a body or of a file in it, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().casefold()


def is_json_type(media_type: str) -> bool:
    """Return whether a media type is JSON's, or of a form of it."""
    return media_type == JSON_TYPE or media_type.endswith("+json")


def wrong_type(media_type: str, *accepted: str) -> Problem:
    """Return the answer to a body of a type that the route doesn't take."""
    types = f"{', '.join(accepted[:-1])} or {accepted[-1]}" if len(accepted) > 1 else accepted[0]
    return Problem("wrong_type", f"Content-Type: {media_type[:80] or 'none'}: send {types}")


@asynccontextmanager
async def open_form(
    request: Request,
) -> AsyncIterator[tuple[dict[str, str], dict[str, UploadFile]]]:
    """Give the fields of a multipart body, and its files; raise Problem if one is there twice."""
    limits: dict[str, Any] = {
        "max_files": 1,
        "max_fields": _MAX_FIELDS,
        "max_part_size": _MAX_FIELD_BYTES,
    }
    async with request.form(**limits) as form:
        twice = next((name for name in form if len(form.getlist(name)) > 1), None)
        if twice:
            raise Problem("bad_input", f"{twice[:80]}: is there twice")
        files = {name: value for name, value in form.items() if isinstance(value, UploadFile)}
        fields = {
            wellformed(name): wellformed(value)
            for name, value in form.items()
            if isinstance(value, str)
        }
        yield fields, files


def parse_fields(model: type[Model], fields: Mapping[str, str]) -> Model:
    """Return the fields of a form or of a query as a model; those that aren't texts are written in JSON.

    Raises:
        Problem: one isn't JSON.
        RequestValidationError: a field is wrong.
    """
    values: dict[str, Any] = dict(fields)
    for name, schema in model.model_json_schema()["properties"].items():
        if name in values and schema.get("type") in ("object", "array"):
            try:
                values[name] = wellformed_json(parse_json(values[name]))
            except ValueError as error:
                raise Problem("bad_input", f"{name}: is not JSON: {error}") from None
            check_numbers(values[name], name)
    return validate_body(model, values)


def validate_body(model: type[Model], content: Any) -> Model:
    """Return what was sent as a model; raise RequestValidationError if it doesn't fit."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise RequestValidationError(
            [{**each, "loc": ("body", *each["loc"])} for each in faults]
        ) from None


def form_fields(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a model for OpenAPI as a form has them: those that aren't texts are written in JSON."""
    fields = dict(schema["properties"])
    for name, field in fields.items():
        if "anyOf" in field:  # a form has no null
            [kind] = [each for each in field["anyOf"] if each != {"type": "null"}]
            fields[name] = {
                **{key: field[key] for key in field if key not in ("anyOf", "default")},
                **kind,
            }
        if field.get("type") in ("object", "array"):
            examples = [json.dumps(each) for each in field.get("examples", ())]
            fields[name] = {
                "type": "string",
                "description": f"{field['description']}; as JSON",
                "examples": examples,
            }
    return fields


async def image_data_uri(file: UploadFile) -> str:
    """Return an image that was sent, as a data URI. Its header is checked now, its pixels when it is decided on.

    Raises:
        Problem: it is too large, or no image.
    """
    raw = await file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise Problem("too_large", f"image: is over {MAX_BYTES // 1024**2} MB; scale it down")
    try:
        image = read_header(raw)
    except BrokenHeader as error:
        raise Problem(
            "wrong_type", f"image: can't be read: {error}; save it again as PNG or JPEG"
        ) from None
    if image is None:
        raise Problem(
            "wrong_type",
            f"image: is not an image of a known format; send {', '.join(sorted(FORMATS))}",
        )
    if image.pixels > MAX_PIXELS:
        size = f"{image.width} × {image.height}"
        raise Problem(
            "too_large",
            f"image: {size} is over {MAX_PIXELS // 10**6} million pixels; scale it down",
        )
    encoded = await asyncio.to_thread(base64.b64encode, raw)
    return f"data:{FORMATS[image.format]};base64,{encoded.decode()}"


async def receive_table(
    request: Request, folder: Path, query: Mapping[str, str], max_bytes: int, model: type[Model]
) -> tuple[Upload, Model]:
    """Write a table to the disk as it comes: the file of a form, or the body itself.

    Args:
        request: what brings it.
        folder: where it is put.
        query: what the address says of it; a form may say it instead.
        max_bytes: how many bytes the file may have.
        model: what is said of it.

    Returns:
        the file, and what is said of it.

    Raises:
        Problem: it is too large, or of no known type.
        RequestValidationError: a field is wrong.
    """
    media_type = media_type_of(request)
    if media_type == FORM_TYPE:
        async with open_form(request) as (fields, files):
            twice = next((name for name in fields if name in query), None)
            if twice:
                raise Problem(
                    "bad_input", f"{twice}: is given in the form and in the address; give it once"
                )
            sent = files.get("file")
            if sent is None:
                raise Problem("bad_input", "file: there is none; send the posts as file")
            options = parse_fields(model, {**query, **fields})
            path, name = _place_of_file(sent, folder)
            if (sent.size or 0) > max_bytes:
                raise Problem(
                    "too_large",
                    f"file: is over {max_bytes:,} bytes (batch_bytes); send it in parts",
                )
            with create_file(path) as file:
                await asyncio.to_thread(shutil.copyfileobj, sent.file, file)
    elif media_type in _TABLE_TYPES:
        options = parse_fields(model, query)
        size = 0
        path = folder / f"posts{_TABLE_TYPES[media_type]}"
        name = path.name
        with create_file(path) as file:
            async for piece in request.stream():
                size += len(piece)
                if size > max_bytes:
                    raise Problem(
                        "too_large",
                        f"body: is over {max_bytes:,} bytes (batch_bytes); send it in parts",
                    )
                await asyncio.to_thread(file.write, piece)
    else:
        raise wrong_type(media_type, FORM_TYPE, "application/x-ndjson", "text/csv")
    return Upload(path, name, await asyncio.to_thread(hash_file, path)), options


def _place_of_file(sent: UploadFile, folder: Path) -> tuple[Path, str]:
    """Return where a file that was sent is put, and what it is called."""
    name = PurePath((sent.filename or "").replace("\\", "/")).name
    suffix = _TABLE_SUFFIXES.get(PurePath(name).suffix.casefold()) or _TABLE_TYPES.get(
        media_type_of(sent)
    )
    if suffix is None:
        raise Problem("wrong_type", f"file: {name[:80]!r}: is neither .jsonl, .ndjson nor .csv")
    printable = "".join(each for each in one_line(wellformed(name)) if each.isprintable())[:200]
    return folder / f"posts{suffix}", printable or f"posts{suffix}"
