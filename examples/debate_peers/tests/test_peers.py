"""The peers over the wire: who is asked in which order, at which temperature, what each is shown, and who wins."""

from __future__ import annotations

from typing import Any

import pytest
from debate_peers.debunc import scale_confidences

import tribunal
from tribunal.testing import Fault, Reply, ScriptedModel

POST = "They should all go home."
DIRECT = "# Your part: the agent who answers directly"
SCENE, SCENE_ANSWER = (
    f"# Your part: the agent who sees the scene, {when} the answer" for when in ("before", "with")
)
PARTS, PARTS_ANSWER = (
    f"# Your part: the agent who divides the question, {when} the answer"
    for when in ("before", "with")
)
REFEREES = {
    "public": "# Your part: the referee for the general public",
    "critic": "# Your part: the referee who criticises",
    "author": "# Your part: the referee who writes news",
}
UNSURE = "# Your part: an agent with a confidence"
FIRST, REVIEW, REVISED = (
    f"# Your part: the agent, {which}" for which in ("first answer", "review", "revised answer")
)
HEADINGS = {
    "dmad": [DIRECT, SCENE_ANSWER, PARTS_ANSWER],
    "chateval": [*REFEREES.values()],
    "debunc": [UNSURE] * 3,
    "self_correction": [FIRST],
}


def judge(graph: str, **settings: Any) -> tribunal.Record:
    return tribunal.judge(POST, graph=graph, **{"scheme": "binary", **settings})


def answer(side: str, reason: str, **more: Any) -> dict[str, Any]:
    return {"reason": reason, "answer": side, **more}


def seats(record: tribunal.Record) -> list[str]:
    return [call.seat.partition(":")[2] or call.role.partition(".")[2] for call in record.calls]


def temperatures(scripted_model: ScriptedModel) -> set[float | None]:
    return {request.temperature for request in scripted_model.requests}


# DMAD


def test_dmad_thinks_by_three_methods_and_shows_all_that_was_said(
    scripted_model: ScriptedModel,
) -> None:
    scripted_model.answer(DIRECT, answer("NO", "direct one."), answer("YES", "direct two."))
    scene = {
        "objects": ["a crowd"],
        "attributes": ["angry"],
        "relations": ["one side sends the other away"],
    }
    scripted_model.answer(SCENE, scene)
    scripted_model.answer(SCENE_ANSWER, answer("YES", "scene one."), answer("NO", "scene two."))
    scripted_model.answer(PARTS, {"questions": ["Who are they?"], "answers": ["A group."]})
    scripted_model.answer(PARTS_ANSWER, answer("YES", "parts one."), answer("YES", "parts two."))
    record = judge("dmad", rounds=2)
    assert sorted(seats(record)[:5]) == ["direct", "questions", "questions", "scene", "scene"]
    assert temperatures(scripted_model) == {0.3}
    [_, direct] = scripted_model.told(DIRECT)
    assert all(
        words in direct
        for words in ("scene one.", "a crowd", "Who are they?", "Round 1, you:", "direct one.")
    )
    first, second = scripted_model.told(SCENE_ANSWER)
    assert "one side sends the other away" in first
    assert not any(words in first for words in ("direct one.", "parts one.", "Who are they?"))
    assert all(words in second for words in ("Round 1, agent:direct:", "direct one.", "parts one."))
    assert "direct two." not in second
    assert "scene one." in scripted_model.told(SCENE)[1]
    assert (record.label, record.rounds, record.confidence) == (1, 2, 2 / 3)


# ChatEval


def test_chateval_hears_one_after_another_and_answers_in_the_last_round(
    scripted_model: ScriptedModel,
) -> None:
    sides = {"public": "YES", "critic": "NO", "author": "NO"}
    for name, heading in REFEREES.items():
        scripted_model.answer(
            heading, {"reason": f"{name} talks."}, answer(sides[name], f"{name} decides.")
        )
    record = judge("chateval", rounds=2)
    assert seats(record) == [*REFEREES, *REFEREES]
    assert temperatures(scripted_model) == {0.0}
    heard: list[str] = []
    for number, (talk, stage) in enumerate((("talks", "talk"), ("decides", "answer"))):
        for name, heading in REFEREES.items():
            told = scripted_model.told(heading)[number]
            assert [words for words in heard if words not in told] == []
            assert ("final answer. It need not" in told) == (stage == "answer")
            heard.append(f"{name} {talk}.")
    schemas = [
        request.schema["properties"] for request in scripted_model.requests if request.schema
    ]
    assert ["answer" in each for each in schemas] == [False] * 3 + [True] * 3
    assert (record.label, record.rounds, record.explanation) == (
        0,
        2,
        "2 of 3 agents answered NO. critic decides.",
    )


def test_chateval_with_one_round_only_answers(scripted_model: ScriptedModel) -> None:
    assert seats(judge("chateval", rounds=1)) == [*REFEREES]


# DebUnc


def test_debunc_shows_the_confidence_of_others_and_not_ones_own(
    scripted_model: ScriptedModel,
) -> None:
    sure = {1: 0.5, 2: 0.9, 3: 0.0}

    def script(request: Any) -> Reply:
        number = next(each for each in sure if f"You are agent {each} of several" in request.text)
        return Reply(
            answer("YES" if number == 2 else "NO", f"reason of {number}.", confidence=sure[number])
        )

    scripted_model.script = script
    record = judge("debunc", rounds=2)
    assert temperatures(scripted_model) == {1.0}
    later = [request.text for request in scripted_model.requests if "Round 1" in request.text]
    assert (len(record.calls), len(later)) == (6, 3)
    scaled = dict(zip(sure, scale_confidences([*sure.values()]), strict=True))
    for text in later:
        own = next(each for each in sure if f"You are agent {each} of several" in text)
        assert "Round 1, you:" in text
        for each in sure:
            assert f"reason of {each}." in text
            assert (f"Round 1, agent:{each}, confidence {scaled[each]} of 10:" in text) == (
                each != own
            )
    assert record.label == 0


