"""The body of an answer, decompressed: never more than a step of output at a time, whatever the ratio."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import brotli  # type: ignore[import-untyped]

from tribunal.retrievers.web.fetch.errors import FetchFailed, FetchRefused

if TYPE_CHECKING:
    from tribunal.retrievers.web.fetch.wire import Answer

_STEP = 2**18


async def pieces(answer: Answer, wire_bytes: int) -> AsyncGenerator[bytes, None]:
    """The body of an answer, in pieces of bounded size.

    Args:
        answer: whose body wasn't begun.
        wire_bytes: how much of it may come over the wire.

    Raises:
        FetchRefused: it is packed as we don't unpack (`encoding`), or is longer (`too_large`).
        FetchFailed: it is not what it says it is (`encoding`), or ends too early (`truncated`).
    """
    coding = (answer.header("content-encoding") or "identity").strip().lower()
    if coding not in _DECODERS:
        raise FetchRefused("encoding", f"is packed as {coding}", answer.url)
    decoder, taken = _DECODERS[coding](), 0
    try:
        async for chunk in answer.chunks():
            taken += len(chunk)
            if taken > wire_bytes:
                raise FetchRefused("too_large", f"is over {wire_bytes} bytes", answer.url)
            for piece in decoder.feed(chunk):
                yield piece
                await asyncio.sleep(0)
    except (zlib.error, brotli.error) as error:
        raise FetchFailed("encoding", f"is not the {coding} it says it is", answer.url) from error
    if not decoder.complete:
        raise FetchFailed("truncated", f"its {coding} stops short", answer.url)


class _Identity:
    complete = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data


class _Inflater(Protocol):
    """A decompressor of `zlib.decompressobj`, whose own class has no public name."""

    @property
    def eof(self) -> bool: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Inflate:
    """gzip, zlib, and the bare deflate that some servers send under the same name."""

    def __init__(self) -> None:
        self._head = b""
        self._inner: _Inflater | None = None

    @property
    def complete(self) -> bool:
        return not self._head and (self._inner is None or self._inner.eof)

    def feed(self, data: bytes) -> Iterator[bytes]:
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
            piece = self._inner.decompress(data, _STEP)
            yield piece
            data = self._inner.unconsumed_tail or self._inner.unused_data
            full = len(piece) == _STEP and not self._inner.eof


def _zlib_or_gzip(data: bytes) -> bool:
    return data[:2] == b"\x1f\x8b" or (data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0)


class _Brotli:
    def __init__(self) -> None:
        self._inner = brotli.Decompressor()
        self._fed = False

    @property
    def complete(self) -> bool:
        return not self._fed or bool(self._inner.is_finished())

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._fed = self._fed or bool(data)
        # `can_accept_more_data` speaks of input; output may wait inside all the same, so it is drawn until none comes.
        while piece := self._inner.process(data, output_buffer_limit=_STEP):
            yield piece
            data = b""


_DECODERS: dict[str, Callable[[], _Identity | _Inflate | _Brotli]] = {
    "identity": _Identity,
    "gzip": _Inflate,
    "x-gzip": _Inflate,
    "deflate": _Inflate,
    "br": _Brotli,
}
