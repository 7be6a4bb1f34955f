"""The labelled texts of a perspective, read from its files as their authors publish them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.retrievers.perspectives.perspective import Perspective, Rule, Source
from tribunal.retrievers.perspectives.rows import TableRow, files_named, read_rows, without_point


class LabelledText(NamedTuple):
    """A text and its label; the text is blank where the file's was.

    Attributes:
        text: the text.
        hate: its label.
        categories: what kinds of hate the set says that it is: columns or values of its rule; none where it is no hate.
    """

    text: str
    hate: bool
    categories: tuple[str, ...] = ()


def locate(perspective: Perspective, folder: Path) -> list[Path]:
    """The files of a perspective's set in a folder, in the order in which the perspective names them.

    Raises:
        BadInput: one is missing: its names, and where the set is obtained.
    """
    source = source_of(perspective)
    found: list[Path] = []
    for entry in source.files:
        names = (entry,) if isinstance(entry, str) else entry
        files = files_named(folder, names)
        if not files:
            raise BadInput(
                f"perspective {perspective.name}: no {' or '.join(names)} in {folder}; "
                f"the set is obtained from {source.obtain}"
            )
        found += files
    return found


def read(perspective: Perspective, files: Iterable[Path]) -> Iterator[LabelledText]:
    """The labelled text of every row of these files, blank ones included.

    Raises:
        BadInput: a column is missing (those present are named), a value is in neither label's list, or a file is not
            what its suffix says; with the file and the row.
    """
    source, owner = source_of(perspective), f"perspective {perspective.name}"
    for path in files:
        for row in read_rows(
            path, owner, encoding=source.encoding, delimiter=source.delimiter, remedy="set source.encoding"
        ):
            yield LabelledText(row.text(source.text), bool(kinds := kinds_of_hate(row, source.label)), kinds)


def source_of(perspective: Perspective) -> Source:
    """The files of a perspective's set.

    Raises:
        BadInput: it has none; its texts lie in its own file.
    """
    if perspective.source is None:
        raise BadInput(f"perspective {perspective.name}: its texts lie in its own file; there is nothing to build")
    return perspective.source


def is_hate(row: TableRow, rule: Rule) -> bool:
    """Whether a row is hate by a perspective's rule; it raises as `kinds_of_hate` does."""
    return bool(kinds_of_hate(row, rule))


def kinds_of_hate(row: TableRow, rule: Rule) -> tuple[str, ...]:
    """The columns, or the values of the column, by which a row is hate; none where it is not.

    Raises:
        BadInput: it has no such column, or the value is in neither label's list; the message names the column, the
            value and both lists.
    """
    # All are looked at, so that a column that is missing or a value that is wrong is found whatever the others say.
    if rule.column is None:
        found = {column: row.yes_or_no(column) or False for column in rule.any_of}
    else:
        found = {value: _value_is_hate(row, value, rule) for value in row.several(rule.column, rule.separator)}
    return tuple(kind for kind, hate in found.items() if hate)


def _value_is_hate(row: TableRow, value: str, rule: Rule) -> bool:
    said = _said_by(value, rule.hate, rule.not_hate)
    if said is None:
        raise row.error(
            f"{rule.column} = {value!r} is neither among the values of hate ({', '.join(rule.hate)}) "
            f"nor of not hate ({', '.join(rule.not_hate)})"
        )
    return said


@lru_cache(maxsize=1024)
def _said_by(value: str, hate: tuple[str, ...], not_hate: tuple[str, ...]) -> bool | None:
    """Whether a value is hate; None where it is in neither list, and both are told."""
    folded = without_point(value).casefold()
    if folded in {each.casefold() for each in hate}:
        return True
    if folded in {each.casefold() for each in not_hate}:
        return False
    return None if hate and not_hate else not hate
