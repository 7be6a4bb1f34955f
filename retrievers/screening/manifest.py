"""The files of a screening classifier: `manifest.json`, and beside it plain arrays.

`weights-….npz` holds its weights, `posts-….npz` the signatures of the posts that it was fitted on
(`tribunal.text_similarity`), so that it is never measured on one of them.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from tribunal.context import describe_validation_error
from tribunal.errors import BadInput
from tribunal.files import read_regular, write_whole
from tribunal.schema import JSON, Frozen

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MANIFEST = "manifest.json"
SIZE = 2**20  # how many features there are: what a text has is hashed to their numbers
_MAKE = "make one with `tribunal screening fit`"
_MOST_BYTES = 256 * 1024 * 1024  # bytes of an array file
_OTHER_FORM = "isn't in the expected format"
_SHARE = Field(gt=0, lt=1)


class EmbeddingNote(Frozen):
    """The embedding that a screening classifier was fitted with; another one gives other vectors, and is refused."""

    name: str
    version: str | None = Field(default=None, description="of its package, where it runs on this machine")
    dimension: int = Field(ge=1)
    alone: bool = Field(default=False, description="words and runs of characters have no weight beside it")


class ScreenerManifest(Frozen):
    """Hold what a screening classifier is, what it promises, and on what that rests.

    `missed_hate`, `false_alarms` and `level` are what was asked for. A threshold is None where none could be shown to
    keep the promise: then posts are never called so.
    """

    form: Literal["tribunal-first-look-1"] = "tribunal-first-look-1"
    weights_sha256: str
    posts_sha256: str
    embedding: EmbeddingNote | None = None
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


class ScreenerArrays(NamedTuple):
    """The weights of a screening classifier, and the signatures of the posts that it was fitted on."""

    known: npt.NDArray[np.int64]  # the features that are known, ascending
    weights: npt.NDArray[np.float64]  # of each of these
    vector: npt.NDArray[np.float64]  # of each number of a text's vector; empty without an embedding
    posts: npt.NDArray[np.uint8]  # signatures, a row each


def write_screener(folder: Path, manifest: ScreenerManifest, arrays: ScreenerArrays) -> str:
    """Write a screening classifier to a folder and return its hash. The hashes of its arrays are filled in here.

    The manifest is written last and in one move, so that a reader has the old one or the new one.

    Raises:
        OSError: the folder can't be written.
    """
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, dict[str, npt.NDArray[Any]]] = {
        "weights": {
            "index": arrays.known.astype("<i4"),
            "weights": arrays.weights.astype("<f4"),
            "vector": arrays.vector.astype("<f4"),
        },
        "posts": {"posts": arrays.posts.astype("u1")},
    }
    hashes = {}
    for name, content in files.items():
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **content)
        hashes[name] = hashlib.sha256(buffer.getvalue()).hexdigest()
        write_whole(folder / _array_name(name, hashes[name]), buffer.getvalue())
    filled = manifest.model_copy(update={f"{name}_sha256": sha for name, sha in hashes.items()})
    text = filled.model_dump_json(indent=2) + "\n"
    write_whole(folder / MANIFEST, text)
    current = {_array_name(name, sha) for name, sha in hashes.items()}
    for other in (*folder.glob("weights-*.npz"), *folder.glob("posts-*.npz")):
        if other.name not in current:
            other.unlink(missing_ok=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_screener_manifest(folder: Path) -> tuple[ScreenerManifest, str]:
    """Return the manifest of a folder, and its hash, by which records name the classifier.

    Raises:
        BadInput: there is none, or it is something else.
    """
    try:
        raw = read_regular(folder / MANIFEST)
        return ScreenerManifest.model_validate_json(raw), hashlib.sha256(raw).hexdigest()
    except ValidationError as error:
        raise BadInput(f"screening: {folder}: {describe_validation_error(error)}; {_MAKE}") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"screening: {folder}: {getattr(error, 'strerror', None) or error}; {_MAKE}") from error


def read_weights(folder: Path, manifest: ScreenerManifest) -> ScreenerArrays:
    """Return the weights of a classifier; its `posts` are left out, since only plans need them.

    Raises:
        BadInput: the file is missing, was changed, or is none of ours.
    """
    import numpy as np

    with _array_file(folder, "weights", manifest.weights_sha256) as stored:
        index, weights, vector = (stored[name].astype(np.float64) for name in ("index", "weights", "vector"))
        dimension = manifest.embedding.dimension if manifest.embedding else 0
        finite = all(np.isfinite(each).all() for each in (index, weights, vector))
        if index.ndim != 1 or index.shape != weights.shape or not len(index) or vector.shape != (dimension,):
            raise ValueError(_OTHER_FORM)
        if not finite or index[0] < 0 or index[-1] >= SIZE or (np.diff(index) <= 0).any():
            raise ValueError("names features that do not exist")
        return ScreenerArrays(index.astype(np.int64), weights, vector, np.empty((0, 0), dtype=np.uint8))


def read_fitted_posts(folder: Path, manifest: ScreenerManifest) -> npt.NDArray[np.uint8]:
    """Return the signatures of the posts that it was fitted on, a row each.

    Raises:
        BadInput: the file is missing, was changed, or is none of ours.
    """
    with _array_file(folder, "posts", manifest.posts_sha256) as stored:
        posts: npt.NDArray[np.uint8] = stored["posts"]
        if posts.ndim != 2 or posts.dtype != "uint8":
            raise ValueError(_OTHER_FORM)
        return posts


@contextmanager
def _array_file(folder: Path, name: str, sha: str) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
    """Give the arrays of a file. What is found wrong with it, here or by the caller, becomes `BadInput`."""
    import numpy as np

    file = folder / _array_name(name, sha)
    try:
        raw = read_regular(file, _MOST_BYTES)
        if hashlib.sha256(raw).hexdigest() != sha:
            raise ValueError("was changed since it was fitted")
        with np.load(io.BytesIO(raw), allow_pickle=False) as stored:
            yield stored
    except (OSError, ValueError, KeyError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"screening: {file}: {why}; {_MAKE}") from error


def _array_name(name: str, sha: str) -> str:
    return f"{name}-{sha[:12]}.npz"
