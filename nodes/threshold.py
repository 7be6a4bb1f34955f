"""The probability of hate, and the threshold of it from which a post is hateful."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from tribunal.core.calls import JSON
from tribunal.errors import BadInput
from tribunal.schema import Frozen, Scheme
from tribunal.settings.contents import NamedTexts
from tribunal.settings.names import ProbabilitySource
from tribunal.settings.validation import describe_validation_error

Kind = Literal["hateful", "harmless"]
KINDS: tuple[Kind, ...] = ("hateful", "harmless")
_SHARE = Field(default=None, ge=0, le=1)


def counted_as(posts: int, clusters: JSON) -> str:
    """Return how many posts a fit is on, and as how many they count.

    Args:
        posts: how many there are.
        clusters: what counts as one: `by`, and how many there are (`n`).
    """
    if not clusters or clusters["n"] == posts:
        return f"{posts:,} posts"
    return f"{posts:,} posts, which count as {clusters['n']:,} (clusters by {clusters['by']})"


class ByVerdict(Frozen):
    """A number from 0 to 1 for each verdict; None where there is none."""

    hateful: float | None = _SHARE
    harmless: float | None = _SHARE


class Threshold(Frozen):
    """Which verdicts are accepted; every other goes to a person.

    A verdict is accepted whose confidence is at or above `threshold`, or that of its kind in `by_verdict`. One that
    states no confidence, such as a summary dismissal, is accepted only where its kind is named in `without_confidence`:
    there the fit has shown that such verdicts agree as often as was asked.

    `agreement`, `missed_hate`, `false_alarms` and `level` are what was asked for. `coverage`, `agreement_seen` and
    their intervals are of the posts of the fit themselves; those that are `cross_validated` of posts that had no part
    in the fit that they were measured by. It holds for the graph, models and policy it was fitted on, and for posts
    like those it was fitted on. Older files hold `agreement_held_out`, `n_held_out` and `seed`, of a fit on one half.
    """

    threshold: float | None = Field(
        ge=0, le=1, description="for both verdicts; None where no confidence is enough"
    )
    by_verdict: ByVerdict | None = Field(
        default=None,
        description="takes the place of `threshold`, where it is there; None: no confidence of that verdict is enough",
    )
    without_confidence: tuple[Kind, ...] = Field(
        default=(), description="the verdicts that are accepted though they state no confidence"
    )
    agreement: float = Field(gt=0, lt=1)
    missed_hate: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="of accepted verdicts of no hate, at most this share is of hate",
    )
    false_alarms: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="of accepted verdicts of hate, at most this share is of none",
    )
    level: float = Field(gt=0, lt=1)
    attempt: int = Field(
        default=1, ge=1, description="how many fits were tried on these results, this one included"
    )
    error: float | None = Field(
        default=None, gt=0, lt=1, description="the part of 1 − level that this try could spend"
    )
    coverage: float = Field(ge=0, le=1, description="the share of posts that are accepted")
    coverage_interval: tuple[float, float] | None = Field(
        default=None, description="Wilson, 95 %, over clusters"
    )
    agreement_seen: float | None = Field(
        default=None, ge=0, le=1, description="of the accepted ones, the share that agrees"
    )
    agreement_interval: tuple[float, float] | None = Field(
        default=None, description="Wilson, 95 %, over clusters"
    )
    missed_hate_seen: float | None = _SHARE
    false_alarms_seen: float | None = _SHARE
    coverage_cross_validated: float | None = _SHARE
    agreement_cross_validated: float | None = _SHARE
    agreement_held_out: float | None = _SHARE
    n_fit: int = Field(ge=1, description="labelled posts")
    n_held_out: int | None = Field(default=None, ge=1)
    clusters: JSON = Field(
        default_factory=dict, description="what counted as one observation: by, n, largest"
    )
    seed: int | None = None
    dataset: str | None = Field(default=None, description="the data set it was fitted on")
    split: str | None = None
    data_sha256: str | None = Field(default=None, description="of the data set's files")
    warnings: tuple[str, ...] = Field(
        default=(), description="why the promise may not hold for other posts"
    )
    graph: str
    scheme: Scheme
    models: JSON = Field(description="the settings of the run that name a model, as they stood")
    calibration: tuple[tuple[float, float], ...] = Field(
        default=(),
        description="confidence and the share of such verdicts that were right, ascending; linear between",
    )
    hate_by_confidence: tuple[tuple[float, float], ...] = Field(
        default=(),
        description="the confidence of a verdict, with a minus if it is of no hate, and the share of such posts that "
        "are hate, ascending; linear between",
    )
    hate_without_confidence: ByVerdict = Field(
        default=ByVerdict(),
        description="of verdicts that state no confidence, the share of posts that are hate",
    )
    ece: float | None = Field(default=None, description="expected calibration error, as stated")
    ece_calibrated: float | None = Field(
        default=None, description="the same, after calibration, cross-validated"
    )
    policy: str | None = Field(
        description="the SHA-256 of the policy in force; None where the run names none"
    )
    fitted_from: str = Field(description="the name of the run's folder")
    at: str = Field(description="when, in ISO 8601")

    @field_validator("calibration", "hate_by_confidence")
    @classmethod
    def _ascends(
        cls, points: tuple[tuple[float, float], ...], field: ValidationInfo
    ) -> tuple[tuple[float, float], ...]:
        stated = [at for at, _ in points]
        shares = [share for _, share in points]
        least = 0 if field.field_name == "calibration" else -1
        if not all(least <= at <= 1 for at in stated) or not all(
            0 <= share <= 1 for share in shares
        ):
            raise ValueError(f"is not between {least} and 1")
        if stated != sorted(set(stated)) or shares != sorted(shares):
            raise ValueError("does not ascend")
        return points

    def least(self, kind: Kind) -> float | None:
        """Return the confidence from which verdicts of a kind are accepted; None where none is enough."""
        return self.threshold if self.by_verdict is None else getattr(self.by_verdict, kind)

    def accepts(self, kind: Kind, confidence: float | None) -> bool:
        """Return whether a verdict is accepted.

        Args:
            kind: of the verdict.
            confidence: that it states, from 0 to 1.
        """
        if confidence is None:
            return kind in self.without_confidence
        least = self.least(kind)
        return least is not None and confidence >= least

    def calibrated(self, confidence: float) -> float:
        """Return the share of verdicts of this confidence that were right in the fit; without a map, itself."""
        return (
            round(float(interpolate(self.calibration, confidence)), 6)
            if self.calibration
            else confidence
        )

    def share_of_hate(self, hateful: bool, confidence: float | None) -> float | None:
        """Return the share of posts of such a verdict that were hate in the fit; None if the file doesn't know.

        Args:
            hateful: the verdict.
            confidence: that it states, from 0 to 1.
        """
        if confidence is None:
            shares = self.hate_without_confidence
            return shares.hateful if hateful else shares.harmless
        if self.hate_by_confidence:
            return float(
                interpolate(self.hate_by_confidence, confidence if hateful else -confidence)
            )
        if not self.calibration:  # of a file that an earlier release wrote
            return None
        right = self.calibrated(confidence)
        return right if hateful else 1 - right


def interpolate(points: Sequence[tuple[float, float]], at: Any) -> Any:
    """Return the height at a place, or at each of an array, of a line through ascending points; it is flat beyond."""
    import numpy as np

    places, heights = zip(*points, strict=True)
    return np.interp(at, places, heights)


@lru_cache(maxsize=64)
def parse_threshold(text: str, name: str) -> Threshold:
    """Return the threshold that a text holds; errors call it by `name`.

    Raises:
        BadInput: it is something else.
    """
    try:
        return Threshold.model_validate_json(text)
    except ValidationError as error:
        raise BadInput(
            f"threshold_file: {name}: {describe_validation_error(error)}; make one with `tribunal fit`"
        ) from error


THRESHOLDS = NamedTexts("threshold_file", "JSON", parse_threshold, "make one with `tribunal fit`")


def read_threshold(path: Path) -> Threshold:
    """Return the threshold that a file holds.

    Raises:
        BadInput: it can't be read, or is something else.
    """
    return parse_threshold(THRESHOLDS.read(str(path)), str(path))


_BELOW_HALF = 0.499999


def estimate_probability(
    hateful: bool, confidence: float | None, fitted: Threshold | None = None
) -> tuple[float, ProbabilitySource]:
    """Return the probability that a post is hate speech, and where that number is from.

    Without a fitted file the stated confidence is taken for the way from 0.5 to the verdict: "not hateful, 0.3" is
    0.35, and "hateful, 0.3" is 0.65. A verdict that states none is taken at its word, as 1 or 0.

    Args:
        hateful: the verdict.
        confidence: that it states, from 0 to 1; None if it states none, as a dismissal.
        fitted: the file that `tribunal fit` wrote for this graph, scheme, policy and line-up of models.
    """
    if fitted is not None and (share := fitted.share_of_hate(hateful, confidence)) is not None:
        return put_on_side(share, hateful), "calibrated"
    if confidence is None:
        return float(hateful), "verdict"
    half = confidence / 2
    return put_on_side(0.5 + half if hateful else 0.5 - half, hateful), "confidence"


def probability_by_person(hateful: bool) -> JSON:
    """Return the two fields of a record that a person has decided: 1 or 0, and that it is theirs."""
    return {"probability": float(hateful), "probability_from": "person"}


def put_on_side(probability: float, hateful: bool) -> float:
    """Return a probability no further than 0.5 on the other side of the verdict's."""
    return round(max(0.5, probability) if hateful else min(_BELOW_HALF, probability), 6)
