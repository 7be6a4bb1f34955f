"""Count the results of a run while it goes on, and show its progress on standard error.

That is a bar on a terminal, one line wide; otherwise a line now and then. Counts and money are of the whole run,
results from before it went on included; the pace and the time left are of this start.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeAlias

from tribunal.core.calls import warnings_of_unfit_models
from tribunal.core.text import count_noun
from tribunal.process.terminal import is_watched, say, screen
from tribunal.runner.prices import Prices
from tribunal.schema import JSON, Call

if TYPE_CHECKING:
    import rich.console as drawn

    from tribunal.runner.results import AnyResult, ResultCall


# Answered calls by model, role and response format.
FormatCounts: TypeAlias = Counter[tuple[str, str, str]]


# Answered calls by seat and model, and how many of them left a reason empty, since what stood there said nothing.
ReasonCounts: TypeAlias = Counter[tuple[str, str, bool]]


def reasons_of_calls(calls: Iterable[Call | ResultCall]) -> Iterator[tuple[str, str, bool]]:
    """Yield seat, model and whether a reason was left empty, of each answered call, for `ReasonCounts`."""
    return (
        (call.seat.partition(":")[0], call.model, bool(call.emptied))
        for call in calls
        if not call.error
    )


def count_empty_reasons(counted: ReasonCounts) -> list[JSON]:
    """Return each seat and model whose reasons were left empty: in how many (`empty`) of its answered calls."""
    return [
        {"seat": seat, "model": model, "empty": empty, "calls": empty + counted[seat, model, False]}
        for (seat, model, lacks), empty in sorted(counted.items())
        if lacks
    ]


def warn_of_empty_reasons(measured: list[JSON]) -> str:
    """Return a warning of reasons that were left empty, by seat and model; an empty text if none was."""
    listed = ", ".join(
        f"{each['seat']} {each['empty']:,} of {each['calls']:,} ({each['model']})"
        for each in measured
    )
    return (
        f"Reasons that said nothing were left empty, and their verdicts are uncertain: {listed}"
        if listed
        else ""
    )


def formats_of_calls(calls: Iterable[Call | ResultCall]) -> Iterator[tuple[str, str, str]]:
    """Yield model, role and response-format mode of each answered call, for `FormatCounts`."""
    return (
        (call.model, call.role, call.format) for call in calls if call.format and not call.error
    )


def response_format_shares(asked: Mapping[tuple[str, str, str], int]) -> JSON:
    """Return the response-format modes of a run, as its measures hold them.

    Returns:
        `models`: by model and response format, how many answered calls, and their share of the model's. `mixed`: each
        model and role that was answered in more than one response format, with its calls by format.
    """
    by_model: dict[str, Counter[str]] = defaultdict(Counter)
    by_role: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (model, role, form), calls in sorted(asked.items()):
        by_model[model][form] += calls
        by_role[model, role][form] += calls
    return {
        "models": {
            model: {
                form: {"calls": calls, "share": calls / held.total()}
                for form, calls in held.items()
            }
            for model, held in by_model.items()
        },
        "mixed": [
            {"model": model, "role": role, "calls": dict(held)}
            for (model, role), held in by_role.items()
            if len(held) > 1
        ],
    }


def warn_of_mixed_formats(measured: JSON) -> str:
    """Return a warning if the response-format mode changed during a run; otherwise an empty text."""
    changes = [
        f"{each['model']} as {each['role']} ({', '.join(f'{calls:,} {form}' for form, calls in each['calls'].items())})"
        for each in measured["mixed"]
    ]
    changed = "Conditions changed in this run: answers were asked for in more than one form: "
    return changed + "; ".join(changes) if changes else ""


@dataclass
class ResultCounts:
    """Counts results and their cost, in the unit of the prices; `unpriced` calls have no price.

    `unseen` are calls that a graph made past `ask`, which nothing else here counts. `unfit` are results in which a
    model took part that had failed its exam. `served` counts calls by model and `served` of
    their records.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    unseen: int = 0
    unfit: int = 0
    uncertain: int = 0
    served: Counter[tuple[str, str]] = field(default_factory=Counter)

    def count_result(self, result: AnyResult, prices: Prices | None) -> None:
        """Count a result."""
        hateful = result.label if result.hateful is None else result.hateful
        verdict = "positive" if hateful else "negative"
        self.outcomes[verdict if result.outcome == "verdict" else result.outcome] += 1
        self.uncertain += result.outcome == "verdict" and result.uncertain
        self.calls += result.usage.calls
        self.tokens += result.usage.prompt_tokens + result.usage.completion_tokens
        self.unseen += result.unseen_calls
        for call in result.calls:
            if call.served:
                self.served[call.model, call.served] += 1
        self.unfit += bool(warnings_of_unfit_models(result.warnings))
        for call in result.calls if prices else ():
            cost = prices.cost_of_call(call) if prices else None
            self.cost += cost or 0.0
            self.unpriced += cost is None

    def __add__(self, other: ResultCounts) -> ResultCounts:
        """Return the sum of both."""
        names = [each.name for each in fields(ResultCounts)]
        return ResultCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(kw_only=True)
