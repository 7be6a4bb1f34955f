"""A wrong edit of a case gets one line, from the edit itself, from the next node that reads it, or in the record."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.graphs.test_server_pausing import WAYS
from tests.graphs.wrong_edits import edits_of
from tribunal.docket.records import make_record
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS, builder
from tribunal.nodes.verdict import find_wrong_outcome
from tribunal.settings.context import context_from

# Before these nodes of each graph. At the others the same edits are made by the slow test.
# With what is said there of one channel.
AT = {
    "arcade": ("judge", "cues.0.type: is missing"),
    "predict": ("judge", "post: 'words': should be a valid dictionary"),
    "mv_debate": ("summarise", "post: 'words': should be a valid dictionary"),
    "symmetric_debate": ("vote", "seat: is missing"),
}


async def edited(graph: str, at: tuple[str, ...]) -> list[str]:
    """What is said of each wrong edit of a case that stops before a node; raises what isn't said in one line."""
    said = []
    for text, settings in WAYS[graph]:
        compiled = builder(graph).compile(checkpointer=InMemorySaver())
        run: Any = {"configurable": {"thread_id": "case"}}
        context = context_from(settings)
        await compiled.ainvoke(
            {"text": text}, run, context=context, interrupt_before=list(at) or "*"
        )
        place = await compiled.aget_state(run)
        while place.next and not any(task.interrupts for task in place.tasks):
            if "post" in place.values:
                for channel, wrong in edits_of(place.values):
                    try:
                        fork = await compiled.aupdate_state(place.config, {channel: wrong})
                        done = await compiled.ainvoke(None, fork)
                    except BadInput as error:
                        said.append(str(error))
                        continue
                    if "__interrupt__" in done or channel != "outcome":
                        continue
                    # Nothing after the edit read it, or it was replaced by a right one.
                    values = (await compiled.aget_state(run)).values
                    if find_wrong_outcome(values, context):
                        assert make_record(values, graph, context).outcome == "failure", (
                            place.next,
                            wrong,
                        )
            await compiled.ainvoke(None, place.config, interrupt_before=list(at) or "*")
            place = await compiled.aget_state(run)
    return said


@pytest.mark.parametrize("graph", AT)
async def test_a_wrong_edit_gets_one_line(graph: str) -> None:
    said = await edited(graph, AT[graph][:1])
    assert not [each for each in said if "\n" in each]
    assert any(AT[graph][1] in each for each in said)
    assert any(each.startswith("outcome.category: 'Foo': the policy") for each in said)


@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS)
async def test_a_wrong_edit_gets_one_line_at_every_node(graph: str) -> None:
    assert not [each for each in await edited(graph, ()) if "\n" in each]
