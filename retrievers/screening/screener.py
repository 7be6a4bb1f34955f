"""The screening classifier: calls a text harmless or hateful by its features, or declines to.

Features are the hashes of a text's runs of characters and of its words (Weinberger et al., "Feature Hashing for Large
Scale Multitask Learning", 2009), by CRC-32, which every Python has in C. The same function makes them when a classifier
is fitted and when it is used, so that the two can't differ. Runs of two to four characters stay within a word and count
its ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from tribunal.contents import read_once
from tribunal.errors import BadInput, CallFailed
from tribunal.retrievers.screening.manifest import (
    MANIFEST,
    SIZE,
    EmbeddingNote,
    ScreenerArrays,
    ScreenerManifest,
    read_screener_manifest,
    read_weights,
)
from tribunal.text import normalize_text
from tribunal.threshold import Kind
from tribunal.trust import stored_settings

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tribunal.models.embeddings import Embedder
    from tribunal.schema import Post, Scheme

    Vector = npt.NDArray[np.float32]

_RUNS = (2, 3, 4)
_VARYING = re.compile(r"https?://\S+|www\.\S+|(?<!\w)@\w+")
_WORD = re.compile(r"\w+")
_FIT_AGAIN = "fit it again with `tribunal screening fit`"
_LONG = 40  # characters from which on the runs of a word aren't kept: such words don't come again


def hash_features(text: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the features of a text and the value of each, or none for a text without words.

    The values of all runs of characters have the length 1 together, and so have those of all words and pairs of words.
    A feature may stand there twice, where a run and a word have one hash; its values are added.
    """
    import numpy as np

    words = _WORD.findall(normalize_text(_VARYING.sub(" ", text)))
    if not words:
        return np.empty(0, dtype=np.int64), np.empty(0)
    runs: set[int] = set()
    for word in dict.fromkeys(words):
        runs.update(_hash_runs(word) if len(word) < _LONG else _hash_runs.__wrapped__(word))
    word_places = {_hash_feature(f"\0{word}") for word in words} | {
        _hash_feature(f"\0{one}\0{next_}") for one, next_ in pairwise(words)
    }
    # In an order of their own, so that a sum of floats is the same in every process.
    places = np.array([*sorted(runs), *sorted(word_places)], dtype=np.int64)
    return places, np.repeat([len(runs) ** -0.5, len(word_places) ** -0.5], [len(runs), len(word_places)])


@lru_cache(maxsize=2**14)
def _hash_runs(word: str) -> tuple[int, ...]:
    """Return the hashes of the runs of characters within a word, its ends included."""
    ended = f" {word} "
    return tuple({_hash_feature(ended[at : at + run]) for run in _RUNS for at in range(max(1, len(ended) - run + 1))})


def _hash_feature(feature: str) -> int:
    return crc32(feature.encode("utf-8", "replace")) % SIZE


class ScreeningResult(NamedTuple):
    """Hold what a screening classifier makes of a post. `kind` is None if it declines, and `why` says why."""

    kind: Kind | None
    chance: float | None  # of hate, calibrated
    why: str = ""

    @property
    def confidence(self) -> float | None:
        """Return the probability that the classifier is right."""
        return None if self.chance is None else round(max(self.chance, 1 - self.chance), 4)


