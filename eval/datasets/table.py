"""Read any table of posts: CSV, TSV, JSONL, JSON or Parquet, with columns and labels mapped by the caller.

The 4chan set of the AntiHateAgent paper (section 4.1), whose form isn't published, is read as one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from tribunal.core.text import parse_json, wellformed
from tribunal.errors import BadInput
from tribunal.eval.datasets.dataset import Dataset
from tribunal.prompts.policy import load_policy
from tribunal.retrievers.indexes.bounded_text import MOST_ROW
from tribunal.retrievers.indexes.table_rows import (
    EXTRA,
    NO,
    YES,
    TableRow,
    cell_text,
    drop_decimal_point,
    likely_columns,
)
from tribunal.runner.results import Gold, Sample

ROLES = ("text", "id", "label", "image", "language", "earlier", "group", "split")
POST_ROLES = (*ROLES, "author")  # of a table of posts to be decided, too
_NAMED = 10  # splits that an error names
_KEPT = ("group", "split")  # roles whose columns stay fields of the set, too
_HATE = ("hate", "hateful")
_NOT = ("not", "not_hate", "not-hate", "nothate", "non-hate", "nonhate", "not hate")
PLAIN_LABELS = {
    **dict.fromkeys((*_HATE, *YES), "hate"),
    **dict.fromkeys((*_NOT, *NO), "not"),
}


def read_table(dataset: Dataset, roles: Collection[str] = ROLES) -> Iterator[Sample]:
    """Yield the posts of a table, by the caller's columns and labels."""
    names, rows = peek_columns(dataset.rows())
    columns = columns_by_role(dataset, names, roles)
    label = columns.get("label")
    if label is None and (
        dataset.labels or (dataset.needs_gold and dataset.columns.get("label") != "")
    ):
        remedy = (
            "" if dataset.labels else ", or say with --unlabelled that the posts have no labels"
        )
        raise BadInput(
            f"columns: label: {dataset.source_name} has no column called label; name it with --columns label=NAME"
            f"{remedy}; it has {_list_columns('label', 'label', names)}"
        )
    split = None if dataset.split in dataset.spec.splits else dataset.split.casefold()
    split_column = columns.get("split")
    if split is not None and split_column is None:
        raise BadInput(
            f"split: {dataset.split!r}: {dataset.source_name} has no column called split; name it with --columns "
            "split=NAME, or leave the split out"
        )
    mapped = _LabelMap(dataset.labels)
    splits = set[str]()
    for row in rows:
        if split is not None:
            splits.add(row.optional_text(split_column))
            if row.optional_text(split_column).casefold() != split:
                continue
        gold = None
        if label is not None:
            value = row.optional_text(label)
            if not value:
                dataset.skip("no label")
                continue
            gold = mapped.gold_of_row(row, label, value)
        yield sample_of(row, columns, earlier_posts(row, columns.get("earlier")), gold)
    if split is not None and split not in {each.casefold() for each in splits}:
        there = ", ".join(sorted(filter(None, splits))[:_NAMED]) or "none"
        raise BadInput(
            f"split: {dataset.split!r}: no row of {dataset.source_name} is of it (there are {there})"
        )


def sample_of(
    row: TableRow, columns: Mapping[str, str], earlier: tuple[str, ...], gold: Gold | None = None
) -> Sample:
    """Return the post of a table's row, whose columns are those of `columns_by_role`."""
    return Sample(
        id=row.optional_text(columns.get("id")) or str(row.number),
        text=row.optional_text(columns.get("text")),
        image=row.optional_text(columns.get("image")) or None,
        language=row.optional_text(columns.get("language")) or None,
        earlier=earlier,
        author=row.optional_text(columns.get("author")) or None,
        gold=gold,
        group=row.optional_text(columns.get("group")),
        fields=_other_fields(
            row,
            used={
                each for role, each in columns.items() if role in POST_ROLES and role not in _KEPT
            },
        ),
    )


def earlier_posts(row: TableRow, column: str | None) -> tuple[str, ...]:
    """Return the earlier posts of a conversation, from a list or a JSON array; raise `BadInput` if it is neither."""
    cell = None if column is None else row.cells.get(column)
    if column is None or not cell_text(cell):
        return ()
    texts = _parse_texts(cell)
    if texts is None:
        raise row.value_error(
            column, cell, 'a list of texts, such as ["the first post", "the second"]'
        )
    return tuple(map(wellformed, texts))


def _parse_texts(cell: Any) -> list[str] | None:
    """Return the texts of a list or of a JSON array; None if it is neither."""
    if isinstance(cell, str):
        try:
            cell = parse_json(cell)
        except ValueError:
            return None
    texts = list(cell) if isinstance(cell, list | tuple) else None
    return texts if texts is not None and all(isinstance(each, str) for each in texts) else None


