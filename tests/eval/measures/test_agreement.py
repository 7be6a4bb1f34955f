"""Fleiss' kappa against a case worked by hand."""

from __future__ import annotations

import pytest

from tests.court import decide
from tests.graphs.test_predict import panel
from tribunal.eval.doubles.scripted import ScriptedServer
from tribunal.eval.measures.agreement import fleiss_kappa, over_agents, over_repeats


def test_a_case_worked_by_hand() -> None:
    # Three raters, four subjects: (3,0) (2,1) (1,2) (0,3). P̄ = (1 + 1/3 + 1/3 + 1) / 4 = 2/3; P̄e = 1/2; κ = 1/3.
    ratings = [["a", "a", "a"], ["a", "a", "b"], ["a", "b", "b"], ["b", "b", "b"]]
    assert fleiss_kappa(ratings) == pytest.approx(1 / 3)


def test_the_ends() -> None:
    assert fleiss_kappa([[1, 1], [0, 0]]) == pytest.approx(1.0)
    assert fleiss_kappa([[1, 1], [1, 1]]) == 1.0
    assert fleiss_kappa([[1, 0], [0, 1]]) == pytest.approx(-1.0)
    assert fleiss_kappa([[1, 1], [0, 0], [1, None]]) == pytest.approx(1.0)


@pytest.mark.parametrize("ratings", [[], [[1]], [[1, None]], [[1, 1], [1, 1, 1]]])
def test_what_has_no_kappa(ratings: list[list[int | None]]) -> None:
    with pytest.raises(ValueError, match="kappa takes"):
        fleiss_kappa(ratings)


async def test_over_agents_and_over_repeats_of_real_records() -> None:
    async with ScriptedServer(panel(3)) as server:
        first = [await decide(server, f"post {each}", graph="predict", repeat=0) for each in range(2)]
        again = [await decide(server, f"post {each}", graph="predict", repeat=1) for each in range(2)]
    # The same three of five call every post hate: P̄ = 0.4, P̄e = 0.52.
    assert over_agents(first) == pytest.approx((0.4 - 0.52) / (1 - 0.52))
    repeats = [{record.post_id: record for record in each} for each in (first, again)]
    assert over_repeats(repeats) == 1.0
    assert over_repeats(repeats, first[0].opinions[0].id) == 1.0