class Screener:
    """A fitted screening classifier. Its methods block for about a millisecond and may be called from several threads.

    Attributes:
        folder: where its files are.
        manifest: what it is and promises.
        sha: the hash by which records name it.
    """

    def __init__(self, folder: Path, manifest: ScreenerManifest, sha: str, arrays: ScreenerArrays) -> None:
        """Spread the stored weights over all features."""
        import numpy as np

        self.folder, self.manifest, self.sha = folder, manifest, sha
        self._weights = np.zeros(SIZE)
        self._weights[arrays.known] = arrays.weights
        self._known = np.zeros(SIZE, dtype=bool)
        self._known[arrays.known] = True
        self._vector = arrays.vector

    def probability_of_hate(self, text: str, vector: Vector | None = None) -> tuple[float, float]:
        """Return the probability that a text is hate, and the share of its features that are known."""
        import numpy as np

        places, values = hash_features(text)
        if not len(places):
            return 0.5, 0.0
        raw = float(self._weights[places] @ values) + self.manifest.bias
        if vector is not None:
            raw += float(self._vector @ vector.astype(np.float64))
        chance = platt_probability(raw, self.manifest.slope, self.manifest.intercept)
        return chance, float(self._known[np.unique(places)].mean())

    def reason_to_decline(self, post: Post) -> str:
        """Return why it declines a post whatever the score, or an empty string if it doesn't."""
        if post.image is not None:
            return "the post has an image"
        if post.appeal is not None or post.earlier:
            return "an appeal" if post.appeal is not None else "earlier posts belong to it"
        return self.reason_to_decline_text(post.text, post.language)

    def reason_to_decline_text(self, text: str, language: str | None) -> str:
        """Return why it declines a text, or an empty string; `language` is a tag, if the language is known."""
        limits = self.manifest
        if not text.strip():
            return "the post has no text"
        if len(text) > limits.most_characters:
            return f"the text is longer than {limits.most_characters:,} characters"
        tag = language_or_detected(text, language)
        return "" if tag in limits.languages else f"the language is {tag}, and not {' or '.join(limits.languages)}"

    def classify_text(self, text: str, vector: Vector | None = None) -> ScreeningResult:
        """Classify a text that it doesn't decline.

        Args:
            text: of the post.
            vector: of the text, by the classifier's embedding, if it has one.
        """
        limits = self.manifest
        chance, known = self.probability_of_hate(text, vector)
        if known < limits.least_known:
            return ScreeningResult(None, chance, f"the text is unlike the fitting posts: {known:.0%} of it is known")
        kind: Kind = "hateful" if chance >= 0.5 else "harmless"
        threshold = limits.hateful if kind == "hateful" else limits.harmless
        if threshold is None or max(chance, 1 - chance) < threshold:
            return ScreeningResult(None, chance, "it isn't sure enough")
        return ScreeningResult(kind, chance)

    async def embed_texts(self, texts: Sequence[str]) -> Sequence[Vector | None]:
        """Return the vector of each text; None for each if the classifier was fitted on words alone.

        Raises:
            BadInput: its embedding can't be loaded, or has changed since.
            CallFailed: the endpoint couldn't be asked, or its vectors are of another length than those of the fit.
        """
        if self.manifest.embedding is None:
            return [None] * len(texts)
        model = _load_embedder(self.folder, self.manifest.embedding)
        vectors = await model.embed(texts, "query")
        if why := _length_mismatch(self.manifest.embedding, vectors.shape[1]):
            raise CallFailed(why, kind="bad_output", model=model.name)
        return list(vectors)

    async def classify_post(self, post: Post) -> ScreeningResult:
        """Classify a post, or decline it. Errors as `embed_texts`."""
        if why := await asyncio.to_thread(self.reason_to_decline, post):
            return ScreeningResult(None, None, why)
        [vector] = await self.embed_texts([post.text])
        return await asyncio.to_thread(self.classify_text, post.text, vector)

    def may_decide(self, kind: Kind | None, scheme: Scheme) -> bool:
        """Return whether it may decide so: in the fine scheme, harmless alone, since it knows no category of hate."""
        return kind == "harmless" or (kind == "hateful" and scheme == "binary")

    def is_sampled_for_audit(self, post_id: str) -> bool:
        """Return whether a post goes to trial for the audit whatever is said of it, by its id and this classifier."""
        drawn = hashlib.sha256(f"{self.sha}:{post_id}".encode("utf-8", "replace")).digest()
        return int.from_bytes(drawn[:8]) < self.manifest.audit * 2**64


def platt_probability(raw: float, slope: float, intercept: float) -> float:
    """Return a score as a probability (Platt, "Probabilistic Outputs for Support Vector Machines", 1999)."""
    logit = slope * raw + intercept
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


def language_or_detected(text: str, language: str | None) -> str:
    """Return the language of a text without its region: the given one, else the detected one, else `und`."""
    from tribunal.language import detect_language

    return (language or detect_language(text) or "und").partition("-")[0]


def open_screener(folder: str) -> Screener:
    """Open the screening classifier in a folder. Blocks: call it off the event loop. `opened_once` keeps it unchanged.

    Raises:
        BadInput: there is none, its files are damaged, its embedding can't be loaded, or the folder can't be written,
            where its audit is noted.
    """
    return read_once(("screening", folder), lambda: _open_folder(Path(folder).expanduser()))


def _open_folder(folder: Path) -> Screener:
    manifest, sha = read_screener_manifest(folder)
    if manifest.embedding is not None:
        _load_embedder(folder, manifest.embedding)
    if not os.access(folder, os.W_OK):
        raise BadInput(f"screening: {folder}: can't be written, and its audit is noted there; give a folder that can")
    return _load_screener(folder.resolve(), sha, (folder / MANIFEST).stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _load_screener(folder: Path, sha: str, stamp: int) -> Screener:
    manifest, current_sha = read_screener_manifest(folder)
    return Screener(folder, manifest, current_sha, read_weights(folder, manifest))


def note_embedding(model: Embedder, dimension: int, *, alone: bool) -> EmbeddingNote:
    """Return what a manifest says of an embedder."""
    return EmbeddingNote(name=model.name, version=_package_version(model), dimension=dimension, alone=alone)


def _load_embedder(folder: Path, fitted: EmbeddingNote) -> Embedder:
    """Load the embedder that a screening classifier was fitted with; refuse another version of it."""
    from tribunal.models.embeddings import find_embedder

    # A folder may be somebody else's: what its manifest names runs no code that the operator hasn't allowed.
    with stored_settings():
        model = find_embedder(fitted.name)
    if model is None:
        why = f"{fitted.name} is fitted to one set of texts, and can't be used here; {_FIT_AGAIN}"
    elif (version := _package_version(model)) != fitted.version:
        why = f"was fitted with {fitted.name} {fitted.version}, and here is {version}; install that version, or "
        why += _FIT_AGAIN
    elif not (why := _length_mismatch(fitted, model.dimension)):
        return model
    raise BadInput(f"screening: {folder}: {why}")


def _package_version(model: Embedder) -> str | None:
    """Return the version of an embedder that runs on this machine; an endpoint says nothing of its model's."""
    version = getattr(model, "version", None)
    return None if version is None else str(version)


def _length_mismatch(fitted: EmbeddingNote, dimension: int | None) -> str:
    if dimension in (None, fitted.dimension):
        return ""
    return (
        f"{fitted.name} gives vectors of {dimension} numbers, and the screening classifier was fitted with "
        f"{fitted.dimension}: the model behind the name has changed; {_FIT_AGAIN}"
    )
