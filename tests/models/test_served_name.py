"""The name that a server gives its model: another one than was asked for is a warning, a release's date is none."""

from __future__ import annotations

import json

import pytest

from tests.court import decide
from tests.doubles import Fault, ScriptedServer
from tests.models.classified import GOOD
from tribunal.models.exam_results import is_same_model


@pytest.mark.parametrize(
    ("asked", "served", "same"),
    [
        ("gpt-5", "gpt-5-2025-08-07", True), ("gpt-5", "gpt-5-mini", False), ("llama3.2", "llama3.2:latest", True),
        ("gemini-2.5-flash", "models/gemini-2.5-flash-001", True), ("mistral-large-latest", "mistral-large-2411", True),
        ("small", "/models/Small.gguf", True), ("qwen3", "llama3.2", False),
    ],
)  # fmt: skip
def test_which_names_are_one_model(asked: str, served: str, same: bool) -> None:
    assert is_same_model(asked, served) is same


async def test_another_model_than_was_asked_for_is_a_warning() -> None:
    message = {"role": "assistant", "content": json.dumps(GOOD)}
    body = {
        "model": "other-7b",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    async with ScriptedServer(lambda request: Fault(200, body=body)) as server:
        record = await decide(server, graph="baseline")
    assert record.outcome == "verdict"
    [warning] = record.warnings
    assert warning.startswith(
        "openai:scripted was answered by other-7b: the server has another model"
    )
