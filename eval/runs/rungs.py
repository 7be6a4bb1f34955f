"""In which response format models were asked for their answers: shares by model, and where it changed in a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeAlias

from tribunal.schema import JSON


class AnyCall(Protocol):
    """A call, as it was made or as it is read back."""

    @property
    def model(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def error(self) -> str | None: ...


# Answered calls by model, role and rung.
Asked: TypeAlias = Counter[tuple[str, str, str]]


def asked_in(calls: Iterable[AnyCall]) -> Iterator[tuple[str, str, str]]:
    """What `Asked` counts of these calls: those that were answered."""
    return ((call.model, call.role, call.format) for call in calls if call.format and not call.error)


def rungs(asked: Mapping[tuple[str, str, str], int]) -> JSON:
    """What a run's measures hold of them.

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


def mixed_in_words(measured: JSON) -> str:
    """A warning where the rung in force changed during a run; empty where it didn't."""
    told = [
        f"{each['model']} as {each['role']} ({', '.join(f'{calls:,} {rung}' for rung, calls in each['calls'].items())})"
        for each in measured["mixed"]
    ]
    changed = "Conditions changed in this run: answers were asked for in more than one form: "
    return changed + "; ".join(told) if told else ""
