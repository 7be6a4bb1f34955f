"""Small files of our own in the forms of published sets, and the published ones where they are at hand."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests import SHARED_DATA
from tribunal.eval.datasets import Sample, open_dataset


def table(path: Path, rows: Iterable[Mapping[str, object]], delimiter: str = ",") -> Path:
    rows = list(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def written(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


BLIND = {"image": ""}  # the columns with which the posts are their texts


def posts(
    name: str, data: Path, split: str | None = None, columns: Mapping[str, str] | None = None
) -> list[Sample]:
    """The posts of a set."""
    return list(open_dataset(name, data, split=split, columns=columns))


def labels(found: list[Sample]) -> list[tuple[str, int, bool]]:
    return [(post.id, post.gold.label, post.gold.positive) for post in found if post.gold]


def shared(name: str) -> Path:
    """A file of the shared data; the test is skipped where it isn't here."""
    if not (SHARED_DATA / name).exists():
        pytest.skip(f"{name} is not here: set TRIBUNAL_SHARED_DATA to the folder that holds it")
    return SHARED_DATA / name
