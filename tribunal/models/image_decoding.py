"""Work of a decoding process: it takes the bytes of an image and returns a JPEG that shows the image as people see it.

Nothing may vanish in that JPEG. Transparent images get the background against which their edges stand out, values of 16
or 32 bits are scaled to their range, and of an animation the frames that differ most are shown as one image.
"""

from __future__ import annotations

import io
import math
import struct
import warnings
import zlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any, cast

from PIL import Image as Pillow
from PIL import ImageChops, ImageFilter, ImageOps, ImageStat, UnidentifiedImageError

_SEVERAL = (
    "MPO"  # what Pillow calls a JPEG with previews or a second lens behind it, as phones write them
)

# backgrounds of transparent images, as greys, in the order of preference
_GROUNDS = (
    255,
    0,
    128,
    64,
    192,
)
# differences between neighbours, of 255: an edge of the transparency, an edge that can be seen
_EDGE = 64
_SEEN = 24

_FRAMES = 4  # of an animation that are shown
_MOST_FRAMES = 1_000
_MOST_PIXELS = 100_000_000  # of an animation that are looked at
_SKETCH = (64, 64)  # in which frames are compared
_DIFFERENT = 0.5  # mean squared difference between the sketches of two frames, from which on both may be shown
_GAP = 6  # pixels between two frames

# What Pillow's readers raise at bytes that are not what they should be.
_BROKEN = (
    OSError, SyntaxError, ValueError, EOFError, TypeError, LookupError, ArithmeticError, struct.error, zlib.error,
    MemoryError, Pillow.DecompressionBombError,
)  # fmt: skip


