"""Compute what calls cost, and limit what a whole run may spend, over all its starts and processes.

Costs are by a user's price table: TOML, in dollars (or any unit) for a million tokens. What a post will cost nobody can
know before, so one under way is held at its own limit where it has one, and else at what the dearest so far has cost.
Until one has cost anything, posts go alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pydantic import Field, RootModel, ValidationError

from tribunal.calls import REHEARSAL
from tribunal.context import Context
from tribunal.errors import BadInput
from tribunal.eval.runs.journal import RESULTS, SUPERSEDED, read_line_starts
from tribunal.eval.runs.results import ResultCall, summarize_result
from tribunal.files import read_regular
from tribunal.schema import Call, Frozen
from tribunal.validation import describe_validation_error, read_toml_model

PRICES = "prices.json"


class Price(Frozen):
    """Price a million tokens of a model. `cached` is for prompt tokens that the provider served from its cache."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)


class Prices(RootModel[dict[str, Price]]):
    """Hold prices by model: `["openai:gpt-4o"]`, then `input = 2.5`, `output = 10`."""

    def cost_of_call(self, call: Call | ResultCall) -> float | None:
        """Return the cost of a call, or None if its model has no price. An answer from our own cache costs nothing."""
        return 0.0 if call.cached else self.cost_of_tokens(call.model, call)

    def cost_of_calls(self, calls: Iterable[Call | ResultCall]) -> float | None:
        """Return the cost of calls together, or None if the model of one has no price."""
        costs = [self.cost_of_call(call) for call in calls]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    def cost_of_tokens(self, model: str, tokens: Call | ResultCall | ModelUsage) -> float | None:
        """Return the cost of tokens of a model, or None if it has no price."""
        price = self.root.get(model)
        if price is None:
            return None
        served = tokens.cached_tokens if price.cached is not None else 0
        paid = (tokens.prompt_tokens - served) * price.input + served * (price.cached or 0.0)
        return (paid + tokens.completion_tokens * price.output) / 1e6


def read_prices(path: Path) -> Prices:
    """Read a price table from a file; raise `BadInput` if it isn't one."""
    return read_toml_model(Prices, path, "prices")


