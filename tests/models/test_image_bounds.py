"""Images that are made to do harm: what decoding them costs, and what of them reaches a model."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import signal
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image as Pillow
from PIL import PngImagePlugin

from tests import PROJECT
from tests.court import court_script, decide
from tests.doubles import ScriptedServer
from tribunal.errors import BadInput
from tribunal.models import image as images
from tribunal.models.image_header import read_header
from tribunal.process.sandbox import SandboxPool
from tribunal.process.workers import JSON, WorkerProcess

SECRET = "secret-in-the-metadata"


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    images._pictures.clear()


def _plain(format: str, **how: object) -> bytes:
    out = io.BytesIO()
    Pillow.new("RGB", (40, 30), "red").save(out, format, **how)
    return out.getvalue()


def _exif() -> bytes:
    exif = Pillow.Exif()
    exif[0x010F] = SECRET
    return exif.tobytes()


def _texts() -> PngImagePlugin.PngInfo:
    held = PngImagePlugin.PngInfo()
    held.add_text("Comment", SECRET)
    held.add_text("Author", SECRET, zip=True)
    held.add_itxt("XML:com.adobe.xmp", f"<x:xmpmeta>{SECRET}</x:xmpmeta>")
    return held


XMP = f"<x:xmpmeta>{SECRET}</x:xmpmeta>".encode()
TOLD = {
    "JPEG comment": _plain("JPEG", comment=SECRET.encode()),
    "JPEG EXIF": _plain("JPEG", exif=_exif()),
    "JPEG profile": _plain("JPEG", icc_profile=SECRET.encode() * 9),
    "JPEG XMP": _plain("JPEG", xmp=XMP),
    "PNG texts": _plain("PNG", pnginfo=_texts()),
    "PNG EXIF": _plain("PNG", exif=_exif()),
    "PNG profile": _plain("PNG", icc_profile=SECRET.encode() * 9),
    "WebP EXIF": _plain("WEBP", exif=_exif()),
    "WebP XMP": _plain("WEBP", xmp=XMP),
    "WebP profile": _plain("WEBP", icc_profile=SECRET.encode() * 9),
    "GIF comment": _plain("GIF", comment=SECRET.encode()),
}


@pytest.mark.parametrize("told", TOLD)
async def test_a_model_is_sent_the_pixels_and_nothing_else(told: str) -> None:
    """Byte for byte what it is sent of the same picture without anything beside its pixels."""
    bare = _plain(told.partition(" ")[0])
    uris = [f"data:image/png;base64,{base64.b64encode(raw).decode()}" for raw in (bare, TOLD[told])]
    async with ScriptedServer(court_script(implicit=False)) as server:
        for uri in uris:
            await decide(server, None, image=uri)
    sent = {image for request in server.requests for image in request.images}
    [only] = sent
    assert SECRET.encode() not in base64.b64decode(only.partition(",")[2])


def _bomb(width: int, height: int, shade: int) -> bytes:
    """A picture of one colour: a few KB that take megabytes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress((b"\0" + bytes([shade]) * (3 * width)) * height, 1)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="it measures as Linux does")
def test_many_posts_at_once_take_the_memory_of_one(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"{number}.png").write_bytes(_bomb(6000, 5000, number))
    script = f"""if True:
        import asyncio, re
        from pathlib import Path
        from tribunal.models import image as images

        async def all_at_once():
            return await asyncio.gather(*(images.load_picture(f"{tmp_path}/{{n}}.png", 256) for n in range(6)))

        seen = asyncio.run(all_at_once())
        assert all(each.image.width == 6000 for each in seen)
        for who in ("self", *(each.pid for each in images._decoding_workers()._all)):
            print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path(f"/proc/{{who}}/status").read_text())[1]) // 1024)
    """
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, env=environment
    )
    own, *others = map(int, done.stdout.split())
    assert own < 120  # MB; one of the pictures is that large in memory
    assert 1 <= len(others) <= images.PROCESSES
    assert max(others) < 400


