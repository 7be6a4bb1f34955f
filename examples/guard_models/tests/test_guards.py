"""Guard models over the wire: the requests that they are sent, and the verdicts that their answers become."""

from typing import Any

import pytest

import tribunal
from tribunal.testing import Reply, ScriptedModel

POST = "They should all go home."
VIOLATION = (
    '{"violation": 1, "policy_category": "1.1", "rule_ids": ["1.1"], "confidence": "high", '
    '"rationale": "Sends a group away."}'
)


def say(scripted_model: ScriptedModel, answer: str) -> None:
    # a request in a model's own layout names no part
    scripted_model.script = lambda request: Reply(answer)


def sent(scripted_model: ScriptedModel) -> dict[str, Any]:
    [request] = scripted_model.requests
    return request.body


@pytest.mark.parametrize(
    ("graph", "answer", "kwarg"),
    [
        ("llama_guard", "unsafe\nS1", "categories"),
        ("shieldgemma", "Yes. It sends people away.", "guideline"),
        ("granite_guardian", "<think>\n</think>\n<score> yes </score>", "guardian_config"),
    ],
)
def test_the_post_is_the_only_turn_and_the_policy_goes_to_the_template(
    scripted_model: ScriptedModel, graph: str, answer: str, kwarg: str
) -> None:
    say(scripted_model, answer)
    record = tribunal.judge(POST, graph=graph, scheme="binary")
    body = sent(scripted_model)
    assert [(each["role"], each["content"]) for each in body["messages"]] == [("user", POST)]
    assert "protected group" in str(body["chat_template_kwargs"][kwarg])
    assert (record.label, body["temperature"], "response_format" in body) == (1, 0.0, False)


def test_safeguard_is_sent_the_policy_as_its_system_message(scripted_model: ScriptedModel) -> None:
    say(scripted_model, VIOLATION)
    record = tribunal.judge(POST, graph="gpt_oss_safeguard", policy="moderations")
    system, user = sent(scripted_model)["messages"]
    assert "## VIOLATES (1)" in system["content"]
    assert "**1.1**" in system["content"]
    assert (user["content"], record.category, record.confidence) == (POST, "hate/threatening", 0.95)
    assert "It names 1.1. Sends a group away." in record.explanation


def test_a_code_names_the_category_of_the_policy(scripted_model: ScriptedModel) -> None:
    say(scripted_model, "unsafe\nS2")
    record = tribunal.judge(POST, graph="llama_guard", policy="moderations", scheme="fine")
    assert sent(scripted_model)["chat_template_kwargs"]["categories"]["S2"].startswith("hate.\n")
    assert record.category == "hate"


def test_an_answer_in_another_format_is_asked_for_again_and_then_no_verdict(
    scripted_model: ScriptedModel,
) -> None:
    say(scripted_model, "I think this is fine.")
    record = tribunal.judge(POST, graph="llama_guard")
    assert record.outcome == "failure"
    assert "isn't in the format" in record.explanation
    assert len(scripted_model.requests) == 2


def test_yes_or_no_decides_no_fine_scheme(scripted_model: ScriptedModel) -> None:
    with pytest.raises(tribunal.BadInput, match="give --scheme binary"):
        tribunal.judge(POST, graph="shieldgemma", scheme="fine")
    assert not scripted_model.requests
