"""Parquet parts of a run that many machines decide at once: each a batch of results, written whole or not at all.

A part is named by its attempt (the start of the run that wrote it) and the number of its batch, so that a batch which
is decided once more after a crash finds what it has written before. The manifest beside the parts names the attempt
under way and the parts that count: those that it lists, and those of its own attempt. Another one is from a worker that
went on after its run had been given up, and counts for nothing.

The last three columns of a part are a result's place, its repeat, and its line as results.jsonl has it.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from pydantic import ValidationError

from tribunal.errors import BadInput
from tribunal.eval.runs.journal import RESULTS, Journal, line_starts
from tribunal.eval.runs.tables import Columns, added_types
from tribunal.locations import Location, located, write_whole_at
from tribunal.parsed import from_json
from tribunal.schema import JSON, Frozen

if TYPE_CHECKING:
    import pyarrow as pa

PARTS, SPOOL = "parts", "spool"  # within a run's folder
MANIFEST = "_manifest.json"  # readers of a folder of Parquet leave out what begins with an underscore
_WORKER = "_worker-"
_NAME = re.compile(r"part-(\d{5})-(\d{8})\.parquet")
_OWN = ("place", "repeat", "record")


class Row(NamedTuple):
    """A result for a part: its place, its line, and the cells of the row that it is of."""

    place: int
    repeat: int
    line: bytes
    cells: JSON


class Part(Frozen):
    """A part as the manifest lists it."""

    name: str
    rows: int
    bytes: int

    @property
    def attempt(self) -> int:
        return attempt_of(self.name)


class Manifest(Frozen):
    """Which start of a run is under way, and the parts that count beside its own.

    `under_way` is how many posts each of its workers may have in flight, and 0 once it has ended well. `lost` is how
    many were in flight when workers or whole starts were killed, at most: nobody knows what these have cost.
    """

    attempt: int = 0
    under_way: int = 0
    lost: int = 0
    parts: tuple[Part, ...] = ()


def part_name(attempt: int, batch: int) -> str:
    return f"part-{attempt:05}-{batch:08}.parquet"


def _worker(attempt: int, name: str) -> str:
    return f"{_WORKER}{attempt:05}-{name}"


def attempt_of(name: str) -> int:
    """By which start of the run a part was written."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else 0


class Shape(NamedTuple):
    """The columns of a run's parts: those of the input with their types, or None where parts hold results alone."""

    given: tuple[tuple[str, str], ...] | None = None

    def schema(self) -> tuple[Columns | None, pa.Schema]:
        import pyarrow as pa

        own = [("place", pa.int64()), ("repeat", pa.int32()), ("record", pa.string())]
        if self.given is None:
            return None, pa.schema(own)
        columns = Columns(name for name, _ in self.given)
        given = [(name, pa.type_for_alias(kind)) for name, kind in self.given]
        taken, named = {*columns.given, *columns.added.values()}, []
        for name, kind in own:
            while name in taken:
                name = f"tribunal_{name}"
            named.append((name, kind))
        return columns, pa.schema([*given, *added_types(columns), *named])


