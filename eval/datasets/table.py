"""Any table of posts: CSV, TSV, JSONL, JSON or Parquet, its columns and labels mapped by the caller.

The 4chan set of the AntiHateAgent paper (section 4.1), whose form isn't published, is read as one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from tribunal.errors import BadInput
from tribunal.eval.datasets.dataset import Dataset, DatasetSpec, PaperProtocol
from tribunal.eval.datasets.sample import Gold, Sample
from tribunal.parsed import from_json
from tribunal.prompts.policy import policy
from tribunal.retrievers.perspectives.rows import NO, YES, TableRow, without_point
from tribunal.text import wellformed

ROLES = ("text", "id", "label", "image", "language", "earlier", "group")
_KEPT = ("group",)  # a role whose column stays a field of the set, too
_HATE, _NOT = ("hate", "hateful"), ("not", "not_hate", "not-hate", "nothate", "non-hate", "nonhate", "not hate")
_PLAIN = {
    **dict.fromkeys((*_HATE, *YES), "hate"),
    **dict.fromkeys((*_NOT, *NO), "not"),
}


def _read(dataset: Dataset, roles: Collection[str] = ROLES) -> Iterator[Sample]:
    names, rows = with_columns(dataset.rows())
    columns = columns_by_role(dataset, names, roles)
    label = columns.get("label")
    if dataset.labels and label is None:
        raise BadInput(f"labels: there is no label column in {dataset.files[0]}; name it in columns")
    mapped = _Labels(dataset.labels)
    for row in rows:
        gold = None
        if label is not None:
            value = row.optional(label)
            if not value:
                dataset.skip("no label")
                continue
            gold = mapped.gold(row, label, value)
        yield sample_of(row, columns, earlier_posts(row, columns.get("earlier")), gold)


def sample_of(row: TableRow, columns: Mapping[str, str], earlier: tuple[str, ...], gold: Gold | None = None) -> Sample:
    """The post that a row of a table is.

    Args:
        row: the row.
        columns: the column of each role (`columns_by_role`).
        earlier: the earlier posts of its conversation (`earlier_posts`).
        gold: its label.
    """
    return Sample(
        id=row.optional(columns.get("id")) or str(row.number),
        text=row.optional(columns.get("text")),
        image=row.optional(columns.get("image")) or None,
        language=row.optional(columns.get("language")) or None,
        earlier=earlier,
        gold=gold,
        group=row.optional(columns.get("group")),
        fields=_fields(row, used={each for role, each in columns.items() if role in ROLES and role not in _KEPT}),
    )


def earlier_posts(row: TableRow, column: str | None) -> tuple[str, ...]:
    """The earlier posts of a conversation: a list, or in a file that has none, a JSON array.

    Raises:
        BadInput: it is neither.
    """
    if column is None or not row.optional(column):
        return ()
    cell = _texts(row[column])
    if cell is None:
        raise row.wrong(column, row.text(column)[:80], 'a list of texts, such as ["the first post", "the second"]')
    return tuple(map(wellformed, cell))


def _texts(cell: Any) -> list[str] | None:
    """The texts of a list, or of a JSON array in a file that has no lists; None where it is neither."""
    if isinstance(cell, str):
        try:
            cell = from_json(cell)
        except ValueError:
            return None
    texts = list(cell) if isinstance(cell, list | tuple) else None
    return texts if texts is not None and all(isinstance(each, str) for each in texts) else None


def with_columns(rows: Iterator[TableRow], count: int = 100) -> tuple[list[str], Iterator[TableRow]]:
    """The columns of the first rows, in order, and all the rows."""
    first = list(islice(rows, count))
    columns = dict.fromkeys(str(name) for row in first for name in row.cells)
    return list(columns), chain(first, rows)


def columns_by_role(dataset: Dataset, names: list[str], roles: Collection[str]) -> dict[str, str]:
    """The column of each role: the one that was named, or the one that is called as the role is."""
    there = f"{dataset.given} has {', '.join(names) or 'no row'}"
    for role, column in dataset.columns.items():
        if role not in roles:
            raise BadInput(f"columns: {role!r}: what a column can be is {', '.join(roles)}")
        if column and column not in names:
            raise BadInput(f"columns: {role} = {column!r}: there is no such column; {there}")
    found = {role: dataset.columns.get(role, role) for role in roles}
    held = {role: column for role, column in found.items() if column and column in names}
    if not held.keys() & {"text", "image"}:
        raise BadInput(f"columns: text: which column is the text? {there}")
    return held


class _Labels:
    """What a label column's values mean: by the caller's map, else by the plain words for yes and no.

    A map leads to `hate` and `not`, or to the fine scheme's numbers and category names; `not` is 0 in both.
    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._categories = [category.name for category in policy("h-vli").fine]
        self._expected = ", ".join(labels) if labels else "hate or not, 1 or 0, true or false, yes or no"
        self._given = {key.strip().casefold(): value.strip().casefold() for key, value in (labels or _PLAIN).items()}
        words = {*_HATE, *_NOT}
        fine = [value for value in self._given.values() if value not in words]
        self._scheme = "fine" if fine else "binary"
        if fine and any(value in _HATE for value in self._given.values()):
            raise BadInput(
                f"labels: {fine[0]!r} is a category, and hate is none; map every label to a category or `not`"
            )
        self._numbers = {value: self._number(value) for value in self._given.values()}

    def _number(self, value: str) -> int:
        if value in _NOT:
            return 0
        if value in _HATE:
            return 1
        if value.isdecimal():
            return int(value)
        names = [name.casefold() for name in self._categories]
        if value not in names:
            raise BadInput(
                f"labels: {value!r}: a label is mapped to hate or not, or to a category, by its number or as "
                f"{', '.join(self._categories)}"
            )
        return names.index(value)

    def gold(self, row: TableRow, column: str, value: str) -> Gold:
        meant = self._given.get(value.casefold()) or self._given.get(without_point(value).casefold())
        if meant is None:
            raise row.wrong(column, value, f"{self._expected}; say with labels what each value means")
        number = self._numbers[meant]
        return Gold(label=number, scheme=self._scheme, positive=number > 0, name=value)