def decode_image(job: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
    """Decode an image; return its description and the bytes to send.

    Args:
        job: `format` and `pixels`, as its header says; `edge`, the longest to send, or None to send nothing.
        body: its bytes.

    Returns:
        `width`, `height` and `notes` (what a reader of the record should know), and a JPEG; or `wrong`: unknown, or
        broken with the reason in `why`.
    """
    try:
        opened = _open_image(body, job["format"])
        if opened.width * opened.height > job["pixels"]:
            return {"wrong": "broken", "why": "its parts don't agree on its size"}, b""
        answer: dict[str, Any] = {"width": opened.width, "height": opened.height, "notes": []}
        if job["edge"] is None:
            opened.load()
            return answer, b""
        if opened.format != _SEVERAL and getattr(opened, "is_animated", False):
            again = _open_image(body, job["format"])  # not every reader can go back
            flat = _contact_sheet(opened, again, job["edge"], answer["notes"])
        else:
            flat = _flat_pixels(opened, job["edge"], answer["notes"])
        # A picture of its own, so that no comment, profile or text of the first one can come along.
        bare = Pillow.frombytes("RGB", flat.size, flat.tobytes())
        out = io.BytesIO()
        bare.save(out, "JPEG", quality=90)
        return answer, out.getvalue()
    except UnidentifiedImageError:
        return {"wrong": "unknown"}, b""
    except _BROKEN as error:
        return {"wrong": "broken", "why": str(error) or type(error).__name__}, b""


def _open_image(raw: bytes, format: str) -> Pillow.Image:
    if format == "HEIF":
        import_module("pillow_heif").register_heif_opener()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Pillow.open(io.BytesIO(raw), formats=(format,))


# ------------------------------------------------------------------------------------------------------- still images


def _flat_pixels(opened: Pillow.Image, edge: int, notes: list[str]) -> Pillow.Image:
    """Return an image in red, green and blue, upright and within the edge."""
    # A photograph is read at the next larger eighth of its size, which spares most of the work.
    opened.draft(None, (2 * edge, 2 * edge))
    opened.load()
    colours = _colours_of(opened)
    colours.thumbnail((edge, edge), Pillow.Resampling.LANCZOS)
    upright = _turn_upright(colours)
    return _on_background(upright, notes) if upright.mode == "RGBA" else upright


def _colours_of(image: Pillow.Image) -> Pillow.Image:
    """Return an image of any mode in RGB, or in RGBA if it may be transparent."""
    if image.mode.startswith(("I", "F")):
        image = _scale_to_range(image)
    mode = "RGBA" if image.has_transparency_data else "RGB"
    if image.mode == mode:
        return image
    return image.convert("LA").convert(mode) if image.mode == "La" else image.convert(mode)


def _scale_to_range(deep: Pillow.Image) -> Pillow.Image:
    """Return an image of 16 or 32 bits a pixel in grey; `convert` would clip all but its darkest pixels."""
    values = deep.copy() if deep.mode == "F" else deep.convert("I")
    low, high = cast("tuple[float, float]", values.getextrema())
    if not math.isfinite(high - low):
        raise ValueError("it holds values that are no numbers")
    values.info.pop("transparency", None)  # one of the deep values
    scale = 255 / ((high - low) or 1)
    return values.point(lambda value: value * scale - low * scale).convert("L")


def _on_background(image: Pillow.Image, notes: list[str]) -> Pillow.Image:
    """Return a transparent image on the background against which the fewest of its edges vanish."""
    alpha = image.getchannel("A")
    _, most = cast("tuple[int, int]", alpha.getextrema())
    if most == 0:
        notes.append("it is wholly transparent, and was shown without its transparency")
        return image.convert("RGB")
    alpha = alpha.point(
        [value * 255 // most for value in range(256)] if most < 255 else list(range(256))
    )
    outline = _contrast_above(alpha, _EDGE)
    vanished: dict[int, int] = {}
    for ground in _GROUNDS:
        flat = _paste_on(image, alpha, ground)
        visible = _contrast_above(flat.convert("L"), _SEEN)
        vanished[ground] = ImageChops.subtract(outline, visible).histogram()[255]
        if not vanished[ground]:
            return flat
    best = min(vanished, key=vanished.__getitem__)  # the first of equals
    if vanished[best] * 10 > outline.histogram()[255]:
        notes.append("it is partly transparent, and no background makes all of its outline visible")
    return _paste_on(image, alpha, best)


def _paste_on(image: Pillow.Image, alpha: Pillow.Image, ground: int) -> Pillow.Image:
    flat = Pillow.new("RGB", image.size, (ground, ground, ground))
    flat.paste(image.convert("RGB"), mask=alpha)
    return flat


def _contrast_above(grey: Pillow.Image, least: int) -> Pillow.Image:
    """Return where neighbours differ by at least so much, as white on black."""
    difference = ImageChops.subtract(
        grey.filter(ImageFilter.MaxFilter(3)), grey.filter(ImageFilter.MinFilter(3))
    )
    return difference.point([255 * (value >= least) for value in range(256)])


# --------------------------------------------------------------------------------------------------------- animations


def _contact_sheet(
    opened: Pillow.Image, again: Pillow.Image, edge: int, notes: list[str]
) -> Pillow.Image:
    """Return the frames of an animation that differ most, in their order, side by side in one image within the edge.

    Args:
        opened: the animation, from which the frames are chosen.
        again: the same, from which they are taken.
        edge: the longest edge of the image.
        notes: a list to which notes for the reader of the record are added.
    """
    sketches = [_sketch(frame) for frame in _frames(opened)]
    chosen = _most_different(sketches)
    cells = 1 if len(chosen) == 1 else 2
    size = (edge - _GAP * (cells - 1)) // cells
    shown = [
        _flat_pixels(frame.copy(), max(1, size), notes)
        for place, frame in enumerate(_frames(again, last=chosen[-1]))
        if place in chosen
    ]
    notes[:] = dict.fromkeys(notes)
    looked_at = (
        f"{len(sketches)} frames"
        if len(sketches) < _most_frames(opened)
        else f"the first {len(sketches)} frames"
    )
    notes.append(f"it is animated: {len(shown)} of {looked_at} were shown as one image")
    return _side_by_side(shown)


def _most_frames(opened: Pillow.Image) -> int:
    return max(2, min(_MOST_FRAMES, _MOST_PIXELS // (opened.width * opened.height)))


def _frames(opened: Pillow.Image, last: int | None = None) -> Iterator[Pillow.Image]:
    """Yield the frames of an animation in their order, up to the last one that is wanted."""
    pixels = opened.width * opened.height
    for place in range(_most_frames(opened) if last is None else last + 1):
        try:
            opened.seek(place)
            if opened.width * opened.height > pixels:
                return
            opened.load()
        except EOFError:
            return
        except _BROKEN:
            if place == 0:
                raise
            return  # a person sees the frames before it, too
        yield opened


def _sketch(frame: Pillow.Image) -> Pillow.Image:
    """Return a frame as it is compared: small, and grey on grey where it is transparent."""
    colours = _colours_of(frame)
    if colours.mode == "RGBA":
        colours = _paste_on(colours, colours.getchannel("A"), 128)
    return colours.convert("L").resize(_SKETCH, Pillow.Resampling.BOX)


def _most_different(sketches: list[Pillow.Image]) -> list[int]:
    """Return the places of up to `_FRAMES` frames: the first, then each time the frame least like the chosen frames."""
    chosen = [0]
    nearest = [math.inf] * len(sketches)
    while len(chosen) < _FRAMES:
        for place, sketch in enumerate(sketches):
            difference = ImageStat.Stat(ImageChops.difference(sketch, sketches[chosen[-1]]))
            nearest[place] = min(nearest[place], difference.sum2[0] / difference.count[0])
        farthest = max(range(len(sketches)), key=nearest.__getitem__)
        if nearest[farthest] < _DIFFERENT:
            break
        chosen.append(farthest)
    return sorted(chosen)


def _side_by_side(frames: list[Pillow.Image]) -> Pillow.Image:
    width, height = (max(sizes) for sizes in zip(*(frame.size for frame in frames), strict=True))
    columns = 1 if len(frames) == 1 or (len(frames) == 2 and width > height) else 2
    rows = -(-len(frames) // columns)
    sheet = Pillow.new(
        "RGB", (columns * (width + _GAP) - _GAP, rows * (height + _GAP) - _GAP), (128, 128, 128)
    )
    for place, frame in enumerate(frames):
        row, column = divmod(place, columns)
        sheet.paste(frame, (column * (width + _GAP), row * (height + _GAP)))
    return sheet


def _turn_upright(small: Pillow.Image) -> Pillow.Image:
    """Turn an image as its metadata say, where they can be read."""
    try:
        return ImageOps.exif_transpose(small)
    except _BROKEN:
        return small
