"""Images: what is taken, what is sent of them, and what is refused with the way out."""

from __future__ import annotations

import base64
import hashlib
import io
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from tribunal.errors import BadInput
from tribunal.models import image as images
from tribunal.models.image import MAX_BYTES, load_picture, read_image, store_image, store_picture


def drawn(
    format: str = "PNG",
    size: tuple[int, int] = (40, 30),
    colour: Any = "red",
    mode: str = "RGB",
    **how: Any,
) -> bytes:
    out = io.BytesIO()
    Pillow.new(mode, size, colour).save(out, format, **how)
    return out.getvalue()


def uri(raw: bytes, mime: str = "image/png") -> str:
    return f"data:{mime};base64,{base64.b64encode(raw).decode()}"


def sent(data_uri: str) -> Pillow.Image:
    head, _, body = data_uri.partition(",")
    assert head == "data:image/jpeg;base64"
    return Pillow.open(io.BytesIO(base64.b64decode(body)))


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    images._pictures.clear()


@pytest.mark.parametrize(
    ("format", "mime"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("WEBP", "image/webp"),
        ("GIF", "image/gif"),
        ("BMP", "image/bmp"),
        ("AVIF", "image/avif"),
    ],
)
async def test_what_is_taken(format: str, mime: str, tmp_path: Path) -> None:
    raw = drawn(format)
    file = tmp_path / "post.xyz"
    file.write_bytes(raw)
    held = await load_picture(str(file), 1024)
    assert held.image.model_dump() == {
        "ref": str(file), "sha256": hashlib.sha256(raw).hexdigest(), "mime": mime, "width": 40, "height": 30,
    }  # fmt: skip
    assert sent(held.data_uri).size == (40, 30)
    assert (
        held.sha256 == hashlib.sha256(base64.b64decode(held.data_uri.partition(",")[2])).hexdigest()
    )


async def test_it_is_scaled_down_and_never_up(tmp_path: Path) -> None:
    file = tmp_path / "wide.png"
    file.write_bytes(drawn(size=(900, 300)))
    assert sent((await load_picture(str(file), 300)).data_uri).size == (300, 100)
    assert sent((await load_picture(str(file), 2000)).data_uri).size == (900, 300)


async def test_metadata_stays_behind_and_what_it_turns_is_turned(tmp_path: Path) -> None:
    exif = Pillow.Exif()
    exif[0x0112], exif[0x010F] = 6, "SecretCamera"
    file = tmp_path / "phone.jpg"
    file.write_bytes(drawn("JPEG", exif=exif.tobytes()))
    held = await load_picture(str(file), 1024)
    assert sent(held.data_uri).size == (30, 40)
    assert b"SecretCamera" not in base64.b64decode(held.data_uri.partition(",")[2])


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L", "1", "CMYK"])
async def test_every_mode_can_be_sent(mode: str, tmp_path: Path) -> None:
    file = tmp_path / "any"
    file.write_bytes(drawn("JPEG" if mode == "CMYK" else "PNG", mode=mode, colour=0))
    seen = sent((await load_picture(str(file), 1024)).data_uri)
    assert seen.mode == "RGB"


async def test_sixteen_bits_keep_their_greys(tmp_path: Path) -> None:
    rows = b"".join(b"\0" + struct.pack(">4H", 0, 20_000, 40_000, 65_535) for _ in range(4))
    file = tmp_path / "deep.png"
    file.write_bytes(_png(4, 4, rows, depth=16, colour=0))
    seen = sent((await load_picture(str(file), 1024)).data_uri).convert("L")
    greys = [seen.getpixel((place, 1)) for place in range(4)]
    assert abs(int(greys[1]) - 78) < 12  # type: ignore[arg-type]
    assert abs(int(greys[2]) - 156) < 12  # type: ignore[arg-type]


def _png(width: int, height: int, rows: bytes, depth: int = 8, colour: int = 2) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


