"""Read every row of a table as a post, in order: a row that can't be judged says why, and costs no call."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.eval.datasets import DATASETS
from tribunal.eval.datasets.dataset import Dataset
from tribunal.eval.datasets.sampling import ImageCounts, SamplePlan
from tribunal.eval.datasets.stored_data import candidate_paths
from tribunal.eval.datasets.table import (
    POST_ROLES,
    columns_by_role,
    earlier_posts,
    json_cell,
    peek_columns,
    sample_of,
)
from tribunal.eval.datasets.table_files import TableFiles, copy_images
from tribunal.process.files import is_lfs_pointer
from tribunal.retrievers.indexes.table_rows import EXTRA, Cells, TableFile, TableRow, read_rows
from tribunal.runner.results import Sample
from tribunal.schema import JSON

_OF_OBJECTS = (".json", ".jsonl", ".ndjson")
_MISSING = "image missing"
_SHOWN = 80  # characters of a cell in a reason
TELL_EVERY = 10_000  # rows
_EARLIER = '["the first post", "the second"]'


class TableSample(Sample):
    """Hold a row of a table as a post; `cells` are the row's original cells, by column."""

    cells: JSON


class _RowReading(NamedTuple):
    """Hold what becomes of a row: its earlier posts, whether it names an image, the one to show, and the problem."""

    earlier: tuple[str, ...]
    named: bool
    image: str | None
    problem: str


