"""The peers of every debate, over the wire: one call, draws and a vote, and equals who see each other's answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.court import decide, side_by_side
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.graphs.views_script import YES, debate, part, words
from tests.where_heeded import where_heeded
from tribunal.schema import Record

REFUSES = Reply("I'm sorry, but I can't help with that.")
Script = Callable[[Request], Reply | Fault]


def drawn(*labels: str) -> Script:
    """A classifier whose answers are these, in the order in which they are asked for."""
    left = list(labels)

    def script(request: Request) -> Reply | Fault:
        label = left.pop(0)
        if label == "refuses":
            return REFUSES
        return Reply(
            {"category": label, "explanation": f"why-{label}."},
            prompt_tokens=10,
            completion_tokens=5,
        )

    return script


def answered(*sides: str) -> Script:
    """One who decides alone, whose answers are these, in the order in which they are asked for."""
    left = list(sides)

    def script(request: Request) -> Reply | Fault:
        side = left.pop(0)
        return Reply({"reason": f"why-{len(sides) - len(left)}.", "answer": side})

    return script


async def judged(script: Any, graph: str, **settings: Any) -> tuple[Record, ScriptedServer]:
    async with ScriptedServer(script) as server:
        return await decide(server, graph=graph, **settings), server


# --- baseline ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "question", "names"),
    [
        ({"mode": "zero-shot"}, "is it hate speech?", ["NotHate", "Hateful"]),
        ({"task": "sarcasm"}, "is it sarcastic?", ["not sarcastic", "sarcastic"]),
        (
            {"task": "misinformation"},
            "is it misinformation?",
            ["not misinformation", "misinformation"],
        ),
    ],
)
async def test_the_zero_shot_peer_of_a_debate_is_asked_its_question(
    settings: dict[str, Any], question: str, names: list[str]
) -> None:
    """YES or NO, at temperature 0, under the standing instructions of MV-Debate (Baseline Methods)."""
    _, debated = await judged(debate([YES]), "mv_debate", **where_heeded("mv_debate", settings))
    for label, (side, name) in enumerate(zip(("NO", "YES"), names, strict=True)):
        record, server = await judged(answered(side), "baseline", **settings)
        task = settings.get("task", "hate")
        assert (record.task, record.label, record.category) == (task, label, name)
        assert record.hateful is (bool(label) if task == "hate" else None)
        assert (record.scheme, record.track, record.explanation) == ("binary", "baseline", "why-1.")
        [request] = server.requests
        assert request.temperature == 0.0
        assert request.schema is not None
        assert list(request.schema["properties"]) == ["reason", "answer"]
        assert request.schema["properties"]["answer"]["enum"] == ["YES", "NO"]
        assert request.messages[0] == debated.requests[0].messages[0]
        assert words(request.text, question, "Racist") == [question]
        assert ("hate speech" in request.text) == (task == "hate")


@pytest.mark.parametrize("graph", ["baseline", "self_consistency"])
async def test_a_refusal_of_the_zero_shot_peer_is_in_its_scheme_too(graph: str) -> None:
    record, _ = await judged(lambda request: REFUSES, graph, mode="zero-shot")
    assert (record.outcome, record.scheme) == ("refusal", "binary")


# --- self_consistency -------------------------------------------------------------------------------------------------


async def test_draws_are_the_call_of_the_baseline_drawn_anew() -> None:
    _, alone = await judged(drawn("Racist"), "baseline", answer_order="reason-first")
    record, server = await judged(
        drawn("Racist", "NotHate", "Racist", "NotHate", "Racist"), "self_consistency"
    )
    assert {request.text for request in server.requests} == {alone.requests[0].text}
    assert [request.temperature for request in server.requests] == [0.7] * 5
    assert (record.category, record.label, record.tie) == ("Racist", 1, False)
    assert "3 of 5 draws" in record.explanation
    assert record.debate == (
        {"id": "vote", "votes": {"Racist": 3, "NotHate": 2}, "draws": 5, "spared": 0},
    )  # fmt: skip
    # The five are sent at once, on connections of their own: which of them arrives first is the network's matter.
    assert sorted(str(turn.stance) for turn in record.transcript) == [
        "NotHate",
        "NotHate",
        "Racist",
        "Racist",
        "Racist",
    ]


@pytest.mark.parametrize(
    ("settings", "temperature"),
    [
        ({}, 0.7), ({"draw_temperature": 1.0}, 1.0), ({"temperatures": {"classifier": 0.3}}, 0.3),
        ({"temperatures": {"classifier": 0.3}, "draw_temperature": 1.0}, 0.3),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["full", "zero-shot"])
async def test_all_draws_are_of_one_distribution(
    mode: str, settings: dict[str, Any], temperature: float
) -> None:
    script = (
        answered("YES", "NO", "YES")
        if mode == "zero-shot"
        else drawn("Racist", "NotHate", "Racist")
    )
    record, server = await judged(script, "self_consistency", mode=mode, draws=3, **settings)
    assert [request.temperature for request in server.requests] == [temperature] * 3
    assert len({request.text for request in server.requests}) == 1
    assert sorted(call.draw for call in record.calls) == [0, 1, 2]


async def test_sampling_stops_when_the_vote_can_t_turn() -> None:
    async with ScriptedServer(
        side_by_side(drawn(*["Racist"] * 3), {"classifier": 3}, part)
    ) as server:
        record = await decide(server, graph="self_consistency")
    assert len(server.requests) == server.peak == 3
    assert record.debate[0]["spared"] == 2
    assert sorted(call.draw for call in record.calls) == [0, 1, 2]


async def test_equally_frequent_answers_are_a_tie_and_the_first_given_counts() -> None:
    record, _ = await judged(drawn("NotHate", "Racist"), "self_consistency", draws=2)
    assert (record.category, record.tie) == ("NotHate", True)
    assert "equally often" in record.explanation


async def test_a_sample_that_refuses_has_no_vote() -> None:
    record, _ = await judged(
        drawn("refuses", "Racist", "Racist", "NotHate", "NotHate", "x"), "self_consistency"
    )
    assert record.outcome == "verdict"
    assert record.tie is True
    assert any("has no vote" in warning for warning in record.warnings)
    assert len(record.calls) == 5
    record, _ = await judged(drawn(*["refuses"] * 5), "self_consistency")
    assert (record.outcome, len(record.calls)) == ("refusal", 5)


@pytest.mark.parametrize(
    ("budget", "calls"),
    [
        ({"max_tokens": 1}, 1), ({"max_tokens": 29}, 1), ({"max_tokens": 30}, 2), ({"max_tokens": 44}, 2),
        ({"max_tokens": 45}, 3), ({"max_tokens": 1000}, 5), ({"max_calls": 2}, 2), ({"max_calls": 4}, 4),
        ({"max_calls": 4, "max_tokens": 30}, 2),
    ],
)  # fmt: skip
async def test_no_draw_is_made_that_the_budget_does_not_reach_for(
    budget: dict[str, int], calls: int
) -> None:
    # A draw costs 15 tokens; answers that differ leave the vote open to the last.
    record, server = await judged(
        drawn("Racist", "NotHate", "Racist", "NotHate", "Racist"), "self_consistency", **budget
    )
    assert len(server.requests) == calls
    assert record.outcome == "verdict"
    assert any("unmade" in warning for warning in record.warnings) == (calls < 5)
    assert record.usage.prompt_tokens + record.usage.completion_tokens <= max(
        budget.get("max_tokens", 75), 15
    )


# --- symmetric_debate -------------------------------------------------------------------------------------------------


def equals(*rounds: str) -> Script:
    """Agents who answer by these strings, one a round, a letter an agent in the order of arrival: y, n, r (refuses)."""
    given = [letter for letters in rounds for letter in letters]

    def script(request: Request) -> Reply | Fault:
        place = request.index
        if given[place] == "r":
            return REFUSES
        side = {"y": "YES", "n": "NO"}[given[place]]
        return Reply(
            {"answer": side, "reason": f"reason-{place}."}, prompt_tokens=10, completion_tokens=5
        )

    return script


async def test_each_sees_its_own_last_answer_and_all_the_others() -> None:
    async with ScriptedServer(
        side_by_side(equals("yyn", "yny", "yyy"), {"agent": 3}, part)
    ) as server:
        record = await decide(server, graph="symmetric_debate", agents=3)
    assert (len(server.requests), server.peak, record.rounds) == (9, 3, 3)
    for place, request in enumerate(server.requests):
        number, own = divmod(place, 3)
        last = [f"reason-{each}." for each in range(3 * (number - 1), 3 * number) if each >= 0]
        assert words(request.text, *(f"reason-{each}." for each in range(9))) == last
        if number:
            mine, _, others = request.text.partition("The others answered:")
            assert f"reason-{3 * (number - 1) + own}." in mine
            assert words(others, *last) == [
                word for word in last if word != f"reason-{3 * (number - 1) + own}."
            ]
    assert (record.label, record.tie, record.scheme) == (1, False, "binary")


async def test_the_first_agent_is_asked_at_temperature_0_and_others_apart_from_it() -> None:
    _, server = await judged(debate(), "symmetric_debate", rounds=1)
    assert sorted(request.temperature or 0 for request in server.requests) == [0.0, 0.7, 0.7, 0.7]
    seats = {f"agent:{number}": f"openai:m{number}" for number in (1, 2, 3, 4)}
    _, server = await judged(
        debate(), "symmetric_debate", rounds=1, seats=seats, temperatures={"agent": 0.0}
    )
    assert {(request.model, request.temperature) for request in server.requests} == {
        (f"m{number}", 0.0) for number in (1, 2, 3, 4)
    }


@pytest.mark.parametrize(
    ("votes", "label", "tie"),
    [("yyyn", 1, False), ("yynn", 0, True), ("ynnn", 0, False), ("yyrn", 1, False)],
)
async def test_the_last_round_votes_and_a_tie_is_no_and_marked(
    votes: str, label: int, tie: bool
) -> None:
    record, _ = await judged(equals("yyyy", votes), "symmetric_debate", rounds=2)
    assert (record.label, record.tie) == (label, tie)
    assert ("tie" in record.explanation) == tie
    assert any("agent:3" in warning for warning in record.warnings) == ("r" in votes)


async def test_where_nobody_answers_the_outcome_says_why() -> None:
    record, _ = await judged(equals("rrrr"), "symmetric_debate")
    assert record.outcome == "refusal"
    assert "0 of 4" in record.explanation


@pytest.mark.parametrize(
    ("budget", "calls"),
    [
        # A round costs 60 tokens; before the second one 20 of output are reckoned to be read by all four.
        ({"max_tokens": 1}, 4), ({"max_tokens": 199}, 4), ({"max_tokens": 200}, 12), ({"max_calls": 7}, 4),
        ({"max_calls": 8}, 8), ({"max_calls": 3}, 3),
    ],
)  # fmt: skip
async def test_no_round_is_held_that_the_budget_does_not_reach_for(
    budget: dict[str, int], calls: int
) -> None:
    record, server = await judged(equals("ynyn", "ynyn", "ynyn"), "symmetric_debate", **budget)
    assert len(server.requests) == calls
    assert record.outcome == "verdict"
    assert any("budget" in warning for warning in record.warnings) == (calls < 12)


@pytest.mark.long
@pytest.mark.parametrize("graph", ["baseline", "self_consistency", "symmetric_debate"])
async def test_a_graph_run_at_the_cost_of_another(graph: str) -> None:
    """The tokens of one graph's run are the budget of another's."""
    spent, _ = await judged(debate(), "mv_debate")
    budget = spent.usage.prompt_tokens + spent.usage.completion_tokens
    world = where_heeded(graph, {"max_tokens": budget, "draws": 100, "rounds": 10})
    record, _ = await judged(debate(), graph, **world)
    assert record.outcome == "verdict"
    assert record.usage.prompt_tokens + record.usage.completion_tokens <= budget


# --- offline ----------------------------------------------------------------------------------------------------------

POSTS = {
    "hate": ("Immigrants: the weeds in our garden.", "Good morning, everybody."),
    "sarcasm": ("I love it when my train is delayed.", "I had a lovely walk by the river."),
    "misinformation": ("This miracle cure cures everything!", "The museum opens at ten."),
}


@pytest.mark.parametrize("graph", ["baseline", "self_consistency", "symmetric_debate", "mv_debate"])
@pytest.mark.parametrize("task", POSTS)
async def test_every_task_runs_offline(task: str, graph: str) -> None:
    from tribunal.docket.session import judge_post
    from tribunal.settings.context import context_from

    for text, positive in zip(POSTS[task], (True, False), strict=True):
        record = await judge_post(text, graph=graph, context=context_from({"task": task}))
        assert record.outcome == "verdict"
        assert ((record.label or 0) > 0) is positive
        assert any("rehearsal" in warning for warning in record.warnings)