class RunTally(ResultCounts):
    """The state of a run: the results of this start, and in `earlier` the results of previous starts.

    `done` are results of this start, `before` those from before; `rehearsed` are results of both in which the rehearsal
    model took part. `slowed` says to how many requests at a time it went down where they timed out; empty where none
    did. Of a batch, `rejoined` are results that a person decided since the last time, `waiting` those that still wait.
    `preparing` says what is done before the first post or after the last one.
    `server_away`: it stopped since a model's server, which it waited for, didn't come back.
    `unkept` are results that couldn't be kept in the database beside the run's own files.
    `asked` counts this start's answered calls by their response-format mode, and `reasons` by whether they gave one.
    `measured` are the measures of the results so far. `first_failure` is the reason of this start's first failure.
    """

    total: int
    done: int = 0
    before: int = 0
    earlier: ResultCounts = field(default_factory=ResultCounts)
    in_flight: int = 0
    rehearsed: int = 0
    started: float = field(default_factory=time.monotonic)
    stopped: str = ""
    interrupted: bool = False
    preparing: str = ""
    server_away: bool = False
    slowed: str = ""
    rejoined: int = 0
    waiting: int = 0
    unkept: int = 0
    asked: FormatCounts = field(default_factory=Counter)
    reasons: ReasonCounts = field(default_factory=Counter)
    measured: JSON | None = None
    first_failure: str = ""

    def add_result(self, record: AnyResult, prices: Prices | None) -> None:
        """Count a result of this start."""
        self.done += 1
        self.rehearsed += record.rehearsed
        if record.outcome == "failure":
            self.first_failure = self.first_failure or record.explanation
        self.asked.update(formats_of_calls(record.calls))
        self.reasons.update(reasons_of_calls(record.calls))
        self.count_result(record, prices)

    @property
    def all_results(self) -> ResultCounts:
        """Return the counts of all results, including earlier ones."""
        return self.earlier + self

    def served_names(self) -> JSON:
        """Return, by model, how many calls were answered under each name and fingerprint that its server gave."""
        by_model: JSON = {}
        for (model, served), calls in sorted(self.all_results.served.items()):
            by_model.setdefault(model, {})[served] = calls
        return by_model

    @property
    def decided_count(self) -> int:
        """Return how many results there are."""
        return self.before + self.done

    @property
    def pace(self) -> float | None:
        """Return the results a second in this start, or None before the first."""
        spent = time.monotonic() - self.started
        return self.done / spent if self.done and spent > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Estimate the remaining seconds from the pace, or None before the first result."""
        return None if self.pace is None else (self.total - self.decided_count) / self.pace


Watch = Callable[[RunTally], None]


# ------------------------------------------------------------------------------------------------------------ progress

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
# Numbers of columns.
_SHORTEST_BAR = 5
_LONGEST_BAR = 40
_ROOMY = 70


def describe_progress(tally: RunTally, *, priced: bool) -> str:
    """Describe the state of a run in one line."""
    whole = tally.all_results
    parts = [words for _, words in _count_parts(tally, *_NAMES)]
    if priced:
        unpriced = (
            f" ({count_noun(whole.unpriced, 'call')} without a price)" if whole.unpriced else ""
        )
        parts.append(f"cost {whole.cost:.4f}{unpriced}")
    if tally.rehearsed:
        parts.append(f"{tally.rehearsed:,} by the rehearsal's rules")
    if whole.unfit:
        parts.append(f"{whole.unfit:,} by a model that failed its exam")
    return ", ".join([*parts, *filter(None, [tally.slowed])])


def _count_parts(tally: RunTally, *outcomes: str) -> Iterator[tuple[int, str]]:
    """Yield the counts of these outcomes and of what they took, each with its weight in a narrow line."""
    whole = tally.all_results
    for name in outcomes:
        if whole.outcomes[name]:
            weight = {"failure": 2, "refusal": 5, "pending": 5}.get(name, 6)
            yield weight, f"{whole.outcomes[name]:,} {_NAMES[name]}"
    if whole.uncertain:
        yield 6, f"{whole.uncertain:,} uncertain"
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
        """Draw this tally; `priced` adds its cost."""
        self.tally = tally
        self.priced = priced

    def __rich_console__(
        self, console: drawn.Console, options: drawn.ConsoleOptions
    ) -> drawn.RenderResult:
        """Yield the bar and the words, for Rich."""
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        width = options.max_width - 1  # a terminal may break a line that fills its last column
        bar, words = (0, self.tally.preparing) if self.tally.preparing else self._fit_width(width)
        if bar:
            yield ProgressBar(
                total=max(self.tally.total, 1), completed=self.tally.decided_count, width=bar
            )
        said = Text((" " if bar else "") + words, no_wrap=True, end="")
        said.truncate(width - bar, overflow="ellipsis")
        yield said

    def _fit_width(self, width: int) -> tuple[int, str]:
        """Return the length of the bar, and the words after it."""
        parts = list(self._weighted_parts())
        least = _SHORTEST_BAR if width < _ROOMY else min(width // 8, _LONGEST_BAR)
        room = width - least - 1
        taken = set[int]()
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
        tally = self.tally
        whole = self.tally.all_results
        yield 0, f"{tally.decided_count:,}/{tally.total:,}"
        if tally.pace is not None:
            yield 4, _format_pace(tally.pace)
        if self.priced and whole.unpriced and not whole.cost:
            yield 3, "cost unknown"
        elif self.priced:  # the least cost if some calls have no price
            yield (
                3,
                f"cost {'≥ ' * bool(whole.unpriced)}{whole.cost:,.{2 if whole.cost >= 100 else 4}f}",
            )
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
    written = time.monotonic()
    warned = False

    def watch(tally: RunTally) -> None:
        """Write a line now and then."""
        nonlocal written, warned
        now = time.monotonic()
        if tally.interrupted and not warned:
            warned = True
            say(f"tribunal: {_FINISHING}", aside=True)
        if tally.preparing and now - written >= LINE_EVERY:
            written = now
            say(f"tribunal: {tally.preparing}", aside=True)
        elif (
            tally.pace is not None
            and tally.seconds_left is not None
            and now - written >= LINE_EVERY
        ):
            written = now
            state = describe_progress(tally, priced=priced)
            pace = f"{_format_pace(tally.pace)}, {_format_time_left(tally.seconds_left)}"
            say(f"{tally.decided_count:,} of {tally.total:,}: {state}, {pace}", aside=True)

    return watch


def _format_pace(pace: float) -> str:
    """Return the pace in posts a second, minute or hour: whichever is one or more."""
    for unit, each in (("s", 1), ("min", 60)):
        if pace * each >= 1:
            return (
                f"{pace * each:,.1f}/{unit}" if pace * each < 100 else f"{pace * each:,.0f}/{unit}"
            )
    return f"{pace * 3600:,.1f}/h"


def _format_time_left(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02} left"
