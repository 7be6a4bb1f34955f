"""What each model was shown, in which order, at which temperature (SYSTEMS.md, section 1; equations 4 to 7)."""

from __future__ import annotations

import pytest

from tests.court import argument, court_script, cue, decide, part
from tests.doubles import ScriptedServer

DISMISSAL = [("gatekeeper", 0.0), ("investigation", 0.8)]
FAST_TRACK = [("gatekeeper", 0.0), ("indictment", 0.8), ("defence", 0.8), ("judge", 0.1)]


def deep_dive(rounds: int) -> list[tuple[str, float]]:
    later = [("prosecution", 0.8), ("defence", 0.8)] * (rounds - 1)
    return [("gatekeeper", 0.0), ("investigation", 0.8), ("defence", 0.8), *later, ("judge", 0.1)]


def played(server: ScriptedServer) -> list[tuple[str, float | None]]:
    return [(part(request), request.temperature) for request in server.requests]


def words_in(server: ScriptedServer, number: int, vocabulary: list[str]) -> list[str]:
    """Which of these words stand in a prompt."""
    return [word for word in vocabulary if word in server.requests[number].text]


@pytest.mark.parametrize("scheme", ["fine", "binary"])
async def test_dismissal(scheme: str) -> None:
    async with ScriptedServer(court_script(implicit=False)) as server:
        record = await decide(server, scheme=scheme)
    assert played(server) == DISMISSAL
    assert (record.outcome, record.track, record.label, record.category) == (
        "verdict",
        "dismissed",
        0,
        "NotHate",
    )
    assert (record.hateful, record.rounds, record.cues) == (False, 0, ())
    assert "dismissal" in record.explanation


@pytest.mark.parametrize(
    ("scheme", "category", "label"), [("fine", "Religious", 4), ("binary", "Hateful", 1)]
)
async def test_fast_track(scheme: str, category: str, label: int) -> None:
    async with ScriptedServer(court_script(explicit=True)) as server:
        record = await decide(server, "post-words", scheme=scheme)
    assert played(server) == FAST_TRACK
    words = ["post-words", "scan-cue", "indicted-cue", "defence-1"]
    assert [words_in(server, number, words) for number in range(4)] == [
        ["post-words"],
        ["post-words"],
        ["post-words", "indicted-cue"],
        ["post-words", "indicted-cue", "defence-1"],
    ]
    assert (record.track, record.rounds, record.category, record.label) == (
        "fast_track",
        1,
        category,
        label,
    )
    assert record.hateful is True
    assert [turn.id for turn in record.transcript] == ["gatekeeper/0", "prosecutor/1", "defender/1"]


@pytest.mark.parametrize("scheme", ["fine", "binary"])
@pytest.mark.parametrize("rounds", [1, 2, 3])
async def test_deep_dive(rounds: int, scheme: str) -> None:
    async with ScriptedServer(court_script()) as server:
        record = await decide(server, "post-words", rounds=rounds, scheme=scheme)
    assert played(server) == deep_dive(rounds)
    assert len(server.requests) == 2 + 2 * rounds
    words = ["implied-cue", "defence-1", "prosecution-2", "defence-2", "prosecution-3", "defence-3"]
    shown = [words_in(server, number, words) for number in range(len(server.requests))]
    assert shown[:3] == [[], [], ["implied-cue"]]
    if rounds >= 2:
        # Each side sees the other's words of the round before, and its own.
        assert shown[3] == ["implied-cue", "defence-1"]
        assert shown[4] == ["defence-1", "prosecution-2"]
    if rounds == 3:
        assert shown[5] == ["prosecution-2", "defence-2"]
        assert shown[6] == ["defence-2", "prosecution-3"]
    assert shown[-1] == words[: 2 * rounds]  # the judge hears all of it
    assert all(
        "post-words" in server.requests[number].text for number in range(len(server.requests))
    )
    assert (record.track, record.rounds) == ("deep_dive", rounds)


