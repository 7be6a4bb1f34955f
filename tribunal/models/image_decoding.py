"""What a decoding process does: the bytes of an image in, a JPEG of its pixels out. Imported there alone."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from typing import Any

from PIL import Image as Pillow
from PIL import ImageOps, UnidentifiedImageError

_SEVERAL = "MPO"  # what Pillow calls a JPEG with previews or a second lens behind it, as phones write them

# What Pillow's readers raise at bytes that are not what they should be.
_BROKEN = (
    OSError, SyntaxError, ValueError, EOFError, TypeError, LookupError, ArithmeticError, struct.error, zlib.error,
    MemoryError, Pillow.DecompressionBombError,
)  # fmt: skip


def decode_image(job: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
    """Decode an image; return its description and the bytes to send.

    Args:
        job: `format` and `pixels`, as its header says; `edge`, the longest to send, or None where nothing is.
        body: its bytes.

    Returns:
        `width` and `height`, and a JPEG; or `wrong`: animated, unknown, or broken with the reason in `why`.
    """
    try:
        opened = _open_image(body, job["format"])
        if opened.width * opened.height > job["pixels"]:
            return {"wrong": "broken", "why": "its parts don't agree on its size"}, b""
        if opened.format != _SEVERAL and getattr(opened, "is_animated", False):
            return {"wrong": "animated"}, b""
        size = {"width": opened.width, "height": opened.height}
        if job["edge"] is None:
            opened.load()
            return size, b""
        return size, _encode_jpeg(_flat_pixels(opened, job["edge"]))
    except UnidentifiedImageError:
        return {"wrong": "unknown"}, b""
    except _BROKEN as error:
        return {"wrong": "broken", "why": str(error) or type(error).__name__}, b""


def _open_image(raw: bytes, format: str) -> Pillow.Image:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Pillow.open(io.BytesIO(raw), formats=(format,))


def _flat_pixels(opened: Pillow.Image, edge: int) -> Pillow.Image:
    """Red, green and blue, upright, within the edge, on white where it can be seen through."""
    if opened.mode.startswith("I"):  # 16 bits a pixel, all but the darkest of which `convert` takes for white
        deep = opened.convert("I")
        deep.thumbnail((edge, edge), Pillow.Resampling.LANCZOS)
        return _turn_upright(deep.point(lambda value: value / 256).convert("L")).convert("RGB")
    # A photograph is read at the next larger eighth of its size, which spares most of the work.
    opened.thumbnail((edge, edge), Pillow.Resampling.LANCZOS)
    opened.load()
    flat = _turn_upright(opened)
    if flat.mode in ("P", "LA", "PA") or "transparency" in flat.info:
        flat = flat.convert("RGBA")
    if flat.mode == "RGBA":
        ground = Pillow.new("RGB", flat.size, "white")
        ground.paste(flat, mask=flat.getchannel("A"))
        flat = ground
    return flat.convert("RGB")


def _turn_upright(small: Pillow.Image) -> Pillow.Image:
    """Turn an image as its metadata say, where they can be read."""
    try:
        return ImageOps.exif_transpose(small)
    except _BROKEN:
        return small


def _encode_jpeg(small: Pillow.Image) -> bytes:
    # A picture of its own, so that no comment, profile or text of the first one can come along.
    bare = Pillow.frombytes("RGB", small.size, small.tobytes())
    out = io.BytesIO()
    bare.save(out, "JPEG", quality=90)
    return out.getvalue()
