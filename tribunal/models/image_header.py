"""What the first bytes of an image say of it: its format and its size. Nothing is decoded.

It is read before anything is decoded, because a decoder may make room for all pixels before it looks at the first.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple


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
        found = _detect_format(raw)
    except (struct.error, IndexError) as error:
        raise BrokenHeader("its header is cut") from error
    if found and (found.width <= 0 or found.height <= 0):
        raise BrokenHeader("its header gives it no size")
    return found


def _detect_format(raw: bytes) -> ImageHeader | None:
    if raw.startswith(b"\x89PNG\r\n\x1a\n"):
        return ImageHeader("PNG", *struct.unpack_from(">II", raw, 16))
    if raw.startswith((b"GIF87a", b"GIF89a")):
        return ImageHeader("GIF", *struct.unpack_from("<HH", raw, 6))
    if raw.startswith(b"BM"):
        return ImageHeader("BMP", *_bitmap_size(raw))
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return ImageHeader("WEBP", *_webp_size(raw))
    if raw.startswith(b"\xff\xd8\xff"):
        return ImageHeader("JPEG", *_jpeg_size(raw))
    return None


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


_MARKER = re.compile(rb"\xff([^\x00\xff])")
_SIZED = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})  # the start of a frame, of whichever kind
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})  # those that have no length
_MOST_SEGMENTS = 20_000  # a picture has some dozens; colour profiles and previews come in pieces of 64 KB


def _jpeg_size(raw: bytes) -> tuple[int, int]:
    at = 2
    for _ in range(_MOST_SEGMENTS):
        marker = _MARKER.search(raw, at)
        if marker is None or marker[1] in (b"\xd9", b"\xda"):
            break
        kind, at = marker[1][0], marker.end()
        if kind in _SIZED:
            height, width = struct.unpack_from(">HH", raw, at + 3)
            return width, height
        if kind not in _BARE:
            (length,) = struct.unpack_from(">H", raw, at)
            at += max(length, 2)
    raise BrokenHeader("it has no size before its pixels")
