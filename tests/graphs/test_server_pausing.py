"""Every graph on the real dev server: each node is stopped at, edited, gone on from, gone back to, and forked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.decided import store_of
from tribunal.graphs import GRAPHS, builder

IMPLICIT, EXPLICIT = (
    "Immigrants: the weeds in our garden.",
    "Immigrants are vermin and should be deported.",
)
HEARD = ["example-harm", "example-newsroom"]
OFFLINE: dict[str, Any] = {"search": "none", "max_turns": 1}
# For each graph, posts and settings that lead through every one of its nodes, by both tracks.
WAYS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "tribunal": [
        (
            IMPLICIT,
            {**OFFLINE, "rounds": 2, "web": True, "perspectives": HEARD, "triage": "rehearsal"},
        ),
        (EXPLICIT, {"review": True, "review_rule": ["all"]}),
    ],
    "arcade": [(IMPLICIT, {"rounds": 2}), (EXPLICIT, {})],
    "multiround": [(IMPLICIT, {"rounds": 1})],
    "predict": [
        (IMPLICIT, {"perspectives": HEARD}),
        (IMPLICIT, {"perspectives": HEARD, "mode": "majority"}),
        (IMPLICIT, {"mode": "base"}),
    ],
    "antihate": [(IMPLICIT, OFFLINE), (IMPLICIT, {"mode": "zero-shot"})],
    "mv_debate": [(IMPLICIT, {"rounds": 2})],
    "baseline": [(IMPLICIT, {})],
    "self_consistency": [(IMPLICIT, {"draws": 2})],
    "symmetric_debate": [(IMPLICIT, {"rounds": 2, "agents": 3})],
}
When = Literal["interrupt_before", "interrupt_after"]
Seen = dict[tuple[str, str], set[str]]  # by graph and node, what was done there

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


def ending(values: dict[str, Any]) -> tuple[Any, ...]:
    """What a case came to, in the words of whoever spoke."""
    outcome, spoken = (
        values["outcome"],
        [(turn["id"], turn["text"]) for turn in values.get("transcript", [])],
    )
    return (
        outcome["outcome"],
        outcome.get("category"),
        outcome["explanation"],
        values.get("track"),
        spoken,
    )


class Walk:
    """One post through one graph, a step at a time, on a thread of its own. Only `receive` is given the context."""

    def __init__(self, client: Any, graph: str, text: str, context: dict[str, Any]) -> None:
        self.client, self.graph = client, graph
        self.first: dict[str, Any] = {"input": {"text": text}, "context": context}
        self.thread = ""

    async def go_on(self, given: dict[str, Any], **stops: Any) -> dict[str, Any]:
        """The state in which a run ends; a reviewer accepts what the court decided."""
        done = await self.client.runs.wait(self.thread, self.graph, **given, **stops)
        if asked := done.get("__interrupt__"):
            assert asked[0]["value"][0]["action_request"]["action"] == "decide"
            await self.client.runs.wait(
                self.thread, self.graph, command={"resume": {"type": "accept"}}, **stops
            )
        held: dict[str, Any] = await self.client.threads.get_state(self.thread)
        return held

    async def whole(self) -> tuple[Any, ...]:
        """How the case ends that nobody stops."""
        self.thread = (await self.client.threads.create())["thread_id"]
        return ending((await self.go_on(self.first))["values"])

    async def stopped(self, when: When, seen: Seen) -> list[dict[str, Any]]:
        """Stop at every node, and at each stop write every channel back as the plain JSON it is, and a warning more.

        Returns:
            the stops, and the end, as they are after the edit.
        """
        self.thread = (await self.client.threads.create())["thread_id"]
        given, ran = self.first, ["receive"]
        places: list[dict[str, Any]] = []
        while not places or places[-1]["next"]:
            held = await self.go_on(given, **{when: "*"})
            values = dict(held["values"])
            if begun := "post" in values:
                values["warnings"] = [*values["warnings"], f"edited at stop {len(places)}"]
            await self.client.threads.update_state(self.thread, values)
            edited = await self.client.threads.get_state(self.thread)
            assert edited["values"] == values, (self.graph, when, held["next"])
            assert edited["next"] == held["next"], (self.graph, when)
            for node in held["next"] if when == "interrupt_before" else ran:
                seen.setdefault((self.graph, node), set()).add(when)
            places, ran = [*places, edited], held["next"]
            given = {"input": None} if begun else {"input": None, "context": self.first["context"]}
        return places

    async def forked(self, place: dict[str, Any], seen: Seen) -> tuple[Any, ...]:
        """Go back to a place of the case, edit it, and go on from there to another end."""
        back = await self.client.threads.get_state(self.thread, checkpoint=place["checkpoint"])
        assert back["values"] == place["values"]
        mine = {"warnings": ["another way"]} if "post" in place["values"] else place["values"]
        await self.client.threads.update_state(self.thread, mine, checkpoint=place["checkpoint"])
        begun = "post" in place["values"]
        done = await self.go_on(
            {"input": None} if begun else {"input": None, "context": self.first["context"]}
        )
        assert not done["next"]
        if begun:
            assert "another way" in done["values"]["warnings"]
            assert set(place["values"]["warnings"]) <= set(done["values"]["warnings"])
        for node in place["next"]:
            seen[self.graph, node].add("fork")
        return ending(done["values"])


async def walked(walk: Walk, when: When, seen: Seen) -> None:
    """One way through a graph with stops comes to the same end as without, and so does every fork of it."""
    whole = await walk.whole()
    *places, end = await walk.stopped(when, seen)
    assert ending(end["values"]) == whole, (walk.graph, when)
    assert sum("edited at stop" in each for each in end["values"]["warnings"]) >= len(places)
    if when == "interrupt_before":
        for place in places:
            if all("fork" in seen[walk.graph, node] for node in place["next"]):
                continue
            assert await walk.forked(place, seen) == whole, (walk.graph, place["next"])


@pytest.fixture(scope="module")
def seen() -> Seen:
    return {}


# The hybrid court has both tracks and every piece; the other graphs take minutes and go with the slow tests.
IN_CI = ("tribunal",)


@pytest.mark.parametrize(
    "graph",
    [pytest.param(name, marks=() if name in IN_CI else pytest.mark.slow) for name in GRAPHS],
)
async def test_every_node_can_be_stopped_at_edited_gone_on_from_and_forked(
    client: Any, graph: str, seen: Seen, operator: Path
) -> None:
    heard: dict[str, Any] = {}
    if graph == "tribunal":
        await store_of(out=operator / "open" / "stops")
        heard = {"precedents": str(operator / "open" / "stops" / "ours")}
    ways: list[tuple[Walk, When]] = [
        (Walk(client, graph, text, {**context, **heard}), when)
        for text, context in WAYS[graph]
        for when in ("interrupt_before", "interrupt_after")
    ]
    await asyncio.gather(*(walked(walk, when, seen) for walk, when in ways))
    done = {node: seen.get((graph, node), set()) for node in builder(graph).nodes}
    assert done == {node: {"interrupt_before", "interrupt_after", "fork"} for node in done}
