"""The files of a fitted first look: `manifest.json`, and beside it plain arrays.

`weights-….npz` holds what it looks with, `posts-….npz` the signatures of the posts that it was fitted on
(`tribunal.eval.runs.likeness`), by which it is never measured on one of them.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from pydantic import Field, ValidationError

from tribunal.context import describe
from tribunal.errors import BadInput
from tribunal.files import read_regular, write_whole
from tribunal.schema import JSON, Frozen

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MANIFEST = "manifest.json"
_MAKE = "make one with `tribunal first-look fit`"
_MOST = 256 * 1024 * 1024  # bytes of an array file
_OTHER_FORM = "isn't of the form that it should be"
_SHARE = Field(gt=0, lt=1)
Read = TypeVar("Read")


class Embedding(Frozen):
    """The embedding that a first look was fitted with: another one gives other vectors, and is refused."""

    name: str
    version: str | None = Field(default=None, description="of its package, where it runs on this machine")
    dimension: int = Field(ge=1)
    alone: bool = Field(default=False, description="words and runs of characters have no weight beside it")


class Manifest(Frozen):
    """What a fitted first look is, what it promises, and on what that rests.

    `missed_hate`, `false_alarms` and `level` are what was asked for. A threshold is None where none could be shown to
    keep the promise: then posts are never called so.
    """

    form: Literal["tribunal-first-look-1"] = "tribunal-first-look-1"
    weights_sha256: str
    posts_sha256: str
    embedding: Embedding | None = None
    bias: float
    slope: float = Field(description="Platt's: the chance of hate is 1 / (1 + exp(-(slope · score + intercept)))")
    intercept: float
    harmless: float | None = Field(ge=0, le=1, description="the confidence from which a post is called harmless")
    hateful: float | None = Field(ge=0, le=1, description="the confidence from which a post is called hateful")
    languages: tuple[str, ...] = Field(description="those of the posts it was fitted on; und: none could be told")
    least_known: float = Field(ge=0, le=1, description="the share of a text's features that must be known")
    most_characters: int = Field(ge=1, description="of the longest text it was fitted on")
    missed_hate: float = _SHARE
    false_alarms: float = _SHARE
    level: float = _SHARE
    attempt: int = Field(ge=1, description="how many fits were tried on these posts, this one included")
    error: float = _SHARE
    audit: float = Field(gt=0, lt=1, description="the share of what it would decide that goes to trial all the same")
    court_error: float = Field(ge=0, lt=1, description="how often the court is wrong on such posts; the audit bears it")
    n_fit: int
    n_by_court: int = Field(default=0, description="of these posts, those that no people decided, but a court alone")
    n_test: int
    n_held_out: int = Field(default=0, description="posts that neither taught it nor chose its thresholds")
    clusters: JSON = Field(description="what counted as one observation: by, n, largest")
    foretold: JSON = Field(description="what it does with the posts held out; where none are, with those of the test")
    warnings: tuple[str, ...] = ()
    policy: str | None = Field(default=None, description="the SHA-256 of the policy by which people decided; if known")
    fitted_from: str
    at: str


class Arrays(NamedTuple):
    """What a first look looks with, and what it was fitted on."""

    known: npt.NDArray[np.int64]  # the features that are known, ascending
    weights: npt.NDArray[np.float64]  # of each of these
    vector: npt.NDArray[np.float64]  # of each number of a text's vector; empty without an embedding
    posts: npt.NDArray[np.uint8]  # signatures, a row each


def write(folder: Path, manifest: Manifest, arrays: Arrays) -> str:
    """Write a first look to a folder, and give its hash. The hashes of its arrays are filled in here.

    The manifest is written last and in one move, so that a reader has the old one or the new one.

    Raises:
        OSError: the folder can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    weights = _write_arrays(
        folder,
        "weights",
        index=arrays.known.astype("<i4"),
        weights=arrays.weights.astype("<f4"),
        vector=arrays.vector.astype("<f4"),
    )
    posts = _write_arrays(folder, "posts", posts=arrays.posts.astype("u1"))
    filled = manifest.model_copy(update={"weights_sha256": weights, "posts_sha256": posts})
    text = filled.model_dump_json(indent=2) + "\n"
    write_whole(folder / MANIFEST, text)
    held = {_file("weights", weights), _file("posts", posts)}
    for other in (*folder.glob("weights-*.npz"), *folder.glob("posts-*.npz")):
        if other.name not in held:
            other.unlink(missing_ok=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _write_arrays(folder: Path, name: str, **arrays: npt.NDArray[Any]) -> str:
    import numpy as np

    held = io.BytesIO()
    np.savez_compressed(held, allow_pickle=False, **arrays)
    raw = held.getvalue()
    sha = hashlib.sha256(raw).hexdigest()
    write_whole(folder / _file(name, sha), raw)
    return sha


def read_manifest(folder: Path) -> tuple[Manifest, str]:
    """The manifest of a folder, and the hash by which records name the first look: that of the manifest's bytes.

    Raises:
        BadInput: there is none, or it is something else.
    """
    try:
        raw = read_regular(folder / MANIFEST)
        return Manifest.model_validate_json(raw), hashlib.sha256(raw).hexdigest()
    except ValidationError as error:
        raise BadInput(f"first-look: {folder}: {describe(error)}; {_MAKE}") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"first-look: {folder}: {getattr(error, 'strerror', None) or error}; {_MAKE}") from error


