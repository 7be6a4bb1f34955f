"""Of a result that lay there when a run went on, or that another process came to, what the run itself has to know.

A run may hold a million: no more is read.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tribunal.schema import JSON


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Usage(_Read):
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Call(_Read):
    model: str = ""
    cached: bool = False
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 1


class _Counted(_Read):
    outcome: str
    label: int | None = None
    hateful: bool | None = None
    usage: _Usage = _Usage()
    unseen_calls: int = 0


class Earlier(_Counted):
    """What a result came to."""

    calls: ClassVar[tuple[_Call, ...]] = ()


class PricedEarlier(_Counted):
    """What a result came to, with its calls."""

    calls: tuple[_Call, ...] = ()


class _ToldCall(_Call):
    role: str = ""
    format: str = ""
    error: str | None = None


class Told(_Counted):
    """Of a result that another process of the run has come to, what the run itself has to know."""

    explanation: str = ""
    rehearsed: bool = False
    fault: JSON | None = None
    calls: tuple[_ToldCall, ...] = ()


def read_earlier(line: bytes, *, priced: bool) -> Earlier | PricedEarlier | None:
    """A line of results.jsonl; None where it is broken, which whoever measures the run will say."""
    try:
        return (PricedEarlier if priced else Earlier).model_validate_json(line)
    except ValidationError:
        return None
