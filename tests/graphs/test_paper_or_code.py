"""Where ARCADE's paper and its published code differ: what each seat is shown by the one and by the other."""

from __future__ import annotations

import pytest

from tests.court import court_script, cue, decide, part
from tests.doubles import Request, ScriptedServer
from tests.graphs.panel_script import panel

SAID = ["implied-cue", "defence-1", "prosecution-2", "defence-2"]


def said_in(request: Request) -> list[str]:
    return [words for words in SAID if words in request.text]


@pytest.mark.parametrize(
    ("turns", "shown"),
    [
        (
            "previous",
            [["implied-cue"], ["implied-cue", "defence-1"], ["defence-1", "prosecution-2"]],
        ),
        ("none", [[], [], []]),
    ],
)
async def test_the_sides_of_a_deep_dive_hear_each_other_or_are_shown_the_post_alone(
    turns: str, shown: list[list[str]]
) -> None:
    async with ScriptedServer(court_script()) as server:
        record = await decide(server, "post-words", rounds=2, turns_shown=turns)
    assert [part(request) for request in server.requests] == [
        "gatekeeper", "investigation", "defence", "prosecution", "defence", "judge",
    ]  # fmt: skip
    assert [said_in(request) for request in server.requests[2:5]] == shown
    assert said_in(server.requests[5]) == SAID  # the judge hears all of it
    assert all("post-words" in request.text for request in server.requests)
    # What is said is laid to the cue, whether the speaker was shown it or not.
    assert [turn.arguments[0].cue_id for turn in record.transcript[2:]] == ["C1", "C1", "C1"]
    assert ("Not shown. Cues: C1" in server.requests[3].text) is (turns == "none")


async def test_the_rebuttal_of_the_fast_track_is_shown_the_indictment_in_both() -> None:
    async with ScriptedServer(court_script(explicit=True)) as server:
        await decide(server, turns_shown="none")
    assert part(server.requests[2]) == "defence"
    assert "indicted-cue" in server.requests[2].text


@pytest.mark.parametrize("limit", [2, 3])
async def test_the_paper_allows_three_cues_and_its_code_two(limit: int) -> None:
    many = {"cues": [cue(f"claim-{number}", "Metaphor") for number in range(1, 5)]}
    async with ScriptedServer(court_script(investigation=many)) as server:
        record = await decide(server, rounds=1, cue_limit=limit)
    scan, investigation, defence, _ = server.requests
    assert f"Name at most {limit} cues" in scan.text
    assert f"Bring at most {limit} cues" in investigation.text
    for request in (scan, investigation):
        assert request.schema is not None
        assert request.schema["properties"]["cues"]["maxItems"] == limit
    assert [each.claim for each in record.cues] == [
        f"claim-{number}" for number in range(1, limit + 1)
    ]
    assert ("claim-3" in defence.text) is (limit == 3)


@pytest.mark.parametrize(("where", "rejects"), [("fast-track", False), ("both-tracks", True)])
async def test_the_judge_of_a_deep_dive_rejects_what_is_neutral_in_the_paper(
    where: str, rejects: bool
) -> None:
    async with ScriptedServer(court_script()) as server:
        await decide(server, rounds=1, judge_rejects=where)
    assert (
        "Reject a cue if the post speaks of its own author" in server.requests[-1].text
    ) is rejects


async def test_a_perspective_is_shown_three_similar_texts_or_as_many_as_its_code_finds() -> None:
    async with ScriptedServer(panel()) as server:
        await decide(server, graph="predict", examples_k=4)
    assert [request.text.count("\n  label: ") for request in server.requests[:6]] == [
        4,
        4,
        4,
        4,
        4,
        0,
    ]
