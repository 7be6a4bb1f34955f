"""Write the results of a batch as the Parquet parts of a folder while it goes on, and go on from them on any machine.

A run keeps its results in its own folder, on this machine. Those that are new are written to the folder of parts now
and then: a part at a time, whole or not at all, and then the manifest that lists it. A part is named by its attempt
(the start of the run that wrote it) and its number. One that is neither listed nor of the manifest's attempt is from a
command that went on after another had taken over its run, and counts for nothing.

The last three columns of a part are a result's place, its repeat, and its line as results.jsonl has it.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from tribunal.core.text import parse_json
from tribunal.errors import BadInput
from tribunal.eval.datasets.locations import Location, Unreachable, write_whole_at
from tribunal.eval.datasets.post_table import PostTable
from tribunal.eval.runs.run_file import check_unchanged, encode_run_file
from tribunal.eval.runs.tables import COLUMNS, OutputColumns
from tribunal.process.files import write_whole
from tribunal.review.table_files import ColumnKind, arrow_schema
from tribunal.runner.journal import RESULTS, RUN, Journal, OutputUnwritten, read_line_starts
from tribunal.runner.tally import RunTally, Watch
from tribunal.schema import JSON, Frozen

# Readers of a folder of Parquet leave out what begins with an underscore.
MANIFEST = "_manifest.json"
FOLDER_RUN = "_run.json"
_NAME = re.compile(r"part-(\d{5})-(\d{8})\.parquet")
OWN: dict[str, ColumnKind] = {"place": "integer", "repeat": "integer", "record": "text"}
# Rows of a part.
_ROWS = 500
_MOST_ROWS = 10_000
_PARTS_OF_A_SIZE = 20  # after which the next ones are larger, where they may grow
_SECONDS = 120.0  # after which fewer are written


class ResultRow(NamedTuple):
    """Hold a result for a part: its place, its line, and the cells of its input row."""

    place: int
    repeat: int
    line: bytes
    cells: JSON


class PartFile(Frozen):
    """Describe a part as the manifest lists it."""

    name: str
    rows: int
    bytes: int


class Manifest(Frozen):
    """Record which start of a run is under way, and which parts count beside its own."""

    attempt: int = 0
    parts: tuple[PartFile, ...] = ()


class PartColumns:
    """Name and type the columns of a run's parts: the input's, those of the outcome, and the last three."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Take the input's columns, with their types in Arrow."""
        import pyarrow as pa

        self._columns = OutputColumns(given, {**COLUMNS, **OWN})
        own = [(name, pa.type_for_alias(kind)) for name, kind in given.items()]
        schema = pa.schema([*own, *arrow_schema(self._columns.added_kinds)])
        repeat = len(schema) - 2  # of which there are few
        self._schema = schema.set(repeat, pa.field(schema.names[repeat], pa.int32()))

    @classmethod
    def of_table(cls, table: PostTable) -> PartColumns:
        """Return the columns of a table. Parquet columns keep types that JSON has too; all others are texts."""
        kinds = dict.fromkeys(table.column_names, "string")
        if all(file.suffix == ".parquet" for file in table.tables.files):
            import pyarrow as pa
            import pyarrow.parquet as pq

            for field in pq.read_schema(table.files[0]):
                plain = pa.types.is_signed_integer(field.type) or pa.types.is_boolean(field.type)
                if field.name in kinds and (plain or pa.types.is_floating(field.type)):
                    kinds[field.name] = str(field.type).replace("halffloat", "float")
        return cls(kinds)

    def encode_part(self, rows: Iterable[ResultRow]) -> bytes:
        """Return the bytes of a part's file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        texts = {field.name for field in self._schema if pa.types.is_string(field.type)}
        held = []
        for row in rows:
            line = row.line.decode().rstrip("\n")
            given, added = self._columns.row_cells(row.cells, {**parse_json(line), "record": line})
            cells = {
                name: str(cell) if name in texts and cell is not None else cell
                for name, cell in given.items()
            }
            held.append({**cells, **added})
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(held, schema=self._schema), file, compression="zstd")
        return file.getvalue()


class PartsFolder:
    """Keep the parts of one run, whose results lie in a folder of this machine."""

    def __init__(
        self, at: Location, run: Path, table: PostTable, count: int, *, grows: bool = False
    ) -> None:
        """Use a folder of parts for a run over a table of so many rows; nothing is read or written yet.

        Where parts may grow, a long run has fewer of them, and more results that are in its own folder alone.
        """
        self._grows = grows
        self._at = at
        self._run = run
        self._table = table
        self._manifest = Manifest()
        self._held = dict[str, Any]()
        self._columns = PartColumns.of_table(table)
        self._written = bytearray(count)
        self._offset = self._number = self._seen = 0
        self._looked = time.monotonic()
        # The input's cells are read along with the results, which end nearly in the order of the rows.
        self._cells = enumerate(table.cells())
        self._ahead: dict[int, JSON] = {}

    async def begin(self, wanted: JSON) -> None:
        """Begin the folder of parts; or go on with it, and take over the results that this machine doesn't have.

        Raises:
            BadInput: it holds something else, or what its run depends on isn't as it is wanted.
        """
        try:
            await self._take_over(wanted)
        except OSError as error:
            raise BadInput(
                f"out: {self._at}: can't be used: {error}; take another folder"
            ) from error

    async def _take_over(self, wanted: JSON) -> None:
        last = self._read_manifest()
        parts = tuple(self._counted_parts(last))
        if parts:
            try:
                held = parse_json(self._read_file(FOLDER_RUN) or b"null")
            except ValueError as error:
                raise BadInput(
                    f"{self._at}/{FOLDER_RUN}: broken: {error}; take another folder"
                ) from error
            if not isinstance(held, dict):
                raise BadInput(
                    f"out: {self._at}: has parts and no {FOLDER_RUN}; take another folder"
                )
            self._held = check_unchanged(held, wanted, self._at)
        else:
            self._held = wanted
            self._write_file(FOLDER_RUN, encode_run_file(wanted).encode("utf-8", "replace"))
        here = bytearray(len(self._written))
        for start in read_line_starts(self._run / RESULTS):
            if start.place < len(here):  # else it is of another run, which is found out later
                here[start.place] = 1
        if not any(here):
            write_whole(self._run / RUN, encode_run_file(self._held))
        with closing(Journal(self._run)) as journal:
            for row in (row for part in parts for row in self.read_results(part.name)):
                self._written[row.place] = 1
                if not here[row.place]:
                    await journal.append(row.line)
            await journal.sync_to_disk()
        self._write_manifest(Manifest(attempt=last.attempt + 1, parts=parts))

    def watching(self, watch: Watch) -> Watch:
        """Return a watcher of the run that writes what is new, if it is enough for a part or has waited long.

        If the store is away, that is tried again later. The watcher raises `BadInput` if another command has taken over
        the run.
        """

        def watch_and_write(tally: RunTally) -> None:
            """Show the state of the run, and write its new results."""
            watch(tally)
            old = time.monotonic() - self._looked > _SECONDS
            if old or tally.done >= self._seen + self._rows:
                self._looked = time.monotonic()
                self._seen = tally.done
                with suppress(OSError, Unreachable):
                    self._write_new_results(all_of_them=old)

        return watch_and_write

    def finish(self, *, whole: bool) -> None:
        """Write the results that are in no part yet; if the run is whole, remove the parts that don't count.

        Raises:
            OutputUnwritten: they can't be written. The results are kept.
            BadInput: another command has taken over the run.
        """
        try:
            self._write_new_results(all_of_them=True)
            if whole:
                for name in set(self._part_names()) - {part.name for part in self._manifest.parts}:
                    self._at.fs.delete_file(f"{self._at.path}/{name}")
                self._write_file(
                    FOLDER_RUN,
                    encode_run_file(self._held, finished=True).encode("utf-8", "replace"),
                )
        except (OSError, Unreachable) as error:
            raise OutputUnwritten(
                f"out: {self._at}: can't be written: {error}; make room"
            ) from error

    def read_results(self, name: str) -> Iterator[ResultRow]:
        """Yield the results of a part, without the cells of its rows; raise `BadInput` if it can't be read."""
        import pyarrow.parquet as pq

        try:
            with self._at.fs.open_input_file(f"{self._at.path}/{name}") as file:
                part = pq.ParquetFile(file)
                for rows in part.iter_batches(
                    batch_size=1000, columns=part.schema_arrow.names[-3:]
                ):
                    for place, repeat, line in zip(
                        *(column.to_pylist() for column in rows.columns), strict=True
                    ):
                        yield ResultRow(place, repeat, f"{line}\n".encode("utf-8", "replace"), {})
        except (OSError, ValueError) as error:
            raise BadInput(
                f"{self._at}/{name}: can't be read: {error}; remove it, and run again"
            ) from error

    def _write_new_results(self, *, all_of_them: bool) -> None:
        starts = read_line_starts(self._run / RESULTS, self._offset)
        while held := list(islice(starts, rows := self._rows)):
            if len(held) < rows and not all_of_them:
                return
            new = [start for start in held if not self._written[start.place]]
            if new:
                self._read_cells_ahead({start.place for start in new})
                self._write_part(
                    [ResultRow(each.place, 0, each.line, self._ahead[each.place]) for each in new]
                )
            for start in new:
                self._written[start.place] = 1
                del self._ahead[start.place]
            self._offset = held[-1].offset + len(held[-1].line)

    @property
    def _rows(self) -> int:
        """Return how many rows the next part has, unless it is the last."""
        return (
            min(_ROWS * (1 + self._number // _PARTS_OF_A_SIZE), _MOST_ROWS)
            if self._grows
            else _ROWS
        )

    def _read_cells_ahead(self, places: set[int]) -> None:
        lacking = places - self._ahead.keys()
        while lacking:
            place, cells = next(self._cells)
            if not self._written[place]:
                self._ahead[place] = cells
            lacking.discard(place)

    def _write_part(self, rows: list[ResultRow]) -> None:
        if self._read_manifest().attempt != self._manifest.attempt:
            raise BadInput(
                f"out: {self._at}: another command has begun to go on with this run; wait for it, or stop it and run "
                "this one again"
            )
        name = f"part-{self._manifest.attempt:05}-{self._number:08}.parquet"
        content = self._columns.encode_part(rows)
        self._write_file(name, content)
        part = PartFile(name=name, rows=len(rows), bytes=len(content))
        # Until it is listed too, the part counts as unwritten, and the next one, with these rows, takes its name.
        self._write_manifest(
            self._manifest.model_copy(update={"parts": (*self._manifest.parts, part)})
        )
        self._number += 1

    def _counted_parts(self, manifest: Manifest) -> Iterator[PartFile]:
        """Yield the parts that count: those that are listed, and one that was written before it could be."""
        import pyarrow.parquet as pq

        known = {part.name: part for part in manifest.parts}
        for name in self._part_names():
            if name in known:
                yield known[name]
            elif int(name.split("-")[1]) == manifest.attempt:
                with self._at.fs.open_input_file(f"{self._at.path}/{name}") as file:
                    yield PartFile(
                        name=name, rows=pq.ParquetFile(file).metadata.num_rows, bytes=file.size()
                    )

    def _part_names(self) -> list[str]:
        from pyarrow.fs import FileSelector

        found = self._at.fs.get_file_info(FileSelector(self._at.path, allow_not_found=True))
        return sorted(each.base_name for each in found if _NAME.fullmatch(each.base_name))

    def _read_manifest(self) -> Manifest:
        content = self._read_file(MANIFEST)
        try:
            return Manifest() if content is None else Manifest.model_validate_json(content)
        except ValidationError as error:
            raise BadInput(
                f"{self._at}/{MANIFEST}: broken: {error}; take another folder"
            ) from error

    def _write_manifest(self, manifest: Manifest) -> None:
        self._write_file(MANIFEST, json.dumps(manifest.dump(), indent=1).encode())
        self._manifest = manifest

    def _read_file(self, name: str) -> bytes | None:
        """Return the content of a file, or None if there is none."""
        from pyarrow.fs import FileType

        path = f"{self._at.path}/{name}"
        try:
            if self._at.fs.get_file_info(path).type == FileType.NotFound:
                return None
            with self._at.fs.open_input_file(path) as file:
                return bytes(file.read())
        except OSError as error:
            raise Unreachable(f"{self._at}/{name}: can't be read: {error}") from error

    def _write_file(self, name: str, content: bytes) -> None:
        if self._at.local_path is not None:
            self._at.local_path.mkdir(parents=True, exist_ok=True)
        write_whole_at(self._at.beneath(f"{self._at.path}/{name}"), content)
