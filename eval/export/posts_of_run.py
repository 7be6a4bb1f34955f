"""The posts of the data set that a run was made over, for runs that kept no texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.eval.datasets import PLUS, DatasetPool, find_dataset, open_datasets
from tribunal.eval.datasets.dataset import Dataset
from tribunal.schema import JSON


class PostWords(NamedTuple):
    """A post's text, and the posts before it in its conversation."""

    text: str
    earlier: tuple[str, ...] = ()


WordsOf = Callable[[str], PostWords | None]


def parse_data_paths(values: Iterable[str]) -> tuple[Path | None, dict[str, Path]]:
    """Parse the values of `--data`.

    Returns:
        The one path for every run, and the paths by the name of their data set.

    Raises:
        BadInput: two paths are given without names.
    """
    only_path: Path | None = None
    paths_by_set: dict[str, Path] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if equals and path and not Path(value).exists():
            paths_by_set[name] = Path(path).expanduser()
        elif only_path is not None:
            raise BadInput(f"data: {only_path} and {value}: give one path, or SET=PATH for each set")
        else:
            only_path = Path(value).expanduser()
    return only_path, paths_by_set


def words_by_post(run: JSON, only_path: Path | None, paths_by_set: Mapping[str, Path], folder: Path) -> WordsOf:
    """Return a function from a post's id to its words; to None if the data set isn't given or lacks the post.

    Args:
        run: the content of run.json.
        only_path: the path that is given for every run.
        paths_by_set: paths by the name of their data set.
        folder: the run's folder, for error messages.

    Raises:
        BadInput: the files are not those that the run was made over, or can't be read.
    """
    dataset = _open_dataset(run, only_path, paths_by_set, folder)
    words = {} if dataset is None else {sample.id: PostWords(sample.text, sample.earlier) for sample in dataset}
    return words.get


def _open_dataset(
    run: JSON, only_path: Path | None, paths_by_set: Mapping[str, Path], folder: Path
) -> Dataset | DatasetPool | None:
    settings: JSON = run["data"] if isinstance(run.get("data"), dict) else {}
    name = settings.get("name") or run.get("dataset")
    names = name.split(PLUS) if isinstance(name, str) else []
    data: Path | dict[str, Path] | None = only_path
    if names and all(each in paths_by_set for each in names):
        data = {each: paths_by_set[each] for each in names} if len(names) > 1 else paths_by_set[names[0]]
    if data is None or not names:
        return None
    spec = find_dataset(names[0]) if len(names) == 1 else None
    split = settings.get("split") if spec is not None and settings.get("split") != spec.default else None
    if spec is not None and spec.mapped and isinstance(data, Path) and data.is_dir():
        # A table's own file may have any name: take the one that the run was made over.
        candidates = (data / Path(each).name for each in settings.get("files") or ())
        data = next((file for file in candidates if file.is_file()), data)
    dataset = open_datasets(
        PLUS.join(names),
        data,
        split=split,
        columns=settings.get("columns"),
        labels=settings.get("labels"),
        skip_missing_images=bool(settings.get("skip_missing_images")),
        extras=bool(settings.get("extras")),
    )
    if settings.get("sha256") and dataset.fingerprint != settings["sha256"]:
        files = ", ".join(str(file) for file in dataset.files)
        raise BadInput(
            f"data: {files}: not the files that {folder} was made over: their SHA-256 is {dataset.fingerprint[:12]}…, "
            f"and run.json names {str(settings['sha256'])[:12]}…; give the files as they were"
        )
    return dataset
