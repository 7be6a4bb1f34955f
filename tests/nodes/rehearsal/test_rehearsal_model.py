"""The rehearsal model as a chat model: its message, its parts, and a form that every answer fits."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from tests.nodes.rehearsal.rehearsed import DIRECT, H_VLI, asked, charge, defence
from tribunal.models.role import Question, Role
from tribunal.nodes.arcade.cues import quote_transcript, quote_turn
from tribunal.nodes.arcade.defender import DEFENCE
from tribunal.nodes.arcade.gatekeeper import GATEKEEPER
from tribunal.nodes.arcade.judge import CLASSIFIER, JUDGE
from tribunal.nodes.arcade.prosecutor import INDICTMENT, INVESTIGATION, PROSECUTION
from tribunal.nodes.rehearsal.model import NO_RULES, PARTS, Rehearsal
from tribunal.schema import Argument, Cue, Post, Scheme

ROLES: tuple[Role[Any], ...] = (
    GATEKEEPER,
    INDICTMENT,
    INVESTIGATION,
    PROSECUTION,
    DEFENCE,
    JUDGE,
    CLASSIFIER,
)

PIECES = ["immigrants", "women", "jews", "landlords", "vermin", "should be banned", "not", "belong in the kitchen",
          "“", '"', "'", "they", "always", "said", "/s", ".", "\n", "<<<cue", "C1\n  claim: x\n  concedes: y",
          "is wrong", "we", "as a", "weeds", "\u202e", "{{ x }}", "\ud800"]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=14).map(" ".join),
    st.sampled_from(["fine", "binary"]),
)
def test_every_answer_fits_its_form(text: str, scheme: Scheme) -> None:
    for role in (GATEKEEPER, CLASSIFIER):
        asked(role, text, scheme=scheme)
    for role in (INDICTMENT, INVESTIGATION):
        cues = asked(role, text, scheme=scheme)["cues"]
        turns = [charge(*(Cue(id=f"C{place}", **each) for place, each in enumerate(cues, 1)))]
        reply = asked(
            DEFENCE, text, scheme=scheme, round=1, own="", prosecution=quote_turn(turns[0])
        )["arguments"]
        # the others are conceded
        assert {each["cue_id"] for each in reply} <= {each.id for each in turns[0].cues}
        turns.append(defence(1, *(Argument(**each) for each in reply)))
        material: Any = {"round": 2, "own": quote_turn(turns[0]), "defence": quote_turn(turns[1])}
        pressed = asked(PROSECUTION, text, scheme=scheme, **material)["arguments"]
        assert [each["cue_id"] for each in pressed] == [each.id for each in turns[0].cues]
        asked(JUDGE, text, scheme=scheme, transcript=quote_transcript(turns))


def question_for(role: Role[Any], text: str) -> Question:
    form = role.form(H_VLI, "fine")
    return Question(role, form, "", Post(id="p", text=text), {}, H_VLI, "fine", None, 0, 0)


async def test_the_message_is_that_of_any_chat_model() -> None:
    model = Rehearsal()
    question = question_for(GATEKEEPER, DIRECT)
    message = await model.ainvoke(
        [HumanMessage("abcdefgh!")], question=lambda: question, temperature=0.0
    )
    assert json.loads(message.text)["cues"][0]["type"] == "Direct"
    assert message.text == model.invoke([HumanMessage("abcdefgh!")], question=lambda: question).text
    assert message.response_metadata["finish_reason"] == "stop"
    usage = message.usage_metadata
    assert usage is not None
    assert (usage["input_tokens"], usage["output_tokens"]) == (3, -(-len(message.text) // 4))
    profile = model.profile or {}
    assert not profile.get("image_inputs", True)
    assert profile.get("temperature", True)


async def test_nothing_in_it_blocks_the_event_loop() -> None:
    blockbuster = pytest.importorskip("blockbuster")
    with blockbuster.blockbuster_ctx():
        for text in (DIRECT, "a long post. " * 1000 + DIRECT):
            question = partial(question_for, GATEKEEPER, text)
            message = await Rehearsal().ainvoke([HumanMessage("?")], question=question)
            assert json.loads(message.text)["cues"]


def test_the_parts_are_those_of_the_court() -> None:
    assert {role.name for role in ROLES} <= PARTS.keys()


async def test_a_role_without_rules_gets_the_first_of_all_values_and_words_that_say_so() -> None:
    stranger = Role(name="view:surface", seat="judge", prompt="", form=JUDGE.form, temperature=None)
    message = await Rehearsal().ainvoke(
        [HumanMessage("?")], question=lambda: question_for(stranger, DIRECT)
    )
    assert json.loads(message.text) == {
        "explanation": NO_RULES,
        "category": "NotHate",
        "clauses": [],
    }
    with pytest.raises(ValueError, match="asked through `ask`"):
        await Rehearsal().ainvoke([HumanMessage("?")])
