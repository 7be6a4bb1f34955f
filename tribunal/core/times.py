"""The time as the database has it, and times as text."""

from __future__ import annotations

import re
import time
import uuid
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MOST_SECONDS = 5.0  # by which a machine's clock may differ without a word


class DatabaseClock:
    """The time of the database, measured once in a while and continued by this process's monotonic clock."""

    ahead_of_monotonic: float | None = (
        None  # None: the machine's own clock is the database's, as for SQLite
    )
    ahead_before: float | None = None  # when it was last looked whether the clock has jumped
    jumped_at: float = float("-inf")  # by `time.monotonic`


CLOCK = DatabaseClock()


def set_database_clock(
    database_time: float | None, asked: float = 0.0, answered: float = 0.0
) -> None:
    """Set the clock of this process by the database's.

    Args:
        database_time: the time of the database's clock, in seconds of the epoch; None: it is this machine's clock.
        asked: when it was asked, by `time.monotonic`.
        answered: when its answer came. The answer was made in between; a clock that agrees with that is left as it is.
    """
    before = CLOCK.ahead_of_monotonic
    if database_time is None or before is None or not asked <= database_time - before <= answered:
        CLOCK.ahead_of_monotonic = (
            None if database_time is None else database_time - (asked + answered) / 2
        )


def database_now() -> float:
    """Return the time in seconds of the epoch: that of the database, or this machine's if none was asked."""
    if CLOCK.ahead_of_monotonic is None:
        return time.time()
    return time.monotonic() + CLOCK.ahead_of_monotonic


def database_datetime() -> datetime:
    """Return `database_now` as a moment in UTC."""
    return datetime.fromtimestamp(database_now(), UTC)


def clock_offset() -> float:
    """Return by how many seconds this machine's clock is ahead of the database's."""
    return time.time() - database_now()


def seconds_since_jump() -> float:
    """Return for how many seconds the database's clock has kept pace with this process's monotonic clock.

    After a jump, forwards or back, the heartbeats of living processes seem as old as the jump until the next ones.
    """
    now = time.monotonic()
    ahead = database_now() - now
    if CLOCK.ahead_before is not None and abs(ahead - CLOCK.ahead_before) > MOST_SECONDS:
        CLOCK.jumped_at = now
    CLOCK.ahead_before = ahead
    return now - CLOCK.jumped_at


DAY = 86_400  # seconds
_UNITS = (("d", DAY), ("h", 3_600), ("min", 60))


def format_time(at: float | str | None, *, with_year: bool = False) -> str:
    """Return a time as people read it.

    Args:
        at: seconds of the epoch, or a time in ISO 8601. A text of any other kind is returned as it is.
        with_year: give the year even if it is the current year, as in texts that are read later.

    Returns:
        such as `23 Nov, 09:13 UTC`; an en dash for None.
    """
    if at is None:
        return "–"
    try:
        moment = (
            datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
        )
    except ValueError:
        return str(at)
    if isinstance(at, str) and len(at) <= len("2026-11-23"):
        return f"{moment.day} {moment:%b %Y}"
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    year = "" if moment.year == datetime.now(UTC).year and not with_year else f" {moment.year}"
    return f"{moment.day} {moment:%b}{year}, {moment:%H:%M} UTC"


def format_date(at: float | str | None) -> str:
    """Return a time with its year, as in what may be read years later: 23 Nov 2026, 09:13 UTC."""
    return format_time(at, with_year=True)


def format_duration(seconds: float) -> str:
    """Return a duration in the largest unit of which it has at least two: 90 min, 3 h, 12 d."""
    for unit, length in _UNITS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def format_time_left(seconds: float) -> str:
    """Return how long a claim still holds, in whole minutes: 15 min left."""
    return (
        f"{max(1, round(seconds / 60))} min left"
        if seconds < 2 * 3_600
        else f"{format_duration(seconds)} left"
    )


_SECONDS_OF_UNIT = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_WRITTEN_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhdw])")


def seconds_of(written: str) -> float:
    """Return the seconds of a length of time.

    Raises:
        ValueError: it isn't one.
    """
    text = written.strip().lower()
    if text == "0":
        return 0.0
    found = _WRITTEN_DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{written[:40]!r} is no length of time; give such as 90d, 12h or 30m")
    return float(found[1]) * _SECONDS_OF_UNIT[found[2]]


def moment_of(written: str, now: float) -> float:
    """Return a moment to come, in seconds of the epoch.

    Args:
        written: a length of time from now on, such as 90d; or a date or time in ISO 8601, in UTC unless it says
            otherwise.
        now: in seconds of the epoch.

    Raises:
        ValueError: it is neither, isn't to come, or is over a hundred years away.
    """
    try:
        at = now + seconds_of(written)
    except ValueError:
        try:
            moment = datetime.fromisoformat(written.strip())
        except ValueError:
            raise ValueError(
                f"{written[:40]!r} is no time; give such as 90d or 2027-03-01"
            ) from None
        at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not now < at <= now + 100 * 365.25 * 86_400:
        raise ValueError(f"{written[:40]!r} is not within the next hundred years")
    return at


def seconds_until_retry(header: str) -> float | None:
    """Return the seconds that a `Retry-After` header asks for, a number or a date; None if it is neither."""
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def new_id(kind: str = "case") -> str:
    """Return an id such as `case-0198…`; later ids sort after earlier ids."""
    return f"{kind}-{int(database_now() * 1000):011x}{uuid.uuid4().hex[:10]}"
