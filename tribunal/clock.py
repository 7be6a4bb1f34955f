"""The clock of the database, by which rows of the SQL store are dated, so that replicas with other clocks agree."""

from __future__ import annotations

import time
from datetime import UTC, datetime

MOST_SECONDS = 5.0  # by which a machine's clock may differ without a word


class _DatabaseClock:
    """The time of the database, measured once in a while and continued by this process's monotonic clock."""

    ahead_of_monotonic: float | None = None  # None: the machine's own clock is the database's, as for SQLite
    ahead_before: float | None = None  # when it was last looked whether the clock has jumped
    jumped_at: float = float("-inf")  # by `time.monotonic`


_CLOCK = _DatabaseClock()


def set_database_clock(database_time: float | None, asked: float = 0.0, answered: float = 0.0) -> None:
    """Set the clock of this process by the database's.

    Args:
        database_time: what the database's clock said, in seconds of the epoch; None: it is this machine's.
        asked: when it was asked, by `time.monotonic`.
        answered: when its answer came. The answer was made in between; a clock that agrees with that is left as it is.
    """
    before = _CLOCK.ahead_of_monotonic
    if database_time is None or before is None or not asked <= database_time - before <= answered:
        _CLOCK.ahead_of_monotonic = None if database_time is None else database_time - (asked + answered) / 2


def database_now() -> float:
    """Return the time in seconds of the epoch: that of the database, or this machine's if none was asked."""
    if _CLOCK.ahead_of_monotonic is None:
        return time.time()
    return time.monotonic() + _CLOCK.ahead_of_monotonic


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
    if _CLOCK.ahead_before is not None and abs(ahead - _CLOCK.ahead_before) > MOST_SECONDS:
        _CLOCK.jumped_at = now
    _CLOCK.ahead_before = ahead
    return now - _CLOCK.jumped_at
