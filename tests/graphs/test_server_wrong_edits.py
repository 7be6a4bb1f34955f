"""On the real dev server a wrong edit of any channel is refused, or ends the run, in one line that says why."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph_sdk.errors import APIStatusError

from tests.graphs.wrong_edits import edits_of

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


@pytest.mark.slow
async def test_a_wrong_edit_of_each_channel_gets_one_line(client: Any) -> None:
    thread = (await client.threads.create())["thread_id"]
    post = {"text": "Immigrants: the weeds in our garden."}
    await client.runs.wait(thread, "arcade", input=post, context={"rounds": 1}, interrupt_before=["judge"])
    paused = await client.threads.get_state(thread)
    said: dict[str, set[str]] = {}
    for channel, wrong in edits_of(paused["values"]):
        heard = said.setdefault(channel, set())
        try:
            await client.threads.update_state(thread, {channel: wrong}, checkpoint=paused["checkpoint"])
        except APIStatusError as refusal:
            heard.add(f"{refusal} {refusal.body}")
            continue
        run = await client.runs.create(thread, "arcade", input=None)
        await client.runs.join(thread, run["run_id"])
        held = await client.threads.get(thread)
        if held["status"] == "error":
            heard.add(str(held["error"]))
    words = [each for heard in said.values() for each in heard]
    assert not [each for each in words if "validation error" in each or "Traceback" in each]
    assert any("transcript" in each and "is missing" in each for each in said["transcript"])
    assert any("outcome.category: 'Foo': the policy h-vli" in each for each in said["outcome"])
    assert all(said[channel] for channel in ("post", "context", "prompts", "cues", "track", "calls", "warnings"))
