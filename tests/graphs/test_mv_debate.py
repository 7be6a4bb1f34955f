"""MV-Debate over the wire: who was shown what, beside whom, and what the gate let through (SYSTEMS.md, section 4)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.court import QUOTED, decide, side_by_side
from tests.doubles import Reply, Request, ScriptedServer
from tests.graphs.views_script import (
    ALL,
    NO,
    SCORES,
    SPLIT,
    YES,
    debate,
    held,
    part,
    parts,
    round_of,
    scored,
    views_in,
    words,
)

# A round in which surface and deep have the best scores: the Judge and the Reflection are asked at the same time.
CONTROL, SECOND = {"score", "reflection"}, {"surface again", "deep again"}


def company(request: Request) -> str:
    """With whom a request is expected to come."""
    name = part(request)
    if name in ALL or name.endswith("again"):
        return "a view" if name in ALL else "again"
    return "control" if name in CONTROL and len(scored(request)) == len(ALL) else name


async def test_consensus_in_round_1_costs_5_calls_the_first_four_together() -> None:
    async with ScriptedServer(side_by_side(debate([YES]), {"a view": 4}, company)) as server:
        record = await decide(server, graph="mv_debate")
    assert set(parts(server.requests[:4])) == set(ALL)
    assert parts(server.requests[4:]) == ["summary"]
    assert server.peak == 4
    first_answer = min(request.finished or 0 for request in server.requests[:4])
    assert all(request.arrived < first_answer for request in server.requests[:4])
    assert (record.label, record.category, record.hateful, record.scheme) == (
        1,
        "Hateful",
        True,
        "binary",
    )
    assert (record.rounds, record.usage.calls, record.explanation) == (1, 5, "summary-words.")
    # The Summary sees the round's answers, and there is no history.
    assert words(server.requests[4].text, *(f"{view}-first-1." for view in ALL)) == [
        f"{view}-first-1." for view in ALL
    ]
    assert "This was kept of the rounds" not in server.requests[4].text


async def test_three_rounds_in_their_order_all_at_temperature_0() -> None:
    async with ScriptedServer(
        side_by_side(debate(), {"a view": 4, "control": 2, "again": 2}, company)
    ) as server:
        record = await decide(server, graph="mv_debate")
    assert len(server.requests) == 28
    for number in (1, 2, 3):
        asked = parts(round_of(server, number))
        assert [set(asked[:4]), set(asked[4:6]), set(asked[6:8]), asked[8]] == [
            set(ALL),
            CONTROL,
            SECOND,
            "score",
        ]
    assert part(server.requests[27]) == "summary"
    assert {request.temperature for request in server.requests} == {0.0}
    # Judge and Reflection at the same time, and so those who answer again.
    for first, second in ((4, 5), (6, 7)):
        assert server.requests[second].arrived < (server.requests[first].finished or 0)
    assert (record.rounds, record.usage.calls) == (3, 28)
    assert [entry["round"] for entry in record.debate] == [1, 2, 3]


async def test_who_sees_what_in_round_1() -> None:
    _, server = await held(debate(), rounds=1)
    shown = views_in(server.requests)
    for view in ALL:
        assert words(shown[view], "-first-", "-second-", "earlier rounds") == []
    for control in ("score", "reflection"):
        text = next(request.text for request in server.requests if part(request) == control)
        assert words(text, *(f"{view}-first-1." for view in ALL)) == [
            f"{view}-first-1." for view in ALL
        ]
        assert "error-of" not in text
    for view in ("surface", "deep"):
        text = shown[f"{view} again"]
        # Its own first answer, and the whole reflection.
        assert words(text, *(f"{each}-first-1." for each in ALL)) == [f"{view}-first-1."]
        assert words(text, "error-of-contrast-1.", f"advice-to-{view}-1.") == [
            "error-of-contrast-1.",
            f"advice-to-{view}-1.",
        ]
    again = server.requests[-2]
    assert part(again) == "score"
    assert words(again.text, "surface-second-1.", "deep-second-1.", "contrast", "context-", "error-of") == [
        "surface-second-1.", "deep-second-1.",
    ]  # fmt: skip


async def test_the_order_of_arrival_changes_nothing() -> None:
    slow = Reply({"answer": "YES", "reason": "surface-first-1."}, delay=0.1)
    record, server = await held(debate(surface=[slow], surface_again=[slow]), rounds=1)
    seats = [turn.seat for turn in record.transcript]
    assert seats[:4] == [f"view:{view}" for view in ALL]
    assert seats[6:8] == ["view:surface", "view:deep"]
    asked = next(request.text for request in server.requests if part(request) == "score")
    places = [asked.index(f"\n{view}: ") for view in ALL]
    assert places == sorted(places)


def told(text: str) -> str:
    """The history in a prompt, with a name for each quotation in the place of its marks."""
    shown = (
        text.partition("This was kept of ")[2].partition(":\n\n")[2].partition("\n\nTake over")[0]
    )
    return QUOTED.sub(lambda quoted: f"[{quoted[3]}]", shown)


async def test_the_history_holds_the_best_answer_and_an_adopted_reflection_on_it() -> None:
    """In the order in which it was said: the answer, what the reflection said of it, the revised answer."""
    record, server = await held(debate(gain=0.2))
    rounds = [
        f"Round {number}. The best answer, as first given:\n\nsurface: YES\n[surface-first-{number}.]\n\n"
        f"What a reviewer said of it:\n\n"
        f"[surface: error-of-surface-{number}. Suggestion: advice-to-surface-{number}.]\n\n"
        "Revised after that. The new answers were adopted (mean change of their scores: +0.2):\n\n"
        f"surface: YES\n[surface-second-{number}.]"
        for number in (1, 2, 3)
    ]
    second, third = views_in(round_of(server, 2)), views_in(round_of(server, 3))
    for view in ALL:
        assert told(second[view]) == rounds[0]
        assert told(third[view]) == "\n\n".join(rounds[:2])
    # The Summary sees the history, and no answer that wasn't kept.
    last = server.requests[-1].text
    assert told(last).startswith("\n\n".join(rounds))
    assert words(last, "deep", "contrast-", "context-") == []
    assert [entry["adopted"] for entry in record.debate] == [True] * 3
    assert [entry["best"] for entry in record.debate] == ["surface"] * 3


async def test_a_reflection_that_is_not_adopted_leaves_no_trace_in_what_follows() -> None:
    record, server = await held(debate(gain=0.05))
    for text in [*views_in(round_of(server, 2)).values()][:4]:
        assert told(text) == "Round 1. The best answer:\n\nsurface: YES\n[surface-first-1.]"
    assert words(server.requests[-1].text, "surface-first-3.", "-second-", "error-of") == [
        "surface-first-3."
    ]
    assert [(entry["adopted"], entry["delta"]) for entry in record.debate] == [(False, 0.05)] * 3
    # Both answers stand in the record.
    said = [
        turn.text for turn in record.transcript if turn.seat == "view:surface" and turn.round == 1
    ]
    assert said == ["surface-first-1.", "surface-second-1."]


@pytest.mark.parametrize(
    ("second", "delta", "adopted"),
    [
        ({"surface": 0.9, "deep": 0.69}, 0.095, False),
        ({"surface": 0.9, "deep": 0.7}, 0.1, True),  # as floats 0.9 − 0.8 is less than 0.1
        ({"surface": 0.9, "deep": 0.71}, 0.105, True),
        ({"surface": 0.5, "deep": 1.0}, 0.05, False),  # the mean counts, not the best
    ],
)
async def test_the_gate_just_under_at_and_just_over_tau(
    second: dict[str, float], delta: float, adopted: bool
) -> None:
    record, server = await held(debate(gain=second), rounds=1)
    entry = record.debate[0]
    assert (entry["delta"], entry["adopted"]) == (delta, adopted)
    assert entry["scores"] == SCORES
    assert entry["new_scores"] == second
    assert ("error-of-surface-1." in server.requests[-1].text) is adopted


async def test_the_best_answer_may_be_one_that_was_not_revised() -> None:
    first = {"surface": 0.9, "deep": 0.8, "contrast": 0.7, "context": 0.2}
    record, server = await held(debate(first=[first], gain={"surface": 0.6, "deep": 0.6}), rounds=1)
    assert (record.debate[0]["adopted"], record.debate[0]["best"]) == (False, "surface")
    record, server = await held(
        debate(first=[first], gain={"surface": 0.6, "deep": 0.6}),
        rounds=1,
        reflection_mode="always",
    )
    assert (record.debate[0]["adopted"], record.debate[0]["best"]) == (True, "contrast")
    assert words(server.requests[-1].text, "contrast-first-1.", "surface-", "-second-", "error-of-contrast-1.") == [
        "contrast-first-1.", "error-of-contrast-1.",
    ]  # fmt: skip


async def test_equal_scores_go_to_the_view_that_is_named_first_every_time() -> None:
    level = dict.fromkeys(ALL, 0.5)
    for named in (list(ALL), ["context", "deep", "surface", "contrast"]):
        for _ in range(3):
            record, server = await held(debate(first=[level], gain=0.0), rounds=1, views=named)
            assert record.debate[0]["top"] == named[:2]
            assert record.debate[0]["best"] == named[0]
            assert {part(each) for each in server.requests if "again" in part(each)} == {
                f"{view} again" for view in named[:2]
            }


@pytest.mark.parametrize("left_out", ALL)
async def test_without_each_view(left_out: str) -> None:
    views = [view for view in ALL if view != left_out]
    record, server = await held(debate(gain=0.2), views=views, rounds=1)
    asked = parts(server.requests)
    # Three views, of which half, rounded down, answers again.
    assert set(asked[:3]) == set(views)
    assert sum("again" in each for each in asked) == 1
    assert left_out not in " ".join(asked)
    assert list(record.debate[0]["scores"]) == views


async def test_without_reflection() -> None:
    record, server = await held(debate(), reflection_mode="none")
    assert len(server.requests) == 3 * 5 + 1
    assert {part(each) for each in server.requests} == {*ALL, "score", "summary"}
    assert words(views_in(server.requests[5:9])["deep"], "surface-first-1.", "deep-first-1.") == [
        "surface-first-1."
    ]
    assert all("delta" not in entry for entry in record.debate)


async def test_unconditional_reflection() -> None:
    record, server = await held(debate(gain=-0.3), reflection_mode="always", rounds=2)
    assert (record.debate[0]["delta"], record.debate[0]["adopted"]) == (-0.3, True)
    text = views_in(round_of(server, 2))["context"]
    assert words(text, "surface-second-1.", "error-of-surface-1.") == [
        "surface-second-1.",
        "error-of-surface-1.",
    ]


async def test_all_answers_in_the_history() -> None:
    _, server = await held(debate(gain=0.2), history="all", rounds=2)
    text = views_in(round_of(server, 2))["context"]
    first, _, rest = told(text).partition("What a reviewer said of them:")
    criticised, _, second = rest.partition("Revised after that.")
    assert words(first, *(f"{view}-first-1." for view in ALL)) == [
        f"{view}-first-1." for view in ALL
    ]
    assert words(criticised, *(f"error-of-{view}-1." for view in ALL)) == [
        f"error-of-{view}-1." for view in ALL
    ]
    assert words(second, *(f"{view}-second-1." for view in ALL)) == [
        "surface-second-1.",
        "deep-second-1.",
    ]


@pytest.mark.parametrize(("rounds", "calls"), [(1, 10), (2, 19), (3, 28), (4, 37)])
async def test_rounds(rounds: int, calls: int) -> None:
    record, server = await held(debate(), rounds=rounds)
    assert (len(server.requests), record.rounds) == (calls, rounds)


@pytest.mark.parametrize("k", [1, 3, 4, 12])
async def test_top_k(k: int) -> None:
    record, server = await held(debate(), rounds=1, top_k=k)
    assert record.debate[0]["top"] == list(ALL)[:k]
    assert sum("again" in part(each) for each in server.requests) == min(k, 4)


async def test_consensus_in_a_later_round_ends_it() -> None:
    record, server = await held(debate([SPLIT, NO]))
    assert len(server.requests) == 9 + 4 + 1
    last = server.requests[-1].text
    assert words(last, "surface-second-1.", "context-first-2.", "gave the same answer") == [
        "surface-second-1.", "context-first-2.", "gave the same answer",
    ]  # fmt: skip
    assert [entry["consensus"] for entry in record.debate] == [False, True]


async def test_a_budget_ends_the_debate_and_the_summary_decides_on_what_is_there() -> None:
    for calls, expected in ((5, 5), (9, 7), (10, 10), (13, 10), (14, 14)):
        record, server = await held(debate(), max_calls=calls)
        assert (len(server.requests), part(server.requests[-1])) == (expected, "summary")
        assert any(f"{calls} calls" in warning for warning in record.warnings)
    # After 4 answers nobody has weighed them; the Summary is shown them, and told so.
    _, server = await held(debate(), max_calls=5)
    assert words(server.requests[-1].text, "context-first-1.", "Nobody has scored them") == [
        "context-first-1.",
        "Nobody has scored them",
    ]
    record, server = await held(debate(), max_calls=4)
    assert parts(server.requests) == ["summary"]
    # 15 tokens a call.
    record, server = await held(debate(), max_tokens=60)
    assert len(server.requests) == 5
    record, server = await held(debate(), max_tokens=61)
    assert len(server.requests) == 7


async def test_a_second_post_on_the_same_thread_starts_afresh() -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    from tribunal.graphs.mv_debate import builder
    from tribunal.settings.context import context_from

    graph = builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    for text, rounds in (("Immigrants: the weeds in our garden.", 2), ("Good morning.", 1)):
        state = await graph.ainvoke({"text": text}, config, context=context_from({}))
        assert len(state["debate"]) == rounds
    assert len(state["calls"]) == 5
    assert {turn["round"] for turn in state["transcript"]} == {1}
