"""Find data sets by name: the papers' sets, HateCheck, any table, and those of plug-ins.

A data set of one's own is a `DatasetSpec`. It is registered by an entry point in the group `tribunal.datasets`, or
named as `module:object`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from tribunal.core.text import suggest_name
from tribunal.errors import BadInput
from tribunal.eval.datasets.dataset import (
    NO_IMAGES,
    Dataset,
    DatasetSpec,
    OpenOptions,
    PaperSample,
    Task,
)
from tribunal.eval.datasets.published import load_declared_sets
from tribunal.plugins import list_known_names, names, plugin
from tribunal.runner.results import Gold, Sample, binary_label

__all__ = [
    "DATASETS",
    "PLUS",
    "Dataset",
    "DatasetPool",
    "DatasetSpec",
    "Gold",
    "PaperSample",
    "Sample",
    "binary_label",
    "describe_dataset",
    "find_dataset",
    "open_dataset",
    "open_datasets",
    "paper_sample",
]  # fmt: skip

DATASETS: dict[str, DatasetSpec] = load_declared_sets()
PLUS = "+"  # joins the names of several sets


def find_dataset(name: str) -> DatasetSpec:
    """Return the set of this name: one of ours, an entry point's, or `module:object`.

    Raises:
        BadInput: there is none (the names there are), it can't be loaded, or it is called as one of ours is.
    """
    if name in DATASETS:
        return DATASETS[name]
    found = plugin("tribunal.datasets", name, DatasetSpec, "dataset")
    if found is None:
        near = suggest_name(name, [*DATASETS, *names("tribunal.datasets")])
        raise BadInput(
            f"dataset: {name!r}: there is none of that name{near and f'; {near}'} "
            f"(there are {list_known_names(DATASETS, 'tribunal.datasets')}; or name one of your own as module:object)"
        )
    if found.name in DATASETS:
        # Results are compared by the name of their set, with those that the papers published too.
        raise BadInput(
            f"dataset: {name}: it is called {found.name!r}, as a set of Tribunal is; give it another name"
        )
    return found


def open_dataset(name: str, data: Path, **options: Unpack[OpenOptions]) -> Dataset:
    """Open a data set from the user's own copy of its files.

    Args:
        name: of the set: one of `DATASETS`, an entry point's, or `module:object`.
        data: the folder of its files, or the one file of a split.
        **options: these, each of which may be left out.
            split: which part; none named: the one that the papers evaluate on.
            columns: of `table` and `4chan`: the column that is the text, id, label, image, language, earlier (and of
            4chan the type); one left out is the column of that name, and a blank one is none. Of any set:
            `{"image": ""}`, with which all posts are judged by their text.
            labels: of `table` and `4chan`: what each label value means: `hate` or `not`, or a category of the fine
            scheme by number or name.
            skip_missing_images: leave out the posts whose image isn't there, and count them.
            extras: show with a post what the set has beside it (as if not given): the title over a comment of `kold`,
            the words that were read in an image of `mmhs150k`.
            needs_gold: refuse a table without a label column, unless `columns` has a blank one.

    Raises:
        BadInput: there is no such set, split or file; what is expected, and where the set is obtained. Wrong rows are
            found when the posts are read.
    """
    return Dataset(find_dataset(name), data, **options)


def describe_dataset(name: str) -> str:
    """Describe a set in a few lines: title, task, source, licence, files by split, and the papers' sample."""
    spec = find_dataset(name)
    lines = [
        f"{spec.name}: {spec.title}",
        f"task: {spec.task}",
        f"obtained from: {spec.obtain}",
        f"licence: {spec.licence}",
        *(
            f"split {split}{' (default)' if split == spec.default else ''}: "
            + ", ".join(" or ".join(names) for names in files)
            for split, files in spec.splits.items()
        ),
        *([f"shown with a post where it is there: {spec.extras}"] if spec.extras else []),
        *([f"posts that belong together: those of one {spec.cluster}"] if spec.cluster else []),
        *([f"for tuning: {spec.tuning_note}"] if spec.tuning_note else []),
        f"the papers' protocol: {spec.protocol.says if spec.protocol else 'none'}",
    ]
    return "\n".join(lines)


# Several sets as one: `sbic+ghc` is the posts of SBIC, then those of GHC.


