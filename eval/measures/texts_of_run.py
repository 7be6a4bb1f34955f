"""The texts of a run's posts, as its results hold them, or else the files of its data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.eval.datasets import open_dataset
from tribunal.eval.runs.results import read_results, read_run, read_whole
from tribunal.schema import JSON

IMAGE = "an image"


class PostOfRun(NamedTuple):
    """A post of a run: its text, why a first look can't see it, if so, and its whole line."""

    id: str
    text: str
    why_not: str
    whole: JSON


def posts_of_run(folder: Path, data: Path | None = None) -> Iterator[PostOfRun]:
    """The posts of a run with their texts, each once.

    Args:
        folder: the run's.
        data: the files of its data set, where its results hold no texts.

    Raises:
        BadInput: there are no texts, or a file is broken.
    """
    run = read_run(folder)
    texts = _texts(run, data) if data is not None else {}
    shown = False
    for at, result in read_results(folder):
        if result.repeat:
            continue
        whole = read_whole(folder, at)
        text = str(whole.get("text") or texts.get(result.post_id) or "")
        shown = shown or bool(text)
        why_not = IMAGE if result.has_image is not None or whole.get("image_sha256") else ""
        yield PostOfRun(result.post_id, text, why_not, whole)
    if not shown:
        raise BadInput(
            f"{folder}: its results hold no texts; name the files of its data set with --data, or give a run with "
            "--keep-text"
        )


def _texts(run: JSON, data: Path) -> dict[str, str]:
    held: JSON = run.get("data") or {}
    opened = open_dataset(
        str(run.get("dataset")),
        data,
        split=held.get("split"),
        columns=held.get("columns") or None,
        labels=held.get("labels") or None,
    )
    return {sample.id: sample.text for sample in opened}
