"""Models are shown an image as a person would see it: in no mode, format or motion does anything vanish."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow
from PIL import ImageChops, ImageDraw

from tests.court import court_script, decide
from tests.doubles import ScriptedServer
from tribunal.errors import BadInput
from tribunal.models import image as images
from tribunal.models.image import load_picture
from tribunal.models.image_decoding import _flat_pixels

SIZE = (160, 40)
WORDS = (10, 12, 60, 24)  # where they are drawn


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    images._pictures.clear()


def written(mode: str = "L", ground: Any = 255, ink: Any = 0) -> Pillow.Image:
    """An image with words on a ground."""
    made = Pillow.new(mode, SIZE, ground)
    ImageDraw.Draw(made).text((10, 10), "GOOD DAY", fill=ink)
    return made


def contrast(seen: Pillow.Image) -> int:
    """How far the luminance of the words' region reaches."""
    low, high = seen.convert("L").crop(WORDS).getextrema()
    return int(high) - int(low)  # type: ignore[arg-type]


def sent(data_uri: str) -> Pillow.Image:
    return Pillow.open(io.BytesIO(base64.b64decode(data_uri.partition(",")[2])))


def deep(mode: str, low: float, high: float) -> Pillow.Image:
    """Words of one value on a ground of another, both of 16 or 32 bits."""
    made = written("L", 255, 0).convert("F").point(lambda value: value * ((high - low) / 255) + low)
    return (
        made
        if mode == "F"
        else made.convert("I")
        if mode == "I"
        else made.convert("I").convert(mode)
    )


def inked(mode: str, ink: int) -> Pillow.Image:
    """Words of a grey on a transparent ground that has the same grey."""
    made = Pillow.new("LA", SIZE, (ink, 0))
    ImageDraw.Draw(made).text((10, 10), "GOOD DAY", fill=(ink, 255))
    if mode == "La":
        return made.convert("La")
    return (
        made
        if mode == "LA"
        else made.convert("RGBA")
        if mode == "RGBA"
        else made.convert("RGBA").convert("RGBa")
    )


def with_index(ink: int, alpha: bytes | int) -> Pillow.Image:
    """Words of the second colour of a palette, whose first is transparent and looks the same."""
    made = Pillow.new("P", SIZE, 0)
    made.putpalette([ink] * 3 * 2)
    ImageDraw.Draw(made).text((10, 10), "GOOD DAY", fill=1)
    made.info["transparency"] = alpha
    return made


def with_colour_key(mode: str, ground: int, ink: int) -> Pillow.Image:
    key: Any = (ground,) * 3 if mode == "RGB" else ground
    made = written(mode, key, (ink,) * 3 if mode == "RGB" else ink)
    made.info["transparency"] = key
    return made


def palette_and_alpha(ink: int) -> Pillow.Image:
    made = Pillow.new("PA", SIZE, 0)
    made.putpalette([ink] * 3 * 256)
    made.putalpha(inked("LA", ink).getchannel("A"))
    return made


