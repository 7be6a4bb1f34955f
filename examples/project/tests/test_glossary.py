"""The project's own tests: its piece alone, and its pipeline over the wire, with no key and no network."""

import json

import pytest
from langchain_core.messages import HumanMessage
from nodes.glossary import look_up

import tribunal
from tribunal.pieces import Case, WrongComposition, piece
from tribunal.testing import ScriptedModel, check_piece


def test_the_glossary_keeps_to_its_contract() -> None:
    [written] = check_piece(look_up, {"text": "These weeds."})
    assert [each["id"] for each in written["evidence"]] == ["G1"]


def test_a_piece_that_forgets_what_it_declares_is_caught() -> None:
    @piece(needs=["post"], writes=["evidence", "question"])
    def forgetful(state: Case) -> Case:
        return {"evidence": []}

    with pytest.raises(WrongComposition, match="'question'"):
        check_piece(forgetful, {"text": "These weeds."})


def test_the_judge_is_shown_both_and_its_citations_are_kept(scripted_model: ScriptedModel) -> None:
    scripted_model.answer(
        "judge", {"category": "OtherHate", "explanation": "An old image [G1], decided before [D1]."}
    )
    record = tribunal.judge("These weeds.", graph="graphs/glossary.py:graph", rounds=1)
    assert all(
        words in scripted_model.told("judge")[0] for words in ("[G1] supports", "[D1] neutral")
    )
    assert (record.category, record.steps[0].evidence) == ("OtherHate", ("G1", "D1"))


def test_the_moderator_asks_the_court(scripted_model: ScriptedModel) -> None:
    from graphs.moderator import graph

    scripted_model.answer("gatekeeper", {"cues": []})
    scripted_model.answer("investigation", {"cues": []})
    said = graph.invoke({"messages": [HumanMessage("Good morning.")]})["messages"][-1].text
    assert json.loads(said)["hateful"] is False
    assert "Good morning." in scripted_model.told("gatekeeper")[0]