@pytest.mark.parametrize(
    ("stated", "scaled"),
    [
        ([0.5, 0.5, 0.5], [5, 5, 5]),
        ([1.0, 0.5, 0.5], [10, 1, 1]),
        ([0.5, 0.9, 0.0], [2, 10, 1]),
        ([0.8], [10]),
    ],
)
def test_debunc_scales_confidences_as_its_code(stated: list[float], scaled: list[int]) -> None:
    """`unc_to_confidence`: 14 / n of the certainty's share, and 1 / n, between 1 and 10."""
    assert scale_confidences(stated) == scaled


# Self-correction


def test_self_correction_reviews_and_revises_its_own_answer_alone(
    scripted_model: ScriptedModel,
) -> None:
    scripted_model.answer(FIRST, answer("YES", "first."))
    scripted_model.answer(
        REVIEW, {"problems": "It names no group."}, {"problems": "Nothing is wrong."}
    )
    scripted_model.answer(REVISED, answer("NO", "second."), answer("NO", "third."))
    record = judge("self_correction")
    assert seats(record) == ["answer", "review", "revision", "review", "revision"]
    assert temperatures(scripted_model) == {0.0}
    one, two = scripted_model.told(REVIEW)
    assert "first." in one
    assert all(words in two for words in ("first.", "It names no group.", "second."))
    assert "It names no group." in scripted_model.told(REVISED)[0]
    assert (record.label, record.explanation) == (
        0,
        "The agent's last answer is NO. Nothing is wrong.\nthird.",
    )


def test_self_correction_keeps_its_answer_where_a_review_fails(
    scripted_model: ScriptedModel,
) -> None:
    scripted_model.answer(FIRST, answer("YES", "first."))
    scripted_model.answer(REVIEW, Fault(400, "no"))
    assert judge("self_correction").label == 1


# All


@pytest.mark.parametrize("graph", HEADINGS)
def test_categories_are_refused_before_any_call(scripted_model: ScriptedModel, graph: str) -> None:
    with pytest.raises(tribunal.BadInput, match="give --scheme binary"):
        judge(graph, scheme="fine")
    assert not scripted_model.requests


@pytest.mark.parametrize("graph", HEADINGS)
@pytest.mark.parametrize(
    ("task", "question"), [("sarcasm", "sarcastic"), ("misinformation", "misinformation")]
)
def test_other_tasks_are_asked_for(
    scripted_model: ScriptedModel, graph: str, task: str, question: str
) -> None:
    record = judge(graph, task=task, rounds=1)
    assert (record.outcome, record.task, record.hateful) == ("verdict", task, None)
    assert all(question in request.text for request in scripted_model.requests)


@pytest.mark.parametrize("graph", ["dmad", "chateval", "debunc"])
@pytest.mark.parametrize(
    ("sides", "label", "tie"),
    [("YYN", 1, False), ("YNN", 0, False), ("YN-", 0, True), ("Y--", 1, False)],
)
def test_the_majority_of_those_who_answer_wins_and_a_tie_is_no(
    scripted_model: ScriptedModel, graph: str, sides: str, label: int, tie: bool
) -> None:
    said: list[Any] = [
        Fault(400, "no")
        if side == "-"
        else answer({"Y": "YES", "N": "NO"}[side], f"why {place}.", confidence=0.5)
        for place, side in enumerate(sides)
    ]
    if graph == "debunc":
        scripted_model.answer(UNSURE, *said)
    else:
        for heading, each in zip(HEADINGS[graph], said, strict=True):
            scripted_model.answer(
                heading,
                each
                if isinstance(each, Fault)
                else {key: each[key] for key in ("reason", "answer")},
            )
    record = judge(graph, rounds=1)
    assert (record.label, record.tie) == (label, tie)
    assert sum("dropped out" in warning for warning in record.warnings) == sides.count("-")


@pytest.mark.parametrize("graph", HEADINGS)
@pytest.mark.parametrize(
    ("fault", "outcome"),
    [(Fault(400, "no"), "failure"), (Reply("I'm sorry, but I can't help with that."), "refusal")],
)
def test_where_nobody_answers_the_outcome_is_what_happened(
    scripted_model: ScriptedModel, graph: str, fault: Any, outcome: str
) -> None:
    scripted_model.script = lambda request: fault
    record = judge(graph, rounds=1)
    assert record.outcome == outcome
    assert "no agent answered in round 1" in record.explanation


def tokens(record: tribunal.Record) -> int:
    return record.usage.prompt_tokens + record.usage.completion_tokens


@pytest.mark.parametrize("graph", HEADINGS)
def test_no_round_begins_that_costs_more_than_the_budget(
    scripted_model: ScriptedModel, graph: str
) -> None:
    whole = judge(graph, rounds=6)
    first = judge(graph, rounds=2 if graph == "chateval" else 1)
    for budget in (tokens(first), tokens(whole) // 2, tokens(whole) - 1):
        short = judge(graph, rounds=6, max_tokens=budget)
        assert (short.outcome, tokens(first) <= tokens(short) <= budget) == ("verdict", True)
        assert any("the budget left out round" in warning for warning in short.warnings)
    calls = len(first.calls) + 1
    assert len(judge(graph, rounds=6, max_calls=calls).calls) <= calls
    with pytest.raises(tribunal.BadInput, match="max_calls"):
        judge(graph, max_calls=1)