MODES: dict[str, Callable[[], Pillow.Image]] = {
    "1": lambda: written("1", 1, 0),
    "L": lambda: written("L"),
    "P": lambda: written("RGB", "white", "black").quantize(4),
    "P, nearly one colour": lambda: written("RGB", "yellow", "blue").quantize(2),
    "RGB": lambda: written("RGB", "white", "black"),
    "RGBX": lambda: written("RGBX", (255, 255, 255, 0), (0, 0, 0, 0)),
    "CMYK": lambda: written("CMYK", (0, 0, 0, 0), (0, 0, 0, 255)),
    "YCbCr": lambda: written("YCbCr", (255, 128, 128), (0, 128, 128)),
    "LAB": lambda: written("LAB", (255, 128, 128), (0, 128, 128)),
    "HSV": lambda: written("HSV", (0, 0, 255), (0, 0, 0)),
    "I": lambda: deep("I", 0, 65_535),
    "I, of few values": lambda: deep("I", 3, 200),
    "I, below zero": lambda: deep("I", -90_000, -10),
    "I;16": lambda: deep("I;16", 0, 65_535),
    "I;16, bright": lambda: deep("I;16", 50_000, 65_535),
    "I;16, dark": lambda: deep("I;16", 0, 255),
    "I;16B": lambda: deep("I;16B", 0, 4_095),
    "F": lambda: deep("F", 0.0, 1.0),
    "F, large": lambda: deep("F", -1e9, 1e9),
    **{f"{mode}, {ink}": partial(inked, mode, ink) for mode in ("LA", "La", "RGBA", "RGBa")
       for ink in (0, 100, 230, 255)},
    **{f"P, index, {ink}": partial(with_index, ink, 0) for ink in (0, 255)},
    **{f"P, bytes, {ink}": partial(with_index, ink, b"\0\xff") for ink in (0, 255)},
    **{f"PA, {ink}": partial(palette_and_alpha, ink) for ink in (0, 255)},
    **{f"{mode}, key, {ink}": partial(with_colour_key, mode, ink ^ 1, ink)
       for mode in ("L", "RGB") for ink in (0, 255)},
    "1, key": lambda: with_colour_key("1", 0, 1),
    "RGBA, faint throughout": lambda: written("RGBA", (0, 0, 0, 0), (0, 0, 0, 30)),
    "RGBA, invisible throughout": lambda: written("RGBA", (255, 255, 255, 0), (0, 0, 0, 0)),
    "RGBA, nearly transparent ground": lambda: written("RGBA", (0, 0, 0, 17), (255, 255, 255, 255)),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_words_stand_out_in_every_mode(mode: str) -> None:
    made = MODES[mode]()
    assert made.mode == mode.partition(",")[0]
    notes: list[str] = []
    flat = _flat_pixels(made, 1024, notes)
    assert flat.mode == "RGB"
    assert contrast(flat) >= 100
    assert bool(notes) == (mode == "RGBA, invisible throughout")


def saved(made: Pillow.Image, format: str, **how: Any) -> bytes:
    out = io.BytesIO()
    made.save(out, format, **how)
    return out.getvalue()


@pytest.mark.parametrize("format", ["PNG", "WEBP", "AVIF", "GIF"])
@pytest.mark.parametrize("ink", [0, 255])
@pytest.mark.parametrize("edge", [1024, 80])
async def test_words_on_a_transparent_ground_stand_out_in_every_format(
    format: str, ink: int, edge: int, tmp_path: Path
) -> None:
    (tmp_path / "post").write_bytes(saved(inked("RGBA", ink), format))
    picture = await load_picture(str(tmp_path / "post"), edge)
    seen = sent(picture.data_uri)
    assert contrast(seen.resize(SIZE)) >= 100
    assert picture.notes == ()


def test_black_and_white_words_both_stand_out() -> None:
    both = inked("RGBA", 0)
    ImageDraw.Draw(both).text((90, 10), "GOOD DAY", fill=(255, 255, 255, 255))
    notes: list[str] = []
    flat = _flat_pixels(both, 1024, notes)
    assert contrast(flat) >= 100
    assert contrast(ImageChops.offset(flat, -80, 0)) >= 100
    assert notes == []


def test_an_outline_that_no_background_makes_visible_is_told() -> None:
    greys = (
        Pillow.linear_gradient("L")
        .resize((256, 60))
        .point([min(255, value * 5 // 256 * 64) for value in range(256)])
    )
    stripes = Pillow.new("L", (256, 60))
    for left in range(0, 256, 4):
        stripes.paste(255, (left, 0, left + 2, 60))
    notes: list[str] = []
    _flat_pixels(Pillow.merge("RGBA", (greys, greys, greys, stripes)), 1024, notes)
    assert notes == ["it is partly transparent, and no background makes all of its outline visible"]


def moving(format: str, texts: list[str], count: int = 30) -> bytes:
    """Frames that show one text after the other, each for as long."""
    frames = []
    for place in range(count):
        frame = Pillow.new("RGB", SIZE, (240, 240, 230 + place % 2))
        ImageDraw.Draw(frame).text((10, 10), texts[place * len(texts) // count], fill="black")
        frames.append(frame)
    return saved(frames[0], format, save_all=True, append_images=frames[1:])


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG", "AVIF"])
@pytest.mark.parametrize(
    ("texts", "shown", "size"),
    [
        (["", "GOOD DAY"], 2, (160, 86)),
        (["", "GOOD", "DAY", "TO", "YOU", "ALL"], 4, (326, 86)),
        ([*[""] * 29, "GOOD DAY"], 2, (160, 86)),
    ],
    ids=["half", "several", "the last alone"],
)
async def test_the_frames_that_differ_are_shown_as_one_image(
    format: str, texts: list[str], shown: int, size: tuple[int, int], tmp_path: Path
) -> None:
    (tmp_path / "post").write_bytes(moving(format, texts))
    picture = await load_picture(str(tmp_path / "post"), 1024)
    [note] = picture.notes
    assert note.startswith(f"image: it is animated: {shown} of ")
    seen = sent(picture.data_uri)
    assert seen.size == size
    assert (picture.image.width, picture.image.height) == SIZE
    last = seen.crop((size[0] - 160, size[1] - 40, *size))
    assert contrast(last) >= 100


async def test_an_animation_is_bounded_and_within_the_edge(tmp_path: Path) -> None:
    for format in ("GIF", "PNG"):
        (tmp_path / "post").write_bytes(
            moving(format, ["GOOD", "DAY", "TO", "YOU", "ALL"], count=1_100)
        )
        picture = await load_picture(str(tmp_path / "post"), 100)
        assert picture.notes == (
            "image: it is animated: 4 of the first 1000 frames were shown as one image",
        )
        assert max(sent(picture.data_uri).size) <= 100


async def test_the_record_tells_of_an_animation(tmp_path: Path) -> None:
    (tmp_path / "post.gif").write_bytes(moving("GIF", ["GOOD", "DAY"]))
    async with ScriptedServer(court_script(implicit=False)) as server:
        record = await decide(server, "hello", image=str(tmp_path / "post.gif"))
    assert record.outcome == "verdict"
    assert record.warnings == ("image: it is animated: 2 of 30 frames were shown as one image",)


async def test_heic_names_the_package_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "find_spec", lambda name: None)
    box = b"\0\0\0\x14ispe\0\0\0\0\0\0\0\x28\0\0\0\x1e"
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + box)
    with pytest.raises(BadInput, match=r"a\.heic: is HEIC.*pip install pillow-heif"):
        await load_picture(str(tmp_path / "a.heic"), 64)
