"""The real `langgraph dev` server: what Studio sees, and stepping through a case as a person does there."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import pytest

from tests import PROJECT
from tribunal.graphs import GRAPHS

IMPLICIT = "Immigrants: the weeds in our garden."

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


COMPOSED = ("web_then_debate", "own_retriever", "court_with_review")


@pytest.mark.parametrize("name", [*(name for name in GRAPHS if name != "arcade"), *COMPOSED])
async def test_every_other_graph_reaches_a_verdict_offline(client: Any, name: str) -> None:
    thread = await client.threads.create()
    context = {"search": "none", "max_turns": 1} if name in ("antihate", "web_then_debate") else {}
    done = await client.runs.wait(
        thread["thread_id"], name, input={"text": IMPLICIT}, context=context
    )
    assert done["outcome"]["outcome"] == "verdict", done


async def test_a_case_is_stopped_and_edited_as_the_docs_show_it(client: Any) -> None:
    page = (PROJECT / "docs" / "studio.md").read_text("utf-8")
    shown = page.partition("```python\n")[2].partition("```")[0]
    made: dict[str, Any] = {}
    exec(f"async def followed(client, thread):\n{indent(shown, '    ')}", made)
    thread = (await client.threads.create())["thread_id"]
    await made["followed"](client, thread)
    values = (await client.threads.get_state(thread))["values"]
    assert values["outcome"]["outcome"] == "verdict"
    assert "read by kim" in values["warnings"]


@pytest.mark.parametrize("inside", ["defend", "deep_dive:defend"])
async def test_a_stop_inside_a_track_is_passed_over_as_the_docs_say(
    client: Any, inside: str
) -> None:
    thread = (await client.threads.create())["thread_id"]
    done = await client.runs.wait(
        thread, "arcade", input={"text": IMPLICIT}, interrupt_before=[inside]
    )
    assert (done["outcome"]["outcome"], (await client.threads.get_state(thread))["next"]) == (
        "verdict",
        [],
    )
