"""Another system's log of removed posts beside our decisions on the same posts: `tribunal shadow`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.measures.removal import RemovalMatch, match_removal
from tribunal.eval.runs.journal import RESULTS
from tribunal.exports.finished_cases import finished_cases
from tribunal.probability import estimate_probability
from tribunal.retrievers.indexes.table_rows import NO, YES, TableRow, read_rows
from tribunal.schema import JSON
from tribunal.store.audit import sha
from tribunal.store.engine import Store
from tribunal.store.tables import cases

ROLES = ("id", "text", "score", "removed")  # of a log's columns
_REMOVED = (*YES, "removed", "remove", "deleted", "hidden", "rejected")
_LEFT = (*NO, "kept", "keep", "approved", "allowed", "accepted")


class Decision(NamedTuple):
    """Our verdict on a post. `text_sha` is the hash by which the store knows a post that is its text alone."""

    post_id: str
    text_sha: str
    probability: float
    rehearsed: bool


class LoggedPost(NamedTuple):
    """A post of the log; `shown_id` is what it is called, or its row."""

    post_id: str
    text_sha: str
    removed: bool
    score: float | None
    shown_id: str


@dataclass(frozen=True)
class LogForm:
    """Say how a log is read.

    Attributes:
        columns: the column of each of `ROLES` that isn't called so; a part of an object is named by its path.
        their_threshold: posts with this score or more were removed; None: the column `removed` says which were.
        removed_as: the values of that column that stand for removed; empty: plain words for yes and no.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    their_threshold: float | None = None
    removed_as: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a role that there isn't."""
        if unknown := next((role for role in self.columns if role not in ROLES), None):
            raise BadInput(f"column: {unknown!r}: what a column can be is {', '.join(ROLES)}")

    def column(self, role: str) -> str:
        """Return the column of a role."""
        return self.columns.get(role, role)


@dataclass
class ShadowReport:
    """Hold what came of a comparison.

    Attributes:
        match: the thresholds.
        left_out: rows of the log that count nowhere, by reason.
        rehearsed: decisions in which the rehearsal model took part.
        differing: posts that one of the two removed, at the nearest threshold.
    """

    match: RemovalMatch
    left_out: dict[str, int]
    rehearsed: int
    differing: list[JSON]


class Decisions:
    """Our decisions, by post id and by text."""

    def __init__(self, decisions: Iterable[Decision], source: str) -> None:
        """Keep them; of several on a post, the last. `source` is what errors call them."""
        self._by_id, self._by_text, self.source = dict[str, Decision](), dict[str, Decision](), source
        for each in decisions:
            if each.post_id:
                self._by_id[each.post_id] = each
            if each.text_sha:
                self._by_text[each.text_sha] = each

    def find(self, post: LoggedPost) -> Decision | None:
        """Return the decision on a post, by its id or else by its text."""
        return self._by_id.get(post.post_id) or self._by_text.get(post.text_sha)


def read_decisions(path: Path) -> Iterator[Decision]:
    """Yield the verdicts of a run's folder, or of a table that `tribunal batch` has written.

    Raises:
        BadInput: it can't be read, or it is no such table.
    """
    for row in read_rows(path / RESULTS if path.is_dir() else path, "decisions", strict=True):
        if lost := next((name for name in ("outcome", "hateful") if name not in row.cells), None):
            raise row.error(f"has no column {lost!r}; give a run's folder, or what tribunal batch has written")
        if row.text("outcome") != "verdict" or row.optional_text("repeat") not in ("", "0"):
            continue
        hateful = row.yes_or_no("hateful")
        if hateful is None:
            raise row.error("hateful: is blank; take decisions on hate speech")
        numbers = {name: row.number_of(name) if name in row.cells else None for name in ("probability", "confidence")}
        probability = numbers["probability"]
        if probability is None:  # of an earlier release
            probability, _ = estimate_probability(hateful, numbers["confidence"])
        post_id = row.optional_text("id") or row.optional_text("post_id")
        rehearsed = row.optional_text("rehearsed").casefold() in YES
        yield Decision(post_id, _hash_text(row.optional_text("text")), probability, rehearsed)