@pytest.mark.parametrize("scheme", ["fine", "binary"])
async def test_multiround_has_no_gate(scheme: str) -> None:
    async with ScriptedServer(court_script()) as server:
        record = await decide(server, graph="multiround", rounds=2, scheme=scheme)
    assert played(server) == deep_dive(2)[1:]
    assert (record.graph, record.track, record.rounds) == ("multiround", "deep_dive", 2)
    async with ScriptedServer(court_script(implicit=False)) as server:
        record = await decide(server, graph="multiround", scheme=scheme)
    assert played(server) == DISMISSAL[1:]
    assert record.track == "dismissed"


@pytest.mark.parametrize("scheme", ["fine", "binary"])
async def test_baseline_is_one_call(scheme: str) -> None:
    async with ScriptedServer(court_script()) as server:
        record = await decide(server, graph="baseline", scheme=scheme)
    assert played(server) == [("classifier", 0.8)]
    assert (record.track, record.rounds, record.label, record.transcript) == ("baseline", 0, 0, ())
    assert record.explanation == "classifier-words"


async def test_more_cues_than_the_limit_are_cut_and_said() -> None:
    many = {"cues": [cue(f"claim-{number}", "Metaphor") for number in range(1, 5)]}
    async with ScriptedServer(court_script(investigation=many)) as server:
        record = await decide(server, rounds=1)
    assert [each.claim for each in record.cues] == ["claim-1", "claim-2"]
    assert "claim-3" not in server.requests[2].text
    assert any("named 4 cues" in warning for warning in record.warnings)


async def test_a_rebuttal_may_be_empty_and_must_speak_of_the_cues() -> None:
    async with ScriptedServer(court_script(explicit=True, defence={"arguments": []})) as server:
        record = await decide(server)
    assert [(each.cue_id, each.stance) for each in record.transcript[-1].arguments] == [
        ("C1", "concede")
    ]
    assert "concedes: (not answered)" in server.requests[3].text
    wrong = [
        {"arguments": [argument("of nothing", "refute", "C9")]},
        {"arguments": [argument("right", "concede")]},
    ]
    async with ScriptedServer(court_script(explicit=True, defence=wrong)) as server:
        record = await decide(server)
    assert "'C9' is not one of the cues C1" in server.requests[3].text
    assert record.transcript[-1].arguments[0].argument == "right"


async def test_who_sits_where() -> None:
    async with ScriptedServer(court_script(explicit=True)) as server:
        record = await decide(
            server,
            model="openai:general",
            aux_model="openai:aux",
            judge_model="openai:judge",
            seats={"defender": "openai:counsel"},
            temperatures={"prosecutor": 0.3},
        )
    assert [request.model for request in server.requests] == ["aux", "aux", "counsel", "judge"]
    assert [request.temperature for request in server.requests] == [0.0, 0.3, 0.8, 0.1]
    assert [call.model for call in record.calls] == [
        "openai:aux",
        "openai:aux",
        "openai:counsel",
        "openai:judge",
    ]


async def test_a_spent_budget_leaves_the_decision_to_the_judge() -> None:
    async with ScriptedServer(court_script()) as server:
        record = await decide(server, max_calls=4)
    assert [name for name, _ in played(server)] == [
        "gatekeeper",
        "investigation",
        "defence",
        "judge",
    ]
    assert record.outcome == "verdict"
    assert any("budget of 4 calls" in warning for warning in record.warnings)
    async with ScriptedServer(court_script()) as server:
        record = await decide(server, max_tokens=30)
    assert [name for name, _ in played(server)] == ["gatekeeper", "investigation", "judge"]
    assert record.outcome == "verdict"
    async with ScriptedServer(court_script(implicit=False)) as server:
        record = await decide(server, max_calls=1)
    # Nobody was heard, which is not the same as having found nothing: no dismissal, the judge decides.
    assert [name for name, _ in played(server)] == ["judge"]
    assert record.track is None
