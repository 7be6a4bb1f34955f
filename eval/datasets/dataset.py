"""Read the files of a data set one sample at a time, with what its own analysis needs.

Nothing is downloaded: the user has the files, and the error for a missing one says where the set is obtained.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypedDict, Unpack

from pydantic import Field

from tribunal.errors import BadInput
from tribunal.eval.datasets.stored_data import ImageFinder, candidate_paths
from tribunal.process.files import hash_file, is_lfs_pointer
from tribunal.retrievers.indexes.table_rows import (
    TableRow,
    find_arrow_files,
    find_files,
    read_rows,
    refuse_pointer,
)
from tribunal.runner.results import Sample
from tribunal.schema import JSON, Frozen
from tribunal.settings.systems import resource

Task = Literal["hate", "sarcasm", "misinformation"]
# what one file may be called, the first that is there being read; a name may hold *
Names = tuple[str, ...]
_REMOTE = ("http://", "https://", "data:")
NO_IMAGES = {"image": ""}  # the columns with which no image of a set is shown
SHIPPED = "shipped"  # given as data: the file that comes with the project
_NAMED = 3  # missing images that an error names
_PULL = "run `git lfs pull` there"


class PaperKind(Frozen):
    """Describe one kind of the posts that a paper took: hateful or not, of fields as `where` says."""

    name: str
    quota: int
    positive: bool | None = None
    where: JSON = Field(default_factory=dict)

    def holds(self, sample: Sample) -> bool:
        """Return whether a post is of this kind."""
        positive = sample.gold is not None and sample.gold.positive
        fits = all(sample.fields.get(field) == value for field, value in self.where.items())
        return fits and self.positive in (None, positive)


class PaperSample(Frozen):
    """Describe the posts of a set that a paper used: how many of each kind.

    Attributes:
        says: the paper, its section, and what it took, in words.
        split: the split they are of.
        kinds: how many of what; the first that holds is a post's.
        whole: the paper took every post of the split, which must hold exactly as many.
        seed: the paper's, which stands above the caller's.
        table: the protocol (`tribunal.eval.protocols`) of the table in which the set was first evaluated.
    """

    says: str
    split: str
    kinds: tuple[PaperKind, ...]
    whole: bool = False
    seed: int | None = None
    table: str | None = None

    @property
    def quotas(self) -> dict[str, int]:
        """Return how many posts of each kind."""
        return {kind.name: kind.quota for kind in self.kinds}

    def kind_of(self, sample: Sample) -> str | None:
        """Return the kind of a post, or None if the post is outside the pool."""
        return next((kind.name for kind in self.kinds if kind.holds(sample)), None)


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """Declare a data set: what it is, where to get it, its files by split, and how to read them.

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
        shipped: the file of ours, as `package:path`, that `--data shipped` reads; None: nothing is shipped.
        tuning_note: what has to be known of whatever is tuned on its splits for tuning.

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
    protocol: PaperSample | None = None
    mapped: bool = False
    cluster: str | None = None
    extras: str | None = None
    extra_files: str | None = None
    shipped: str | None = None
    tuning_note: str | None = None

    def __post_init__(self) -> None:
        """Check that the default split exists."""
        if self.default not in self.splits:
            raise BadInput(
                f"data set {self.name}: default: {self.default!r}: is none of {', '.join(self.splits)}"
            )

    @property
    def splits_by_column(self) -> bool:
        """Return whether a row's own column names its split: of a table whose files may have any name."""
        return self.mapped and not self.splits[self.default]

    def locate_files(self, data: Path, split: str | None) -> tuple[str, tuple[Path, ...]]:
        """Return a split and its files in a folder; or the one file that was given, and its split.

        Raises:
            BadInput: there is no such split, folder or file; what is expected, and where the set is obtained.
        """
        if split is not None and split not in self.splits and not self.splits_by_column:
            raise BadInput(f"split: {split!r}: {self.name} has {', '.join(self.splits)}")
        if self.shipped is not None and str(data) == SHIPPED:
            return split or self.default, (Path(str(resource(self.shipped))),)
        if data.is_file():
            return self._split_of_file(data, split), (data,)
        if self.splits_by_column and (tables := find_arrow_files(data)):
            return self._split_of_file(tables[0], split), tables
        wanted = split if split is not None and split in self.splits else self.default
        if not data.is_dir() or not self.splits[wanted]:
            raise BadInput(
                f"data: {data}: no such file{' or folder' * bool(self.splits[wanted])}; {self._describe_files(wanted)}"
            )
        found: list[Path] = []
        for names in self.splits[wanted]:
            files = _existing_files(data, names)
            if not files:
                there = [
                    name
                    for name, files in self.splits.items()
                    if all(_existing_files(data, names) for names in files)
                ]
                others = (
                    f"; the folder has the split {' and '.join(there)}: name it" if there else ""
                )
                raise BadInput(
                    f"data: {data}: has no {' or '.join(names)}; {self._describe_files(wanted)}{others}"
                )
            found += files
        further = sorted(found[0].parent.glob(self.beside)) if self.beside else []
        for file in found:
            refuse_pointer(file)
        return wanted, (*found, *further)

    def _split_of_file(self, data: Path, split: str | None) -> str:
        alone = {name: files[0] for name, files in self.splits.items() if len(files) == 1}
        if split is not None and (split in alone or self.splits_by_column):
            return split
        named = next(
            (name for name, names in alone.items() if any(data.match(each) for each in names)), None
        )
        if split is None and named is not None:
            return named
        if split is None and self.mapped:
            return self.default
        raise BadInput(
            f"data: {data}: is not a file of {self.name} by its name; {self._describe_files(split or self.default)}"
            + ("; give their folder" if split not in alone else "")
        )

    def _describe_files(self, split: str) -> str:
        files = ", ".join(" or ".join(names) for names in self.splits[split]) or "one file"
        return f"{self.name} ({split}) is read from {files}, obtained from {self.obtain}"


