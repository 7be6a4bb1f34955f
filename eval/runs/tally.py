"""Count the results of a run while it goes on."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeAlias

from tribunal.eval.runs.prices import Prices
from tribunal.schema import JSON, Call

if TYPE_CHECKING:
    from tribunal.eval.runs.results import AnyResult, ResultCall


# Answered calls by model, role and rung.
FormatCounts: TypeAlias = Counter[tuple[str, str, str]]


def formats_of_calls(calls: Iterable[Call | ResultCall]) -> Iterator[tuple[str, str, str]]:
    """Yield model, role and response-format mode of each answered call, for `FormatCounts`."""
    return ((call.model, call.role, call.format) for call in calls if call.format and not call.error)


def response_format_shares(asked: Mapping[tuple[str, str, str], int]) -> JSON:
    """Return the response-format modes of a run, as its measures hold them.

    Returns:
        `models`: by model and rung, how many answered calls, and their share of the model's. `mixed`: each model and
        role that was answered at more than one rung, with its calls by rung.
    """
    by_model: dict[str, Counter[str]] = defaultdict(Counter)
    by_role: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (model, role, rung), calls in sorted(asked.items()):
        by_model[model][rung] += calls
        by_role[model, role][rung] += calls
    return {
        "models": {
            model: {rung: {"calls": calls, "share": calls / held.total()} for rung, calls in held.items()}
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
        f"{each['model']} as {each['role']} ({', '.join(f'{calls:,} {rung}' for rung, calls in each['calls'].items())})"
        for each in measured["mixed"]
    ]
    changed = "Conditions changed in this run: answers were asked for in more than one form: "
    return changed + "; ".join(changes) if changes else ""


@dataclass
class ResultCounts:
    """Count results and what they cost, in the unit of the prices; `unpriced` calls have no price.

    `unseen` are calls that a graph made past `ask`, which nothing else here counts.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    unseen: int = 0

    def count_result(self, result: AnyResult, prices: Prices | None) -> None:
        """Count a result."""
        hateful = result.label if result.hateful is None else result.hateful
        verdict = "positive" if hateful else "negative"
        self.outcomes[verdict if result.outcome == "verdict" else result.outcome] += 1
        self.calls += result.usage.calls
        self.tokens += result.usage.prompt_tokens + result.usage.completion_tokens
        self.unseen += result.unseen_calls
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
    """Hold the state of a run: the results of this start, and in `earlier` those that were there before.

    `done` are results of this start, `before` those from before; `rehearsed` are results of both in which the rehearsal
    model took part. `slowed` says to how many requests at a time it went down where they timed out; empty where none
    did. Of a batch, `rejoined` are results that a person decided since the last time, `waiting` those that still wait.
    `unkept` are results that couldn't be kept in the database beside the run's own files.
    `asked` counts this start's answered calls by their response-format mode. `measured` are the measures of the
    results so far. `first_failure` is the reason of this start's first failure.
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
    slowed: str = ""
    rejoined: int = 0
    waiting: int = 0
    unkept: int = 0
    asked: FormatCounts = field(default_factory=Counter)
    measured: JSON | None = None
    first_failure: str = ""

    def add_result(self, record: AnyResult, prices: Prices | None) -> None:
        """Count a result of this start."""
        self.done += 1
        self.rehearsed += record.rehearsed
        if record.outcome == "failure":
            self.first_failure = self.first_failure or record.explanation
        self.asked.update(formats_of_calls(record.calls))
        self.count_result(record, prices)

    @property
    def all_results(self) -> ResultCounts:
        """Return the counts of all results, including earlier ones."""
        return self.earlier + self

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
