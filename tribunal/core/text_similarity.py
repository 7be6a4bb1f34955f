"""Compare texts by signatures that hold no word of them: b-bit MinHash.

Broder, "On the resemblance and containment of documents" (1997); Li and König, "b-Bit Minwise Hashing" (2010). What is
compared is the set of runs of four characters of each text. Of two signatures the share of equal bytes, less what
chance makes equal, is about the share of these runs that the texts have in common (Jaccard's index). Whoever has a text
can make its signature, and so can tell whether it is like a post's; no text follows from a signature.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING, Any
from zlib import crc32

from tribunal.core.text import normalize_text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


SIZE = 96  # bytes of a signature, each the lowest eight bits of a minimum
CHARACTERS = SIZE * 4 // 3  # of a signature as it is written
CHANCE = 1 / 256  # the share of equal bytes of two texts that have nothing in common
ALIKE = 0.7  # from which on two texts are near-copies
_RUN = 4  # characters
_VARYING = re.compile(r"https?://\S+|www\.\S+|(?<!\w)@\w+")


def text_signature(text: str) -> str:
    """Return the signature of a text in base64; empty for a text without words.

    Differences that are common between copies don't count: letter case, white space, links, and addressed users.
    """
    words = normalize_text(_VARYING.sub(" ", text))
    if not words:
        return ""
    made = _empty_hash().copy()
    made.update_batch(
        {words[at : at + _RUN].encode() for at in range(max(1, len(words) - _RUN + 1))}
    )
    return b64encode(made.hashvalues.astype("uint8").tobytes()).decode()


def decode_signatures(written: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Return written signatures as an array, a row of `SIZE` bytes each. None may be empty."""
    import numpy as np

    return np.frombuffer(b64decode("".join(written)), dtype=np.uint8).reshape(len(written), SIZE)


def similarity_to(written: str, others: Sequence[str]) -> list[float]:
    """Return how alike a signature is to others, each from 0 (by chance) to 1 (the same). None may be empty."""
    if not others:
        return []
    equal = (decode_signatures(others) == decode_signatures([written])).mean(axis=1)
    return [max(0.0, float(each)) for each in (equal - CHANCE) / (1 - CHANCE)]


@cache
def preload_hashing() -> None:
    """Load the hashing library on a thread, while the models answer the first posts."""
    Thread(target=_empty_hash, name="likeness", daemon=True).start()


@cache
def _empty_hash() -> Any:
    from datasketch import MinHash  # takes half a second, most of which is SciPy

    # Of four bytes or fewer no two have one CRC. What is named here makes signatures comparable with older ones.
    return MinHash(num_perm=SIZE, seed=1, hashfunc=crc32, scheme="affine32")
