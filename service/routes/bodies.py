"""Request bodies that hold files, read piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from tribunal.parsed import from_json
from tribunal.service.replica.problems import Problem

Asked = TypeVar("Asked", bound=BaseModel)
JSON_KIND = "application/json"
_MOST_FIELDS = 20
_MOST_FIELD = 8 * 1024**2  # bytes of a field that is no file


def kind_of(request: Request) -> str:
    """The media type of the body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().casefold()


def is_json(kind: str) -> bool:
    """Whether a media type is JSON's, or of a form of it."""
    return kind == JSON_KIND or kind.endswith("+json")


async def pieces(request: Request) -> AsyncGenerator[bytes]:
    """The body as it comes; `tribunal.service.bounds` bounds it.

    Raises:
        Problem: it ends early.
    """
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise Problem("bad_input", "body: ended early") from None


async def whole(request: Request) -> bytes:
    """The body at once.

    Raises:
        Problem: as `pieces`.
    """
    return b"".join([piece async for piece in pieces(request)])


async def form(request: Request) -> tuple[dict[str, str], dict[str, UploadFile], FormData]:
    """The fields and the files of a multipart body; whoever asks closes the form.

    Raises:
        Problem: as `pieces`; or it is no such body, or a field is there twice.
    """
    parser = MultiPartParser(
        request.headers, pieces(request), max_files=1, max_fields=_MOST_FIELDS, max_part_size=_MOST_FIELD
    )
    try:
        read = await parser.parse()
    except MultiPartException as error:
        raise Problem("bad_input", f"body: {error.message}") from None
    fields: dict[str, str] = {}
    files: dict[str, UploadFile] = {}
    for name, value in read.multi_items():
        if name in fields or name in files:
            await read.close()
            raise Problem("bad_input", f"{name[:80]}: is there twice")
        if isinstance(value, UploadFile):
            files[name] = value
        else:
            fields[name] = value
    return fields, files, read


def fields_as(model: type[Asked], fields: Mapping[str, str]) -> Asked:
    """The fields of a form or of a query as a model has them; those that aren't texts are written in JSON.

    Raises:
        RequestValidationError: a field is wrong.
    """
    given: dict[str, Any] = dict(fields)
    for name, about in model.model_json_schema()["properties"].items():
        if name in given and about.get("type") in ("object", "array"):
            try:
                given[name] = from_json(given[name])
            except ValueError as error:
                raise Problem("bad_input", f"{name}: is not JSON: {error}") from None
    return checked(model, given)


def checked(model: type[Asked], given: Any) -> Asked:
    """What was sent, as a model has it.

    Raises:
        RequestValidationError: it isn't so.
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in wrong]) from None