class DatasetPool:
    """Iterate over several sets. A post's id begins with its set's name, which its field `dataset` holds."""

    mapped = False
    cluster = None

    def __init__(self, parts: Sequence[Dataset]) -> None:
        """Join these sets, which must have one task."""
        self.parts = tuple(parts)
        self.name = PLUS.join(part.name for part in parts)
        self.title = ", ".join(part.title for part in parts)
        self.files = tuple(file for part in parts for file in part.files)
        self.split = PLUS.join(dict.fromkeys(part.split for part in parts))
        self.paper = paper_sample(self.name)
        self.extras = ", ".join(part.extras for part in parts if part.extras) or None
        tasks = {part.task for part in parts}
        if len(tasks) > 1:
            raise BadInput(
                f"dataset: {self.name}: its sets have different tasks: {', '.join(sorted(tasks))}"
            )
        self.task: Task = parts[0].task

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the sets' fingerprints, in order."""
        return hashlib.sha256("".join(part.fingerprint for part in self.parts).encode()).hexdigest()

    @property
    def warnings(self) -> list[str]:
        """List what a reader of the results should know of the posts; complete after an iteration."""
        return [warning for part in self.parts for warning in part.warnings]

    @property
    def left_out_labels(self) -> Counter[str]:
        """Count the posts left out at the last iteration because their image is missing, by label."""
        return sum((part.left_out_labels for part in self.parts), Counter[str]())

    def own_id(self, sample: Sample) -> str:
        """Return a post's id in its own set, so that it is drawn from a pool as from the set alone."""
        return sample.id.removeprefix(f"{sample.fields['dataset']}:")

    def posts_left(self, is_done: Callable[[int], bool]) -> Iterator[tuple[int, Sample]]:
        """Yield the posts that aren't done, each with its place from 0 on."""
        return ((place, sample) for place, sample in enumerate(self) if not is_done(place))

    def __iter__(self) -> Iterator[Sample]:
        """Yield every post, set after set.

        Raises:
            BadInput: as `Dataset`; or the sets are labelled in different schemes.
        """
        scheme = None
        for part in self.parts:
            for post in part:
                if (
                    post.gold is not None
                    and (scheme := scheme or post.gold.scheme) != post.gold.scheme
                ):
                    raise BadInput(
                        f"dataset: {self.name}: its sets are labelled in different schemes; give one of them"
                    )
                yield post.model_copy(
                    update={
                        "id": f"{part.name}:{post.id}",
                        "fields": {"dataset": part.name, **post.fields},
                    }
                )


def open_datasets(
    name: str, data: Path | Mapping[str, Path], **options: Unpack[OpenOptions]
) -> Dataset | DatasetPool:
    """Open a set, or several (`sbic+ghc`), each from a folder of its own, which `data` then gives by the set's name.

    Options are as of `open_dataset`; columns and labels go to the sets that take them.

    Raises:
        BadInput: as `open_dataset`; or a set is named twice, or has no data.
    """
    if PLUS not in name:
        if not isinstance(data, Path):
            raise BadInput(f"data: {', '.join(data)}: {name} is one set; give one folder or file")
        return open_dataset(name, data, **options)
    names = name.split(PLUS)
    wanted = " and ".join(f"{each}=FOLDER" for each in names)
    if len(set(names)) < len(names):
        raise BadInput(f"dataset: {name}: names a set twice")
    if isinstance(data, Path) or data.keys() != set(names):
        raise BadInput(f"data: {name} is several sets; give {wanted}")
    blind = (options.get("columns") or {}).get("image") == ""
    unmapped: OpenOptions = {**options, "columns": NO_IMAGES if blind else None, "labels": None}
    return DatasetPool(
        [
            open_dataset(each, data[each], **(options if find_dataset(each).mapped else unmapped))
            for each in names
        ]
    )


def paper_sample(name: str) -> PaperSample | None:
    """Return which posts the paper of a set, or of several, used; None if a set has no paper.

    Of several, a kind of posts begins with its set's name: `ghc implicit hate`.
    """
    papers = {each: find_dataset(each).protocol for each in name.split(PLUS)}
    if PLUS not in name:
        return papers[name]
    known = {each: paper for each, paper in papers.items() if paper is not None}
    if len(known) < len(papers):
        return None
    return PaperSample(
        says="; ".join(paper.says for paper in known.values()),
        split=PLUS.join(dict.fromkeys(paper.split for paper in known.values())),
        kinds=tuple(
            kind.model_copy(
                update={"name": f"{each} {kind.name}", "where": {"dataset": each, **kind.where}}
            )
            for each, paper in known.items()
            for kind in paper.kinds
        ),
    )
