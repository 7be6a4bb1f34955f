"""How a run goes, as it goes: on a terminal a bar, one line as wide as there is room; else a line now and then.

On standard error. Counts and money are of the whole run, results from before it went on included; the pace and the time
left are of this start.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tribunal.eval.runs.tally import Counts, Tally, Watch
from tribunal.terminal import say, screen, watched

if TYPE_CHECKING:
    import rich.console as drawn

EVERY = 0.25  # seconds between two looks of the bar
LINE_EVERY = 30.0
_NAMES = {
    "positive": "positive",
    "negative": "negative",
    "refusal": "refused",
    "failure": "failed",
    "pending": "pending",
}
_FINISHING = "finishing what is in flight; Ctrl-C again stops at once"
_GAP = "  "
_SHORTEST_BAR, _LONGEST_BAR, _ROOMY = 5, 40, 70  # columns


def in_words(tally: Tally, *, priced: bool) -> str:
    """How a run stands, in one line."""
    whole = tally.whole
    parts = [*_outcomes(whole, *_NAMES), *_flight(tally), *_used(whole)]
    if priced:
        unpriced = f" ({_many(whole.unpriced, 'call')} without a price)" if whole.unpriced else ""
        parts.append(f"cost {whole.cost:.4f}{unpriced}")
    if tally.rehearsed:
        parts.append(f"{tally.rehearsed:,} by the rehearsal's rules")
    if tally.slowed:
        parts.append(tally.slowed)
    return ", ".join(parts)


@contextmanager
def shown(*, priced: bool = False, quiet: bool = False) -> Iterator[Watch]:
    """Something to give to a run, which then can be watched."""
    if quiet:
        yield lambda tally: None
    elif watched(aside=True):
        with _bar(priced) as watch:
            yield watch
    else:
        yield _lines(priced)


class Bar:
    """How a run stands, as one line of a terminal: what matters most first, and as much of it as there is room for."""

    def __init__(self, tally: Tally, *, priced: bool) -> None:
        self.tally, self.priced = tally, priced

    def __rich_console__(self, console: drawn.Console, options: drawn.ConsoleOptions) -> drawn.RenderResult:
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        width = options.max_width - 1  # a terminal may break a line that fills its last column
        bar, words = self._fitted(width)
        if bar:
            yield ProgressBar(total=max(self.tally.total, 1), completed=self.tally.at, width=bar)
        said = Text((" " if bar else "") + words, no_wrap=True, end="")
        said.truncate(width - bar, overflow="ellipsis")
        yield said

    def _fitted(self, width: int) -> tuple[int, str]:
        """How long the bar is, and what stands after it."""
        parts = list(self._parts())
        by_weight = sorted(range(len(parts)), key=lambda at: parts[at][0])
        least = _SHORTEST_BAR if width < _ROOMY else min(width // 8, _LONGEST_BAR)
        room, taken = width - least - 1, set[int]()
        for at in by_weight:
            needed = len(parts[at][1]) + len(_GAP) * bool(taken)
            if needed > room:
                break
            room -= needed
            taken.add(at)
        if not taken:
            return 0, parts[0][1]
        return min(least + room, _LONGEST_BAR), _GAP.join(parts[at][1] for at in sorted(taken))

    def _parts(self) -> Iterator[tuple[int, str]]:
        """What there is to say, in its order on the line; before each, its weight: the lowest is said first."""
        tally, whole = self.tally, self.tally.whole
        yield 0, f"{tally.at:,}/{tally.total:,}"
        if tally.pace is not None:
            yield 4, _paced(tally.pace)
        if self.priced:
            yield 3, _priced(whole)
        if tally.seconds_left is not None:
            yield 1, f"{_clock(tally.seconds_left)} left"
        for part in _outcomes(whole, "failure"):
            yield 2, part
        for part in _outcomes(whole, "refusal", "pending"):
            yield 5, part
        for part in (*_outcomes(whole, "positive", "negative"), *_flight(tally), *_used(whole)):
            yield 6, part


@contextmanager
def _bar(priced: bool) -> Iterator[Watch]:
    from rich.live import Live

    with Live(console=screen(aside=True), auto_refresh=False) as live:
        looked = float("-inf")
        told: set[str] = set()

        def tell(words: str) -> None:
            if words and words not in told:
                told.add(words)
                live.console.print(words)

        def watch(tally: Tally) -> None:
            nonlocal looked
            now = time.monotonic()
            if now - looked < EVERY and tally.at < tally.total and not tally.interrupted:
                return
            looked = now
            tell(tally.slowed)
            tell(_FINISHING if tally.interrupted else "")
            live.update(Bar(tally, priced=priced), refresh=True)

        yield watch


def _lines(priced: bool) -> Watch:
    written = time.monotonic()
    warned = False

    def watch(tally: Tally) -> None:
        nonlocal written, warned
        now = time.monotonic()
        if tally.interrupted and not warned:
            warned = True
            say(f"tribunal: {_FINISHING}", aside=True)
        if tally.pace is not None and tally.seconds_left is not None and now - written >= LINE_EVERY:
            written = now
            pace = f"{_paced(tally.pace)}, {_clock(tally.seconds_left)} left"
            say(f"{tally.at:,} of {tally.total:,}: {in_words(tally, priced=priced)}, {pace}", aside=True)

    return watch


def _outcomes(counts: Counts, *keys: str) -> list[str]:
    return [f"{counts.outcomes[key]:,} {_NAMES[key]}" for key in keys if counts.outcomes[key]]


def _flight(tally: Tally) -> list[str]:
    return [f"{tally.in_flight} in flight"] if tally.in_flight else []


def _used(counts: Counts) -> list[str]:
    unseen = [f"{_many(counts.unseen, 'call')} not seen"] if counts.unseen else []
    return [_many(counts.calls, "call"), *unseen, _many(counts.tokens, "token")]


def _many(number: int, name: str) -> str:
    return f"{number:,} {name}{'s' * (number != 1)}"


def _paced(pace: float) -> str:
    """Posts a second, or a minute, or an hour: whichever is one or more."""
    for unit, each in (("s", 1), ("min", 60)):
        if pace * each >= 1:
            return f"{pace * each:,.1f}/{unit}" if pace * each < 100 else f"{pace * each:,.0f}/{unit}"
    return f"{pace * 3600:,.1f}/h"


def _priced(counts: Counts) -> str:
    """What it cost so far, at least, where some calls have no price."""
    if counts.unpriced and not counts.cost:
        return "cost unknown"
    return f"cost {'≥ ' * bool(counts.unpriced)}{counts.cost:,.{2 if counts.cost >= 100 else 4}f}"


def _clock(seconds: float) -> str:
    minutes, hours = int(seconds) // 60, int(seconds) // 3600
    return f"{hours}:{minutes % 60:02}:{int(seconds) % 60:02}"
