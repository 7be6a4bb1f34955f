"""The bound, by hand and by its laws."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.bound import bound

CHAINS = st.lists(st.integers(0, 1000), max_size=60)


@pytest.mark.parametrize(
    ("chains", "in_flight", "expected"),
    [
        ([], 4, 0.0),
        ([2.0], 1, 2.0),
        ([1, 2, 3], 1, 6.0),
        ([1, 2, 3], 3, 3.0),
        # Two places: 3 and 1 start; 1 ends and 2 follows it, until 3; then the last runs from 3 to 7.
        ([3, 1, 2, 4], 2, 7.0),
        # The order counts: the longest first packs better than the longest last.
        ([4, 3, 2, 1], 2, 5.0),
        ([1, 2, 3, 4], 2, 6.0),
        # More places than posts are no help.
        ([5, 5], 64, 5.0),
        # A dismissal (2 calls) beside a fast track (4 calls), one second a call.
        ([[1, 1], [1, 1, 1, 1], [1, 1]], 2, 4.0),
        ([[], [0.25, 0.25]], 1, 0.5),
    ],
)
def test_by_hand(chains: list[float | list[float]], in_flight: int, expected: float) -> None:
    assert bound(chains, in_flight) == expected


@given(CHAINS, st.integers(1, 20))
def test_lies_between_what_must_be_and_one_after_another(chains: list[int], in_flight: int) -> None:
    seconds = bound(chains, in_flight)
    assert seconds >= max(chains, default=0)
    assert seconds * in_flight >= sum(chains)
    assert seconds <= sum(chains)


@given(CHAINS)
def test_one_place_is_the_sum_and_a_place_each_the_longest(chains: list[int]) -> None:
    assert bound(chains, 1) == sum(chains)
    assert bound(chains, max(1, len(chains))) == max(chains, default=0)


@given(CHAINS, st.integers(1, 20))
def test_list_scheduling_is_within_twice_the_best(chains: list[int], in_flight: int) -> None:
    assert bound(chains, in_flight) * in_flight <= sum(chains) + (in_flight - 1) * max(
        chains, default=0
    )


@pytest.mark.parametrize("chain", [-1.0, math.nan, math.inf, [1.0, -2.0]])
def test_a_chain_that_is_no_duration_is_refused(chain: float | list[float]) -> None:
    with pytest.raises(ValueError, match="chain 1"):
        bound([1.0, chain], 2)


def test_nothing_in_flight_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        bound([1.0], 0)
