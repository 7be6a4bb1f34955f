"""A confidence threshold in a file: what `tribunal fit` writes and a run names."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError

from nodes.errors import BadInput
from nodes.schema import Frozen, Scheme


class Threshold(Frozen):
    """The confidence from which a system's verdicts agree with people as often as was wanted."""

    threshold: float = Field(ge=0, le=1)
    agreement: float = Field(ge=0, le=1, description="the rate of agreement that was wanted")
    level: float = Field(gt=0, lt=1, description="how sure one may be that it is reached")
    graph: str
    scheme: Scheme
    policy: str = Field(description="the sha of the policy that was in force")


def read_threshold(path: str | Path) -> Threshold:
    """The threshold in a file.

    Raises:
        BadInput: there is no such file, or it isn't one that `tribunal fit` wrote.
    """
    try:
        return Threshold.model_validate_json(Path(path).expanduser().read_bytes())
    except OSError as error:
        raise BadInput(f"threshold_file: {path}: can't be read: {error.strerror}; tribunal fit writes one") from error
    except ValidationError as error:
        raise BadInput(
            f"threshold_file: {path}: is not a file of tribunal fit: {error.errors()[0]['msg']}; fit one anew"
        ) from error
