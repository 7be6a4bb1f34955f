"""The runs that are looked into, each with its index and, where they were given, the posts of its data set.

Posts of a data set are laid beside a run that didn't keep them in this process's memory, and nowhere else.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.datasets import PLUS, find_dataset, open_datasets
from tribunal.eval.runs.results import find_run_folders
from tribunal.eval.view.index import SampleIndex
from tribunal.eval.view.samples import LoadedRun
from tribunal.text import parse_json

if TYPE_CHECKING:
    from tribunal.eval.datasets import DatasetPool
    from tribunal.eval.datasets.dataset import Dataset
    from tribunal.eval.runs.prices import Prices
    from tribunal.schema import JSON

_SCHEMA = (
    "CREATE TABLE posts(rowid INTEGER PRIMARY KEY, post UNIQUE, text, image, earlier)",
    "CREATE VIRTUAL TABLE words USING fts5(said, content='', columnsize=0, tokenize='unicode61 remove_diacritics 2')",
)


class AttachedPost(NamedTuple):
    """A post's words, the path of its image, and the posts before it in its conversation."""

    text: str
    image: str | None = None
    earlier: tuple[str, ...] = ()


class AttachedPosts:
    """The posts of one data set, read in a thread.

    Attributes:
        problem: why they can't be read; empty while they can.
    """

    def __init__(self, dataset: Dataset | DatasetPool) -> None:
        """Prepare a database in memory."""
        self.problem = ""
        self._dataset = dataset
        self._held = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)  # noqa: TID251 (no file)
        self._done = Event()
        self._stopped = False
        self._thread = Thread(target=self._read_posts, name="view-texts", daemon=True)

    @property
    def is_ready(self) -> bool:
        """Return whether every post is here."""
        return self._done.is_set() and not self.problem

    def begin(self) -> None:
        """Begin to read the posts."""
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait until they are here, or can't be read."""
        return self._done.wait(seconds)

    def close(self) -> None:
        """Forget them."""
        self._stopped = True
        if self._thread.is_alive():
            self._thread.join()
        self._held.close()

    def find_post(self, post: str) -> AttachedPost | None:
        """Return a post by its id; None where the set has none, or isn't read yet."""
        if not self.is_ready:
            return None
        held = self._held.execute("SELECT text, image, earlier FROM posts WHERE post = ?", (post,)).fetchone()
        return None if held is None else AttachedPost(held[0], held[1], tuple(parse_json(held[2])))

    def search(self, term: str) -> set[str]:
        """Return the ids of the posts that hold a search term; none before all are read."""
        if not self.is_ready:
            return set()
        query = "SELECT post FROM posts WHERE rowid IN (SELECT rowid FROM words WHERE words MATCH ?)"
        return {post for (post,) in self._held.execute(query, (term,))}

    def _read_posts(self) -> None:
        try:
            self._held.execute("PRAGMA temp_store=MEMORY")
            self._held.execute("BEGIN")
            for statement in _SCHEMA:
                self._held.execute(statement)
            for number, sample in enumerate(self._dataset, start=1):
                put = (number, sample.id, sample.text, sample.image, json.dumps(sample.earlier))
                if self._held.execute("INSERT OR IGNORE INTO posts VALUES (?, ?, ?, ?, ?)", put).rowcount:
                    self._held.execute("INSERT INTO words(rowid, said) VALUES (?, ?)", (number, sample.text))
                if self._stopped:
                    return
            self._held.execute("COMMIT")
        except (BadInput, OSError, sqlite3.Error) as error:
            self.problem = str(error)
        self._done.set()


def parse_data_paths(given: Iterable[str]) -> tuple[Path | None, dict[str, Path]]:
    """Return what `--data` says: the one path for every run, and paths by the name of their set.

    Raises:
        BadInput: two paths are given, and no names.
    """
    alone: Path | None = None
    named: dict[str, Path] = {}
    for each in given:
        name, equals, path = each.partition("=")
        if equals and path and not Path(each).exists():
            named[name] = Path(path).expanduser()
        elif alone is not None:
            raise BadInput(f"data: {alone} and {each}: give one path, or SET=PATH for each set")
        else:
            alone = Path(each).expanduser()
    return alone, named


def dataset_names(run: JSON) -> list[str]:
    """Return the names of the data sets that a run was made over; none where its run.json names none."""
    data = run.get("data")
    name = (data.get("name") if isinstance(data, dict) else None) or run.get("dataset")
    return name.split(PLUS) if isinstance(name, str) else []