def _fields(row: TableRow, used: Collection[str]) -> dict[str, Any]:
    return {
        wellformed(str(name)): plain_cell(value if (texts := _of_several(value)) is None else texts)
        for name, value in row.cells.items()
        if name not in used and not isinstance(value, bytes)
    }


def _of_several(value: Any) -> list[str] | None:
    """The texts of a cell of CSV that holds a JSON array of them, such as `["religion", "gender"]`."""
    return _texts(value) if isinstance(value, str) and value.startswith("[") and value.endswith("]") else None


def plain_cell(value: Any) -> Any:
    """A cell as JSON carries it: Parquet has dates, decimals and more."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {wellformed(str(key)): plain_cell(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [plain_cell(held) for held in value]
    return wellformed(str(value))


TABLE = DatasetSpec(
    name="table",
    title="A table of posts",
    task="hate",
    obtain="you: a CSV, TSV, JSONL, JSON or Parquet file",
    licence="the table's own",
    splits={"all": ()},
    default="all",
    read=_read,
    mapped=True,
)

# ---------------------------------------------------------------------------------------------------------------- 4chan


def _fourchan(dataset: Dataset) -> Iterator[Sample]:
    kind = dataset.columns.get("type", "type")
    for sample in _read(dataset, roles=(*ROLES, "type")):
        if sample.gold is None:
            raise BadInput(f"columns: label: which column is the label? {dataset.files[0]} has none called label")
        said = str(sample.fields.pop(kind, None) or "").casefold()
        if said not in {"", "implicit", "explicit"}:
            raise BadInput(f"data set {dataset.name}: post {sample.id}: {kind} = {said!r}: is not implicit or explicit")
        sample.fields["implicit"] = sample.gold.positive and said == "implicit"
        yield sample


FOURCHAN = DatasetSpec(
    name="4chan",
    title="4chan /pol/, November 2025",
    task="hate",
    obtain="the authors of AntiHateAgent, on request; any table with the columns text, label (hate, nonhate) and type "
    "(implicit, explicit) will do",
    licence="restricted by its authors",
    splits={"all": (("4chan*.csv", "4chan*.tsv", "4chan*.jsonl", "4chan*.json", "4chan*.parquet"),)},
    default="all",
    read=_fourchan,
    mapped=True,
    protocol=PaperProtocol(
        says="AntiHateAgent, section 4.1: the 704 hate posts, and 704 not hate",
        split="all",
        quotas={"hate": 704, "not hate": 704},
        stratum=lambda sample: "hate" if sample.gold and sample.gold.positive else "not hate",
        table="antihate-table2",
    ),
)
