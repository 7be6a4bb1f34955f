"""Marks that several tests share."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def first_then_long(values: Iterable[object], *, shown: int) -> list[object]:
    """Return values to parametrize by: the first few as they are, the others for the long tests."""
    held = list(values)
    return [*held[:shown], *(pytest.param(each, marks=pytest.mark.long) for each in held[shown:])]
