"""Post images: checked, stripped of metadata, scaled, and loaded once a post.

State carries a reference and a hash; the bytes live here, for as long as a handful of posts need them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import io
import re
import struct
import warnings
import zlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from urllib.parse import unquote_to_bytes

from PIL import Image as Pillow
from PIL import ImageOps, UnidentifiedImageError

from tribunal.environment import data_folder
from tribunal.errors import BadInput
from tribunal.files import write_whole
from tribunal.schema import Image

MAX_BYTES = 20 * 1024 * 1024
MAX_PIXELS = 50_000_000
FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif", "BMP": "image/bmp"}
_SEVERAL = "MPO"  # what Pillow calls a JPEG with previews or a second lens behind it, as phones write them
_KEPT = 64

_DATA_URI = re.compile(r"^data:(?P<mime>[\w.+/-]*)(?P<rest>(?:;[^,;]*)*),", re.ASCII)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as a model gets it: JPEG or PNG, no metadata, its longest edge within the set one."""

    image: Image
    data_uri: str
    sha256: str  # of the bytes that are sent


_pictures: OrderedDict[tuple[str, int], Picture] = OrderedDict()
_lock = Lock()


async def picture(ref: str, edge: int, *, sha256: str | None = None) -> Picture:
    """The image behind a reference, read and checked off the event loop, and kept for the next calls of its post.

    Args:
        ref: a path or a data URI.
        edge: the longest edge to send, in pixels; a smaller image is left as it is.
        sha256: what the bytes must hash to, where the case already knows them.

    Raises:
        BadInput: it can't be read, isn't an image of a known format, is too large, moves, or has changed.
    """
    if sha256 and (kept := _kept(sha256, edge)):
        return kept
    return await asyncio.to_thread(_load, ref, edge, sha256)


def read(ref: str) -> bytes:
    """The bytes behind a reference, at most `MAX_BYTES` of them.

    Raises:
        BadInput: as `picture`.
    """
    if ref.startswith("data:"):
        return _from_data_uri(ref)
    path = Path(ref).expanduser()
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"image: {ref[:200]}: {reason}; give the path of an image file") from error
    return _sized(raw, ref)


def keep(ref: str) -> str:
    """A data URI as a file of the data folder, named by its content; gives the file's path.

    Raises:
        BadInput: as `picture`, or the data folder can't be written.
    """
    return keep_bytes(read(ref), ref)


def keep_bytes(raw: bytes, ref: str) -> str:
    """Image bytes as a file of the data folder, named by their content; `ref` is what to call them in an error."""
    image = check(_sized(raw, ref), ref)
    path = data_folder() / "images" / f"{image.sha256}.{image.mime.partition('/')[2]}"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, raw)
    except OSError as error:
        raise BadInput(
            f"image: can't be kept in {path.parent}: {error.strerror or error}; set TRIBUNAL_DATA to a folder"
        ) from error
    return str(path)


def check(raw: bytes, ref: str) -> Image:
    """What an image is, having looked at its header and, whole, at its pixels.

    Raises:
        BadInput: as `picture`.
    """
    opened = _opened(raw, ref)
    return Image(
        ref=ref,
        sha256=hashlib.sha256(raw).hexdigest(),
        mime=FORMATS["JPEG" if opened.format == _SEVERAL else opened.format or ""],
        width=opened.width,
        height=opened.height,
    )


def _load(ref: str, edge: int, expected: str | None) -> Picture:
    raw = read(ref)
    digest = hashlib.sha256(raw).hexdigest()
    if expected and digest != expected:
        raise BadInput(f"image: {_short(ref)}: has changed since the case began; give the post again")
    if kept := _kept(digest, edge):
        return replace(kept, image=kept.image.model_copy(update={"ref": ref}))
    image = check(raw, ref)
    sent, mime = _prepared(raw, ref, edge)
    made = Picture(
        image=image,
        data_uri=f"data:{mime};base64,{base64.b64encode(sent).decode()}",
        sha256=hashlib.sha256(sent).hexdigest(),
    )
    with _lock:
        _pictures[digest, edge] = made
        while len(_pictures) > _KEPT:
            _pictures.popitem(last=False)
    return made


