"""Compute what calls cost by a user's price table: TOML, in dollars (or any unit) for a million tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pydantic import Field, RootModel, ValidationError

from tribunal.errors import BadInput
from tribunal.process.files import read_regular
from tribunal.runner.results import ResultCall
from tribunal.schema import Call, Frozen
from tribunal.settings.validation import describe_validation_error, read_toml_model

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
        raise BadInput(
            f"{path}: {describe_validation_error(error)}; remove it, and give --prices"
        ) from error


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
    changed = (
        "Conditions changed in this run: servers answered under more than one name or fingerprint: "
    )
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
    """Counts the savings of one shortcut in a run: the rows of its results, calls, and tokens if known."""

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
