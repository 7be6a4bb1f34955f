"""Read another system's moderation log, pair it with our decisions, and match our threshold to its removals."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from tribunal.errors import BadInput
from tribunal.eval.compare.entries import ComparedEntry
from tribunal.eval.measures.columns import Bools, Floats
from tribunal.eval.measures.rates import LEVEL, wilson_interval
from tribunal.nodes.threshold import estimate_probability
from tribunal.retrievers.indexes.table_rows import NO, YES, TableRow, read_rows
from tribunal.review.case_tables import finished_cases
from tribunal.runner.journal import RESULTS
from tribunal.runner.results import Sample
from tribunal.schema import JSON
from tribunal.store.audit import sha
from tribunal.store.engine import Store
from tribunal.store.tables import COUNTED, cases

_DIGITS = 6  # of a probability


class Removal(NamedTuple):
    """Tell what a threshold does to the posts that both systems have judged.

    Attributes:
        threshold: posts of this probability or more are removed; None: none is, since some have probability 1.
        removed: how many it removes.
        share: of all posts.
        share_interval: Wilson's, 95 %.
        only_ours: removed by it, and not by them.
        only_theirs: removed by them, and not by it.
        agreeing: treated alike by both.
    """

    threshold: float | None
    removed: int
    share: float
    share_interval: list[float]
    only_ours: int
    only_theirs: int
    agreeing: int


class RemovalMatch(NamedTuple):
    """The threshold that removes as many posts as they did.

    Attributes:
        posts: how many both have judged.
        removed: how many they removed.
        share: of all posts.
        share_interval: Wilson's, 95 %.
        nearest: the threshold whose share is nearest to theirs.
        other_side: where no threshold has just their share: the nearest whose share lies on the other side of theirs.
        interval: the lowest and highest threshold whose share doesn't differ from theirs by more than chance would
            make it (McNemar's exact test, 5 %); None where every one does.
    """

    posts: int
    removed: int
    share: float
    share_interval: list[float]
    nearest: Removal
    other_side: Removal | None
    interval: tuple[float, float] | None


def match_removal(probability: Floats, removed: Bools) -> RemovalMatch:
    """Return the threshold on `probability` that removes as many posts as they `removed`; at least one post is needed.

    Many posts may have one probability; all of them are removed or none, so that their share may be out of reach.
    """
    levels, level_of_post, posts_at = np.unique(
        np.round(probability, _DIGITS), return_inverse=True, return_counts=True
    )
    theirs_at = np.bincount(level_of_post, removed, minlength=len(levels)).astype(np.int64)
    # From here on of each possible cut: before the lowest level, …, above the highest, which removes nothing.
    ours = np.append(posts_at[::-1].cumsum()[::-1], 0)
    both = np.append(theirs_at[::-1].cumsum()[::-1], 0)
    wanted = int(removed.sum())
    posts = len(probability)
    only_ours = ours - both
    only_theirs = wanted - both

    def removal_at(cut: int) -> Removal:
        count = int(ours[cut])
        mine = int(only_ours[cut])
        others = int(only_theirs[cut])
        share, interval = _share_of(count, posts)
        return Removal(
            _threshold_of_cut(levels, cut),
            count,
            share,
            interval,
            mine,
            others,
            posts - mine - others,
        )

    # the highest threshold that removes as many as they did, or more
    above = int(np.flatnonzero(ours >= wanted)[-1])
    nearest = above
    other = above + 1
    if ours[above] != wanted and wanted - ours[above + 1] < ours[above] - wanted:
        nearest, other = other, nearest
    share, share_interval = _share_of(wanted, posts)
    return RemovalMatch(
        posts, wanted, share, share_interval, removal_at(nearest),
        None if ours[above] == wanted else removal_at(other),
        _thresholds_alike(levels, only_ours[:-1], only_theirs[:-1]),
    )  # fmt: skip


def _share_of(count: int, posts: int) -> tuple[float, list[float]]:
    return count / posts, wilson_interval(count / posts, posts)


def _threshold_of_cut(levels: Floats, cut: int) -> float | None:
    """Return the shortest number between the level beneath a cut and the one above it, which it removes."""
    if cut == len(levels):
        return 1.0 if levels[-1] < 1 else None
    highest = Decimal(str(levels[cut]))
    beneath = Decimal(str(levels[cut - 1])) if cut else Decimal(-1)
    rounded = (
        highest.quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR) for digits in range(1, _DIGITS)
    )
    return float(next((each for each in rounded if each > beneath), highest))


def _thresholds_alike(
    levels: Floats, only_ours: Floats, only_theirs: Floats
) -> tuple[float, float] | None:
    """Return the ends of the thresholds that McNemar's exact test doesn't tell from the other system's."""
    differing = only_ours + only_theirs
    p = np.minimum(1.0, 2 * binom.cdf(np.minimum(only_ours, only_theirs), differing, 0.5))
    alike = np.flatnonzero(p > 1 - LEVEL)
    if not len(alike):
        return None
    ends = [_threshold_of_cut(levels, int(each)) for each in (alike[0], alike[-1])]
    return float(ends[0] or 0), float(ends[1] or 0)


_REMOVED = (*YES, "removed", "remove", "deleted", "hidden", "rejected")
_KEPT = (*NO, "kept", "keep", "approved", "allowed", "accepted")


class Decision(NamedTuple):
    """Our verdict on a post. `text_sha` is the store's hash of a post that is only text."""

    post_id: str
    text_sha: str
    probability: float
    rehearsed: bool


class LoggedPost(NamedTuple):
    """A post of the log; `shown_id` is its id there, or its row."""

    post_id: str
    text_sha: str
    removed: bool
    score: float | None
    shown_id: str


@dataclass(frozen=True)
class ModerationLog:
    """A moderation log, read whole: each post once, as it occurs first; and the rows left out, by reason."""

    path: Path
    posts: list[LoggedPost]
    left_out: Counter[str]

    def with_ids_of(self, samples: Iterable[Sample]) -> ModerationLog:
        """Return the log with each post's id replaced by that of the sample with this id, or else this text."""
        ids = set[str]()
        by_text = dict[str, str]()
        for sample in samples:
            ids.add(sample.id)
            if sample.image is None:
                by_text.setdefault(_hash_text(sample.text), sample.id)
        posts = [
            post
            if post.post_id in ids
            else post._replace(post_id=by_text.get(post.text_sha, post.post_id))
            for post in self.posts
        ]
        return replace(self, posts=posts)


class Decisions:
    """Our decisions, by post id and by text."""

    def __init__(self, decisions: Iterable[Decision], source: str) -> None:
        """Keep the last decision on each post. `source` is the name of the decisions in errors."""
        self._by_id = dict[str, Decision]()
        self._by_text = dict[str, Decision]()
        self.source = source
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
        missing = next((name for name in ("outcome", "hateful") if name not in row.cells), None)
        if missing:
            raise row.missing_column(
                missing, " (give a run's folder, or a table written by tribunal batch)"
            )
        if row.text("outcome") != "verdict" or row.optional_text("repeat") not in ("", "0"):
            continue
        hateful = row.yes_or_no("hateful")
        if hateful is None:
            raise row.error("hateful: is blank; take decisions on hate speech")
        numbers = {
            name: row.number_of(name) if name in row.cells else None
            for name in ("probability", "confidence")
        }
        probability = numbers["probability"]
        if probability is None:  # of an earlier release
            probability, _ = estimate_probability(hateful, numbers["confidence"])
        post_id = row.optional_text("id") or row.optional_text("post_id")
        rehearsed = row.optional_text("rehearsed").casefold() in YES
        yield Decision(post_id, _hash_text(row.optional_text("text")), probability, rehearsed)


async def stored_decisions(store: Store) -> AsyncIterator[Decision]:
    """Yield the verdicts on hate speech of a database, also of posts whose text isn't kept."""
    async for row in finished_cases(
        store, COUNTED, cases.c.outcome == "verdict", cases.c.hateful.is_not(None)
    ):
        record = row["record"] or {}
        text = (row["post"] or {}).get("text")
        probability = record.get("probability")
        if probability is None:
            probability, _ = estimate_probability(row["hateful"], row["confidence"])
        text_sha = _hash_text(text) if text else row["post_sha"] or ""
        yield Decision(row["post_id"] or "", text_sha, probability, bool(record.get("rehearsed")))


def read_log(entry: ComparedEntry) -> ModerationLog:
    """Read the moderation log of an entry.

    Raises:
        BadInput: it can't be read, lacks a column, or a cell is wrong.
    """
    path = entry.log or Path()
    id_column, text_column, score_column, removed_column = (
        entry.columns.get(role, role) for role in ("id", "text", "score", "removed")
    )
    removed_as = {value.casefold() for value in entry.removed_as}
    log = ModerationLog(path, [], Counter())
    keys = set[str]()
    for given in read_rows(
        path, "log", encoding=entry.columns.get("encoding", "utf-8"), strict=True
    ):
        row = _resolve_paths(given, (id_column, text_column, score_column, removed_column))
        post_id = row.optional_text(id_column)
        text = row.optional_text(text_column)
        if not post_id and not text:
            if row.number == 1:
                raise row.missing_column(
                    text_column,
                    f" and no {id_column!r}; name one with --log-column id=NAME or text=NAME",
                )
            log.left_out["neither id nor text"] += 1
            continue
        score = row.number_of(score_column) if score_column in row.cells else None
        removed: bool | None = None
        if entry.their_threshold is not None:
            if row.number == 1 and score_column not in row.cells:
                row.text(score_column)  # raises, and lists the columns
            removed = None if score is None else score >= entry.their_threshold
        elif row.number == 1 and removed_column not in row.cells:
            raise row.missing_column(
                removed_column,
                ", and no --their-threshold is given; name one with --log-column removed=NAME",
            )
        elif removed_as:
            removed = row.optional_text(removed_column).casefold() in removed_as
        elif removed_column in row.cells:
            removed = row.yes_or_no(removed_column, _REMOVED, _KEPT)
        key = post_id or _hash_text(text)
        if removed is None:
            log.left_out[
                "not said whether removed" if entry.their_threshold is None else "no score"
            ] += 1
        elif key in keys:
            log.left_out["a post again"] += 1
        else:
            keys.add(key)
            log.posts.append(
                LoggedPost(
                    post_id, _hash_text(text), removed, score, post_id or f"row {row.number}"
                )
            )
    return log


def compare_with_log(log: ModerationLog, decisions: Decisions) -> tuple[JSON, list[JSON]]:
    """Find the threshold on our probability that removes as many posts as the log.

    Returns:
        The fields of `RemovalMatch`, with `left_out` (rows of the log, by reason) and `rehearsed` (decisions with the
        rehearsal model); and the posts that only one of the two removes at the nearest threshold.

    Raises:
        BadInput: no post of the log has a decision.
    """
    pairs = [
        (post, decision) for post in log.posts if (decision := decisions.find(post)) is not None
    ]
    if not pairs:
        first_post = f"; its first post is {log.posts[0].shown_id[:60]!r}" if log.posts else ""
        raise BadInput(
            f"log: {log.path}: none of its posts is decided in {decisions.source}, by id or text{first_post}"
        )
    probabilities = np.array([decision.probability for _, decision in pairs])
    match = match_removal(probabilities, np.array([post.removed for post, _ in pairs]))
    threshold = match.nearest.threshold
    differing = list[JSON]()
    for post, decision in pairs:
        if post.removed != (threshold is not None and decision.probability >= threshold):
            removed_by = "theirs" if post.removed else "ours"
            score = post.score
            probability = decision.probability
            differing.append(
                {
                    "id": post.shown_id,
                    "removed_by": removed_by,
                    "score": score,
                    "probability": probability,
                }
            )
    undecided = len(log.posts) - len(pairs)
    report: JSON = {
        **match._asdict(),
        "nearest": match.nearest._asdict(),
        "other_side": match.other_side and match.other_side._asdict(),
        "left_out": {**log.left_out, **({"no decision of ours": undecided} if undecided else {})},
        "rehearsed": sum(decision.rehearsed for _, decision in pairs),
    }
    return report, differing


def _resolve_paths(row: TableRow, columns: Iterable[str]) -> TableRow:
    """Return a row with a cell for each column that is a path into an object, such as `scores.TOXICITY.value`."""
    found: dict[str, Any] = {}
    for column in columns:
        value: Any = row.cells
        for part in column.split(".") if column not in row.cells and "." in column else ():
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not row.cells and value is not None:
            found[column] = value
    return replace(row, cells={**row.cells, **found}) if found else row


def _hash_text(text: str) -> str:
    """Return the store's hash of a post that is only text (`cases.post_sha`)."""
    return sha({"text": text.strip()}) if text.strip() else ""
