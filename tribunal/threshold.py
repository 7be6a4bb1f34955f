"""A fitted confidence threshold: the file that `tribunal fit` writes and a run names."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError

from tribunal.context import describe
from tribunal.errors import BadInput
from tribunal.files import read_regular
from tribunal.schema import JSON, Frozen, Scheme


class Threshold(Frozen):
    """A verdict whose confidence is at or above `threshold` is accepted; every other goes to a person.

    `agreement` and `level` are what was asked for: at least this share of accepted verdicts agrees with the gold, at
    this confidence. `coverage` and `agreement_held_out` were measured on posts that had no part in the fit. It holds
    for the graph, models and policy it was fitted on, and for posts like those it was fitted on.
    """

    threshold: float = Field(ge=0, le=1)
    agreement: float = Field(gt=0, lt=1)
    level: float = Field(gt=0, lt=1)
    coverage: float = Field(ge=0, le=1, description="the share of held-out posts that are accepted")
    agreement_held_out: float | None = Field(ge=0, le=1, description="None where no held-out post is accepted")
    n_fit: int = Field(ge=1)
    n_held_out: int = Field(ge=1)
    seed: int
    graph: str
    scheme: Scheme
    models: JSON = Field(description="the settings of the run that name a model, as they stood")
    policy: str | None = Field(description="the SHA-256 of the policy in force; None where the run names none")
    fitted_from: str = Field(description="the name of the run's folder")
    at: str = Field(description="when, in ISO 8601")


def read_threshold(path: Path) -> Threshold:
    """The threshold that a file holds.

    Raises:
        BadInput: the file can't be read, or is something else.
    """
    try:
        return Threshold.model_validate_json(read_regular(path.expanduser()))
    except OSError as error:
        raise BadInput(f"threshold_file: {path}: {error.strerror}; make one with `tribunal fit`") from error
    except ValidationError as error:
        raise BadInput(f"threshold_file: {path}: {describe(error)}; make one with `tribunal fit`") from error
