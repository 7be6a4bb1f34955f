"""What `tribunal batch` gives back: the input's rows with their outcomes, in the order of the input."""

from __future__ import annotations

import csv
import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from eval.datasets import Dataset
from eval.journal import RESULTS, heads
from nodes.errors import BadInput
from nodes.schema import JSON

COLUMNS = ("outcome", "label", "category", "hateful", "confidence", "explanation", "track", "calls", "tokens")
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
        BadInput: the file can't be written.
    """
    aside = out.with_name(f".{out.name}.part")
    try:
        _WRITERS[out.suffix.casefold()](_rows(dataset, run, count), aside)
        os.replace(aside, out)  # noqa: PTH105 (over a file that is there, on every platform)
    except OSError as error:
        raise BadInput(f"out: {out}: {error.strerror or error}; the results are in {run}, run it again") from error


def _rows(dataset: Dataset, run: Path, count: int) -> Iterator[tuple[JSON, JSON]]:
    """Each row of the input, and its record, in order; in memory are eight bytes a row."""
    offsets = array("q", bytes(8 * count))
    for head in heads(run / RESULTS):
        offsets[head.place] = head.offset
    with (run / RESULTS).open("rb") as results:
        for place, sample in enumerate(dataset):
            results.seek(offsets[place])
            record = json.loads(results.readline())
            yield {"id": sample.id, "text": sample.text, "image": sample.image, **sample.fields}, record


def _flat(row: JSON, record: JSON) -> JSON:
    """A row of the input with its outcome; a column of the input that is called as one of ours keeps its name, and
    ours is written as tribunal_NAME."""
    usage = record["usage"]
    ours = {**record, "calls": usage["calls"], "tokens": usage["prompt_tokens"] + usage["completion_tokens"]}
    named = {(f"tribunal_{name}" if name in row else name): ours[name] for name in COLUMNS}
    return {**{name: _cell(value) for name, value in row.items()}, **named}


def _cell(value: Any) -> Any:
    return (
        value if value is None or isinstance(value, str | int | float | bool) else json.dumps(value, ensure_ascii=False)
    )


def _as_lines(rows: Iterable[tuple[JSON, JSON]], path: Path) -> None:
    with path.open("w", encoding="utf-8", errors="replace") as file:
        for row, record in rows:
            file.write(json.dumps({**record, "input": row}, ensure_ascii=False) + "\n")


def _as_text(delimiter: str) -> Callable[[Iterable[tuple[JSON, JSON]], Path], None]:
    def write(rows: Iterable[tuple[JSON, JSON]], path: Path) -> None:
        with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
            writer: csv.DictWriter[str] | None = None
            for row, record in rows:
                flat = _flat(row, record)
                if writer is None:
                    writer = csv.DictWriter(file, list(flat), delimiter=delimiter, extrasaction="ignore")
                    writer.writeheader()
                writer.writerow(flat)

    return write


def _as_parquet(rows: Iterable[tuple[JSON, JSON]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: pq.ParquetWriter | None = None
    group: list[JSON] = []

    def write() -> None:
        nonlocal writer
        if writer is None:
            writer = pq.ParquetWriter(path, _schema(group))
        writer.write_table(pa.Table.from_pylist(group, schema=writer.schema))
        group.clear()

    try:
        for row, record in rows:
            flat = _flat(row, record)
            group.append({name: _typed(name, value) for name, value in flat.items()})
            if len(group) == _ROWS_A_GROUP:
                write()
        if group:
            write()
    finally:
        if writer is not None:
            writer.close()


_TYPES = {"label": "int64", "hateful": "bool", "confidence": "float64", "calls": "int64", "tokens": "int64"}


def _schema(group: list[JSON]) -> Any:
    """Our columns have types; the input's are texts, whatever their file said, since a later row may differ."""
    import pyarrow as pa

    kinds = {"int64": pa.int64(), "bool": pa.bool_(), "float64": pa.float64()}
    return pa.schema([(name, kinds.get(_type_of(name, group[0]), pa.string())) for name in group[0]])


def _type_of(name: str, row: JSON) -> str:
    ours = list(row)[-len(COLUMNS) :]
    return _TYPES.get(name.removeprefix("tribunal_"), "") if name in ours else ""


def _typed(name: str, value: Any) -> Any:
    own = name.removeprefix("tribunal_")
    return value if value is None or own in _TYPES else str(value)


_WRITERS: dict[str, Callable[[Iterable[tuple[JSON, JSON]], Path], None]] = {
    ".jsonl": _as_lines,
    ".csv": _as_text(","),
    ".tsv": _as_text("\t"),
    ".parquet": _as_parquet,
}