async def test_a_phone_s_jpeg_with_a_second_picture_behind_it_is_a_still_image() -> None:
    one = Pillow.new("RGB", (40, 30), "red")
    out = io.BytesIO()
    one.save(out, "MPO", save_all=True, append_images=[one.copy()])
    assert (await store_picture("phone.jpg", None, out.getvalue())).image.mime == "image/jpeg"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "is empty"),
        (
            b"not an image at all",
            "is not an image of a known format; give AVIF, BMP, GIF, HEIF, JPEG, PNG, WEBP",
        ),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is not an image of a known format"),
        (drawn(size=(200, 200))[:150], "can't be read whole"),
        (drawn("JPEG", size=(200, 200))[:600], "can't be read whole"),
        (drawn()[:20], "can't be read whole: its header is cut; save it again as PNG or JPEG"),
        (_png(8000, 7000, b""), "8000 × 7000 is over 50 million pixels; scale it down"),
        (_png(60_000, 60_000, b""), "image: x.png: "),
    ],
    ids=["empty", "text", "svg", "cut png", "cut jpeg", "cut header", "large", "bomb"],
)
async def test_what_is_refused(raw: bytes, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        await store_image("x.png", raw)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_over_the_size(tmp_path: Path) -> None:
    file = tmp_path / "big.png"
    with file.open("wb") as out:
        out.truncate(MAX_BYTES + 1)
    for ref in (str(file), "data:image/png;base64," + "A" * (MAX_BYTES * 4 // 3 + 8)):
        with pytest.raises(BadInput, match="is over 20 MB; scale it down"):
            read_image(ref)


@pytest.mark.parametrize(
    ("ref", "says"),
    [
        ("nowhere.png", "No such file or directory; give the path of an image file"),
        (".", "Is a directory"),
        ("nul\0byte.png", "null byte"),
        ("x" * 5000, "File name too long"),
        ("data:image/png;base64,####", "its base64 is broken"),
        ("data:image/png;base64,é", "its base64 is broken"),
        ("data:image/png;base64", "not a data URI"),
        ("data:image/png;base64,", "is empty"),
        ("data:,plain", "is not an image of a known format"),
    ],
)
async def test_a_reference_that_leads_nowhere(ref: str, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        await load_picture(ref, 1024)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


async def test_a_data_uri_becomes_a_file_named_by_its_content(tmp_path: Path) -> None:
    raw = drawn("JPEG")
    kept = Path(await store_image(uri(raw, "image/png")))
    assert kept.read_bytes() == raw
    assert kept.name == f"{hashlib.sha256(raw).hexdigest()}.jpeg"
    assert kept.is_relative_to(tmp_path / "data")
    assert await store_image(uri(raw)) == str(kept)
    assert list(kept.parent.iterdir()) == [kept]  # nothing half-written is left beside it
    wrapped = base64.encodebytes(raw).decode().replace("+", "%2B")
    assert await store_image(f"data:image/jpeg;charset=x;base64,{wrapped}") == str(kept)


async def test_a_data_folder_that_can_t_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TRIBUNAL_DATA", str(tmp_path / "file"))
    with pytest.raises(BadInput, match=r"can't be kept in .*set TRIBUNAL_DATA to a folder"):
        await store_image(uri(drawn()))


async def test_it_is_read_once_and_known_by_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "post.png"
    file.write_bytes(drawn())
    first = await load_picture(str(file), 1024)
    file.unlink()
    assert await load_picture(str(file), 1024, sha256=first.image.sha256) is first
    file.write_bytes(drawn(colour="blue"))
    with pytest.raises(BadInput, match="has changed since the case began"):
        await load_picture(str(file), 512, sha256=first.image.sha256)


async def test_two_posts_with_the_same_image_keep_their_own_paths(tmp_path: Path) -> None:
    one, two = tmp_path / "one.png", tmp_path / "two.png"
    for file in (one, two):
        file.write_bytes(drawn())
    first, second = await load_picture(str(one), 1024), await load_picture(str(two), 1024)
    assert (first.image.ref, second.image.ref) == (str(one), str(two))
    assert second.data_uri is first.data_uri


async def test_memory_stays_bounded(tmp_path: Path) -> None:
    for number in range(images._KEPT + 10):
        file = tmp_path / f"{number}.png"
        file.write_bytes(drawn(size=(number + 1, 5)))
        await load_picture(str(file), 64)
    assert len(images._pictures) == images._KEPT


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "AVIF"])
async def test_bytes_that_were_flipped_are_read_or_refused(format: str, tmp_path: Path) -> None:
    draw = random.Random(7)
    whole = drawn(format, size=(30, 30), exif=_exif())
    file = tmp_path / "flipped"
    for _ in range(60):
        raw = bytearray(whole)
        for _ in range(draw.randint(1, 6)):
            raw[draw.randrange(len(raw))] = draw.randrange(256)
        file.write_bytes(raw[: draw.choice([len(raw), draw.randint(1, len(raw))])])
        try:
            held = await load_picture(str(file), 64)
        except BadInput:
            continue
        assert sent(held.data_uri).format == "JPEG"


def _exif() -> bytes:
    exif = Pillow.Exif()
    exif[0x0112] = 3
    return exif.tobytes()
