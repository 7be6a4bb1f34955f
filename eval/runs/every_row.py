"""Every row of a table as a post, in its order: one that can't be judged says why, and costs no call."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from tribunal.errors import BadInput
from tribunal.eval.datasets.dataset import Dataset, is_there
from tribunal.eval.datasets.given import Tables
from tribunal.eval.datasets.plan import Images, Plan
from tribunal.eval.datasets.sample import Sample
from tribunal.eval.datasets.table import (
    ROLES,
    TABLE,
    columns_by_role,
    earlier_posts,
    plain_cell,
    sample_of,
    with_columns,
)  # fmt: skip
from tribunal.retrievers.perspectives.rows import EXTRA, TableFile, TableRow, read_rows
from tribunal.schema import JSON

_OF_OBJECTS = (".json", ".jsonl", ".ndjson")
_SHOWN = 80  # characters of a cell in a reason
_EARLIER = '["the first post", "the second"]'


class RowSample(Sample):
    """A row of a table as a post; `cells` are the row's own, as they were, by column."""

    cells: JSON


class EveryRow(Dataset):
    """The rows of a table, read anew at every iteration: as many posts, in the same order.

    Rows of several files are numbered through all of them.

    Of rows that have one id the first keeps it; the others have their row's number beside it. After an iteration
    `problems` counts the rows that can't be judged, by reason, and `repeated` those with the id of an earlier one.

    Args:
        posts: CSV, TSV, JSONL, JSON or Parquet: a file, or the files of a table.
        columns: which column is what, where it isn't called so.
    """

    def __init__(self, posts: Path | Tables, columns: Mapping[str, str] | None = None) -> None:
        tables = posts if isinstance(posts, Tables) else Tables.of_file(posts)
        super().__init__(TABLE, tables.files[0].path, columns={**(columns or {}), "label": ""})
        self.tables, self.files = tables, tuple(table.path for table in tables.files)
        self.folder = tables.folder or self.folder
        self.problems: Counter[str] = Counter()
        self.repeated = 0

    def __getstate__(self) -> dict[str, Any]:
        """Another process hashes texts otherwise, so it has to look for itself which ids are there twice."""
        return {name: value for name, value in self.__dict__.items() if name != "_twice"}

    def rows(self, *files: Path) -> Iterator[TableRow]:
        tables = tuple(map(TableFile, files)) or self.tables.files
        number = 0
        for table in tables:
            for row in read_rows(table, self._owner, strict=True, ragged=True):
                number += 1
                yield row if len(tables) == 1 else replace(row, number=number, cells={**table.cells, **row.cells})

    def cells(self) -> Iterator[JSON]:
        """Each row's own cells, by column."""
        return (_plain(row) for row, _ in map(_parted, self.rows()))

    @property
    def given(self) -> str:
        return self.tables.shown

    @cached_property
    def roles(self) -> Mapping[str, str]:
        """The column of each role that the table has.

        Raises:
            BadInput: a column that was named isn't there, neither text nor image has one, or a file of several lacks
                one that others have.
        """
        by_file = [(table, self._columns(table)) for table in self.tables.files]
        roles = columns_by_role(self, list(dict.fromkeys(chain(*(names for _, names in by_file)))), ROLES)
        for table, names in by_file:
            lacks = [(column, role) for role, column in roles.items() if column not in names]
            # Objects need not have every field, and of an empty file it isn't known.
            if lacks and names and (table.suffix not in _OF_OBJECTS or len(lacks) == len(roles)):
                column, role = lacks[0]
                raise BadInput(
                    f"file {table}: has no column {column!r}, which other files of {self.given} have ({role}); it has "
                    f"{', '.join(names)}: give all files the same columns, or give them one by one"
                )
        return roles

    def _columns(self, table: TableFile) -> list[str]:
        """The columns of the first rows of a file."""
        rows = read_rows(table, self._owner, strict=True, ragged=True)
        names, _ = with_columns(without for without, _ in map(_parted, rows))
        return list(dict.fromkeys((*table.cells, *names))) if names else []

    def __iter__(self) -> Iterator[RowSample]:
        self.problems.clear()
        self.repeated = 0
        met: set[str] = set()
        for row in self.rows():
            yield self._sample(row, met)

    def plan(self, check: Callable[[RowSample], None] = lambda sample: None) -> Plan:
        """All of them as a run takes them. Reads the table once, so that it is found out before any model is asked.

        Args:
            check: is shown each row; what it raises refuses the table.

        Raises:
            BadInput: the table can't be read, lacks a column, or has no row.
        """
        count = named = here = 0
        _ = self.roles  # a column that is missing is the better thing to be told of an empty table
        for sample in self:
            check(sample)
            count += 1
            named += bool(sample.image) or sample.image_missing
            here += bool(sample.image)
        if not count:
            raise BadInput(f"data set {self.name}: there is no post in {self.given}")
        return Plan(self, None, count, tuple(self.warnings), Images(named=named, here=here))

    @property
    def warnings(self) -> list[str]:
        """What is to be known of the rows before any is decided; complete after an iteration."""
        found = super().warnings
        if self.problems:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(self.problems.items()))
            found.append(
                f"{self.name}: {self.problems.total():,} rows can't be judged, and end as failures without a call: "
                f"{reasons}"
            )
        if self.repeated:
            found.append(
                f"{self.name}: {self.repeated:,} rows repeat the id of an earlier one; each is decided, and its record "
                "has its row's number beside the id"
            )
        return found

    def _sample(self, whole: TableRow, met: set[str]) -> RowSample:
        row, extra = _parted(whole)
        problem = self._wrong("more cells than columns", f"text: {_too_many(extra)}") if extra else ""
        earlier: tuple[str, ...] = ()
        column = self.roles.get("earlier")
        try:
            earlier = earlier_posts(row, column)
        except BadInput:
            said = f"earlier: {row.optional(column)[:_SHOWN]!r}: is no list of texts, such as {_EARLIER}"
            problem = problem or self._wrong("wrong earlier posts", said)
        sample = sample_of(row, self.roles, earlier)
        image, missing = sample.image, False
        if image is not None and not self._is_remote(image):
            image, wrong = self._found(sample)
            missing, problem = image is None, problem or wrong
        if not problem and not sample.text and image is None:
            problem = self._wrong(
                "neither text nor image", "text: there is neither a text nor an image; give one or both"
            )
        return RowSample(
            **{name: value for name, value in sample if name not in ("id", "image", "image_missing", "problem")},
            id=self._id(sample.id, row.number, met),
            image=image,
            image_missing=missing,
            problem=problem,
            cells=_plain(row),
        )

    def _found(self, sample: Sample) -> tuple[str | None, str]:
        """Where an image of this machine is, and what is wrong with it."""
        if self.tables.folder is None:
            said = f"image: {(sample.image or '')[:_SHOWN]}: isn't read from a store; give a web address or a data URI"
            return None, self._wrong("image in a store", said)
        try:
            path = self._path(sample)
        except BadInput:
            said = f"image: {(sample.image or '')[:_SHOWN]}: lies outside {self.folder}, where image paths begin"
            return None, self._wrong("image outside the folder", said)
        if is_there(path):
            return str(path), ""
        if not self._illustrated:  # then the posts are their texts, with a warning
            return None, ""
        said = f"image: {(sample.image or '')[:_SHOWN]}: isn't in {self.folder}, or is no file"
        return None, self._wrong("image missing", said)

    @cached_property
    def _illustrated(self) -> bool:
        """Whether any image is there; found by reading on to the first that is."""
        absent, column = 0, self.roles.get("image")
        for row, _ in map(_parted, self.rows()):
            ref = row.optional(column)
            if ref and (self._is_remote(ref) or is_there(self.folder / ref)):
                return True
            absent += bool(ref)
        self._absent = absent
        return False

    def _wrong(self, reason: str, said: str) -> str:
        self.problems[reason] += 1
        return said

    def _id(self, given: str, number: int | str, met: set[str]) -> str:
        """An id of its own, so that each row has its own record."""
        if "id" not in self.roles or hash(given) not in self._twice:
            return given
        if given not in met:
            met.add(given)
            return given
        self.repeated += 1
        own = f"{given} (row {number})"
        while own in met:
            own += "'"
        met.add(own)
        return own

    @cached_property
    def _twice(self) -> frozenset[int]:
        """Hashes of ids that more than one row has; in memory are eight bytes a row while they are found."""
        import numpy as np

        column = self.roles["id"]
        hashes = array("q", (hash(row.optional(column) or str(row.number)) for row in self.rows()))
        values, counts = np.unique(np.frombuffer(hashes, dtype=np.int64), return_counts=True)
        return frozenset(values[counts > 1].tolist())


def _parted(row: TableRow) -> tuple[TableRow, list[str]]:
    """A row, and the cells that it has more than there are columns."""
    if EXTRA not in row.cells:
        return row, []
    cells = dict(row.cells)
    return TableRow(row.owner, row.file, row.number, cells), list(cells.pop(EXTRA))


def _plain(row: TableRow) -> JSON:
    return {str(name): plain_cell(value) for name, value in row.cells.items()}


def _too_many(extra: list[str]) -> str:
    over = ", ".join(extra)
    shown = over if len(over) <= _SHOWN else f"{over[:_SHOWN]}…"
    return (
        f"the row has {len(extra)} more cells than there are columns ({shown}); put a cell that holds a separator into "
        "double quotes"
    )