def open_dataset_of_run(
    run: JSON, alone: Path | None, named: Mapping[str, Path], folder: Path
) -> Dataset | DatasetPool | None:
    """Return the data set that a run was made over; None where it wasn't given.

    Args:
        run: the run's run.json.
        alone: the path that holds for every run.
        named: paths by the name of their set.
        folder: the run's, for an error.

    Raises:
        BadInput: the files aren't those that the run was made over, or can't be read.
    """
    names = dataset_names(run)
    data: Path | dict[str, Path] | None = alone
    if names and all(each in named for each in names):
        data = {each: named[each] for each in names} if len(names) > 1 else named[names[0]]
    if data is None or not names:
        return None
    held: JSON = run["data"] if isinstance(run.get("data"), dict) else {}
    spec = find_dataset(names[0]) if len(names) == 1 else None
    split = held.get("split") if spec is not None and held.get("split") != spec.default else None
    if spec is not None and spec.mapped and isinstance(data, Path) and data.is_dir():
        # A table's own file may have any name: the one that it had.
        there = (data / Path(each).name for each in held.get("files") or ())
        data = next((file for file in there if file.is_file()), data)
    dataset = open_datasets(
        PLUS.join(names),
        data,
        split=split,
        columns=held.get("columns"),
        labels=held.get("labels"),
        skip_missing_images=bool(held.get("skip_missing_images")),
        extras=bool(held.get("extras")),
    )
    if held.get("sha256") and dataset.fingerprint != held["sha256"]:
        files = ", ".join(str(file) for file in dataset.files)
        raise BadInput(
            f"data: {files}: not the files that {folder} was made over: their SHA-256 is {dataset.fingerprint[:12]}…, "
            f"and run.json names {str(held['sha256'])[:12]}…; give the files as they were"
        )
    return dataset


_AT_ONCE = 0.3  # seconds that a page waits for lines that came


@dataclass(frozen=True)
class ViewedRun:
    """One run."""

    name: str
    number: int
    index: SampleIndex
    texts: AttachedPosts | None

    def find_post(self, post: str) -> AttachedPost | None:
        """Return a post, where posts were re-attached."""
        return self.texts.find_post(post) if self.texts else None

    def load(self, terms: Sequence[str] = ()) -> LoadedRun:
        """Return the samples, those that are new included, and which of them hold each search term."""
        self.index.refresh(_AT_ONCE)
        table, found = self.index.load(terms)
        matches = []
        for term, places in zip(terms, found, strict=True):
            mask = np.zeros(table.samples, dtype=bool)
            mask[places] = True
            if self.texts is not None and (posts := self.texts.search(term)):
                mask |= np.fromiter((post in posts for post in table.posts), dtype=bool, count=table.samples)
            matches.append(mask)
        return LoadedRun(table, matches)


class ViewedRuns:
    """All of them."""

    def __init__(self, folders: Sequence[Path], data: Sequence[str] = (), prices: Prices | None = None) -> None:
        """Open what is read.

        Args:
            folders: of runs; or of folders of runs, such as a comparison's.
            data: a path for every run, or SET=PATH for each set.
            prices: what calls cost; else those that a run's folder has.

        Raises:
            BadInput: a folder is no run's, or the data aren't those that a run was made over.
        """
        self.runs: dict[str, ViewedRun] = {}
        alone, named = parse_data_paths(data)
        known: dict[str, AttachedPosts] = {}
        unused = set(named)
        for folder in find_run_folders(folders):
            index = SampleIndex(folder, prices)
            dataset = open_dataset_of_run(index.run, alone, named, folder)
            texts = None
            if dataset is not None:
                key = json.dumps([dataset.name, dataset.fingerprint, index.run.get("data")], sort_keys=True)
                texts = known.setdefault(key, AttachedPosts(dataset))
            name = _unique_name(folder.resolve().name or str(folder), self.runs)
            self.runs[name] = ViewedRun(name, len(self.runs), index, texts)
            unused -= set(dataset_names(index.run))
        self._texts = list(known.values())
        if unused:
            raise BadInput(f"data: {min(unused)}: no run here is over a set of that name")

    def begin_reading(self) -> None:
        """Begin to read what isn't read yet."""
        for run in self.runs.values():
            run.index.refresh(0)
        for texts in self._texts:
            texts.begin()

    def close(self) -> None:
        """Stop."""
        for run in self.runs.values():
            run.index.close()
        for texts in self._texts:
            texts.close()


def _unique_name(name: str, taken: dict[str, ViewedRun]) -> str:
    """Return the name, with a number where another run is called so."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free
