"""Refusals in every form that OpenAI-compatible servers use, and the seat that a fault names."""

from __future__ import annotations

from typing import Any

import pytest

from tests.court import court_script, decide, part
from tests.doubles import Fault, Reply, ScriptedServer
from tests.models.classified import CUT, PROSE, came_of, classify

# Refusals

REFUSALS: list[tuple[str, Any, str]] = [
    ("refusal field", Reply(refusal="I can't help with that."), "refusal_field"),
    ("content filter", Reply("", "content_filter"), "content_filter"),
    ("filtered midway", Reply(CUT, "content_filter"), "content_filter"),
    ("azure", Fault(400, "The response was filtered due to the prompt triggering Azure OpenAI's content management "
                         "policy.", "content_filter"), "safety_error"),
    ("dashscope", Fault(400, "Input data may contain inappropriate content.", "data_inspection_failed"),
     "safety_error"),
    ("glm", Fault(400, body={"error": {"code": "1301", "message": "系统检测到输入或生成内容可能包含不安全或敏感内容"},
                             "contentFilter": [{"level": 1, "role": "user"}]}), "safety_error"),
    ("glm, untold", Fault(400, body={"error": {"code": "1301", "message": "?"}}), "safety_error"),
    ("glm midway", Reply("", "sensitive"), "content_filter"),
    ("openai moderation", Fault(403, "Your input was flagged by moderation"), "safety_error"),
    ("plain", Reply("I can't help with that."), "plain_text"),
    ("curly", Reply("I’m sorry, but I can’t help with that."), "plain_text"),
    ("after thought", Reply("<think>hm</think>I cannot assist with this request."), "plain_text"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "form"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS]
)
async def test_a_refusal_is_a_refusal(answer: Any, form: str) -> None:
    record, server = await classify(answer)
    assert came_of(record) == ("refusal", form, 1)
    assert len(server.requests) == 1
    assert (record.label, record.category, record.hateful) == (None, None, None)
    assert [call.error for call in record.calls] == [f"refused: {form}"]
    assert record.fault == {
        "seat": "classifier",
        "role": "classifier",
        "model": "openai:scripted",
        "kind": form,
    }


async def test_one_who_declines_when_asked_again_has_refused() -> None:
    record, _ = await classify([PROSE, Reply("I'm sorry, I can't help with that.")])
    assert came_of(record) == ("refusal", "plain_text", 2)


# Seats

SEATS = [
    ("gatekeeper", "gatekeeper", "gatekeeper", True),
    ("indictment", "prosecutor", "prosecutor.indictment", True),
    ("investigation", "prosecutor", "prosecutor.investigation", False),
    ("prosecution", "prosecutor", "prosecutor.argument", False),
    ("defence", "defender", "defender", False),
    ("judge", "judge", "judge", False),
]


@pytest.mark.parametrize(("played", "seat", "role", "explicit"), SEATS)
@pytest.mark.parametrize(
    ("answer", "outcome", "kind"),
    [
        (Fault(401, "no"), "failure", "authentication"),
        (Fault(500, "down"), "failure", "server"),
        (Reply("what?"), "failure", "bad_output"),
        (Reply(refusal="no"), "refusal", "refusal_field"),
    ],
)
async def test_a_fault_names_its_seat(
    played: str, seat: str, role: str, explicit: bool, answer: Any, outcome: str, kind: str
) -> None:
    async with ScriptedServer(court_script(explicit=explicit, **{played: answer})) as server:
        record = await decide(server, rounds=2, attempts=2)
    assert record.outcome == outcome
    assert record.fault == {"seat": seat, "role": role, "model": "openai:scripted", "kind": kind}
    assert record.calls[-1].role == role
    assert [call.error for call in record.calls if call.error] == [
        kind if outcome == "failure" else f"refused: {kind}"
    ]
    assert part(server.requests[-1]) == played  # nobody speaks after it
