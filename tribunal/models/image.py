"""Post images: checked, stripped of metadata, scaled, and loaded once a post.

State carries a reference and a hash; the bytes live here, for as long as a handful of posts need them. They are decoded
in processes that can be ended (`tribunal.process.sandbox`), two of them. Each has a gigabyte of address space,
and together they decode no more than `MAX_PIXELS` at once, however many posts are in flight.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from urllib.parse import unquote_to_bytes

from tribunal import trust
from tribunal.errors import BadInput
from tribunal.models.image_header import FORMATS, BrokenHeader, ImageHeader, read_header
from tribunal.process.files import read_regular, write_whole
from tribunal.process.sandbox import SandboxPool, WorkerLate
from tribunal.process.workers import WorkerDied
from tribunal.schema import Image
from tribunal.settings.environment import data_folder

MAX_BYTES = 20 * 1024 * 1024
MAX_PIXELS = 50_000_000
PROCESSES = 2
MEMORY = 2**30
SECONDS = 20.0
_KEPT = 64

_DATA_URI = re.compile(r"^data:(?P<mime>[\w.+/-]*)(?P<rest>(?:;[^,;]*)*),", re.ASCII)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as a model gets it: a JPEG with pixels and no metadata, its longest edge within the limit."""

    image: Image
    data_uri: str
    sha256: str  # of the bytes that are sent
    notes: tuple[str, ...] = ()  # how it differs from the image that was given; for the record


_pictures: OrderedDict[tuple[str, int], Picture] = OrderedDict()
_lock = Lock()


async def load_picture(ref: str, edge: int, *, sha256: str | None = None) -> Picture:
    """Read and check the image behind a reference, off the event loop; it is kept for the next calls of its post.

    Args:
        ref: a path or a data URI.
        edge: the longest edge to send, in pixels; a smaller image is left as it is.
        sha256: the expected hash of the bytes, if the case knows it.

    Raises:
        BadInput: it can't be read, isn't an image of a known format, is too large, or has changed; or it is a file of
            the machine, and this is a server whose operator hasn't allowed it (`tribunal.trust`).
    """
    if sha256 and (kept := _cached_picture(sha256, edge)):
        return kept
    raw = await asyncio.to_thread(read_image, ref)
    digest = await asyncio.to_thread(_sha256, raw)
    if sha256 and digest != sha256:
        raise BadInput(
            f"image: {_short_ref(ref)}: has changed since the case began; give the post again"
        )
    return await _make_picture(raw, digest, ref, edge)


async def store_picture(ref: str, edge: int | None, raw: bytes | None = None) -> Picture:
    """Read an image, and keep its bytes as a file of the data folder, which is its reference from here on.

    Args:
        ref: a data URI, or what to call the bytes in an error.
        edge: as for `load_picture`; None: it is checked, and nothing is made to be sent.
        raw: the bytes, where they are at hand.

    Raises:
        BadInput: as `load_picture`, or the data folder can't be written.
    """
    given = await asyncio.to_thread(read_image, ref) if raw is None else _check_size(raw, ref)
    digest = await asyncio.to_thread(_sha256, given)
    made = await _make_picture(given, digest, ref, edge)
    path = await asyncio.to_thread(_write_image, given, made.image)
    return replace(made, image=made.image.model_copy(update={"ref": str(path)}))


async def store_image(ref: str, raw: bytes | None = None) -> str:
    """Keep an image as `store_picture` does, and return the path of its file."""
    return (await store_picture(ref, None, raw)).image.ref


def read_image(ref: str) -> bytes:
    """Return the bytes behind a reference, at most `MAX_BYTES` of them.

    Raises:
        BadInput: as `load_picture`.
    """
    if ref.startswith("data:"):
        return _from_data_uri(ref)
    ours = trust.for_strangers() and _is_ours(ref)
    if not ours:
        trust.check_image(ref)
    try:
        raw = read_regular(Path(ref).expanduser(), MAX_BYTES)
    except (OSError, ValueError, RuntimeError) as error:
        if ours:
            raise trust.image_refused(ref) from error
        reason = getattr(error, "strerror", None) or str(error)
        way_out = (
            "scale it down" if reason.startswith("is over") else "give the path of an image file"
        )
        raise BadInput(f"image: {ref[:200]}: {reason}; {way_out}") from error
    return _check_size(raw, ref)


def stored_file(sha256: str) -> Path | None:
    """Return the file of the data folder that holds the image of this hash, or None if there is none here."""
    made = (_image_folder() / f"{sha256}.{mime.partition('/')[2]}" for mime in FORMATS.values())
    return next((path for path in made if _OURS.fullmatch(path.name) and path.is_file()), None)


def check_header(ref: str) -> None:
    """Look at an image's header, and not yet at its pixels.

    Raises:
        BadInput: as `load_picture`.
    """
    _checked_header(read_image(ref), ref)


def _image_folder() -> Path:
    return data_folder() / "images"


_OURS = re.compile(
    rf"[0-9a-f]{{64}}\.(?:{'|'.join(mime.partition('/')[2] for mime in FORMATS.values())})"
)


