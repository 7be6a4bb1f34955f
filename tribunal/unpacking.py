"""Unpack bodies of HTTP in steps of bounded size, whatever the ratio."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

STEP = 2**18  # bytes of a step, unpacked


class InflateDecoder:
    """gzip, of several members too, zlib, and the bare deflate that some servers send under the same name."""

    def __init__(self) -> None:
        """Begin before the first byte."""
        self._head = b""
        self._inner: Any = None  # what `zlib.decompressobj` makes has no public name

    @property
    def complete(self) -> bool:
        """Return whether the end has come."""
        return not self._head and (self._inner is None or self._inner.eof)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield these bytes unpacked; raise `zlib.error` if they can't be."""
        data = self._head + data
        self._head = b""
        full = False  # a full step may leave output inside when no input is left
        while data or full:
            if self._inner is None or self._inner.eof:
                if len(data) < 2:
                    self._head = data
                    return
                if self._inner is not None and data[:2] != b"\x1f\x8b":
                    return  # padding after the last gzip member
                self._inner = zlib.decompressobj(47 if _zlib_or_gzip(data) else -15)
            piece = self._inner.decompress(data, STEP)
            yield piece
            data = self._inner.unconsumed_tail or self._inner.unused_data
            full = len(piece) == STEP and not self._inner.eof


def _zlib_or_gzip(data: bytes) -> bool:
    return data[:2] == b"\x1f\x8b" or (data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0)
