"""Screening one post, and the audit: what trials and people made of posts that the classifier would have decided.

A share of the posts that it would decide goes to trial all the same. Whether it was wrong there is noted in
`audit.sqlite` beside it. After every note each promise is tested by a bet against it: a mixture of likelihood ratios of
higher error rates over the highest rate that is promised. While the promise holds, this score is a supermartingale, so
that the probability that it ever reaches 1/δ is at most δ, however often one looks (Ville's inequality; Waudby-Smith
and Ramdas, "Estimating means of bounded random variables by betting", 2024; Shafer, "Testing by betting", 2021). Posts
called harmless and posts called hateful, judged by trials and by people, are four tests, each at a quarter of
1 − confidence level. One that succeeds switches the classifier off, for good.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from tribunal.database import connect
from tribunal.errors import BadInput, CallFailed
from tribunal.retrievers.screening.screener import Screener, ScreeningResult, open_screener
from tribunal.schema import JSON, Post, Scheme
from tribunal.shared_settings import screener_path
from tribunal.threshold import KINDS, Kind

AUDIT = "audit.sqlite"
AuditSource = Literal["trial", "person"]
_SOURCES: tuple[AuditSource, ...] = ("trial", "person")
_TESTS = len(KINDS) * len(_SOURCES)
_RATE_RATIOS = (1.25, 1.5, 2.0, 3.0, 5.0)  # the error rates that are bet on, as multiples of the promised one
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS audited (look TEXT, post TEXT, by TEXT, kind TEXT, wrong INTEGER, at TEXT, "
    "PRIMARY KEY (look, post, by))",
    "CREATE TABLE IF NOT EXISTS off (look TEXT PRIMARY KEY, why TEXT, at TEXT)",
)


_unwritable_audits: dict[str, str] = {}  # by hash: why this process can no longer note the audit of a classifier


class ScreenedPost(NamedTuple):
    """The decision of a screening classifier on a post.

    `off` says why the classifier is switched off, if it is; `fault` why its embedding gave no vector, if it gave none.
    """

    screener: Screener
    result: ScreeningResult
    audited: bool
    off: str
    fault: str = ""


async def screen_post(folder: str, post: Post) -> ScreenedPost:
    """Screen a post.

    Raises:
        BadInput: the folder holds no screening classifier, its embedding can't be loaded, or its audit can't be read.
    """
    screener = await asyncio.to_thread(open_screener, folder)
    try:
        off = _unwritable_audits.get(screener.sha) or await asyncio.to_thread(switch_off_reason, screener)
    except sqlite3.Error as error:
        raise BadInput(
            f"screening: {folder}: its audit can't be read: {error}; see to audit.sqlite there, or leave triage out"
        ) from error
    if off:
        return ScreenedPost(screener, ScreeningResult(None, None, "it is switched off"), audited=False, off=off)
    try:
        result, fault = await screener.classify_post(post), ""
    except (CallFailed, BadInput) as error:
        result, fault = ScreeningResult(None, None, "its embedding gave no vector"), str(error)
    return ScreenedPost(screener, result, screener.is_sampled_for_audit(post.id), off="", fault=fault)


async def audit_decision(
    triage: str | None, post: Post, scheme: Scheme, hateful: bool | None, *, by: AuditSource
) -> None:
    """Report to the audit what a trial, or a person, made of a post that the classifier in force would have decided.

    Nothing is noted of a post that it wouldn't have decided in this scheme, or that isn't in the audit's sample. If the
    audit can't be written, the classifier is off for this process: unwatched, it decides nothing.
    """
    folder = screener_path(triage)
    if folder is None or hateful is None:
        return
    try:
        screener = await asyncio.to_thread(open_screener, folder)
        if not screener.is_sampled_for_audit(post.id):
            return
        kind = (await screener.classify_post(post)).kind
    except (CallFailed, BadInput):
        return  # a case that waited for a person may outlive the classifier; or nothing says what it would have decided
    if kind is None or not screener.may_decide(kind, scheme):
        return
    try:
        await asyncio.to_thread(note_outcome, screener, post.id, by, kind, hateful != (kind == "hateful"))
    except sqlite3.Error as error:
        _unwritable_audits[screener.sha] = f"its audit can't be noted: {error}"


class AuditTest(NamedTuple):
    """One test: how many posts it has, how many of them the classifier was wrong on, and the betting score."""

    by: AuditSource
    kind: Kind
    n: int
    wrong: int
    betting_score: float


def betting_score(n: int, wrong: int, max_error_rate: float) -> float:
    """Return what a bet of 1 has come to, after n posts, against the promise that at most this share is wrong."""
    logs = [
        wrong * math.log(rate / max_error_rate) + (n - wrong) * math.log((1 - rate) / (1 - max_error_rate))
        for rate in (max_error_rate * ratio for ratio in _RATE_RATIOS)
        if rate < 1
    ] or [0.0]
    most = max(logs)
    return math.exp(min(700.0, most + math.log(sum(math.exp(each - most) for each in logs) / len(logs))))


def score_to_switch_off(screener: Screener) -> float:
    """Return the betting score at which a classifier is switched off."""
    return _TESTS / (1 - screener.manifest.level)


def max_error_rate(screener: Screener, by: AuditSource, kind: Kind) -> float:
    """Return the highest error rate that a test accepts. A trial may itself be wrong, by `court_error` at most."""
    own = screener.manifest.missed_hate if kind == "harmless" else screener.manifest.false_alarms
    return min(0.99, own + screener.manifest.court_error) if by == "trial" else own


def switch_off_reason(screener: Screener) -> str:
    """Return why and when a classifier was switched off, or an empty string if it is on. Blocks.

    Raises:
        sqlite3.Error: the file can't be read. So for all that read the audit.
    """
    if not (screener.folder / AUDIT).exists():
        return ""
    with _open_database(screener.folder) as database:
        row = database.execute("SELECT why, at FROM off WHERE look = ?", (screener.sha,)).fetchone()
    return f"{row[0]} ({row[1]})" if row else ""


def note_outcome(screener: Screener, post_id: str, by: AuditSource, kind: Kind, wrong: bool) -> str:
    """Note what became of an audited post, test the promise, and return why the classifier is off, if it is. Blocks.

    A post counts once for trials and once for people, whatever is decided again.

    Raises:
        sqlite3.Error: the file can't be written.
    """
    post = hashlib.sha256(post_id.encode("utf-8", "replace")).hexdigest()[:32]
    at = datetime.now(UTC).isoformat(timespec="seconds")
    with _open_database(screener.folder) as database:
        database.execute("BEGIN IMMEDIATE")
        new = database.execute(
            "INSERT OR IGNORE INTO audited VALUES (?, ?, ?, ?, ?, ?)", (screener.sha, post, by, kind, int(wrong), at)
        )
        if new.rowcount:
            for each in _audit_tests(database, screener):
                if each.betting_score >= score_to_switch_off(screener):
                    why = _broken_promise(each, max_error_rate(screener, each.by, each.kind))
                    database.execute("INSERT OR IGNORE INTO off VALUES (?, ?, ?)", (screener.sha, why, at))
        database.execute("COMMIT")
    return switch_off_reason(screener)


def reset_audit(screener: Screener) -> None:
    """Forget the audit of a classifier, so that it is on again. Blocks.

    Raises:
        sqlite3.Error: the file can't be written.
    """
    if (screener.folder / AUDIT).exists():
        with _open_database(screener.folder) as database:
            database.execute("BEGIN IMMEDIATE")
            for table in ("audited", "off"):
                database.execute(f"DELETE FROM {table} WHERE look = ?", (screener.sha,))  # noqa: S608
            database.execute("COMMIT")


def audit_as_json(screener: Screener) -> JSON:
    """Return how the audit stands, and each test of it, as JSON. Blocks."""
    tests: list[AuditTest] = []
    if (screener.folder / AUDIT).exists():
        with _open_database(screener.folder) as database:
            tests = _audit_tests(database, screener)
    shown = [
        {
            **{"by": each.by, "kind": each.kind, "n": each.n, "wrong": each.wrong, "betting_score": each.betting_score},
            "max_error_rate": max_error_rate(screener, each.by, each.kind),
        }
        for each in tests
    ]
    return {"off": switch_off_reason(screener) or None, "needed": score_to_switch_off(screener), "tests": shown}


def _audit_tests(database: sqlite3.Connection, screener: Screener) -> list[AuditTest]:
    rows = database.execute(
        "SELECT by, kind, count(*), sum(wrong) FROM audited WHERE look = ? GROUP BY by, kind ORDER BY by, kind",
        (screener.sha,),
    )
    return [
        AuditTest(by, kind, n, wrong, betting_score(n, wrong, max_error_rate(screener, by, kind)))
        for by, kind, n, wrong in rows
        if by in _SOURCES and kind in KINDS
    ]


def _broken_promise(test: AuditTest, bound: float) -> str:
    who = "people" if test.by == "person" else "trials"
    what = "hate" if test.kind == "harmless" else "no hate"
    return (
        f"of {test.n:,} audited posts that it called {test.kind}, {test.wrong:,} are {what} by {who}, and "
        f"at most {bound:.1%} was promised"
    )


@contextmanager
def _open_database(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(folder / AUDIT)) as database:
        for statement in _SCHEMA:
            database.execute(statement)
        yield database
