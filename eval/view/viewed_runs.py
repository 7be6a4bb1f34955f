"""The runs that are looked into, each with its index and, where they were given, the posts of its data set."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.runs.journal import RUN
from tribunal.eval.view.attached_posts import (
    AttachedPost,
    AttachedPosts,
    dataset_names,
    open_dataset_of_run,
    parse_data_paths,
)
from tribunal.eval.view.index import SampleIndex
from tribunal.eval.view.samples import LoadedRun

if TYPE_CHECKING:
    from tribunal.eval.runs.prices import Prices

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
            folders: of runs; or of folders of runs, such as a sweep's.
            data: a path for every run, or SET=PATH for each set.
            prices: what calls cost; else those that a run's folder has.

        Raises:
            BadInput: a folder is no run's, or the data aren't those that a run was made over.
        """
        self.runs: dict[str, ViewedRun] = {}
        alone, named = parse_data_paths(data)
        known: dict[str, AttachedPosts] = {}
        unused = set(named)
        for folder in _run_folders(folders):
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


def _run_folders(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        inside = [] if (folder / RUN).exists() or not folder.is_dir() else sorted(folder.glob(f"*/{RUN}"))
        yield from [each.parent for each in inside] or [folder]


def _unique_name(name: str, taken: dict[str, ViewedRun]) -> str:
    """Return the name, with a number where another run is called so."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free
