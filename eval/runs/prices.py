"""What calls cost, by a table of prices that a user gives: TOML, dollars (or whatever) for a million tokens."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, RootModel, ValidationError

from tribunal.context import describe
from tribunal.errors import BadInput
from tribunal.parsed import from_toml
from tribunal.schema import Call, Frozen


class Price(Frozen):
    """For a million tokens of a model. `cached` is what prompt tokens cost that the provider's cache served."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)


class Prices(RootModel[dict[str, Price]]):
    """Prices by model: `["openai:gpt-4o"]`, then `input = 2.5`, `output = 10`."""

    def of(self, call: Call) -> float | None:
        """What a call cost; None where its model has no price. An answer from our own cache costs nothing."""
        if call.cached:
            return 0.0
        price = self.root.get(call.model)
        if price is None:
            return None
        served = call.cached_tokens if price.cached is not None else 0
        paid = (call.prompt_tokens - served) * price.input + served * (price.cached or 0.0)
        return (paid + call.completion_tokens * price.output) / 1e6


def read_prices(path: Path) -> Prices:
    """The prices in a file.

    Raises:
        BadInput: it can't be read, or isn't a table of prices.
    """
    try:
        return Prices.model_validate(from_toml(path.read_bytes()))
    except OSError as error:
        raise BadInput(f"prices: {path}: {error.strerror}") from error
    except ValidationError as error:
        raise BadInput(f"prices: {path}: {describe(error)}") from error
    except ValueError as error:
        raise BadInput(f"prices: {path}: is not TOML: {error}") from error