@pytest.mark.long
async def test_no_more_pixels_are_decoded_at_once_than_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = images._decoding_workers()
    under_way: list[int] = []
    ask = WorkerProcess.ask

    async def watched(process: WorkerProcess, job: JSON, body: bytes) -> tuple[JSON, bytes]:
        under_way.append(workers._weight)
        return await ask(process, job, body)

    monkeypatch.setattr(WorkerProcess, "ask", watched)
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(_bomb(6000, 5000, number))
    await asyncio.gather(
        *(images.load_picture(str(tmp_path / f"{number}.png"), 64) for number in range(4))
    )
    assert under_way == [30_000_000] * 4


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
async def test_a_decoder_that_hangs_is_ended_and_the_next_image_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(_bomb(30, 20, ord(name[0])))
    workers = SandboxPool(
        "tribunal.models.image_decoding:decode_image", processes=1, memory=images.MEMORY
    )
    monkeypatch.setattr(images, "_decoding_workers", lambda: workers)
    workers.warm_up()
    while not workers._idle:
        await asyncio.sleep(0.01)
    os.kill(workers._idle[0].pid, signal.SIGSTOP)
    monkeypatch.setattr(images, "SECONDS", 0.2)
    with pytest.raises(
        BadInput, match=r"can't be read whole: took longer than 0\.2 s; save it again"
    ):
        await images.load_picture(str(tmp_path / "a.png"), 64)
    monkeypatch.setattr(images, "SECONDS", 20.0)
    assert (await images.load_picture(str(tmp_path / "b.png"), 64)).image.width == 30
    workers.close()


def _frame_beyond_the_screen() -> bytes:
    raw = bytearray(_plain("GIF"))
    raw[6:10] = struct.pack("<HH", 2, 2)
    return bytes(raw)


async def test_a_frame_larger_than_its_picture_says_is_not_decoded(tmp_path: Path) -> None:
    (tmp_path / "grown.gif").write_bytes(_frame_beyond_the_screen())
    with pytest.raises(BadInput, match="its parts don't agree on its size"):
        await images.load_picture(str(tmp_path / "grown.gif"), 64)


def _save_as(format: str, **how: object) -> Callable[[], bytes]:
    return lambda: _plain(format, **how)


@pytest.mark.parametrize(
    "made",
    [
        _save_as("PNG"), _save_as("GIF"), _save_as("BMP"), _save_as("WEBP"), _save_as("WEBP", lossless=True),
        _save_as("WEBP", exif=_exif()), _save_as("JPEG"), _save_as("JPEG", progressive=True),
        _save_as("JPEG", exif=_exif()), _save_as("AVIF"), _save_as("AVIF", exif=_exif()),
    ],
    ids=["png", "gif", "bmp", "webp", "webp lossless", "webp extended", "jpeg", "jpeg progressive", "jpeg with exif",
         "avif", "avif with exif"],
)  # fmt: skip
def test_a_header_says_format_and_size(made: Callable[[], bytes]) -> None:
    raw = made()
    found = read_header(raw)
    assert found is not None
    assert (found.width, found.height) == (40, 30)
    assert Pillow.open(io.BytesIO(raw)).format == found.format


def _specials(folder: Path) -> Iterator[Path]:
    os.mkfifo(folder / "pipe")
    yield folder / "pipe"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
    yield folder / "socket"
    yield folder
    yield from map(Path, ("/dev/zero", "/dev/ptmx", "/proc/self/environ", "/proc/kmsg"))


@pytest.mark.skipif(sys.platform != "linux", reason="it goes through Linux's special files")
async def test_what_is_no_regular_file_is_never_opened(tmp_path: Path) -> None:
    for path in _specials(tmp_path):
        for name in ("image", "policy", "prompts", "line_up", "threshold_file", "cache"):
            if name == "prompts" and path == tmp_path:
                continue
            post = {"image": str(path)} if name == "image" else {}
            settings = {} if post else {name: str(path)}
            async with ScriptedServer(court_script(implicit=False)) as server:
                with pytest.raises(BadInput, match=f"^{name}: {path}"):
                    await decide(server, "a post", **post, **settings)
            assert server.requests == []
