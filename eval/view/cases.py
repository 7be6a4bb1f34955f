"""One sample as a person looks at it: its case explained, and what the run adds to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup
from pydantic import ValidationError

from tribunal.calls import Call
from tribunal.cases.case_drawing import draw_fragment
from tribunal.cases.view_maker import view_case
from tribunal.errors import BadInput
from tribunal.eval.runs.results import read_full_line
from tribunal.eval.view.rows import kept_text
from tribunal.files import open_regular
from tribunal.models.image import stored_file
from tribunal.models.image_header import BrokenHeader, read_header
from tribunal.schema import Record

if TYPE_CHECKING:
    from tribunal.eval.runs.prices import Prices
    from tribunal.eval.view.samples import IndexedSample
    from tribunal.eval.view.viewed_runs import AttachedPost
    from tribunal.schema import JSON

_HEAD = 256 * 1024  # bytes of an image's file in which its size stands
_SQUARE = (1000, 1000)


class SampleMoved(Exception):
    """The line of a sample isn't where the index has it: the file was written anew meanwhile."""


class SamplePage(NamedTuple):
    """A sample's page, but for what surrounds it.

    Attributes:
        inside: the explained case; empty where its record can't be read, and `problem` says why.
        line: the line of results.jsonl.
        calls: every call, with what it cost.
        fields: what the data set says of the post, as names and values.
    """

    inside: Markup
    problem: str
    line: JSON
    calls: list[tuple[Call, float | None]]
    fields: list[tuple[str, str]]


def read_sample_line(folder: Path, found: IndexedSample) -> JSON:
    """Return the line of a sample.

    Raises:
        SampleMoved: another one stands there by now.
    """
    try:
        held = read_full_line(folder, found.offset)
    except (ValueError, OSError) as error:
        raise SampleMoved from error
    if not isinstance(held, dict) or (held.get("post_id"), held.get("repeat", 0)) != (found.post, found.repeat):
        raise SampleMoved
    return held


def view_sample(
    line: JSON,
    text: AttachedPost | None,
    *,
    prices: Prices | None = None,
    image: str | None = None,
    prefix: str = "ex-",
) -> SamplePage:
    """Return a sample's page.

    Args:
        line: of results.jsonl.
        text: its post, where it was re-attached.
        prices: what calls cost.
        image: the address at which the image is served, where there is one to serve.
        prefix: what the ids in it begin with.
    """
    try:
        record = Record.model_validate({name: line[name] for name in Record.model_fields if name in line})
        view = view_case(
            record,
            post=_post_fields(line, text),
            image=image,
            image_size=image_size(find_image_file(line, text)) if image else _SQUARE,
            image_absent=_why_no_image(line, text),
            price=prices.cost_of_call if prices else None,
        )
    except (ValidationError, BadInput) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        return SamplePage(Markup(), said, line, [], _dataset_fields(line))
    calls = [(call, prices.cost_of_call(call) if prices else None) for call in record.calls]
    return SamplePage(draw_fragment(view, prefix=prefix), "", line, calls, _dataset_fields(line))


def find_image_file(line: JSON, text: AttachedPost | None) -> str | None:
    """Return the file of a post's image on this machine: the data set's, else the one that the run kept."""
    if text is not None and text.image and not text.image.casefold().startswith(("http://", "https://")):
        return text.image
    digest = line.get("image_sha256")
    kept = stored_file(digest) if isinstance(digest, str) else None
    return str(kept) if kept else None


def image_size(file: str | None) -> tuple[int, int]:
    """Return an image's width and height by its header; a square where they can't be read."""
    if file is None or file.startswith("data:"):
        return _SQUARE
    try:
        with open_regular(Path(file)) as held:
            found = read_header(held.read(_HEAD))
    except (OSError, BrokenHeader):
        return _SQUARE
    return (found.width, found.height) if found else _SQUARE


def _post_fields(line: JSON, text: AttachedPost | None) -> JSON | None:
    words = kept_text(line) if text is None else text.text
    if words is None:
        return None
    held: JSON = {"text": words, "earlier": text.earlier if text else ()}
    if line.get("has_image") is not None or (text and text.image):
        held["image"] = "its image"
    return held


def _why_no_image(line: JSON, text: AttachedPost | None) -> str:
    if line.get("has_image") is False:
        return "It was missing when the run was made."
    if text is None:
        return "Runs keep no images. Start with --data to see it."
    return "The data set has no file of it here."


def _dataset_fields(line: JSON) -> list[tuple[str, str]]:
    fields = line.get("fields")
    if not isinstance(fields, dict):
        return []
    return [
        (str(name), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in fields.items()
    ]
