"""The same with an image to every post."""

from __future__ import annotations

from tempfile import TemporaryDirectory

from bench.arcade import measure
from bench.table import table
from tribunal.process.terminal import say


def image(quick: bool) -> None:
    """Print what an image costs a call."""
    from PIL import Image

    say(
        "### The same with an image to every post (one 1600 × 1200 photograph, 16 in flight, 200 ms)\n",
        lines=True,
    )
    with TemporaryDirectory() as folder:
        path = f"{folder}/noise.png"
        Image.effect_noise((1600, 1200), 64).save(path)
        got = measure(8 if quick else 48, 16, 0.2, path)
    row = (
        str(got.calls),
        f"{got.wall / got.bound:.3f}",
        f"{got.cpu_per_call:.2f} ms",
        f"{got.peak:.0f} MB",
    )
    table(("calls", "wall / bound", "CPU a call", "peak memory"), [row])