def read_weights(folder: Path, manifest: Manifest) -> Arrays:
    """What a first look looks with; its `posts` are left out, since only plans ask for them.

    Raises:
        BadInput: the file is missing, was changed, or is none of ours.
    """
    import numpy as np

    from tribunal.retrievers.first_look.features import SIZE

    def checked(held: Mapping[str, npt.NDArray[Any]]) -> Arrays:
        index, weights = held["index"].astype(np.int64), held["weights"].astype(np.float64)
        vector = held["vector"].astype(np.float64)
        finite = np.isfinite(weights).all() and np.isfinite(vector).all()
        if index.ndim != 1 or index.shape != weights.shape or not len(index) or not finite:
            raise ValueError(_OTHER_FORM)
        if vector.shape != (manifest.embedding.dimension if manifest.embedding else 0,):
            raise ValueError(_OTHER_FORM)
        if index[0] < 0 or index[-1] >= SIZE or (np.diff(index) <= 0).any():
            raise ValueError("names features that there are none of")
        return Arrays(index, weights, vector, np.empty((0, 0), dtype=np.uint8))

    return _read_arrays(folder, "weights", manifest.weights_sha256, checked)


def read_posts(folder: Path, manifest: Manifest) -> npt.NDArray[np.uint8]:
    """The signatures of the posts that it was fitted on, a row each.

    Raises:
        BadInput: the file is missing, was changed, or is none of ours.
    """

    def checked(held: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.uint8]:
        posts: npt.NDArray[np.uint8] = held["posts"]
        if posts.ndim != 2 or posts.dtype != "uint8":
            raise ValueError(_OTHER_FORM)
        return posts

    return _read_arrays(folder, "posts", manifest.posts_sha256, checked)


def _read_arrays(folder: Path, name: str, sha: str, checked: Callable[[Any], Read]) -> Read:
    import numpy as np

    file = folder / _file(name, sha)
    try:
        raw = read_regular(file, _MOST)
        if hashlib.sha256(raw).hexdigest() != sha:
            raise ValueError("was changed since it was fitted")
        with np.load(io.BytesIO(raw), allow_pickle=False) as held:
            return checked(held)
    except (OSError, ValueError, KeyError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"first-look: {file}: {why}; {_MAKE}") from error


def _file(name: str, sha: str) -> str:
    return f"{name}-{sha[:12]}.npz"
