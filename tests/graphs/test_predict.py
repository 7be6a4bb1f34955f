"""PREDICT over the wire: who was shown what, in which order, beside whom (SYSTEMS.md, section 2; Algorithms 1, 2)."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from tests.court import decide, side_by_side
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.graphs.panel_script import panel, part, whose
from tribunal.errors import BadInput
from tribunal.retrievers.perspectives.perspective import EXAMPLES, find_perspective

DEBATE = ["open_non_hate", "open_hate", "answer_non_hate", "answer_hate", "judge"]


def reasons_in(text: str) -> list[str]:
    return [name for name in EXAMPLES if f"reason-of-{name}" in text]


async def test_ten_calls_the_first_five_together_all_at_temperature_0() -> None:
    async with ScriptedServer(side_by_side(panel(), {"perspective": 5}, part)) as server:
        record = await decide(server, "a post", graph="predict")
    assert [part(request) for request in server.requests] == ["perspective"] * 5 + DEBATE
    assert {request.temperature for request in server.requests} == {0.0}
    assert server.peak == 5
    first_answer = min(request.finished or 0 for request in server.requests[:5])
    assert all(request.arrived < first_answer for request in server.requests[:5])
    assert (record.label, record.category, record.hateful, record.scheme) == (
        1,
        "Hateful",
        True,
        "binary",
    )
    assert (record.rounds, record.explanation, record.usage.calls) == (2, "judge-words", 10)
    assert any("five small examples" in warning for warning in record.warnings)


async def test_each_perspective_sees_its_own_criterion_and_examples_alone() -> None:
    async with ScriptedServer(panel()) as server:
        record = await decide(server, "those people", graph="predict")
    opinions = {opinion.id: opinion for opinion in record.opinions}
    assert list(opinions) == list(EXAMPLES)
    for request in server.requests[:5]:
        name = whose(request)
        own = find_perspective(name)
        assert "those people" in request.text
        assert own.criterion.strip() in request.text
        assert own.labels.hate in request.text
        assert len(opinions[name].examples) == 3
        for example in opinions[name].examples:
            assert f"\n  label: {example.label_name}\n  text: {example.text}\n" in request.text
        others = [
            find_perspective(other).criterion.strip()[:60] for other in EXAMPLES if other != name
        ]
        assert not any(other in request.text for other in others)
    assert [opinion.stance for opinion in record.opinions] == ["hate"] * 3 + ["not_hate"] * 2


FIRST, SECOND, THIRD, FOURTH = (f"words-of-{name}." for name in DEBATE[:4])
HATE, NOT_HATE = list(EXAMPLES[:3]), list(EXAMPLES[3:])


@pytest.mark.parametrize(
    ("memory", "references", "words"),
    [
        # As in the published code: a debater keeps what it read in round 1, and the judge reads both memories.
        (
            {},
            [NOT_HATE, HATE, NOT_HATE, HATE, [*HATE, *NOT_HATE]],
            [[], [FIRST], [FIRST, SECOND], [FIRST, SECOND, THIRD], [FIRST, SECOND, THIRD, FOURTH]],
        ),
        # As in the paper's Algorithm 2: the references are those of round 1 alone.
        (
            {"debate_memory": "arguments"},
            [NOT_HATE, HATE, [], [], []],
            [[], [FIRST], [FIRST, SECOND], [SECOND, THIRD], [FIRST, SECOND, THIRD, FOURTH]],
        ),
    ],
)
async def test_who_sees_what_in_the_debate(
    memory: Any, references: list[list[str]], words: list[list[str]]
) -> None:
    async with ScriptedServer(panel(3)) as server:
        await decide(server, graph="predict", **memory)
    shown = [request.text for request in server.requests[5:]]
    assert [reasons_in(text) for text in shown] == references
    assert [
        [word for word in (FIRST, SECOND, THIRD, FOURTH) if word in text] for text in shown
    ] == words


@pytest.mark.parametrize(
    ("stance", "shown"),
    [("agree", "It agrees with you, and says:"), ("rebut", "It rebuts your argument, and says:")],
)
async def test_step_4_is_shown_the_stance_of_the_response_as_the_judge_is(
    stance: str, shown: str
) -> None:
    said = {"argument": "words-of-answer_non_hate.", "stance": stance}
    async with ScriptedServer(panel(3, answer_non_hate=said)) as server:
        await decide(server, graph="predict")
    third, fourth, judge = server.requests[7].text, server.requests[8].text, server.requests[9].text
    assert "The other side has argued:\n\n<<<opening" in third
    assert f"The other side has answered you. {shown}\n\n<<<response" in fourth
    assert f"The non-hate side, round 2 ({stance}s):" in judge


@pytest.mark.parametrize(("hateful", "without"), [(5, 5), (0, 6)])
async def test_unanimous_stances_leave_one_reference_empty_and_the_debate_is_held(
    hateful: int, without: int
) -> None:
    async with ScriptedServer(panel(hateful)) as server:
        record = await decide(server, graph="predict")
    assert len(server.requests) == 10
    assert record.outcome == "verdict"
    # It isn't told why it has none, which would tell it how everybody voted; nor is the other side told whose its is.
    assert "You have no reference. Give a reason of your own." in server.requests[without].text
    for request in server.requests[5:9]:
        assert not any(
            word in request.text for word in ("annotator", "perspective", "labelled", "nobody")
        )


@pytest.mark.parametrize(
    ("mode", "parts", "rounds"),
    [
        ("round-1-only", ["perspective"] * 5 + ["open_non_hate", "open_hate", "judge"], 1),
        ("majority", ["perspective"] * 5, 0),
        ("base", ["perspective"], 0),
        # Half of what they know is measured by their stances (PREDICT, Table 4), so nobody debates.
        ("criterion-only", ["perspective"] * 5, 0),
        ("examples-only", ["perspective"] * 5, 0),
    ],
)
async def test_modes(mode: str, parts: list[str], rounds: int) -> None:
    async with ScriptedServer(panel()) as server:
        # Without a criterion the script can't tell whose labels are asked for, so all perspectives share theirs.
        if mode == "examples-only":
            server.script = _by_schema
        record = await decide(server, graph="predict", mode=mode)
    assert [part(request) for request in server.requests] == parts
    assert record.rounds == rounds
    texts = [request.text for request in server.requests if part(request) == "perspective"]
    assert all(
        ("The criterion:" in text) == (mode not in ("base", "examples-only")) for text in texts
    )
    assert all(
        ("Similar texts" in text) == (mode not in ("base", "criterion-only")) for text in texts
    )
    assert record.outcome == "verdict"


def _by_schema(request: Request) -> Reply:
    if part(request) != "perspective":
        answer = panel()(request)
        assert isinstance(answer, Reply)
        return answer
    assert request.schema is not None
    return Reply({"label": request.schema["properties"]["label"]["enum"][0], "reason": "because"})


@pytest.mark.parametrize(("hateful", "label", "tie"), [(3, 1, False), (2, 0, False)])
async def test_a_majority_needs_more_than_half(hateful: int, label: int, tie: bool) -> None:
    async with ScriptedServer(panel(hateful)) as server:
        record = await decide(server, graph="predict", mode="majority")
    assert (record.label, record.tie) == (label, tie)


async def test_a_tie_is_not_hate_and_marked() -> None:
    async with ScriptedServer(panel(2)) as server:
        record = await decide(
            server, graph="predict", mode="majority", perspectives=list(EXAMPLES[:4])
        )
    assert (record.label, record.tie) == (0, True)
    assert "tie" in record.explanation


async def test_one_perspective_alone() -> None:
    async with ScriptedServer(panel(5)) as server:
        record = await decide(server, graph="predict", mode="single", perspectives=[EXAMPLES[2]])
    assert len(server.requests) == 1
    assert (record.hateful, record.explanation) == (True, f"reason-of-{EXAMPLES[2]}")


@pytest.mark.long
async def test_leaving_one_out() -> None:
    async with ScriptedServer(panel()) as server:
        record = await decide(server, graph="predict", mode="leave-out", leave_out=EXAMPLES[0])
    assert len(server.requests) == 9
    assert EXAMPLES[0] not in [opinion.id for opinion in record.opinions]


@pytest.mark.parametrize(
    "lost", [Reply("I'm sorry, but I can't help with that."), Fault(401, "no")]
)
async def test_one_lost_perspective_does_not_sink_the_post(lost: Reply | Fault) -> None:
    async with ScriptedServer(panel(3, **{EXAMPLES[1]: lost})) as server:
        apart: dict[str, Any] = {"seats": {f"perspective:{EXAMPLES[1]}": "qwen:apart"}}
        os.environ |= {"DASHSCOPE_API_KEY": "k", "DASHSCOPE_BASE_URL": f"{server.url}/v1"}
        record = await decide(server, graph="predict", **apart)
    assert record.outcome == "verdict"
    assert [opinion.id for opinion in record.opinions] == [
        name for name in EXAMPLES if name != EXAMPLES[1]
    ]
    assert any(EXAMPLES[1] in warning and "left out" in warning for warning in record.warnings)
    assert [reasons_in(server.requests[number].text) for number in (5, 6)] == [
        list(EXAMPLES[3:]),
        [EXAMPLES[0], EXAMPLES[2]],
    ]


async def test_where_all_perspectives_are_lost_the_post_ends_as_they_did() -> None:
    async with ScriptedServer(
        lambda request: Reply("I'm sorry, but I can't help with that.")
    ) as server:
        record = await decide(server, graph="predict")
    assert (record.outcome, len(server.requests)) == ("refusal", 5)
    assert record.fault is not None
    assert record.fault["seat"].startswith("perspective:")


async def test_a_fault_of_a_debater_or_the_judge_names_its_seat() -> None:
    for name, seat in (
        ("open_hate", "debater:hate"),
        ("answer_non_hate", "debater:not_hate"),
        ("judge", "judge"),
    ):
        async with ScriptedServer(
            panel(3, **{name: "I cannot assist with this request."})
        ) as server:
            record = await decide(server, graph="predict")
        assert record.outcome == "refusal"
        assert record.fault is not None
        assert record.fault["seat"] == seat


async def test_posts_judged_at_once_never_see_each_other() -> None:
    async with ScriptedServer(panel(), latency=0.05) as server:
        await asyncio.gather(
            *(decide(server, f"the post number-{each}-", graph="predict") for each in range(4))
        )
    for request in server.requests:
        assert sum(f"number-{each}-" in request.text for each in range(4)) == 1
    assert len(server.requests) == 40


async def test_a_text_of_the_set_itself_is_no_example_of_itself() -> None:
    own = find_perspective(EXAMPLES[2]).texts
    assert own is not None
    async with ScriptedServer(panel()) as server:
        record = await decide(server, f"  {own.hate[0].upper()} ", graph="predict")
    seen = {example.text for opinion in record.opinions for example in opinion.examples}
    assert own.hate[0] not in seen
    assert all(len(opinion.examples) == 3 for opinion in record.opinions)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"perspectives": ["kodoli"]}, "tribunal perspectives build"),
        ({"perspectives": ["nobody"]}, "nobody"),
        ({"perspectives": [EXAMPLES[0], EXAMPLES[0]]}, "twice"),
        ({"mode": "single"}, "takes one perspective"),
        ({"mode": "leave-out"}, "leave_out"),
        ({"leave_out": "kold"}, "kold"),
        ({"perspectives": [EXAMPLES[0]], "leave_out": EXAMPLES[0]}, "none is left"),
    ],
)
async def test_wrong_perspectives_cost_no_call(settings: dict[str, Any], says: str) -> None:
    async with ScriptedServer(panel()) as server:
        with pytest.raises(BadInput, match=says):
            await decide(server, graph="predict", **settings)
        assert server.requests == []


async def test_a_spent_budget_goes_to_the_judge() -> None:
    async with ScriptedServer(panel()) as server:
        record = await decide(server, graph="predict", max_calls=7)
    assert [part(request) for request in server.requests] == ["perspective"] * 5 + [
        "open_non_hate",
        "judge",
    ]
    assert any("budget" in warning for warning in record.warnings)
    async with ScriptedServer(panel()) as server:
        record = await decide(server, graph="predict", max_calls=4)
    assert [part(request) for request in server.requests] == ["perspective"] * 3 + ["judge"]
    assert any(EXAMPLES[4] in warning for warning in record.warnings)