class PostTable(Dataset):
    """Iterate over the rows of a table as posts, read anew each time in the same order.

    Rows of several files are numbered through all of them. Of rows that have one id the first keeps it; the others
    have their row's number beside it. After an iteration `problems` counts the rows that can't be judged, by reason,
    and `repeated` those with the id of an earlier one.
    """

    def __init__(self, posts: Path | TableFiles, columns: Mapping[str, str] | None = None) -> None:
        """Open a table."""
        tables = posts if isinstance(posts, TableFiles) else TableFiles.from_file(posts)
        super().__init__(
            DATASETS["table"], tables.files[0].path, columns={**(columns or {}), "label": ""}
        )
        self.tables = tables
        self.files = tuple(table.path for table in tables.files)
        self.source_name = tables.shown
        self.folder = tables.folder
        self.problems: Counter[str] = Counter()
        self.repeated = 0
        self._repeated_ids: frozenset[int] | None = None  # hashes of the ids that several rows have
        self._names: tuple[str, ...] | None = None

    def rows(self, *files: Path) -> Iterator[TableRow]:
        """Yield the rows of all files, numbered throughout, or of these files."""
        tables = tuple(map(TableFile, files)) or self.tables.files
        number = 0
        for table in tables:
            for row in read_rows(
                table, self._owner, encoding=self._encoding, strict=True, ragged=True
            ):
                number += 1
                yield (
                    row
                    if len(tables) == 1
                    else replace(row, number=number, cells={**table.cells, **row.cells})
                )

    def cells(self) -> Iterator[JSON]:
        """Yield each row's own cells, by column."""
        return map(_plain_cells, self.rows())

    @cached_property
    def roles(self) -> Mapping[str, str]:
        """Return the column of each role that the table has.

        Raises:
            BadInput: a column that was named isn't there, neither text nor image has one, or a file of several lacks
                one that others have.
        """
        by_file = [(table, self._read_columns(table)) for table in self.tables.files]
        roles = columns_by_role(
            self, list(dict.fromkeys(chain(*(names for _, names in by_file)))), POST_ROLES
        )
        for table, names in by_file:
            lacks = [(column, role) for role, column in roles.items() if column not in names]
            # Objects need not have every field, and of an empty file it isn't known.
            if lacks and names and (table.suffix not in _OF_OBJECTS or len(lacks) == len(roles)):
                column, role = lacks[0]
                raise BadInput(
                    f"file {table}: has no column {column!r}, which other files of {self.source_name} have ({role}); "
                    f"it has {', '.join(names)}: give all files the same columns, or give them one by one"
                )
        return roles

    def _read_columns(self, table: TableFile) -> list[str]:
        """Return the columns of the first rows of a file."""
        names, _ = peek_columns(
            read_rows(table, self._owner, encoding=self._encoding, strict=True, ragged=True)
        )
        return list(dict.fromkeys((*table.cells, *names))) if names else []

    def __iter__(self) -> Iterator[TableSample]:
        """Yield every row as a post."""
        for _, sample in self.posts_left(lambda place: False):
            yield sample

    def posts_left(self, is_done: Callable[[int], bool]) -> Iterator[tuple[int, TableSample]]:
        """Yield the rows that aren't done as posts, each with its place from 0 on."""
        if self._repeated_ids is None:
            self.read_through()
        self.problems.clear()
        self.repeated = 0
        met: set[str] = set()
        for place, row in enumerate(self.rows()):
            given = row.optional_text(self.roles.get("id")) or str(row.number)
            own = self._unique_id(given, row.number, met)
            if not is_done(place):
                yield place, self._sample_of_row(row, own)

    def plan(
        self,
        check: Callable[[Cells], None] = lambda cells: None,
        tell: Callable[[int], None] = lambda count: None,
    ) -> SamplePlan:
        """Return all posts as a run takes them. Arguments and errors as `read_through`, and of a table without rows."""
        _ = self.roles  # a column that is missing is the better thing to be told of an empty table
        count, images = self.read_through(check, tell)
        if not count:
            raise BadInput(f"data set {self.name}: there is no post in {self.source_name}")
        return SamplePlan(self, count, tuple(self.warnings), images)

    def read_through(
        self,
        check: Callable[[Cells], None] = lambda cells: None,
        tell: Callable[[int], None] = lambda count: None,
    ) -> tuple[int, ImageCounts]:
        """Read the table once, so that errors show before any call: its columns, what is wrong, which ids are repeated.

        Memory holds eight bytes a row, if rows have ids.

        Args:
            check: is given the cells of each row; what it raises refuses the table.
            tell: is told now and then how many rows were read.

        Returns:
            How many rows there are, and of their images.

        Raises:
            BadInput: the table can't be read, lacks a column, or none of the images that it names exists.
        """
        import numpy as np

        self.problems.clear()
        count = 0
        column = self.roles.get("id")
        images = Counter[bool]()
        names = dict[str, None]()
        last = tuple[str, ...]()
        hashes = array("q")
        for row in self.rows():
            check(row.cells)
            if count % TELL_EVERY == 0:
                tell(count)
            count += 1
            here = tuple(row.cells)
            if here != last:
                names = names | dict.fromkeys(str(name) for name in here if name != EXTRA)
                last = here
            if column is not None:
                hashes.append(hash(row.optional_text(column) or str(row.number)))
            reading = self._read_row(row)
            if reading.named:
                images[reading.image is not None] += 1
        if self.problems[_MISSING] and not images[True]:
            raise self._missing_images_error()
        values, counts = np.unique(np.frombuffer(hashes, dtype=np.int64), return_counts=True)
        self._repeated_ids = frozenset(values[counts > 1].tolist())
        self._names = tuple(names)
        self.repeated = int((counts - 1).sum())
        return count, ImageCounts(images.total(), images[True])

    @property
    def column_names(self) -> tuple[str, ...]:
        """Return the columns of all rows."""
        if self._names is None:
            self.read_through()
        return self._names or ()

    @property
    def warnings(self) -> list[str]:
        """List what to know of the rows before any is decided; complete after an iteration."""
        found = super().warnings
        if self.problems:
            reasons = ", ".join(
                f"{reason} {count:,}" for reason, count in sorted(self.problems.items())
            )
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

    def _sample_of_row(self, row: TableRow, own_id: str) -> TableSample:
        reading = self._read_row(row)
        sample = sample_of(row, self.roles, reading.earlier)
        return TableSample(
            **{
                name: value
                for name, value in sample
                if name not in ("id", "image", "image_missing", "problem")
            },
            id=own_id,
            image=reading.image,
            image_missing=reading.named and reading.image is None,
            problem=reading.problem,
            cells=_plain_cells(row),
        )

    def _read_row(self, row: TableRow) -> _RowReading:
        """Return what becomes of a row, and count what is wrong with it."""
        problems = []  # the first counts
        extra = row.cells.get(EXTRA)
        if extra:
            problems.append(("more cells than columns", f"text: {_describe_extra_cells(extra)}"))
        earlier: tuple[str, ...] = ()
        column = self.roles.get("earlier")
        try:
            earlier = earlier_posts(row, column)
        except BadInput:
            said = f"earlier: {row.optional_text(column)[:_SHOWN]!r}: is no list of texts, such as {_EARLIER}"
            problems.append(("wrong earlier posts", said))
        named = image = row.optional_text(self.roles.get("image")) or None
        if image is not None and not self.is_remote(image):
            image, reason, said = self.find_image(image)
            problems += [(reason, said)] if reason else []
        if image is None and not row.optional_text(self.roles.get("text")):
            problems.append(
                (
                    "neither text nor image",
                    "text: there is neither a text nor an image; give one or both",
                )
            )
        for reason, _ in problems[:1]:
            self.problems[reason] += 1
        return _RowReading(earlier, named is not None, image, problems[0][1] if problems else "")

    def find_image(self, reference: str) -> tuple[str | None, str, str]:
        """Return the path of a local image; or the reason that there is none, and in words."""
        shown = reference[:_SHOWN]
        path = self.finder.find_file(reference)
        if path is not None and not is_lfs_pointer(path):
            return str(path), "", ""
        if not candidate_paths(reference):
            said = f"image: {shown}: is outside {self.tables.store or self.folder}, where image paths begin"
            return None, "image outside the folder", said
        return (
            None,
            _MISSING,
            f"image: {shown}: isn't in {self.tables.store or self.folder}, or is no file",
        )

    def fetch_images(self) -> None:
        """Copy the images of a table in a store to this machine; errors as `copy_images`."""
        if self.tables.store is not None and "image" in self.roles:
            copy_images(self.tables.store, self._image_references(), self.tables.folder)

    def _image_references(self) -> Iterator[str]:
        column = self.roles.get("image")
        return filter(None, (row.optional_text(column) for row in self.rows()))

    def _unique_id(self, given: str, number: int | str, met: set[str]) -> str:
        """Return an id of the row's own, so that each row has its own record."""
        if hash(given) not in (self._repeated_ids or ()):
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


def _plain_cells(row: TableRow) -> JSON:
    return {str(name): json_cell(value) for name, value in row.cells.items() if name != EXTRA}


def _describe_extra_cells(extra: list[str]) -> str:
    over = ", ".join(extra)
    shown = over if len(over) <= _SHOWN else f"{over[:_SHOWN]}…"
    return (
        f"the row has {len(extra)} more cells than there are columns ({shown}); put a cell that holds a separator into "
        "double quotes"
    )
