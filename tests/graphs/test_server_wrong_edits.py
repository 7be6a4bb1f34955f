"""On the real dev server a wrong edit of any channel ends the run in one line that says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.graphs.wrong_edits import edits_of

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


async def test_a_wrong_edit_of_each_channel_gets_one_line(client: Any) -> None:
    thread = (await client.threads.create())["thread_id"]
    post = {"text": "Immigrants: the weeds in our garden."}
    await client.runs.wait(thread, "arcade", input=post, context={"rounds": 1}, interrupt_before=["judge"])
    paused = await client.threads.get_state(thread)
    said: dict[str, set[str]] = {}
    for channel, wrong in edits_of(paused["values"]):
        try:
            await client.threads.update_state(thread, {channel: wrong}, checkpoint=paused["checkpoint"])
        except Exception as error:  # noqa: BLE001 (what the server makes of an edit that no channel takes)
            said.setdefault(channel, set()).add(f"refused: {type(error).__name__}")
            continue
        run = await client.runs.create(thread, "arcade", input=None)
        await client.runs.join(thread, run["run_id"])
        held = await client.threads.get(thread)
        if held["status"] == "error":
            error = str(held["error"])
            assert "WrongState" in error or "BadInput" in error, (channel, wrong, error)
            assert "validation error" not in error, (channel, wrong, error)
            said.setdefault(channel, set()).add(error)
    assert any("outcome.category: 'Foo': the policy h-vli" in each for each in said["outcome"])
    assert any("transcript" in each and "is missing" in each for each in said["transcript"])
    assert {"post", "context", "prompts", "cues", "track", "calls", "warnings"} <= said.keys()