def _kept(digest: str, edge: int) -> Picture | None:
    with _lock:
        made = _pictures.get((digest, edge))
        if made:
            _pictures.move_to_end((digest, edge))
        return made


def _from_data_uri(ref: str) -> bytes:
    head = _DATA_URI.match(ref)
    if not head:
        raise BadInput(f"image: {_short(ref)}: not a data URI; the form is data:image/png;base64,…")
    body = ref[head.end() :]
    if len(body) > MAX_BYTES * 4 // 3 + 4:
        raise BadInput(f"image: {_short(ref)}: is over {MAX_BYTES // 1024**2} MB; scale it down")
    try:
        raw = (
            base64.b64decode(re.sub(r"\s+", "", unquote_to_bytes(body).decode("ascii")), validate=True)
            if ";base64" in head["rest"].lower()
            else unquote_to_bytes(body)
        )
    except (binascii.Error, ValueError) as error:
        raise BadInput(f"image: {_short(ref)}: its base64 is broken: {error}; encode the file again") from error
    return _sized(raw, ref)


def _sized(raw: bytes, ref: str) -> bytes:
    if not raw:
        raise BadInput(f"image: {_short(ref)}: is empty; give an image file")
    if len(raw) > MAX_BYTES:
        raise BadInput(f"image: {_short(ref)}: is over {MAX_BYTES // 1024**2} MB; scale it down")
    return raw


# What Pillow's readers raise at bytes that are not what they should be.
_BROKEN = (
    OSError, SyntaxError, ValueError, EOFError, TypeError, LookupError, ArithmeticError, struct.error, zlib.error,
    MemoryError, Pillow.DecompressionBombError,
)  # fmt: skip


def _opened(raw: bytes, ref: str) -> Pillow.Image:
    """The decoded image; Pillow reads lazily, so everything is asked of it here, bombs first."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Pillow.DecompressionBombWarning)
            opened = Pillow.open(io.BytesIO(raw), formats=tuple(FORMATS))
        if opened.width * opened.height > MAX_PIXELS:
            raise BadInput(
                f"image: {_short(ref)}: {opened.width} × {opened.height} is over {MAX_PIXELS // 10**6} million pixels; "
                "scale it down"
            )
        if opened.format != _SEVERAL and getattr(opened, "is_animated", False):
            raise BadInput(f"image: {_short(ref)}: is animated; give the frame that matters as a still image")
        opened.load()
    except UnidentifiedImageError as error:
        raise BadInput(
            f"image: {_short(ref)}: is not an image of a known format; give {', '.join(sorted(FORMATS))}"
        ) from error
    except BadInput:
        raise
    except _BROKEN as error:
        raise BadInput(f"image: {_short(ref)}: can't be read whole: {error}; save it again as PNG or JPEG") from error
    return opened


def _upright(opened: Pillow.Image) -> Pillow.Image:
    """Turned as its metadata says, where that can be read."""
    try:
        return ImageOps.exif_transpose(opened)
    except _BROKEN:
        return opened


def _prepared(raw: bytes, ref: str, edge: int) -> tuple[bytes, str]:
    opened = _upright(_opened(raw, ref))
    if opened.mode.startswith("I"):  # 16 bits a pixel, all but the darkest of which `convert` takes for white
        opened = opened.convert("I").point(lambda value: value / 256).convert("L")
    opened.thumbnail((edge, edge), Pillow.Resampling.LANCZOS)
    flat = (
        opened.convert("RGBA") if opened.mode in ("P", "LA", "PA", "RGBA") or "transparency" in opened.info else opened
    )
    if flat.mode == "RGBA":
        ground = Pillow.new("RGB", flat.size, "white")
        ground.paste(flat, mask=flat.getchannel("A"))
        flat = ground
    out = io.BytesIO()
    flat.convert("RGB").save(out, "JPEG", quality=90)
    return out.getvalue(), "image/jpeg"


def _short(ref: str) -> str:
    return ref if len(ref) <= 80 else ref[:40] + "…"
