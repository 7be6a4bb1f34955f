"""The debate over the wire: who speaks in which order, what each is shown, and who wins."""

import pytest

import tribunal
from tribunal.testing import Fault, ScriptedModel

POST = "They should all go home."
DIMENSIONS = ("accuracy", "sources", "reasoning", "clarity", "ethics")


def say_points(scripted_model: ScriptedModel, *negative: int) -> None:
    for dimension, points in zip(DIMENSIONS, negative, strict=True):
        answer = {"reason": f"On {dimension}.", "affirmative": 7 - points, "negative": points}
        scripted_model.answer(f"# Your part: the judge of {dimension}", answer)


def test_the_teams_take_turns_and_hear_all_that_was_said(scripted_model: ScriptedModel) -> None:
    scripted_model.answer(
        "# Your part: the affirmative team, opening", {"statement": "It speaks of tourists."}
    )
    scripted_model.answer(
        "# Your part: the negative team, closing", {"statement": "It means people born here."}
    )
    say_points(scripted_model, 5, 5, 4, 3, 4)
    record = tribunal.judge(POST, graph="debate_to_detect", scheme="binary")
    seats = [call.seat for call in record.calls]
    stages = ("opening", "rebuttal", "free", "closing")
    turns = [f"{team}:{stage}" for stage in stages for team in ("affirmative", "negative")]
    assert seats[:10] == ["profiler", *turns, "summariser"]
    assert {*seats[10:]} == {f"judge:{each}" for each in DIMENSIONS}
    [rebuttal] = scripted_model.told("# Your part: the negative team, rebuttal")
    assert "It speaks of tourists." in rebuttal
    [judged] = scripted_model.told("# Your part: the judge of ethics")
    assert "It speaks of tourists." in judged
    assert "It means people born here." in judged
    assert "On accuracy." not in judged
    assert (record.label, record.confidence) == (1, 21 / 35)


def test_the_team_with_more_points_wins(scripted_model: ScriptedModel) -> None:
    say_points(scripted_model, 0, 1, 2, 3, 7)
    assert tribunal.judge(POST, graph="debate_to_detect", scheme="binary").label == 0


def test_a_judge_who_fails_leaves_the_others_to_decide_and_a_person_to_look(
    scripted_model: ScriptedModel,
) -> None:
    say_points(scripted_model, 7, 7, 7, 7, 7)
    scripted_model.answer("# Your part: the judge of ethics", Fault(400, "no"))
    record = tribunal.judge(POST, graph="debate_to_detect", scheme="binary")
    assert (record.label, record.uncertain) == (1, True)


def test_a_seat_that_fails_before_the_judges_is_the_failure_of_the_case(
    scripted_model: ScriptedModel,
) -> None:
    scripted_model.answer("# Your part: the summary", Fault(400, "no"))
    record = tribunal.judge(POST, graph="debate_to_detect", scheme="binary")
    assert (record.outcome, record.calls[-1].seat) == ("failure", "summariser")


def test_kinds_of_hate_are_refused_before_any_call(scripted_model: ScriptedModel) -> None:
    with pytest.raises(tribunal.BadInput, match="give --scheme binary"):
        tribunal.judge(POST, graph="debate_to_detect", scheme="fine")
    assert not scripted_model.requests
