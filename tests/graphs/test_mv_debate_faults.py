"""MV-Debate where an answer is wrong, refused or lost: who drops out, and what the outcome says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles import Fault, Reply
from tests.graphs.views_script import ALL, NO, SCORES, YES, debate, held, parts, words

REFUSES = Reply("I'm sorry, but I can't help with that.")


WRONG: dict[str, Any] = {
    "missing": {"surface": 0.8, "deep": 0.6, "contrast": 0.4},
    "over 100": {**SCORES, "deep": 180},
    "of ten": {"surface": 8, "deep": 6, "contrast": 4, "context": 2},
    "of ten, perhaps": {**SCORES, "deep": 6},
    "1 or 1 %": {"surface": 80, "deep": 1, "contrast": 40, "context": 20},
    "twice": {**SCORES, "Deep": 0.6},
    "under 0": {**SCORES, "deep": -0.1},
    "no number": {**SCORES, "deep": "good"},
    "true": {**SCORES, "deep": True},
    "null": {**SCORES, "deep": None},
    "none": {},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_a_wrong_score_is_asked_for_again(wrong: dict[str, Any]) -> None:
    answers = [{"reason": "x", "scores": wrong}, None, None]
    record, server = await held(
        debate(score=answers, reflection={}), rounds=1, reflection_mode="none"
    )
    assert parts(server.requests).count("score") == 2
    assert "scores" in server.requests[5].messages[-1][1]
    assert record.debate[0]["scores"] == SCORES


async def test_scores_and_criticism_of_nobody_are_dropped_with_a_warning() -> None:
    """Servers without strict schemas let a model add a view that nobody asked for."""
    criticism = {"errors": "none that I see in this", "suggestion": "look at the words once more"}
    said = {"feedback": dict.fromkeys((*ALL, "stranger"), criticism)}
    scores = {"reason": "the first is the clearest of them", "scores": {**SCORES, "stranger": 0.5}}
    record, server = await held(debate(score=[scores, None], reflection=said), rounds=1)
    assert parts(server.requests)[:6].count("score") == 1
    assert record.debate[0]["scores"] == SCORES
    for dropped in ("judge answered more than it was asked for: scores.stranger",
                    "reflection answered more than it was asked for: feedback.stranger"):  # fmt: skip
        assert any(dropped in warning for warning in record.warnings), record.warnings


@pytest.mark.parametrize(
    ("scores", "warned"),
    [
        (
            {"surface": 80, "deep": 60, "contrast": 40, "context": 20},
            "surface 80, deep 60, contrast 40, context 20",
        ),
        ({**SCORES, "deep": 60}, "deep 60"),
        ({view: str(score) for view, score in SCORES.items()}, ""),
        ({"SURFACE": 0.8, "Deep": 0.6, "ｃｏｎｔｒａｓｔ": 0.4, "context ": 0.2}, ""),
    ],
)
async def test_scores_are_taken_where_it_is_plain_what_they_mean(
    scores: dict[str, Any], warned: str
) -> None:
    answers = [{"reason": "x", "scores": scores}, None]
    record, server = await held(debate(score=answers), rounds=1, reflection_mode="none")
    assert parts(server.requests).count("score") == 1
    assert record.debate[0]["scores"] == SCORES
    said = [warning for warning in record.warnings if "percent" in warning]
    assert said == (
        [f"judge: scores in percent were taken as parts of one: {warned}"] if warned else []
    )


@pytest.mark.parametrize(
    "wrong", ['{"reason": "x", "scores": {"surface": NaN, "deep": 0, "contrast": 0, "context": 0}}']
)
async def test_a_score_that_stays_wrong_is_a_failure_and_no_0(wrong: str) -> None:
    record, _ = await held(debate(score=wrong), rounds=1)
    assert (record.outcome, record.label) == ("failure", None)
    assert record.fault == {
        "seat": "judge",
        "role": "judge.scores",
        "model": "openai:scripted",
        "kind": "bad_output",
    }


@pytest.mark.parametrize(("lost", "kind"), [(REFUSES, "refusal"), (Fault(409, "no"), "failure")])
async def test_a_view_that_is_lost_drops_out_of_that_round(lost: Reply | Fault, kind: str) -> None:
    record, server = await held(debate(deep=[lost, None, None]), rounds=2)
    assert record.outcome == "verdict"
    first, second = record.debate
    assert list(first["answers"]) == ["surface", "contrast", "context"]
    assert [(gone["seat"], gone["stage"], gone["outcome"]) for gone in first["dropped"]] == [
        ("view:deep", "answer", kind)
    ]
    assert first["top"] == ["surface", "contrast"]
    assert list(second["answers"]) == list(ALL)
    assert second["dropped"] == []
    assert any("view:deep" in warning and "round 1" in warning for warning in record.warnings)
    assert "deep" not in server.requests[4].text.rpartition("# Your part")[2]


async def test_a_view_that_is_lost_when_it_answers_again_keeps_its_first_answer() -> None:
    record, server = await held(debate(deep_again=REFUSES, gain=0.1), rounds=1)
    entry = record.debate[0]
    assert (entry["new_scores"], entry["delta"], entry["adopted"]) == ({"surface": 0.9}, 0.1, True)
    assert [(gone["seat"], gone["stage"]) for gone in entry["dropped"]] == [
        ("view:deep", "revision")
    ]
    record, server = await held(debate(deep_again=REFUSES, surface_again=REFUSES), rounds=1)
    assert record.outcome == "verdict"
    assert "adopted" not in record.debate[0]
    assert "surface-first-1." in server.requests[-1].text
    assert parts(server.requests).count("score") == 1


async def test_without_its_reflection_a_round_stands_as_it_is() -> None:
    record, server = await held(debate(reflection=REFUSES), rounds=1)
    assert record.outcome == "verdict"
    assert "again" not in " ".join(parts(server.requests))
    assert [(gone["seat"], gone["stage"]) for gone in record.debate[0]["dropped"]] == [
        ("reflection", "reflection")
    ]


async def test_with_fewer_than_two_views_the_outcome_says_why() -> None:
    record, server = await held(
        debate(surface=REFUSES, deep=Fault(409, "no such thing"), contrast=REFUSES)
    )
    assert (record.outcome, len(server.requests)) == ("refusal", 4)
    assert "1 of 4" in record.explanation
    for seat in ("view:surface", "view:deep", "view:contrast"):
        assert seat in record.explanation
    assert "no such thing" in record.explanation
    record, _ = await held(
        debate(surface=[None, REFUSES], deep=[None, REFUSES], contrast=[None, REFUSES])
    )
    assert record.outcome == "refusal"
    assert "round 2" in record.explanation


@pytest.mark.parametrize(
    ("lost", "how"), [(REFUSES, "refused"), (Fault(409, "no"), "failed"), (Reply("x"), "failed")]
)
@pytest.mark.parametrize(("side", "label"), [(YES, 1), (NO, 0)])
async def test_where_all_agreed_a_lost_summary_loses_nothing(
    side: dict[str, str], label: int, lost: Reply | Fault, how: str
) -> None:
    record, _ = await held(debate([side], summary=lost))
    assert (record.outcome, record.label, record.fault) == ("verdict", label, None)
    assert words(record.explanation or "", "All 4 views", *(f"{view}-first-1." for view in ALL)) == [
        "All 4 views", *(f"{view}-first-1." for view in ALL),
    ]  # fmt: skip
    assert any(
        f"summary {how}" in warning and "stands as the verdict" in warning
        for warning in record.warnings
    )
    assert record.calls[-1].seat == "summary"
    assert record.calls[-1].error


@pytest.mark.parametrize(("name", "seat"), [("score", "judge"), ("summary", "summary")])
async def test_a_fault_of_judge_or_summary_is_the_outcome(name: str, seat: str) -> None:
    instead: dict[str, Any] = {name: REFUSES}
    record, _ = await held(debate(**instead))
    assert record.outcome == "refusal"
    assert record.fault is not None
    assert record.fault["seat"] == seat
