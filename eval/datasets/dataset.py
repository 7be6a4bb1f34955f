"""What a data set is here: the files of a set, read one sample at a time, with what its own analysis needs.

Nothing is downloaded: the user has the files, and the error for a missing one says where the set is obtained.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Literal

from tribunal.errors import BadInput
from tribunal.eval.datasets.sample import Sample
from tribunal.files import is_lfs_pointer
from tribunal.retrievers.perspectives.rows import (
    TableRow,
    file_hash,
    files_named,
    keyed_rows,
    read_rows,
    refuse_pointer,
)

Task = Literal["hate", "sarcasm", "misinformation"]
Names = tuple[str, ...]  # what one file may be called, the first that is there being read; a name may hold *
_REMOTE = ("http://", "https://", "data:")
_NAMED = 3  # missing images that an error names
_PULL = "run `git lfs pull` there"


@dataclass(frozen=True, slots=True)
class PaperProtocol:
    """Which posts of a set a paper evaluated on: how many of each stratum.

    Attributes:
        says: the paper, its section, and what it took, in words.
        split: the split they are of.
        quotas: how many posts of each stratum.
        stratum: gives the stratum of a post, and None where the post is outside the pool.
        whole: the paper took every post of the split, which must hold exactly as many.
        seed: the paper's, which stands above the caller's.
        table: the protocol (`tribunal.eval.protocols`) of the table in which the set was first evaluated.
    """

    says: str
    split: str
    quotas: Mapping[str, int]
    stratum: Callable[[Sample], str | None]
    whole: bool = False
    seed: int | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """A set that can be named: what it is, where it is obtained, its files by split, and how they are read.

    Attributes:
        name: by which results are told apart.
        title: in full.
        task: what a positive post is.
        obtain: where the set is obtained, for the error for a missing file.
        licence: of the set.
        splits: each split's files, and each file's possible names. A file is looked for in the folder that was given
            and in that folder's `data`.
        default: the split that is read when none is named.
        read: gives the samples, from the rows of `Dataset.rows` or `Dataset.keyed_rows`; raises `BadInput` for a wrong
            row (`TableRow.wrong`), and counts with `Dataset.skip` a row that gives none.
        beside: a pattern for further files beside the first one, read where they are there.
        images: the folder that the set's image paths begin with.
        protocol: which posts the set's paper evaluated on.
        mapped: the set takes the caller's columns and labels, and a file of any name.
        cluster: the field of its posts by which they belong together, so that they aren't independent observations.
        extras: what the set has beside a post (`title`, `ocr`), which the post is shown with unless the caller leaves
            it out; `read` asks `Dataset.extras`.
        extra_files: a pattern for the files that hold it, beside the first file.

    Raises:
        BadInput: `default` is none of the splits.
    """

    name: str
    title: str
    task: Task
    obtain: str
    licence: str
    splits: Mapping[str, tuple[Names, ...]]
    default: str
    read: Callable[[Dataset], Iterator[Sample]]
    beside: str | None = None
    images: str | None = None
    protocol: PaperProtocol | None = None
    mapped: bool = False
    cluster: str | None = None
    extras: str | None = None
    extra_files: str | None = None

    def __post_init__(self) -> None:
        if self.default not in self.splits:
            raise BadInput(f"data set {self.name}: default: {self.default!r}: is none of {', '.join(self.splits)}")

    def locate(self, data: Path, split: str | None) -> tuple[str, tuple[Path, ...]]:
        """The split that is meant, and its files in a folder; or the one file that was given, and its split.

        Raises:
            BadInput: there is no such split, folder or file; what is expected, and where the set is obtained.
        """
        if split is not None and split not in self.splits:
            raise BadInput(f"split: {split!r}: {self.name} has {', '.join(self.splits)}")
        if data.is_file():
            return self._of_file(data, split), (data,)
        wanted = split or self.default
        if not data.is_dir() or not self.splits[wanted]:
            raise BadInput(
                f"data: {data}: no such file{' or folder' * bool(self.splits[wanted])}; {self._expected(wanted)}"
            )
        found: list[Path] = []
        for names in self.splits[wanted]:
            files = _there(data, names)
            if not files:
                raise BadInput(
                    f"data: {data}: has no {' or '.join(names)}; {self._expected(wanted)}{self._others(data)}"
                )
            found += files
        further = sorted(found[0].parent.glob(self.beside)) if self.beside else []
        for file in found:
            refuse_pointer(file)
        return wanted, (*found, *further)

    def _of_file(self, data: Path, split: str | None) -> str:
        alone = {name: files[0] for name, files in self.splits.items() if len(files) == 1}
        if split in alone:
            return split
        named = next((name for name, names in alone.items() if any(data.match(each) for each in names)), None)
        if split is None and named is not None:
            return named
        if split is None and self.mapped:
            return self.default
        raise BadInput(
            f"data: {data}: is not a file of {self.name} by its name; {self._expected(split or self.default)}"
            + ("; give their folder" if split not in alone else "")
        )

    def _expected(self, split: str) -> str:
        files = ", ".join(" or ".join(names) for names in self.splits[split]) or "one file"
        return f"{self.name} ({split}) is read from {files}, obtained from {self.obtain}"

    def _others(self, data: Path) -> str:
        there = [name for name, files in self.splits.items() if all(_there(data, names) for names in files)]
        return f"; the folder has the split {' and '.join(there)}: name it" if there else ""


def _there(folder: Path, names: Names) -> list[Path]:
    return files_named(folder, (prefix + name for name in names for prefix in ("", "data/")))


class Dataset:
    """A set's posts, read anew at every iteration and never held all at once, where their format allows it.

    After an iteration `skipped` counts the rows that gave no post, by reason, and `left_out` the posts that were left
    out since their image isn't there. `extras` is what the posts have beside them, None where it isn't shown.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        data: Path,
        *,
        split: str | None = None,
        columns: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        skip_missing_images: bool = False,
        extras: bool = True,
    ) -> None:
        for option, given in (("columns", columns), ("labels", labels)):
            if given and not spec.mapped:
                raise BadInput(f"{option}: {spec.name} knows its own; leave it out, or read the file as a `table`")
        self.spec, self.name, self.title, self.task = spec, spec.name, spec.title, spec.task
        self._owner = f"data set {spec.name}"
        self.split, self.files = spec.locate(data, split)
        self.columns, self.labels = dict(columns or {}), dict(labels or {})
        self.folder = self._image_root(data if data.is_dir() else data.parent)
        self.skip_missing_images = skip_missing_images
        self.extras = spec.extras if extras else None
        self.skipped: Counter[str] = Counter()
        self.left_out = 0
        self._absent = self._pointers = 0

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, split={self.split!r}, files={[str(file) for file in self.files]})"

    @property
    def given(self) -> str:
        """What its posts are read from, as an error calls it."""
        return str(self.files[0])

    @property
    def paper(self) -> PaperProtocol | None:
        """Which posts the set's paper evaluated on."""
        return self.spec.protocol

    @property
    def cluster(self) -> str | None:
        """The field by which its posts belong together."""
        return self.spec.cluster

    @property
    def mapped(self) -> bool:
        """Whether the set takes the caller's columns."""
        return self.spec.mapped

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the file's content; of several, that of their hashes, in order. Images are not in it."""
        further = self.files[0].parent.glob(self.spec.extra_files) if self.extras and self.spec.extra_files else ()
        hashes = [file_hash(file) for file in (*self.files, *sorted(further))]
        return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()

    @property
    def warnings(self) -> list[str]:
        """What a reader of the results should know of the posts; complete after an iteration."""
        found = []
        pointers = f" ({self._pointers:,} are Git LFS pointers: {_PULL})" if self._pointers else ""
        if self._absent:
            found.append(
                f"{self.name}: none of its {self._absent:,} images is in {self.folder}{pointers}: the posts are judged "
                f"by their text alone"
            )
        if self.left_out:
            found.append(
                f"{self.name}: {self.left_out:,} posts were left out, since their image isn't in "
                f"{self.folder}{pointers}"
            )
        if self.skipped:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(self.skipped.items()))
            found.append(f"{self.name}: {self.skipped.total():,} rows were left out: {reasons}")
        return found

    def __iter__(self) -> Iterator[Sample]:
        """Every post, in the order of the files.

        Raises:
            BadInput: a row is wrong, an image path leads out of the data folder, or some images are missing and posts
                without theirs aren't skipped. Where all are, the posts are their texts, with a warning.
        """
        self.skipped.clear()
        self.left_out = 0
        if self.skip_missing_images:
            self._pointers = 0
        for sample in self.spec.read(self):
            post = sample if sample.image is None else self._placed(sample)
            if post is None:
                self.left_out += 1
            elif post.text or post.image is not None:
                yield post
            else:
                self.skip("neither text nor image")

    def own_id(self, sample: Sample) -> str:
        """The id that a post's rank follows from, alone or in a pool."""
        return sample.id

    def skip(self, reason: str) -> None:
        """Count a row that gives no post."""
        self.skipped[reason] += 1

    def rows(self, *files: Path) -> Iterator[TableRow]:
        """The rows of these files of the set; none named: of all."""
        for file in files or self.files:
            # Published sets are read as leniently as pandas, with which they were written, reads them.
            yield from read_rows(file, self._owner, strict=self.spec.mapped)

    def keyed_rows(self, file: Path) -> Iterator[TableRow]:
        """The rows of a file that is one JSON object of rows by their ids."""
        return keyed_rows(file, self._owner)

    # --------------------------------------------------------------------------------------------------------- images

    def _image_root(self, given: Path) -> Path:
        """Where image paths begin: where the set's image folder is, near the data that was given."""
        if self.spec.images is None:
            return given
        near = (given, self.files[0].parent, self.files[0].parent.parent)
        return next((folder for folder in near if (folder / self.spec.images).is_dir()), given)

    @cached_property
    def _illustrated(self) -> bool:
        """Whether any image of the set is there; found by reading on to the first that is."""
        counted, absent, pointers = Counter(self.skipped), 0, 0
        for sample in self.spec.read(self):
            if sample.image is None:
                continue
            if self._is_remote(sample.image) or is_there(path := self._path(sample)):
                break
            absent += 1
            pointers += is_lfs_pointer(path)
        else:
            self._absent, self._pointers = absent, pointers
        # Rows skipped in this search are counted where they are read for good.
        self.skipped = counted
        return not self._absent

    def _placed(self, sample: Sample) -> Sample | None:
        """The post with its image; None where that is missing and such posts are skipped."""
        if sample.image is not None and self._is_remote(sample.image):
            return sample
        path = self._path(sample)
        if not self.skip_missing_images and not self._illustrated:
            return sample.model_copy(update={"image": None, "image_missing": True})
        if is_there(path):
            return sample.model_copy(update={"image": str(path)})
        if not self.skip_missing_images:
            raise self._missing()
        self._pointers += is_lfs_pointer(path)
        return None

    def _is_remote(self, ref: str) -> bool:
        return self.spec.mapped and ref.casefold().startswith(_REMOTE)

    def _path(self, sample: Sample) -> Path:
        """The place of an image. A symbolic link that the user laid is followed; a path out of the folder is not."""
        ref = os.path.normpath(sample.image or "")
        if PurePath(ref).is_absolute() or PurePath(ref).parts[:1] == ("..",):
            raise BadInput(
                f"data set {self.name}: post {sample.id}: image {sample.image!r} lies outside {self.folder}; "
                f"image paths begin at the data folder"
            )
        return self.folder / ref

    def _missing(self) -> BadInput:
        local = (each for each in self.spec.read(self) if each.image is not None and not self._is_remote(each.image))
        lost = [path for path in map(self._path, local) if not is_there(path)]
        pointers = sum(map(is_lfs_pointer, lost))
        instead = f"move {self.spec.images} away" if self.spec.images else "leave the image column out"
        return BadInput(
            f"data set {self.name}: {len(lost):,} of its images are missing: {', '.join(map(str, lost[:_NAMED]))}"
            f"{', …' if len(lost) > _NAMED else ''}"
            f"{f' ({pointers:,} are Git LFS pointers: {_PULL})' if pointers else ''}; get them from "
            f"{self.spec.obtain}, leave their posts out with --skip-missing-images where the command has it, or "
            f"{instead} to judge the texts alone"
        )


def is_there(path: Path) -> bool:
    """Whether a file is there, and no pointer of Git LFS in its place."""
    try:
        return path.is_file() and not is_lfs_pointer(path)
    except OSError:  # a name that no file system takes
        return False
