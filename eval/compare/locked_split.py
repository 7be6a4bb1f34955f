"""Tell whether posts are a test split: one that prompts are not tuned on."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tribunal.eval.datasets import Dataset, DatasetPool
from tribunal.runner.sample import Sample

_TEST = re.compile(r"(?<![a-z])test", re.IGNORECASE)
# Splits of published sets that are there to be tuned on, unless the papers report on them.
_FOR_TUNING = frozenset(("train", "training", "dev", "val", "valid", "validation"))


def find_test_split(dataset: Dataset | DatasetPool, posts: Iterable[Sample]) -> str | None:
    """Return the name of the test split that posts are of, or None if prompts may be tuned on them.

    A published set is a test but for its splits for tuning; the split that the papers report on, its default, is a test
    whatever it is called. A table is one where the column that names a post's split says so, or, without such a column,
    the name of its file.

    Args:
        dataset: the set.
        posts: those that are taken of it.
    """
    parts = dataset.parts if isinstance(dataset, DatasetPool) else (dataset,)
    for part in parts:
        if part.mapped and part.spec.splits_by_column:
            if (found := _split_of_table(part, posts)) is not None:
                return found
        elif part.split == part.spec.default or part.split.casefold() not in _FOR_TUNING:
            return part.split
    return None


def list_tuning_notes(dataset: Dataset | DatasetPool) -> list[str]:
    """Return what has to be known of prompts that are tuned on this data, a note for each set that has one."""
    parts = dataset.parts if isinstance(dataset, DatasetPool) else (dataset,)
    return [f"{part.name}: {part.spec.tuning_note}" for part in parts if part.spec.tuning_note]


def _split_of_table(table: Dataset, posts: Iterable[Sample]) -> str | None:
    column = table.columns.get("split", "split")
    splits = {str(sample.fields[column]) for sample in posts if sample.fields.get(column)}
    if splits:
        return next((each for each in sorted(splits) if _TEST.search(each)), None)
    return next((file.name for file in table.files if _TEST.search(file.stem)), None)
