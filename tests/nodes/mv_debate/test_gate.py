"""The gate and the consensus, over any scores: exact at the edge, and the same way every time."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tribunal.nodes.mv_debate.scoring import exact_decimal, is_adopted, mean_gain, top_views

VIEWS = ["surface", "deep", "contrast", "context", "fifth"]
HUNDREDTHS = st.integers(0, 100).map(lambda number: Decimal(number) / 100)
SCORES = st.dictionaries(st.sampled_from(VIEWS), HUNDREDTHS, min_size=1)


def test_nine_tenths_less_eight_reach_a_tenth() -> None:
    assert 0.9 - 0.8 < 0.1  # which is why
    assert is_adopted(
        {"deep": exact_decimal(0.8)}, {"deep": exact_decimal(0.9)}, exact_decimal(0.1)
    )


@given(SCORES, st.data())
def test_the_gate_opens_exactly_from_tau_on(old: dict[str, Decimal], data: st.DataObject) -> None:
    new = data.draw(st.dictionaries(st.sampled_from(sorted(old)), HUNDREDTHS, min_size=1))
    delta = Fraction(sum(Fraction(new[view]) - Fraction(old[view]) for view in new), len(new))
    for tau in (Decimal("0.1"), Decimal("0.05"), Decimal(0), data.draw(HUNDREDTHS)):
        assert is_adopted(old, new, tau) is (delta >= Fraction(tau))
    assert abs(Fraction(mean_gain(old, new)) - delta) < Fraction(1, 10**20)


@given(st.integers(0, 100), st.integers(1, 5), st.data())
def test_at_the_edge_floats_as_they_come_from_json_are_exact(
    tau: int, count: int, data: st.DataObject
) -> None:
    """Δ = τ in hundredths, for every split of it over the views, with all numbers as floats to begin with."""
    views = VIEWS[:count]
    old = {view: data.draw(st.integers(0, 100 - tau)) for view in views}
    written = {view: exact_decimal(number / 100) for view, number in old.items()}
    new = {view: exact_decimal((number + tau) / 100) for view, number in old.items()}
    assert is_adopted(written, new, exact_decimal(tau / 100))
    below = {**new, views[0]: new[views[0]] - Decimal("0.01")}
    assert not is_adopted(written, below, exact_decimal(tau / 100))


def test_nothing_is_adopted_where_nobody_answered_again() -> None:
    assert not is_adopted({"deep": Decimal(1)}, {}, Decimal(0))
    assert mean_gain({"deep": Decimal(1)}, {}) == 0


@given(SCORES, st.integers(1, 8))
def test_the_top_k_are_the_best_and_ties_follow_the_order_given(
    scores: dict[str, Decimal], k: int
) -> None:
    chosen = top_views(scores, k)
    assert len(chosen) == min(k, len(scores)) == len(set(chosen))
    left = [scores[view] for view in scores if view not in chosen]
    assert min(scores[view] for view in chosen) >= max(left, default=Decimal(0))
    order = list(scores)
    for first, second in pairwise(chosen):
        assert scores[first] > scores[second] or order.index(first) < order.index(second)
    assert top_views(dict(scores), k) == chosen
