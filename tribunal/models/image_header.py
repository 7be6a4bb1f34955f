"""Read an image's format and size from its first bytes. Nothing is decoded.

It is read before anything is decoded, because a decoder may make room for all pixels before it looks at the first.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

FORMATS = {
    "PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif", "BMP": "image/bmp",
    "AVIF": "image/avif", "HEIF": "image/heic",
}  # fmt: skip
"""The formats that are taken, by Pillow's names, and their media types."""

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "PNG", b"GIF87a": "GIF", b"GIF89a": "GIF", b"BM": "BMP", b"\xff\xd8\xff": "JPEG",
}  # fmt: skip


class ImageHeader(NamedTuple):
    """Format, by Pillow's name for it, and size in pixels."""

    format: str
    width: int
    height: int

    @property
    def pixels(self) -> int:
        """The number of pixels."""
        return self.width * self.height


class BrokenHeader(ValueError):
    """It begins like an image and goes on otherwise."""


def read_header(raw: bytes) -> ImageHeader | None:
    """Read the header of an image; return None for an unknown format.

    Raises:
        BrokenHeader: the header is cut or makes no sense.
    """
    try:
        format = detect_format(raw)
        found = ImageHeader(format, *_size_of(raw, format)) if format else None
    except (struct.error, IndexError) as error:
        raise BrokenHeader("its header is cut") from error
    if found and (found.width <= 0 or found.height <= 0):
        raise BrokenHeader("its header gives it no size")
    return found


def detect_format(raw: bytes) -> str | None:
    """Return the format that the first 256 bytes of an image say, by Pillow's name; None for an unknown one."""
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return "WEBP"
    if raw[4:8] == b"ftyp":
        length = int.from_bytes(raw[:4])
        names = raw[8:12] + raw[16 : min(length, 256)]
        brands = {names[at : at + 4] for at in range(0, len(names), 4)}
        return "AVIF" if brands & _AVIF_BRANDS else "HEIF" if brands & _HEIF_BRANDS else None
    return next(
        (format for signature, format in _SIGNATURES.items() if raw.startswith(signature)), None
    )


def _size_of(raw: bytes, format: str) -> tuple[int, int]:
    match format:
        case "PNG":
            width, height = struct.unpack_from(">II", raw, 16)
        case "GIF":
            width, height = struct.unpack_from("<HH", raw, 6)
        case "BMP":
            width, height = _bitmap_size(raw)
        case "WEBP":
            width, height = _webp_size(raw)
        case "JPEG":
            width, height = _jpeg_size(raw)
        case _:
            sizes = [
                struct.unpack(">II", found[1]) for found in _EXTENT.finditer(raw, 0, _MOST_HEADER)
            ]
            if not sizes:
                raise BrokenHeader("it has no size before its pixels")
            width, height = max(sizes, key=lambda size: size[0] * size[1])
    return width, height


_AVIF_BRANDS = frozenset({b"avif", b"avis"})
_HEIF_BRANDS = frozenset(
    {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"}
)
_EXTENT = re.compile(rb"\0\0\0\x14ispe\0\0\0\0(.{8})", re.DOTALL)


def _bitmap_size(raw: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH" if raw[14:18] == b"\x0c\0\0\0" else "<ii", raw, 18)
    return width, abs(height)  # below zero it stands on its head


def _webp_size(raw: bytes) -> tuple[int, int]:
    kind = raw[12:16]
    if kind == b"VP8X":
        low, high, low_height, high_height = struct.unpack_from("<HBHB", raw, 24)
        return (low | high << 16) + 1, (low_height | high_height << 16) + 1
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", raw, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", raw, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise BrokenHeader("its first part is none of WebP's")


_MOST_HEADER = 1024 * 1024  # bytes before the pixels of an ISO media file
_MARKER = re.compile(rb"\xff([^\x00\xff])")
# the start of a frame, of whichever kind
_SIZED = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})  # those that have no length
_MOST_SEGMENTS = (
    20_000  # a picture has some dozens; colour profiles and previews come in pieces of 64 KB
)


def _jpeg_size(raw: bytes) -> tuple[int, int]:
    at = 2
    for _ in range(_MOST_SEGMENTS):
        marker = _MARKER.search(raw, at)
        if marker is None or marker[1] in (b"\xd9", b"\xda"):
            break
        kind = marker[1][0]
        at = marker.end()
        if kind in _SIZED:
            height, width = struct.unpack_from(">HH", raw, at + 3)
            return width, height
        if kind not in _BARE:
            (length,) = struct.unpack_from(">H", raw, at)
            at += max(length, 2)
    raise BrokenHeader("it has no size before its pixels")
