"""The rehearsal model in a debate of views: what it finds for each task, and what each part does with it."""

from __future__ import annotations

from typing import Any

import pytest

from tribunal.docket.session import judge_post
from tribunal.schema import Record
from tribunal.settings.context import context_from
from tribunal.settings.names import VIEWS

FOUND: list[tuple[str, str, list[str]]] = [
    ("hate", "Immigrants are vermin and should be deported.", list(VIEWS)),
    ("hate", "Immigrants: the weeds in our garden.", ["deep"]),
    ("hate", "Women belong in the kitchen.", ["deep", "context"]),
    ("hate", "Immigrants are not vermin.", []),
    ("sarcasm", "What a day. /s", list(VIEWS)),
    ("sarcasm", "Oh, great. Another form to fill in.", ["surface", "deep"]),
    ("sarcasm", "I love it when my train is delayed.", ["contrast"]),
    ("sarcasm", "Can't wait for Monday.", ["deep", "context"]),
    ("sarcasm", "I love Mondays, I mean it.", []),
    ("sarcasm", "I lo\u200bve\u2028Ｍon\x00days", ["deep", "context"]),
    ("sarcasm", "My train is delayed.", []),
    ("misinformation", "The moon landing was faked.", list(VIEWS)),
    ("misinformation", "Share before it’s deleted!", ["surface", "deep"]),
    ("misinformation", "This cures everything.", ["surface", "deep"]),
    ("misinformation", "BREAKING: the mayor resigns", ["surface", "contrast"]),
    ("misinformation", "BREAKING: the mayor resigns, according to the city", []),
    ("misinformation", "They are secretly married.", ["deep", "context"]),
    ("misinformation", "That they are secretly married is not true.", []),
]


async def debated(text: str, task: str = "hate", **settings: Any) -> Record:
    return await judge_post(
        text, graph="mv_debate", context=context_from({"task": task, **settings})
    )


@pytest.mark.parametrize(("task", "text", "views"), FOUND)
async def test_who_sees_what(task: str, text: str, views: list[str]) -> None:
    record = await debated(text, task, rounds=1)
    assert [
        view for view, answer in record.debate[0]["answers"].items() if answer == "YES"
    ] == views
    assert record.label == int(bool(views))
    zero_shot = await judge_post(
        text, graph="baseline", context=context_from({"task": task, "scheme": "binary"})
    )
    assert zero_shot.label == int(bool(views))


async def test_what_one_view_finds_the_reflection_hands_to_another_and_the_history_to_all() -> None:
    record = await debated("Immigrants: the weeds in our garden.")
    first, second = record.debate
    assert first["scores"] == {"surface": 0.3, "deep": 0.9, "contrast": 0.3, "context": 0.3}
    assert (first["top"], first["new_scores"]) == (
        ["deep", "surface"],
        {"deep": 0.9, "surface": 0.9},
    )
    assert (first["delta"], first["adopted"]) == (0.3, True)
    assert second["consensus"] is True
    assert set(second["answers"].values()) == {"YES"}
