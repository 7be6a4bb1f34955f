"""Fleiss' kappa against a case worked by hand, and over results as runs write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.court import decide
from tests.graphs.panel_script import panel
from tests.result_lines import measure
from tribunal.eval.doubles.scripted import ScriptedServer
from tribunal.eval.measures.agreement import fleiss_kappa


def test_a_case_worked_by_hand() -> None:
    # Three raters, four subjects: (3,0) (2,1) (1,2) (0,3). P̄ = (1 + 1/3 + 1/3 + 1) / 4 = 2/3; P̄e = 1/2; κ = 1/3.
    ratings = [["a", "a", "a"], ["a", "a", "b"], ["a", "b", "b"], ["b", "b", "b"]]
    assert fleiss_kappa(ratings) == pytest.approx(1 / 3)


def test_the_ends() -> None:
    assert fleiss_kappa([[1, 1], [0, 0]]) == pytest.approx(1.0)
    assert fleiss_kappa([[1, 1], [1, 1]]) == 1.0
    assert fleiss_kappa([[1, 0], [0, 1]]) == pytest.approx(-1.0)


@pytest.mark.parametrize("ratings", [[], [[]], [[1]]])
def test_what_has_no_kappa(ratings: list[list[int]]) -> None:
    assert fleiss_kappa(ratings) is None


def test_raters_who_left_a_subject_out_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        fleiss_kappa([[1, 0], [1, 1, 1]])


async def test_over_agents_and_over_repeats_of_real_records(tmp_path: Path) -> None:
    async with ScriptedServer(panel(3)) as server:
        lines = [
            {**(await decide(server, f"post {each}", graph="predict", repeat=repeat)).dump(), "repeat": repeat}
            for repeat in range(2)
            for each in range(2)
        ]
    found = measure(tmp_path / "run", lines)
    # The same three of five call every post hate: P̄ = 0.4, P̄e = 0.52.
    assert found["over_agents"]["kappa"] == pytest.approx((0.4 - 0.52) / (1 - 0.52))
    assert (found["over_agents"]["n"], len(found["over_agents"]["agents"])) == (4, 5)
    assert (found["over_repeats"]["posts"], found["over_repeats"]["kappa"]) == (2, 1.0)
