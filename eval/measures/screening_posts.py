"""The posts of a run with their texts, and which of them a screening classifier was fitted on."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tribunal.errors import BadInput
from tribunal.eval.datasets import open_dataset
from tribunal.eval.measures.clusters import near_duplicates
from tribunal.eval.measures.columns import Bools
from tribunal.eval.runs.results import read_full_line, read_results, read_run_file
from tribunal.retrievers.screening.manifest import read_fitted_posts, read_screener_manifest
from tribunal.retrievers.screening.screener import Screener
from tribunal.schema import JSON
from tribunal.shared_settings import screener_path
from tribunal.text_similarity import text_signature

IMAGE = "an image"


class PostOfRun(NamedTuple):
    """A post of a run: its text, why a screening classifier can't see it, if so, and its whole line."""

    id: str
    text: str
    why_not: str
    whole: JSON


def posts_of_run(folder: Path, data: Path | None = None) -> Iterator[PostOfRun]:
    """Yield the posts of a run with their texts, each once.

    Args:
        folder: the run's.
        data: the files of its data set, where its results hold no texts.

    Raises:
        BadInput: there are no texts, or a file is broken.
    """
    run = read_run_file(folder)
    texts = _texts_of_dataset(run, data) if data is not None else {}
    shown = False
    for at, result in read_results(folder):
        if result.repeat:
            continue
        whole = read_full_line(folder, at)
        text = str(whole.get("text") or texts.get(result.post_id) or "")
        shown = shown or bool(text)
        why_not = IMAGE if result.has_image is not None or whole.get("image_sha256") else ""
        yield PostOfRun(result.post_id, text, why_not, whole)
    if not shown:
        raise BadInput(
            f"{folder}: its results hold no texts; name the files of its data set with --data, or give a run with "
            "--keep-text"
        )


def _texts_of_dataset(run: JSON, data: Path) -> dict[str, str]:
    held: JSON = run.get("data") or {}
    opened = open_dataset(
        str(run.get("dataset")),
        data,
        split=held.get("split"),
        columns=held.get("columns") or None,
        labels=held.get("labels") or None,
    )
    return {sample.id: sample.text for sample in opened}


class FittedPosts(NamedTuple):
    """Hold the signatures of the posts that a screening classifier was fitted on."""

    posts: npt.NDArray[np.uint8]

    def contains_near(self, written: Sequence[str]) -> Bools:
        """Return whether the text of each signature is one of these, or nearly so. No signature counts as yes."""
        own = [b64encode(row.tobytes()).decode() for row in self.posts]
        cluster = near_duplicates([*own, *written])
        found: Bools = np.isin(cluster[len(own) :], cluster[: len(own)])
        found |= ~np.array(written, dtype=bool)
        return found


def signatures_of_run(folder: Path, ids: Sequence[str], written: Sequence[str], data: Path | None) -> list[str]:
    """Return the signature of each post of a run, computed from its text if none is stored and the text is available.

    Args:
        folder: the run's.
        ids: the posts, a row each.
        written: the signature of each, as its results have it.
        data: the files of its data set, where its results hold no texts.

    Raises:
        BadInput: none has a signature, and there are no texts.
    """
    if all(written):
        return list(written)
    try:
        texts = {post.id: post.text for post in posts_of_run(folder, data)}
    except BadInput:
        if not any(written):
            raise
        return list(written)  # a text without words has none
    return [held or text_signature(texts.get(post, "")) for post, held in zip(ids, written, strict=True)]


def read_fitted_on(look: Screener) -> FittedPosts:
    """Return the posts that a screening classifier was fitted on.

    Raises:
        BadInput: the file is missing, or was changed.
    """
    return FittedPosts(read_fitted_posts(look.folder, look.manifest))


def fitted_posts_of_run(run: JSON, folder: Path) -> FittedPosts | str:
    """Return the posts that the classifier of a run was fitted on, why they are unknown, or "" if it had none."""
    pinned = (run.get("first_look") or {}).get("sha")
    if pinned is None:
        return ""
    lost = (
        f"{folder}: a screening classifier took part, and its files are missing or changed, so that posts that it was "
        "fitted on can't be left out; if there are any, the figures are optimistic"
    )
    try:
        where = Path(screener_path((run.get("settings") or {}).get("triage")) or "").expanduser()
        manifest, sha = read_screener_manifest(where)
        return FittedPosts(read_fitted_posts(where, manifest)) if sha == pinned else lost
    except BadInput:
        return lost
