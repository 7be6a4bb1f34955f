"""Show the progress of a run: a bar on a terminal, one line wide; otherwise a line now and then.

On standard error. Counts and money are of the whole run, results from before it went on included; the pace and the time
left are of this start.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tribunal.eval.runs.tally import RunTally, Watch
from tribunal.terminal import is_watched, say, screen
from tribunal.text import count_noun

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
_FINISHING = "finishing the posts in flight; press Ctrl-C again to stop at once"
_GAP = "  "
_SHORTEST_BAR, _LONGEST_BAR, _ROOMY = 5, 40, 70  # columns


def describe_progress(tally: RunTally, *, priced: bool) -> str:
    """Describe the state of a run in one line."""
    whole = tally.all_results
    parts = [words for _, words in _count_parts(tally, *_NAMES)]
    if priced:
        unpriced = f" ({count_noun(whole.unpriced, 'call')} without a price)" if whole.unpriced else ""
        parts.append(f"cost {whole.cost:.4f}{unpriced}")
    if tally.rehearsed:
        parts.append(f"{tally.rehearsed:,} by the rehearsal's rules")
    return ", ".join([*parts, *filter(None, [tally.slowed])])


def _count_parts(tally: RunTally, *outcomes: str) -> Iterator[tuple[int, str]]:
    """Yield the counts of these outcomes and of what they took, each with its weight in a narrow line."""
    whole = tally.all_results
    for name in outcomes:
        if whole.outcomes[name]:
            weight = {"failure": 2, "refusal": 5, "pending": 5}.get(name, 6)
            yield weight, f"{whole.outcomes[name]:,} {_NAMES[name]}"
    if tally.in_flight:
        yield 6, f"{tally.in_flight} in flight"
    yield 6, count_noun(whole.calls, "call")
    if whole.unseen:
        yield 6, f"{count_noun(whole.unseen, 'call')} not seen"
    yield 6, count_noun(whole.tokens, "token")


@contextmanager
def show_progress(*, priced: bool = False, quiet: bool = False) -> Iterator[Watch]:
    """Yield a function that a run calls with its state, and that shows it."""
    if quiet:
        yield lambda tally: None
    elif is_watched(aside=True):
        with _watch_with_bar(priced) as watch:
            yield watch
    else:
        yield _watch_with_lines(priced)


class ProgressLine:
    """Draw the state of a run as one line of a terminal: the most important first, as much as fits."""

    def __init__(self, tally: RunTally, *, priced: bool) -> None:
        """Draw this tally; `priced` adds what it cost."""
        self.tally, self.priced = tally, priced

    def __rich_console__(self, console: drawn.Console, options: drawn.ConsoleOptions) -> drawn.RenderResult:
        """Yield the bar and the words, for Rich."""
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        width = options.max_width - 1  # a terminal may break a line that fills its last column
        bar, words = self._fit_width(width)
        if bar:
            yield ProgressBar(total=max(self.tally.total, 1), completed=self.tally.decided_count, width=bar)
        said = Text((" " if bar else "") + words, no_wrap=True, end="")
        said.truncate(width - bar, overflow="ellipsis")
        yield said

    def _fit_width(self, width: int) -> tuple[int, str]:
        """Return the length of the bar, and the words after it."""
        parts = list(self._weighted_parts())
        least = _SHORTEST_BAR if width < _ROOMY else min(width // 8, _LONGEST_BAR)
        room, taken = width - least - 1, set[int]()
        for at in sorted(range(len(parts)), key=lambda at: parts[at][0]):
            needed = len(parts[at][1]) + len(_GAP) * bool(taken)
            if needed > room:
                break
            room -= needed
            taken.add(at)
        if not taken:
            return 0, parts[0][1]
        return min(least + room, _LONGEST_BAR), _GAP.join(parts[at][1] for at in sorted(taken))

    def _weighted_parts(self) -> Iterator[tuple[int, str]]:
        """Yield the words in their order on the line, each with its weight; the lowest is shown first."""
        tally, whole = self.tally, self.tally.all_results
        yield 0, f"{tally.decided_count:,}/{tally.total:,}"
        if tally.pace is not None:
            yield 4, _format_pace(tally.pace)
        if self.priced and whole.unpriced and not whole.cost:
            yield 3, "cost unknown"
        elif self.priced:  # the least cost if some calls have no price
            yield 3, f"cost {'≥ ' * bool(whole.unpriced)}{whole.cost:,.{2 if whole.cost >= 100 else 4}f}"
        if tally.seconds_left is not None:
            yield 1, _format_time_left(tally.seconds_left)
        yield from _count_parts(tally, "failure", "refusal", "pending", "positive", "negative")


@contextmanager
def _watch_with_bar(priced: bool) -> Iterator[Watch]:
    from rich.live import Live

    with Live(console=screen(aside=True), auto_refresh=False) as live:
        looked = float("-inf")
        shown = {""}

        def watch(tally: RunTally) -> None:
            """Draw the line anew, now and then, and print each notice once above it."""
            nonlocal looked
            now = time.monotonic()
            if now - looked < EVERY and tally.decided_count < tally.total and not tally.interrupted:
                return
            looked = now
            for words in (tally.slowed, _FINISHING if tally.interrupted else ""):
                if words not in shown:
                    shown.add(words)
                    live.console.print(words)
            live.update(ProgressLine(tally, priced=priced), refresh=True)

        yield watch


def _watch_with_lines(priced: bool) -> Watch:
    written, warned = time.monotonic(), False

    def watch(tally: RunTally) -> None:
        """Write a line now and then."""
        nonlocal written, warned
        now = time.monotonic()
        if tally.interrupted and not warned:
            warned = True
            say(f"tribunal: {_FINISHING}", aside=True)
        if tally.pace is not None and tally.seconds_left is not None and now - written >= LINE_EVERY:
            written = now
            state = describe_progress(tally, priced=priced)
            pace = f"{_format_pace(tally.pace)}, {_format_time_left(tally.seconds_left)}"
            say(f"{tally.decided_count:,} of {tally.total:,}: {state}, {pace}", aside=True)

    return watch


def _format_pace(pace: float) -> str:
    """Return the pace in posts a second, minute or hour: whichever is one or more."""
    for unit, each in (("s", 1), ("min", 60)):
        if pace * each >= 1:
            return f"{pace * each:,.1f}/{unit}" if pace * each < 100 else f"{pace * each:,.0f}/{unit}"
    return f"{pace * 3600:,.1f}/h"


def _format_time_left(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02} left"
