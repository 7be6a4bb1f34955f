"""What `tribunal batch` gives back: the input's rows with their outcomes, in the order of the input."""

from __future__ import annotations

import codecs
import csv
import json
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from tribunal.errors import BadInput
from tribunal.eval.datasets import Dataset
from tribunal.eval.datasets.sample import Sample
from tribunal.eval.runs.journal import RESULTS, Unwritten, line_starts
from tribunal.files import whole
from tribunal.parsed import from_json
from tribunal.rehearsed import rehearsed
from tribunal.schema import JSON

COLUMNS = (
    "outcome", "label", "category", "hateful", "confidence", "explanation", "rehearsed", "track", "calls", "tokens",
)  # fmt: skip
FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")
_ROWS_A_GROUP = 10_000


def check_format(out: Path) -> None:
    """Hold an output's name to the formats there are.

    Raises:
        BadInput: it is none of them.
    """
    if out.suffix.casefold() not in FORMATS:
        raise BadInput(f"out: {out.name}: its suffix is none of {', '.join(FORMATS)}")


def write_table(dataset: Dataset, run: Path, count: int, out: Path) -> None:
    """Write the outcomes of a finished run beside the rows they are of; whole, or not at all.

    Args:
        dataset: the input.
        run: the folder of the run over it.
        count: how many posts it has.
        out: JSON Lines hold the full records; CSV, TSV and Parquet the input's columns, and `COLUMNS`.

    Raises:
        Unwritten: the file can't be written.
    """
    try:
        decided = _Decided(dataset, run, count)
        with whole(out) as file:
            _WRITERS[out.suffix.casefold()](decided, file)
    except IsADirectoryError as error:
        raise BadInput(f"out: {out}: {error.strerror}; the results are in {run}, run it again") from error
    except OSError as error:
        raise Unwritten(f"out: {out}: can't be written: {error.strerror or error}; make room") from error


class _Decided:
    """Each row of the input with its record, in order. In memory are eight bytes a row, and the names of columns.

    `given` are the input's columns, of all its rows. `added` leads `COLUMNS` to what they are called in the output:
    tribunal_NAME where the input has a column of that name.
    """

    def __init__(self, dataset: Dataset, run: Path, count: int) -> None:
        self._dataset, self._results = dataset, run / RESULTS
        self._offsets = array("q", bytes(8 * count))
        for start in line_starts(self._results):
            self._offsets[start.place] = start.offset
        self.given = list(dict.fromkeys(name for sample in dataset for name in _row(dataset, sample)))
        self.added = {name: self._free(name) for name in COLUMNS}

    def _free(self, name: str) -> str:
        while name in self.given:
            name = f"tribunal_{name}"
        return name

    def __iter__(self) -> Iterator[tuple[JSON, JSON]]:
        with self._results.open("rb") as results:
            for offset, sample in zip(self._offsets, self._dataset, strict=True):
                results.seek(offset)
                yield _row(self._dataset, sample), from_json(results.readline())

    def flat(self) -> Iterator[tuple[JSON, JSON]]:
        """Each row's cells: the input's, and what is added, by the names it has here."""
        for row, record in self:
            usage = record["usage"]
            found = {
                "rehearsed": rehearsed(record["calls"]),  # what an older record doesn't say itself
                **record,
                "calls": usage["calls"],
                "tokens": usage["prompt_tokens"] + usage["completion_tokens"],
            }
            yield (
                {name: _cell(value) for name, value in row.items()},
                {called: found[name] for name, called in self.added.items()},
            )


def _row(dataset: Dataset, sample: Sample) -> JSON:
    """A row under the names that its columns have in the input; an image's path begins where it did there."""
    image = sample.image
    if image and Path(image).is_relative_to(dataset.folder):
        image = Path(image).relative_to(dataset.folder).as_posix()
    roles = {"id": sample.id, "text": sample.text, "image": image, "language": sample.language}
    return {**{dataset.columns.get(role) or role: value for role, value in roles.items() if value}, **sample.fields}


def _cell(value: Any) -> Any:
    return (
        value if value is None or isinstance(value, str | int | float | bool) else json.dumps(value, ensure_ascii=False)
    )


def _harmless(value: Any) -> Any:
    """A text that a model has written, so that a spreadsheet doesn't take it for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _as_lines(decided: _Decided, file: IO[bytes]) -> None:
    for row, record in decided:
        line = json.dumps({**record, "input": row}, ensure_ascii=False) + "\n"
        file.write(line.encode("utf-8", "replace"))


def _as_text(delimiter: str) -> Callable[[_Decided, IO[bytes]], None]:
    def write(decided: _Decided, file: IO[bytes]) -> None:
        text = codecs.getwriter("utf-8")(file, "replace")
        writer = csv.DictWriter(text, [*decided.given, *decided.added.values()], delimiter=delimiter)
        writer.writeheader()
        for given, added in decided.flat():
            writer.writerow({**given, **{name: _harmless(value) for name, value in added.items()}})

    return write


def _as_parquet(decided: _Decided, file: IO[bytes]) -> None:
    """What is added has types; the input's cells are texts, whatever their file said, since a later row may differ."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {
        "label": pa.int64(), "hateful": pa.bool_(), "rehearsed": pa.bool_(), "confidence": pa.float64(),
        "calls": pa.int64(), "tokens": pa.int64(),
    }  # fmt: skip
    texts = [(name, pa.string()) for name in decided.given]
    typed = [(called, kinds.get(name, pa.string())) for name, called in decided.added.items()]
    group: list[JSON] = []
    with pq.ParquetWriter(file, pa.schema(texts + typed)) as writer:
        for given, added in decided.flat():
            group.append({**{name: None if cell is None else str(cell) for name, cell in given.items()}, **added})
            if len(group) == _ROWS_A_GROUP:
                writer.write_table(pa.Table.from_pylist(group, schema=writer.schema))
                group.clear()
        if group:
            writer.write_table(pa.Table.from_pylist(group, schema=writer.schema))


_WRITERS: dict[str, Callable[[_Decided, IO[bytes]], None]] = {
    ".jsonl": _as_lines,
    ".csv": _as_text(","),
    ".tsv": _as_text("\t"),
    ".parquet": _as_parquet,
}