def _is_ours(ref: str) -> bool:
    """Return whether a path is one that `_written` gives, as the state of a case holds it."""
    path = Path(ref)
    return path.parent == _image_folder() and bool(_OURS.fullmatch(path.name))


def _write_image(raw: bytes, image: Image) -> Path:
    path = _image_folder() / f"{image.sha256}.{image.mime.partition('/')[2]}"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, raw)
    except OSError as error:
        raise BadInput(
            f"image: can't be kept in {path.parent}: {error.strerror or error}; set TRIBUNAL_DATA to a folder"
        ) from error
    return path


async def _make_picture(raw: bytes, digest: str, ref: str, edge: int | None) -> Picture:
    if edge is not None and (kept := _cached_picture(digest, edge)):
        return replace(kept, image=kept.image.model_copy(update={"ref": ref}))
    found = _checked_header(raw, ref)
    try:
        answer, sent = await _decoding_workers().ask(
            {"format": found.format, "pixels": found.pixels, "edge": edge},
            raw,
            seconds=SECONDS,
            weight=found.pixels,
        )
    except (WorkerLate, WorkerDied) as error:
        raise _unreadable_image(ref, str(error)) from error
    match answer.get("wrong"):
        case "unknown":
            raise _unknown_format(ref)
        case "broken":
            raise _unreadable_image(ref, answer["why"])
    made = Picture(
        image=Image(
            ref=ref,
            sha256=digest,
            mime=FORMATS[found.format],
            width=answer["width"],
            height=answer["height"],
        ),
        data_uri=f"data:image/jpeg;base64,{base64.b64encode(sent).decode()}",
        sha256=_sha256(sent),
        notes=tuple(f"image: {note}" for note in answer["notes"]),
    )
    if edge is not None:
        with _lock:
            _pictures[digest, edge] = made
            while len(_pictures) > _KEPT:
                _pictures.popitem(last=False)
    return made


@lru_cache(maxsize=1)
def _decoding_workers() -> SandboxPool:
    """Its processes serve every event loop, and end with the program."""
    return SandboxPool(
        "tribunal.models.image_decoding:decode_image",
        processes=PROCESSES,
        memory=MEMORY,
        max_weight=MAX_PIXELS,
    )


def _checked_header(raw: bytes, ref: str) -> ImageHeader:
    """Return the header of an image that may be decoded."""
    try:
        found = read_header(raw)
    except BrokenHeader as error:
        raise _unreadable_image(ref, str(error)) from error
    if found is None:
        raise _unknown_format(ref)
    if found.format == "HEIF" and find_spec("pillow_heif") is None:
        raise BadInput(
            f"image: {_short_ref(ref)}: is HEIC, which needs the package pillow-heif; install it with `pip install "
            "pillow-heif`, or save the image as PNG or JPEG"
        )
    if found.pixels > MAX_PIXELS:
        raise BadInput(
            f"image: {_short_ref(ref)}: {found.width} × {found.height} is over {MAX_PIXELS // 10**6} million pixels; "
            "scale it down"
        )
    return found


def _unknown_format(ref: str) -> BadInput:
    return BadInput(
        f"image: {_short_ref(ref)}: is not an image of a known format; give {', '.join(sorted(FORMATS))}"
    )


def _unreadable_image(ref: str, why: str) -> BadInput:
    return BadInput(
        f"image: {_short_ref(ref)}: can't be read whole: {why}; save it again as PNG or JPEG"
    )


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _cached_picture(digest: str, edge: int) -> Picture | None:
    with _lock:
        made = _pictures.get((digest, edge))
        if made:
            _pictures.move_to_end((digest, edge))
        return made


def _from_data_uri(ref: str) -> bytes:
    head = _DATA_URI.match(ref)
    if not head:
        raise BadInput(
            f"image: {_short_ref(ref)}: not a data URI; the form is data:image/png;base64,…"
        )
    body = ref[head.end() :]
    if len(body) > MAX_BYTES * 4 // 3 + 4:
        raise BadInput(
            f"image: {_short_ref(ref)}: is over {MAX_BYTES // 1024**2} MB; scale it down"
        )
    try:
        raw = (
            base64.b64decode(
                re.sub(r"\s+", "", unquote_to_bytes(body).decode("ascii")), validate=True
            )
            if ";base64" in head["rest"].lower()
            else unquote_to_bytes(body)
        )
    except (binascii.Error, ValueError) as error:
        raise BadInput(
            f"image: {_short_ref(ref)}: its base64 is broken: {error}; encode the file again"
        ) from error
    return _check_size(raw, ref)


def _check_size(raw: bytes, ref: str) -> bytes:
    if not raw:
        raise BadInput(f"image: {_short_ref(ref)}: is empty; give an image file")
    if len(raw) > MAX_BYTES:
        raise BadInput(
            f"image: {_short_ref(ref)}: is over {MAX_BYTES // 1024**2} MB; scale it down"
        )
    return raw


def _short_ref(ref: str) -> str:
    return ref if len(ref) <= 80 else ref[:40] + "…"
