"""A fitted first look at a text: harmless, hateful, or declined, and why."""

from __future__ import annotations

import hashlib
import math
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tribunal.errors import BadInput
from tribunal.opened import opened
from tribunal.retrievers.first_look.features import SIZE, features
from tribunal.retrievers.first_look.manifest import MANIFEST, Arrays, Manifest, read_manifest, read_weights
from tribunal.retrievers.first_look.vectors import same_embedder
from tribunal.threshold import Kind

if TYPE_CHECKING:
    from tribunal.retrievers.first_look.vectors import Vector
    from tribunal.schema import Post, Scheme

UNTOLD = "und"  # the language of a text of which none can be told


class Seen(NamedTuple):
    """What a first look makes of a post. `kind` is None where it declines, and `why` says why."""

    kind: Kind | None
    chance: float | None  # of hate, calibrated
    why: str = ""

    @property
    def confidence(self) -> float | None:
        """The chance that what it says is right."""
        return None if self.chance is None else round(max(self.chance, 1 - self.chance), 4)


class Look:
    """A fitted first look. Its methods block, a millisecond or so; it may be used from several threads.

    Attributes:
        folder: where its files are.
        manifest: what it is and promises.
        sha: the hash by which records name it.
    """

    def __init__(self, folder: Path, manifest: Manifest, sha: str, arrays: Arrays) -> None:
        import numpy as np

        self.folder, self.manifest, self.sha = folder, manifest, sha
        self._weights = np.zeros(SIZE)
        self._weights[arrays.known] = arrays.weights
        self._known = np.zeros(SIZE, dtype=bool)
        self._known[arrays.known] = True
        self._vector = arrays.vector

    def score(self, text: str, vector: Vector | None = None) -> tuple[float, float]:
        """The chance that a text is of hate, and the share of its features that are known."""
        import numpy as np

        at, values = features(text)
        if not len(at):
            return 0.5, 0.0
        raw = float(self._weights[at] @ values) + self.manifest.bias
        if vector is not None:
            raw += float(self._vector @ vector.astype(np.float64))
        return platt(raw, self.manifest.slope, self.manifest.intercept), float(self._known[np.unique(at)].mean())

    def declines(self, post: Post) -> str:
        """Why it declines a post whatever it would score; empty where it doesn't."""
        if post.image is not None:
            return "the post has an image"
        if post.appeal is not None or post.earlier:
            return "an appeal" if post.appeal is not None else "earlier posts belong to it"
        return self.declines_text(post.text, post.language)

    def declines_text(self, text: str, language: str | None) -> str:
        """The same of a text; `language` is a tag, where the language is known."""
        held = self.manifest
        if not text.strip():
            return "the post has no text"
        if len(text) > held.most_characters:
            return f"the text is longer than {held.most_characters:,} characters"
        tongue = language_told(text, language)
        return "" if tongue in held.languages else f"the language is {tongue}, and not {' or '.join(held.languages)}"

    def says(self, text: str, vector: Vector | None = None) -> Seen:
        """What it makes of a text that it doesn't decline.

        Args:
            text: of the post.
            vector: of the text, by its embedding, where it has one.
        """
        held = self.manifest
        chance, known = self.score(text, vector)
        if known < held.least_known:
            return Seen(None, chance, f"the text is unlike those it was fitted on: {known:.0%} of it is known")
        kind: Kind = "hateful" if chance >= 0.5 else "harmless"
        least = held.hateful if kind == "hateful" else held.harmless
        if least is None or max(chance, 1 - chance) < least:
            return Seen(None, chance, "it isn't sure enough")
        return Seen(kind, chance)

    def able(self, kind: Kind | None, scheme: Scheme) -> bool:
        """Whether it may decide so. It tells no category of hate, so the fine scheme leaves it the harmless posts."""
        return kind == "harmless" or (kind == "hateful" and scheme == "binary")

    def is_audited(self, post_id: str) -> bool:
        """Whether a post goes to trial for the audit, whatever is said of it: by its id and the hash of the look."""
        drawn = hashlib.sha256(f"{self.sha}:{post_id}".encode("utf-8", "replace")).digest()
        return int.from_bytes(drawn[:8]) < self.manifest.audit * 2**64


def platt(raw: float, slope: float, intercept: float) -> float:
    """A score as a chance (Platt, "Probabilistic Outputs for Support Vector Machines", 1999)."""
    at = slope * raw + intercept
    return 1 / (1 + math.exp(-at)) if at >= 0 else math.exp(at) / (1 + math.exp(at))


def language_told(text: str, language: str | None) -> str:
    """The language of a text without its region: the one that was given, else the one that is told, else und."""
    from tribunal.language import detected

    return (language or detected(text) or UNTOLD).partition("-")[0]


def open_look(folder: str) -> Look:
    """The first look in a folder. Blocks: call it off the event loop. Within `opened_once` it stays what it was.

    Raises:
        BadInput: there is none, its files are damaged, its embedding can't be had, or its audit couldn't be noted in
            the folder.
    """
    return opened(("first-look", folder), lambda: _open(Path(folder).expanduser()))


def _open(folder: Path) -> Look:
    manifest, sha = read_manifest(folder)
    if manifest.embedding is not None:
        same_embedder(folder, manifest.embedding)
    if not os.access(folder, os.W_OK):
        raise BadInput(f"first-look: {folder}: can't be written, and its audit is noted there; give a folder that can")
    return _held(folder.resolve(), sha, (folder / MANIFEST).stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _held(folder: Path, sha: str, stamp: int) -> Look:
    manifest, found = read_manifest(folder)
    return Look(folder, manifest, found, read_weights(folder, manifest))