def _existing_files(folder: Path, names: Names) -> list[Path]:
    return find_files(folder, (prefix + name for name in names for prefix in ("", "data/")))


class OpenOptions(TypedDict, total=False):
    """Say how a data set is opened, as `tribunal.eval.datasets.open_dataset` explains."""

    split: str | None
    columns: Mapping[str, str] | None
    labels: Mapping[str, str] | None
    skip_missing_images: bool
    extras: bool
    needs_gold: bool


class Dataset:
    """Iterate over a set's posts, read anew each time and never held all at once if the format allows it.

    After an iteration `skipped` counts the rows that gave no post, by reason, and `left_out_labels` the posts that were
    left out since their image isn't there, by the name of their label. `extras` is what the posts have beside them,
    None where it isn't shown. `paper`, `cluster` and `mapped` are its spec's.
    """

    def __init__(self, spec: DatasetSpec, data: Path, **options: Unpack[OpenOptions]) -> None:
        """Locate the files."""
        self.columns = dict(options.get("columns") or {})
        self.labels = dict(options.get("labels") or {})
        for option, given in (("columns", self.columns), ("labels", self.labels)):
            if given and given != NO_IMAGES and not spec.mapped:
                raise BadInput(
                    f"{option}: {spec.name} knows its own; leave it out, or read the file as a `table`"
                )
        self.spec = spec
        self.name = spec.name
        self.title = spec.title
        self.task = spec.task
        self.paper = spec.protocol
        self.cluster = spec.cluster
        self.mapped = spec.mapped
        self._owner = f"data set {spec.name}"
        self.split, self.files = spec.locate_files(data, options.get("split"))
        self.source_name = str(self.files[0])
        self._encoding = self.columns.pop("encoding", "utf-8")
        self.folder = self._find_image_folder(data if data.is_dir() else data.parent)
        self.skip_missing_images = options.get("skip_missing_images", False)
        self.needs_gold = options.get("needs_gold", False)
        self.extras = spec.extras if options.get("extras", True) else None
        self.skipped: Counter[str] = Counter()
        self.left_out_labels: Counter[str] = Counter()
        self._pointers = 0

    def __repr__(self) -> str:
        """Return name, split and files."""
        return f"Dataset({self.name!r}, split={self.split!r}, files={[str(file) for file in self.files]})"

    @cached_property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the file; of several files, that of their hashes in order. Images don't count."""
        further = (
            self.files[0].parent.glob(self.spec.extra_files)
            if self.extras and self.spec.extra_files
            else ()
        )
        hashes = [hash_file(file) for file in (*self.files, *sorted(further))]
        return (
            hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
        )

    @property
    def warnings(self) -> list[str]:
        """List what a reader of the results should know of the posts; complete after an iteration."""
        found = []
        pointers = f" ({self._pointers:,} are Git LFS pointers: {_PULL})" if self._pointers else ""
        left_out = self.left_out_labels.total()
        if left_out:
            found.append(
                f"{self.name}: {left_out:,} posts were left out, since their image isn't in {self.folder}{pointers}"
            )
        if self.skipped:
            reasons = ", ".join(
                f"{reason} {count:,}" for reason, count in sorted(self.skipped.items())
            )
            found.append(f"{self.name}: {self.skipped.total():,} rows were left out: {reasons}")
        return found

    def posts_left(self, is_done: Callable[[int], bool]) -> Iterator[tuple[int, Sample]]:
        """Yield the posts that aren't done, each with its place from 0 on."""
        return ((place, sample) for place, sample in enumerate(self) if not is_done(place))

    def __iter__(self) -> Iterator[Sample]:
        """Yield every post, in the order of the files.

        Raises:
            BadInput: a row is wrong, an image path leads out of the data folder, or images are missing and posts
                without theirs aren't skipped.
        """
        self.skipped.clear()
        self.left_out_labels.clear()
        self._pointers = 0
        for sample in self.spec.read(self):
            post = sample if sample.image is None else self._with_image(sample, sample.image)
            if post is None:
                self.left_out_labels[sample.label_name] += 1
            elif post.text or post.image is not None:
                yield post
            else:
                self.skip("neither text nor image")

    def own_id(self, sample: Sample) -> str:
        """Return the id that decides a post's rank, alone or in a pool."""
        return sample.id

    def skip(self, reason: str) -> None:
        """Count a row that gives no post."""
        self.skipped[reason] += 1

    def rows(self, *files: Path) -> Iterator[TableRow]:
        """Yield the rows of these files of the set, or of all files."""
        for file in files or self.files:
            # Published sets are read as leniently as pandas, with which they were written, reads them.
            yield from read_rows(
                file, self._owner, encoding=self._encoding, strict=self.spec.mapped
            )

    def keyed_rows(self, file: Path) -> Iterator[TableRow]:
        """Yield the rows of a file that is one JSON object of rows by their ids."""
        return read_rows(file, self._owner, keyed=True)

    # --------------------------------------------------------------------------------------------------------- images

    def _find_image_folder(self, given: Path) -> Path:
        """Return the folder where image paths begin, near the given data."""
        if self.spec.images is None:
            return given
        near = (given, self.files[0].parent, self.files[0].parent.parent)
        return next((folder for folder in near if (folder / self.spec.images).is_dir()), given)

    def _with_image(self, sample: Sample, reference: str) -> Sample | None:
        """Return the post with its image, or None if the image is missing and such posts are skipped."""
        if self.columns.get("image") == "":
            return sample.model_copy(update={"image": None, "image_missing": True})
        if self.is_remote(reference):
            return sample
        path = self.finder.find_file(reference)
        if path is not None and not is_lfs_pointer(path):
            return sample.model_copy(update={"image": str(path)})
        if not candidate_paths(reference):
            raise BadInput(
                f"data set {self.name}: post {sample.id}: image {reference!r} is outside {self.folder}; image paths "
                "begin at the data folder"
            )
        if not self.skip_missing_images:
            raise self._missing_images_error()
        self._pointers += path is not None
        return None

    def is_remote(self, reference: str) -> bool:
        """Return whether an image is a web address or a data URI, which only tables have."""
        return self.spec.mapped and reference.casefold().startswith(_REMOTE)

    @cached_property
    def finder(self) -> ImageFinder:
        """The images beneath the folder where image paths begin. Symbolic links are followed."""
        return ImageFinder(self.folder)

    def _missing_images_error(self) -> BadInput:
        missing: list[str] = []
        count = pointers = 0
        for reference in (
            sample.image for sample in self.spec.read(self) if sample.image is not None
        ):
            path = None if self.is_remote(reference) else self.finder.find_file(reference)
            is_pointer = path is not None and is_lfs_pointer(path)
            count += 1
            pointers += is_pointer
            if is_pointer or (path is None and not self.is_remote(reference)):
                missing.append(reference)
        column = f" (column {self.columns.get('image', 'image')!r})" if self.spec.mapped else ""
        remedy = "put them there" if self.spec.mapped else f"get them from {self.spec.obtain}"
        return BadInput(
            f"data set {self.name}: {len(missing):,} of its {count:,} images{column} are missing from {self.folder}: "
            f"{', '.join(map(repr, missing[:_NAMED]))}{', …' * (len(missing) > _NAMED)}"
            f"{f' ({pointers:,} are Git LFS pointers: {_PULL})' if pointers else ''}; {remedy}, leave their posts out "
            f"with --skip-missing-images (eval), or judge all posts by their text with --columns image="
        )
