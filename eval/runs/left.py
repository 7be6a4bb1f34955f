"""What is left of a run, in its order: the same for whichever process reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tribunal.eval.datasets.sample import Sample


def posts_left(
    samples: Iterable[Sample], count: int, repeats: int, done: bytes | bytearray
) -> Iterator[tuple[int, int, Sample]]:
    """Place, repeat and sample of what is left, in order; read as it is asked for."""
    for repeat in range(repeats):
        for place, sample in enumerate(samples):
            if not done[repeat * count + place]:
                yield place, repeat, sample
