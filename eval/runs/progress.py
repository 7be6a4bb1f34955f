"""How a run goes, as it goes: a bar on a terminal, else a line now and then. On standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tribunal.eval.runs.tally import Tally, Watch
from tribunal.terminal import say, screen, watched

EVERY = 0.25  # seconds between two looks of the bar
LINE_EVERY = 30.0
_NAMES = {
    "positive": "positive",
    "negative": "negative",
    "refusal": "refused",
    "failure": "failed",
    "pending": "pending",
}


def in_words(tally: Tally, *, priced: bool) -> str:
    """How a run stands, in one line."""
    outcomes = [f"{tally.outcomes[key]:,} {name}" for key, name in _NAMES.items() if tally.outcomes[key]]
    parts = [*outcomes, f"{tally.in_flight} in flight", f"{tally.calls:,} calls", f"{tally.tokens:,} tokens"]
    if priced:
        parts.append(
            f"cost {tally.cost:.4f}" + (f" ({tally.unpriced:,} calls without a price)" if tally.unpriced else "")
        )
    if tally.rehearsed:
        parts.append(f"{tally.rehearsed:,} by the rehearsal's rules")
    if tally.slowed:
        parts.append(tally.slowed)
    return ", ".join(parts)


def _left(tally: Tally) -> str:
    seconds = tally.seconds_left
    if seconds is None:
        return ""
    minutes, hours = int(seconds) // 60, int(seconds) // 3600
    return f"{hours}:{minutes % 60:02}:{int(seconds) % 60:02} left"


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


@contextmanager
def _bar(priced: bool) -> Iterator[Watch]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    bar = Progress(
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.fields[said]}", markup=False),
        TextColumn("{task.fields[left]}", markup=False),
        console=screen(aside=True),
        auto_refresh=False,
    )
    with bar:
        task = bar.add_task("", total=None, said="", left="")
        looked = 0.0

        def watch(tally: Tally) -> None:
            nonlocal looked
            now = time.monotonic()
            if now - looked < EVERY and tally.before + tally.done < tally.total:
                return
            looked = now
            said = in_words(tally, priced=priced)
            if tally.interrupted:
                said += " · finishing what is in flight; Ctrl-C again stops at once"
            bar.update(task, total=tally.total, completed=tally.before + tally.done, said=said, left=_left(tally))
            bar.refresh()

        yield watch


def _lines(priced: bool) -> Watch:
    written = time.monotonic()
    warned = False

    def watch(tally: Tally) -> None:
        nonlocal written, warned
        now = time.monotonic()
        if tally.interrupted and not warned:
            warned = True
            say("tribunal: finishing what is in flight; Ctrl-C again stops at once", aside=True)
        if now - written >= LINE_EVERY:
            written = now
            at = f"{tally.before + tally.done:,} of {tally.total:,}"
            say(f"{at}: {in_words(tally, priced=priced)}, {_left(tally)}", aside=True)

    return watch