def prices_of_run(folder: Path) -> Prices | None:
    """Return the prices in a run's folder, or None if there are none; raise `BadInput` if the file is broken."""
    path = folder / PRICES
    try:
        return Prices.model_validate_json(read_regular(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; remove it, and give --prices") from error
    except ValidationError as error:
        raise BadInput(f"{path}: {describe_validation_error(error)}; remove it, and give --prices") from error


@dataclass
class ModelUsage:
    """Count the calls and tokens of one model. Answers from our own cache are counted apart and took nothing.

    `cached_tokens` are those of `prompt_tokens` that the provider served from its cache. `seats` are calls by seat, of
    several of a kind (view:surface) by their kind; `served` are calls by `served` of their records.
    """

    calls: int = 0
    from_cache: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    seats: Counter[str] = field(default_factory=Counter)
    served: Counter[str] = field(default_factory=Counter)

    def add_tokens(self, calls: int, tokens: Call | ResultCall | ModelUsage) -> None:
        """Add so many calls, which took these tokens."""
        self.calls += calls
        self.prompt_tokens += tokens.prompt_tokens
        self.cached_tokens += tokens.cached_tokens
        self.completion_tokens += tokens.completion_tokens


UsageByModel: TypeAlias = dict[str, ModelUsage]


def warn_of_changed_servers(served: Mapping[str, Mapping[str, int]]) -> str:
    """Return a warning if a model was answered under several labels in one run, or an empty text."""
    changes = [
        f"{model} ({', '.join(f'{calls:,} {label}' for label, calls in labels.items())})"
        for model, labels in served.items()
        if len(labels) > 1
    ]
    changed = "Conditions changed in this run: servers answered under more than one name or fingerprint: "
    return changed + "; ".join(changes) if changes else ""


class TotalCost(NamedTuple):
    """Hold the cost of calls, in the unit of the prices, and the number of calls without a price."""

    total: float
    unpriced: int


def add_calls(spent: UsageByModel, calls: Iterable[Call | ResultCall]) -> None:
    """Add calls to the usage by model."""
    for call in calls:
        used = spent.get(call.model)
        if used is None:
            used = spent[call.model] = ModelUsage()
        used.seats[call.seat.partition(":")[0]] += 1
        if call.served:
            used.served[call.served] += 1
        if call.cached:
            used.from_cache += 1
        else:
            used.add_tokens(1, call)


@dataclass
class ShortcutSavings:
    """Count what one shortcut saved a run: the rows of its results, calls, and tokens if known."""

    rows: list[int] = field(default_factory=list)
    calls: int = 0
    tokens: int = 0

    def add_row(self, row: int, calls: int, tokens: int) -> None:
        """Add a result in which so many calls were spared."""
        self.rows.append(row)
        self.calls += calls
        self.tokens += tokens


def total_cost(spent: Mapping[str, ModelUsage], prices: Prices) -> TotalCost:
    """Return the cost of all models together."""
    costs = {model: prices.cost_of_tokens(model, used) for model, used in spent.items()}
    return TotalCost(
        total=sum(cost for cost in costs.values() if cost is not None),
        unpriced=sum(spent[model].calls for model, cost in costs.items() if cost is None),
    )


# ------------------------------------------------------------------------------------------------- what a run may spend


class RunSpending(NamedTuple):
    """Count what was spent. The cost is None if a called model has no price."""

    calls: int = 0
    tokens: int = 0
    cost: float | None = 0.0

    def add(self, other: RunSpending) -> RunSpending:
        """Return the sum of both."""
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return RunSpending(self.calls + other.calls, self.tokens + other.tokens, cost)


NO_SPENDING = RunSpending()


@dataclass(frozen=True)
class RunLimits:
    """Limit a run's spending; None means no limit. Each sent request counts as a call.

    `elsewhere` is what other runs have spent that share the limits.
    """

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    elsewhere: RunSpending = NO_SPENDING

    def __bool__(self) -> bool:
        """Return whether anything is limited."""
        return (self.calls, self.tokens, self.cost) != (None, None, None)

    def check_prices(self, prices: Prices | None) -> None:
        """Raise `BadInput` if the cost is limited, and there are no prices."""
        if self.cost is not None and prices is None:
            raise BadInput("run_max_cost: takes prices by model; give --prices FILE")


NO_LIMITS = RunLimits()


def spending_of_calls(calls: Iterable[Call | ResultCall], prices: Prices | None) -> RunSpending:
    """Return what calls cost. Cached answers and the rehearsal model cost nothing."""
    paid = [call for call in calls if not call.cached]
    priced = [call for call in paid if call.model != REHEARSAL]
    return RunSpending(
        calls=sum(call.attempts for call in paid),
        tokens=sum(call.prompt_tokens + call.completion_tokens for call in paid),
        cost=prices.cost_of_calls(priced) if prices else 0.0,
    )


def total_spending(folder: Path, prices: Prices | None) -> RunSpending:
    """Return what all results in a run's folder cost."""
    return reduce(RunSpending.add, read_spending(folder, prices), NO_SPENDING)


def read_spending(folder: Path, prices: Prices | None) -> Iterator[RunSpending]:
    """Yield what each result in a run's folder cost, including superseded results."""
    for name in (RESULTS, SUPERSEDED):
        for start in read_line_starts(folder / name):
            if (result := summarize_result(start.line)) is not None:
                yield spending_of_calls(result.calls, prices)


# What is counted, the option that limits it, and how it is said: of all that was spent, and of a post.
_KINDS = (
    ("calls", "--run-max-calls", "{:,} of at most {:,} calls are spent", "{:,}"),
    ("tokens", "--run-max-tokens", "{:,} of at most {:,} tokens are spent", "{:,}"),
    ("cost", "--run-max-cost", "{:,.4f} of a cost of at most {:,.4f} is spent", "{:,.4f}"),
)


class RunBudget:
    """Track what a run has spent and what its posts under way may still spend.

    Attributes:
        under_way: how many posts were begun and have not ended.
        repeated_posts: how many were begun again, since what their first try cost is unknown.
    """

    def __init__(self, limits: RunLimits, spent: Iterable[RunSpending] = (), context: Context | None = None) -> None:
        """Start from what each result before, or all of them, have spent; the run's settings limit one post."""
        self._limits = limits
        self._of_a_post = RunLimits(context.max_calls, context.max_tokens) if context else RunLimits()
        self._spent, self._dearest = limits.elsewhere, NO_SPENDING
        self.under_way = self.repeated_posts = 0
        for each in spent:
            self._add_spending(each)

    def reserve_post(self) -> bool:
        """Reserve one more post. Return False if the budget has no room now, or none ever if no post is under way."""
        if next(self._limits_without_room(), None) is not None:
            return False
        if self.under_way and not self._cost_is_known():
            return False
        self.under_way += 1
        return True

    def settle_post(self, spent: RunSpending | None) -> None:
        """Replace a post's reservation by what it spent; None is unknown, and counts as the whole reservation."""
        spent = self._reservation if spent is None else spent
        self.under_way -= 1
        self._add_spending(spent)

    def count_repeated_post(self) -> None:
        """Count a post that is begun again: its first try counts as a whole reservation."""
        self.repeated_posts += 1
        self._add_spending(self._reservation)

    def explain_exhaustion(self, more: int = 1) -> str:
        """Return why so many more posts may not begin, and how to go on; empty if they may. 0: those under way."""
        option, words = next(self._limits_without_room(more), ("", ""))
        return f"{words}; to go on, give {option}" if option else words

    def _add_spending(self, spent: RunSpending) -> None:
        self._spent = self._spent.add(spent)
        dearest = max(self._dearest.cost or 0.0, spent.cost or 0.0)
        self._dearest = RunSpending(
            max(self._dearest.calls, spent.calls), max(self._dearest.tokens, spent.tokens), dearest
        )

    def _cost_is_known(self) -> bool:
        """Return whether the cost of a post is known in everything that is limited."""
        limited = [name for name, *_ in _KINDS if getattr(self._limits, name) is not None]
        return bool(self._dearest.calls) or all(getattr(self._of_a_post, name) for name in limited)

    @property
    def _reservation(self) -> RunSpending:
        """Return what one post under way may spend; a post of unknown cost counts as this."""
        own = self._of_a_post
        return RunSpending(own.calls or self._dearest.calls, own.tokens or self._dearest.tokens, self._dearest.cost)

    def _limits_without_room(self, more: int = 1) -> Iterator[tuple[str, str]]:
        """Yield the limits that do not suffice for so many more posts, by option and in words."""
        held = self._reservation
        for name, option, words, number in _KINDS:
            limit = getattr(self._limits, name)
            if limit is None:
                continue
            spent, one = getattr(self._spent, name), getattr(held, name)
            if spent is None:
                yield "", "a model has no price, so what the run costs is not known; add it to the file of --prices"
            elif (more and spent >= limit) or spent + one * (self.under_way + more) > limit:
                said = words.format(spent, limit)
                said += f", and a post may take {number.format(one)}" if one and spent < limit else ""
                yield f"{option} more than {limit:,}", said
