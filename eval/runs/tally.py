"""How a run stands."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tribunal.eval.runs.prices import Prices
from tribunal.eval.runs.rungs import Asked, asked_in
from tribunal.schema import JSON, Record

if TYPE_CHECKING:
    from tribunal.eval.runs.earlier import Earlier, PricedEarlier, Told


@dataclass
class Counts:
    """What results came to and cost. Costs are in the unit of the price table; `unpriced` are calls that it lacks.

    `unseen` are calls that a graph made past `ask`, which nothing else here counts.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    unseen: int = 0

    def count(self, result: Record | Earlier | PricedEarlier | Told, prices: Prices | None) -> None:
        hateful = result.label if result.hateful is None else result.hateful
        verdict = "positive" if hateful else "negative"
        self.outcomes[verdict if result.outcome == "verdict" else result.outcome] += 1
        self.calls += result.usage.calls
        self.tokens += result.usage.prompt_tokens + result.usage.completion_tokens
        self.unseen += result.unseen_calls
        for call in result.calls if prices else ():
            cost = prices.of(call) if prices else None
            self.cost += cost or 0.0
            self.unpriced += cost is None

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            outcomes=self.outcomes + other.outcomes,
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            cost=self.cost + other.cost,
            unpriced=self.unpriced + other.unpriced,
            unseen=self.unseen + other.unseen,
        )


@dataclass(kw_only=True)
class Tally(Counts):
    """How a run stands: what this start came to, and `earlier` what lay there when it began.

    `done` are results of this start, `before` those from before; `rehearsed` are results of both in which the rehearsal
    model took part. `slowed` says to how many requests at a time it went down where they timed out; empty where none
    did. Of a batch, `rejoined` are results that a person decided since the last time, `waiting` those that still wait.
    `unkept` are results that couldn't be kept in the database beside the run's own files.
    `asked` counts this start's answered calls by the rung they were answered at. `measured` are the measures of the
    results so far.
    """

    total: int
    done: int = 0
    before: int = 0
    earlier: Counts = field(default_factory=Counts)
    in_flight: int = 0
    rehearsed: int = 0
    started: float = field(default_factory=time.monotonic)
    stopped: str = ""
    interrupted: bool = False
    slowed: str = ""
    rejoined: int = 0
    waiting: int = 0
    unkept: int = 0
    asked: Asked = field(default_factory=Counter)
    measured: JSON | None = None

    def add(self, record: Record | Told, prices: Prices | None) -> None:
        """Count a result of this start."""
        self.done += 1
        self.rehearsed += record.rehearsed
        self.asked.update(asked_in(record.calls))
        self.count(record, prices)

    @property
    def whole(self) -> Counts:
        """What all results came to and cost, those from before included."""
        return self.earlier + self

    @property
    def at(self) -> int:
        """How many results there are."""
        return self.before + self.done

    @property
    def pace(self) -> float | None:
        """Results a second in this start; None before there is one."""
        spent = time.monotonic() - self.started
        return self.done / spent if self.done and spent > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """By the pace so far; None before there is one."""
        return None if self.pace is None else (self.total - self.at) / self.pace


Watch = Callable[[Tally], None]