def peek_columns(
    rows: Iterator[TableRow], count: int = 100
) -> tuple[list[str], Iterator[TableRow]]:
    """Return the columns of the first rows, in order, and all the rows. Of long rows fewer are looked at."""
    first = list[TableRow]()
    length = 0
    for row in islice(rows, count):
        first.append(row)
        length += sum(len(str(cell)) for cell in row.cells.values())
        if length > MOST_ROW:
            break
    columns = dict.fromkeys(str(name) for row in first for name in row.cells if name != EXTRA)
    return list(columns), chain(first, rows)


def columns_by_role(dataset: Dataset, names: list[str], roles: Collection[str]) -> dict[str, str]:
    """Return the column of each role: the named one, or the one called like the role."""
    for role, column in dataset.columns.items():
        if role not in roles:
            raise BadInput(f"columns: {role!r}: what a column can be is {', '.join(roles)}")
        if column and column not in names:
            raise BadInput(
                f"columns: {role} = {column!r}: there is no such column; {dataset.source_name} has "
                f"{_list_columns(role, column, names)}"
            )
    named = {role: dataset.columns.get(role, role) for role in roles}
    columns = {role: column for role, column in named.items() if column and column in names}
    if not columns.keys() & {"text", "image"}:
        raise BadInput(
            f"columns: text: which column is the text? {dataset.source_name} has {_list_columns('text', 'text', names)}"
        )
    return columns


def _list_columns(role: str, wanted: str, names: list[str]) -> str:
    """List a table's columns for an error, then the option that names those that are likely meant."""
    near = [
        f"{role}={name}"
        for name in dict.fromkeys((*likely_columns(wanted, names), *likely_columns(role, names)))
    ]
    likely = f"; did you mean --columns {' or '.join(near[:2])}?" if near else ""
    return (", ".join(names) or "no row") + likely


class _LabelMap:
    """Translate the values of a label column, by the caller's map or by plain words for yes and no.

    A map leads to `hate` and `not`, or to the fine scheme's numbers and category names; `not` is 0 in both.
    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._expected = (
            ", ".join(labels) if labels else "hate or not, 1 or 0, true or false, yes or no"
        )
        given = {
            key.strip().casefold(): value.strip().casefold()
            for key, value in (labels or PLAIN_LABELS).items()
        }
        categories = [category.name for category in load_policy("h-vli").fine]
        numbers = {
            **{name.casefold(): number for number, name in enumerate(categories)},
            **dict.fromkeys(_NOT, 0),
            **dict.fromkeys(_HATE, 1),
        }
        fine = [value for value in given.values() if value not in (*_HATE, *_NOT)]
        if fine and any(value in _HATE for value in given.values()):
            raise BadInput(
                f"labels: {fine[0]!r} is a category, and hate is none; map every label to a category or `not`"
            )
        unknown = next(
            (value for value in fine if not value.isdecimal() and value not in numbers), None
        )
        if unknown:
            raise BadInput(
                f"labels: {unknown!r}: a label is mapped to hate or not, or to a category, by its number or as "
                f"{', '.join(categories)}"
            )
        self._scheme = "fine" if fine else "binary"
        self._numbers = {
            key: int(value) if value.isdecimal() else numbers[value] for key, value in given.items()
        }

    def gold_of_row(self, row: TableRow, column: str, value: str) -> Gold:
        number = self._numbers.get(
            value.casefold(), self._numbers.get(drop_decimal_point(value).casefold())
        )
        if number is None:
            raise row.value_error(
                column, value, f"{self._expected}; say with labels what each value means"
            )
        return Gold(label=number, scheme=self._scheme, positive=number > 0, name=value)


def _other_fields(row: TableRow, used: Collection[str]) -> dict[str, Any]:
    return {
        wellformed(str(name)): json_cell(_parse_listed_cell(value))
        for name, value in row.cells.items()
        if name not in used and name != EXTRA and not isinstance(value, bytes)
    }


def _parse_listed_cell(value: Any) -> Any:
    """Return the texts of a CSV cell that holds a JSON array, such as `["religion", "gender"]`; any other as it is."""
    is_listed = isinstance(value, str) and value.startswith("[") and value.endswith("]")
    texts = _parse_texts(value) if is_listed else None
    return value if texts is None else texts


def json_cell(value: Any) -> Any:
    """Return a cell as JSON can hold it: Parquet has dates, decimals and more."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {wellformed(str(key)): json_cell(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [json_cell(held) for held in value]
    return wellformed(str(value))


def read_fourchan(dataset: Dataset) -> Iterator[Sample]:
    """Yield the posts of the 4chan set: a table with a type, implicit or explicit."""
    kind = dataset.columns.get("type", "type")
    for sample in read_table(dataset, roles=(*ROLES, "type")):
        if sample.gold is None:
            raise BadInput(
                f"columns: label: {dataset.source_name} has no label column; name it with --columns label=NAME"
            )
        said = str(sample.fields.pop(kind, None) or "").casefold()
        if said not in {"", "implicit", "explicit"}:
            raise BadInput(
                f"data set {dataset.name}: post {sample.id}: {kind} = {said!r}: is not implicit or explicit"
            )
        sample.fields["implicit"] = sample.gold.positive and said == "implicit"
        yield sample