async def stored_decisions(store: Store) -> AsyncIterator[Decision]:
    """Give the verdicts on hate speech of a database, also of posts whose words aren't kept."""
    async for row in finished_cases(store, cases.c.outcome == "verdict", cases.c.hateful.is_not(None)):
        record, text = row["record"] or {}, (row["post"] or {}).get("text")
        probability = record.get("probability")
        if probability is None:
            probability, _ = estimate_probability(row["hateful"], row["confidence"])
        text_sha = _hash_text(text.strip()) if text else row["post_sha"] or ""
        yield Decision(row["post_id"] or "", text_sha, probability, bool(record.get("rehearsed")))


def read_log(path: Path, form: LogForm) -> Iterator[LoggedPost | str]:
    """Yield each post of a log, or why a row counts nowhere.

    Raises:
        BadInput: it can't be read, lacks a column, or a cell is wrong.
    """
    for row in read_rows(path, "log", strict=True):
        post_id, text = (_cell(row, form.column(role)).optional_text(form.column(role)) for role in ("id", "text"))
        if not post_id and not text:
            if row.number == 1:
                raise row.error(
                    f"has neither {form.column('id')!r} nor {form.column('text')!r}; name one with --column id=NAME or "
                    f"text=NAME; it has {', '.join(map(str, row.cells))}"
                )
            yield "neither id nor text"
            continue
        score = _number(row, form.column("score"), needed=form.their_threshold is not None)
        removed = _is_removed(row, form) if form.their_threshold is None else score and score >= form.their_threshold
        if removed is None:
            yield "no score" if form.their_threshold is not None else "not said whether removed"
            continue
        shown = post_id or f"row {row.number}"
        yield LoggedPost(post_id, _hash_text(text), bool(removed), score, shown)


def compare_with_log(log: Path, form: LogForm, decisions: Decisions) -> ShadowReport:
    """Compare a log with our decisions on its posts. A post that stands in it again counts once, as at first.

    Raises:
        BadInput: as `read_log`; no post of the log has a decision.
    """
    left_out, met = dict[str, int](), set[str]()
    pairs, first = list[tuple[LoggedPost, Decision]](), ""
    for post in read_log(log, form):
        why = post if isinstance(post, str) else ""
        found = None
        if not isinstance(post, str):
            first = first or post.shown_id
            key = post.post_id or post.text_sha
            found = decisions.find(post)
            why = "a post again" if key in met else "" if found else "no decision of ours"
            met.add(key)
        if why or found is None or isinstance(post, str):
            left_out[why] = left_out.get(why, 0) + 1
        else:
            pairs.append((post, found))
    if not pairs:
        told = f"; its first post is {first[:60]!r}" if first else ""
        raise BadInput(f"log: {log}: none of its posts is decided in {decisions.source}, by id or by text{told}")
    match = match_removal(
        np.array([ours.probability for _, ours in pairs]), np.array([theirs.removed for theirs, _ in pairs])
    )
    threshold = match.nearest.threshold
    differing = list[JSON]()
    for theirs, ours in pairs:
        ours_removes = threshold is not None and ours.probability >= threshold
        if ours_removes != theirs.removed:
            by = "theirs" if theirs.removed else "ours"
            row = {"id": theirs.shown_id, "removed_by": by, "score": theirs.score, "probability": ours.probability}
            differing.append(row)
    return ShadowReport(match, left_out, sum(ours.rehearsed for _, ours in pairs), differing)


def _cell(row: TableRow, column: str) -> TableRow:
    """Return a row that has a cell under the column's name, also where that is a path into an object."""
    value: Any = row.cells.get(column)
    if column not in row.cells and "." in column:
        value = row.cells
        for part in column.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    return row if value is None else replace(row, cells={column: value})


def _number(row: TableRow, column: str, *, needed: bool) -> float | None:
    found = _cell(row, column)
    if column in found.cells:
        return found.number_of(column)
    if needed and row.number == 1:
        found.text(column)  # which says which columns there are
    return None


def _is_removed(row: TableRow, form: LogForm) -> bool | None:
    column = form.column("removed")
    found = _cell(row, column)
    if column not in found.cells and row.number == 1:
        raise row.error(
            f"has no column {column!r}, and no --their-threshold is given; name one with --column removed=NAME; it has "
            f"{', '.join(map(str, row.cells))}"
        )
    if form.removed_as:
        return found.optional_text(column).casefold() in {each.casefold() for each in form.removed_as}
    return found.yes_or_no(column, _REMOVED, _LEFT) if column in found.cells else None


def _hash_text(text: str) -> str:
    """Return the hash of a post that is its text alone, as the store has it (`cases.post_sha`)."""
    return sha({"text": text}) if text else ""