def part_of(rows: Iterable[Row], shape: Shape) -> bytes:
    """A part, as the bytes of its file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns, schema = shape.schema()
    texts = {field.name for field in schema if pa.types.is_string(field.type)}
    held = []
    for row in rows:
        own = dict(zip(schema.names[-3:], (row.place, row.repeat, row.line.decode().rstrip("\n")), strict=True))
        cells: JSON = {}
        if columns is not None:
            given, added = columns.cells(row.cells, from_json(row.line))
            cells = {name: _as(given.get(name), name in texts) for name in columns.given} | added
        held.append({**cells, **own})
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(held, schema=schema), file, compression="zstd")
    return file.getvalue()


def _as(cell: object, text: bool) -> object:
    return str(cell) if text and cell is not None else cell


class Parts:
    """The folder of a run's parts."""

    def __init__(self, url: str | Path) -> None:
        """
        Args:
            url: the folder, by its path or URL.
        """
        self.url, self.at = str(url), located(url)

    @classmethod
    def of_run(cls, folder: Path) -> Self:
        """Those of a run in a folder of this machine."""
        return cls(folder.absolute() / PARTS)

    def has(self, name: str) -> bool:
        from pyarrow.fs import FileType

        return bool(self.at.fs.get_file_info(f"{self.at.path}/{name}").type != FileType.NotFound)

    def names(self) -> list[str]:
        """Of all parts that are there, the newest attempt's first."""
        names = filter(_NAME.fullmatch, self._found())
        return sorted(names, key=lambda name: (-attempt_of(name), name))

    def _found(self) -> list[str]:
        from pyarrow.fs import FileSelector

        return [each.base_name for each in self.at.fs.get_file_info(FileSelector(self.at.path, allow_not_found=True))]

    def content(self, name: str) -> bytes:
        """
        Raises:
            BadInput: it can't be read.
        """
        try:
            with self.at.fs.open_input_file(f"{self.at.path}/{name}") as file:
                return bytes(file.read())
        except OSError as error:
            raise BadInput(f"{self.at}/{name}: can't be read: {error}") from error

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole, or not at all.

        Raises:
            OSError: it can't be written.
            Unreachable: the store doesn't take it.
        """
        if self.at.here is not None:
            self.at.here.mkdir(parents=True, exist_ok=True)
        write_whole_at(self._place(name), content)

    def remove(self, name: str) -> None:
        self.at.fs.delete_file(f"{self.at.path}/{name}")

    def read(self, name: str, *columns: str) -> Iterator[JSON]:
        """Rows of a part, of which `columns` of `place`, `repeat` and `record` are read.

        Raises:
            BadInput: it is no part of a run.
        """
        import pyarrow.parquet as pq

        try:
            with self.at.fs.open_input_file(f"{self.at.path}/{name}") as file:
                table = pq.ParquetFile(file)
                own = dict(zip(_OWN, table.schema_arrow.names[-3:], strict=True))
                for rows in table.iter_batches(batch_size=1000, columns=[own[each] for each in columns]):
                    for row in rows.to_pylist():
                        yield {each: row[own[each]] for each in columns}
        except (OSError, ValueError) as error:
            raise BadInput(f"{self.at.shown}/{name}: can't be read: {error}; remove it, and run again") from error

    def lines(self, name: str) -> Iterator[Row]:
        """The results of a part."""
        for row in self.read(name, *_OWN):
            yield Row(row["place"], row["repeat"], f"{row['record']}\n".encode("utf-8", "replace"), {})

    def manifest(self) -> Manifest:
        """
        Raises:
            BadInput: it is broken.
        """
        if not self.has(MANIFEST):
            return Manifest()
        try:
            return Manifest.model_validate_json(self.content(MANIFEST))
        except ValidationError as error:
            raise BadInput(f"{self.at.shown}/{MANIFEST}: broken: {error}; take another folder") from error

    def begin(self, under_way: int, parts: Iterable[Part] = ()) -> Manifest:
        """Note that another attempt begins.

        Args:
            under_way: how many posts each of its workers has in flight at most.
            parts: those of earlier attempts that count.
        """
        last = self.manifest()
        workers = [name for name in self._workers() if name.startswith(_worker(last.attempt, ""))]
        lost = last.lost + last.under_way * len(workers)
        manifest = Manifest(attempt=last.attempt + 1, under_way=under_way, lost=lost, parts=tuple(parts))
        self.keep(manifest)
        self._dismiss()
        return manifest

    def join(self, attempt: int, worker: str) -> None:
        """Note that a worker takes part: what it has in flight may be lost with it."""
        self.write(_worker(attempt, worker), b"")

    def end(self, lost: int, parts: Iterable[Part] = ()) -> None:
        """Note that the attempt under way has ended well.

        Args:
            lost: how many posts were under way when workers of it were killed.
            parts: all that count now.
        """
        last = self.manifest()
        self.keep(last.model_copy(update={"under_way": 0, "lost": last.lost + lost, "parts": tuple(parts)}))
        self._dismiss()

    def _workers(self) -> list[str]:
        return [name for name in self._found() if name.startswith(_WORKER)]

    def _dismiss(self) -> None:
        for name in self._workers():
            self.remove(name)

    def keep(self, manifest: Manifest) -> None:
        self.write(MANIFEST, json.dumps(manifest.dump(), indent=1).encode())

    def counted(self) -> list[str]:
        """The names of the parts that count."""
        manifest = self.manifest()
        listed = {part.name for part in manifest.parts}
        return [name for name in self.names() if name in listed or attempt_of(name) == manifest.attempt]

    def part(self, name: str) -> Part:
        """A part as the manifest lists it."""
        import pyarrow.parquet as pq

        with self.at.fs.open_input_file(f"{self.at.path}/{name}") as file:
            return Part(name=name, rows=pq.ParquetFile(file).metadata.num_rows, bytes=file.size())

    def _place(self, name: str) -> Location:
        return Location(self.at.fs, f"{self.at.path}/{name}", f"{self.at.shown}/{name}")


def ungathered(folder: Path) -> bool:
    """Whether parts or spools lie in a run's folder that `gather` has not put into results.jsonl."""
    return any((folder / PARTS).glob("part-*.parquet")) or bool(spooled(folder / SPOOL))


async def gather(folder: Path) -> int:
    """Put into results.jsonl what other machines have left of a run in a folder of this one: parts, and spools.

    A crash at any moment loses none of them, and puts none there twice.

    Returns:
        how many results it was.

    Raises:
        DiskFull: there is no room for them; they stay where they are.
    """
    if not ungathered(folder):  # as in every run of one machine, which need not wait for PyArrow
        return 0
    parts, spools = Parts.of_run(folder), spooled(folder / SPOOL)
    names = parts.names()
    held = _Held()
    for start in line_starts(folder / RESULTS):
        held.add(start.place, start.repeat)
    taken = 0
    with Journal(folder) as journal:
        for row in _left_behind(parts, names, spools):
            if held.add(row.place, row.repeat):
                taken += 1
                await journal.append(row.line)
        await journal.settled()
    for name in names:
        parts.remove(name)
    for spool in spools:
        shutil.rmtree(spool, ignore_errors=True)
    return taken


def _left_behind(parts: Parts, names: Iterable[str], spools: Iterable[Path]) -> Iterator[Row]:
    for name in names:
        yield from parts.lines(name)
    for spool in spools:
        for start in line_starts(spool / RESULTS):
            yield Row(start.place, start.repeat, start.line, {})


class _Held:
    """Which results there are, in a byte each."""

    def __init__(self) -> None:
        self._places: dict[int, bytearray] = {}

    def add(self, place: int, repeat: int) -> bool:
        """Note one; whether it is new."""
        places = self._places.setdefault(repeat, bytearray())
        if place >= len(places):
            places.extend(bytes(place + 1 - len(places) + len(places) // 8))
        new = not places[place]
        places[place] = 1
        return new


def spooled(folder: Path, begin: str = "") -> list[Path]:
    """The folders of lines that belong to no part yet, the oldest first."""
    return sorted(path for path in folder.glob(f"{begin}*") if path.is_dir()) if folder.is_dir() else []
