"""Precedents over the wire: who is shown what of earlier cases, what may be followed, and that none of it leads."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph

import tribunal
from tests.court import QUOTED, argument, court_script, cue, decide, part
from tests.decided import WEEDS, decided, store_of
from tests.doubles import Request, ScriptedServer
from tests.graphs.hybrid import hybrid, hybrid_script
from tribunal.pieces import (
    Case,
    Context,
    PostInput,
    Ruling,
    checked,
    court_judge,
    deep_trial,
    find_precedents,
    panel,
    receive,
    scan,
)
from tribunal.schema import Record
from tribunal.testing import ScriptedModel, check_piece

POST = "They are the weeds in our garden."
SHOWN = ("indictment", "investigation", "prosecution", "defence", "judge")


async def tried(
    post: str = POST, *, explicit: bool = False, **settings: Any
) -> tuple[Record, list[Request]]:
    script = settings.pop("script", {})
    async with ScriptedServer(court_script(explicit=explicit, **script)) as server:
        return await before(server, post, **settings), server.requests


async def before(server: ScriptedServer, post: str = POST, **settings: Any) -> Record:
    """The post before the hybrid court on this server."""
    return await decide(
        server, post, graph="tribunal", **{"precedents": "ours", "rounds": 2, **settings}
    )


def listed(request: Request) -> str:
    """What a request shows between the marks of precedents."""
    return next(
        (words for kind, _, words in QUOTED.findall(request.text) if kind == "precedents"), ""
    )


@pytest.mark.parametrize("explicit", [False, True], ids=["deep", "fast"])
async def test_both_sides_and_the_judge_are_shown_what_was_decided_and_nobody_else(
    explicit: bool,
) -> None:
    await store_of()
    async with hybrid(hybrid_script(explicit=explicit)) as it:
        record = await it.decide(
            POST, precedents="ours", web=True, perspectives=["example-harm"], rounds=2
        )
    parts = [each for each in it.parts if each in SHOWN or each == "gatekeeper"]
    debate = (
        ["indictment", "defence"]
        if explicit
        else ["investigation", "defence", "prosecution", "defence"]
    )
    assert parts == ["gatekeeper", *debate, "judge"]
    heat = {"gatekeeper": 0.0, "judge": 0.1}
    for request in it.model.requests:
        name = it.part(request)
        assert bool(listed(request)) == (name in SHOWN), name
        assert ("pull them out" in request.text) == (name in SHOWN), name
        if name in SHOWN:
            assert request.temperature == heat.get(name, 0.8)
            # The part, then what is known beside the post, then the earlier cases.
            order = (
                "# Your part: ",
                "# What is known",
                "Passages from the web",
                "Earlier cases that people decided",
            )
            at = [request.text.index(words) for words in order]
            assert at == sorted(at)
    assert {listed(each) for each in it.model.requests if it.part(each) in SHOWN} == {
        "[P1] similarity 0.71\n"
        "  post: Those people are weeds in our garden.\n"
        "  decided: Racist\n"
        "  how: a person decided otherwise than the court\n"
        "  when: 2026-10-01\n"
        "  policy: h-vli\n"
        "  note: note-1\n"
        "[P2] similarity 0.69\n"
        "  post: The weeds of our garden are back again.\n"
        "  decided: NotHate\n"
        "  how: a person confirmed what the court had decided\n"
        "  when: 2026-10-02\n"
        "  policy: h-vli\n"
        "  note: it speaks of plants\n"
        "[P3] similarity 0.68; under an earlier policy, so it may not hold; no category of this policy, so it can't be "
        "followed\n"
        "  post: They are the weeds, pull them out of our garden!\n"
        "  decided: Cruel\n"
        "  how: a person decided otherwise than the court\n"
        "  when: 2026-10-03\n"
        "  policy: ours\n"
        "  note: note-3"
    }
    assert [
        (each.id, each.case, each.category, each.here, each.same_policy)
        for each in record.precedents
    ] == [
        ("P1", "case-1", "Racist", "Racist", True),
        ("P2", "case-2", "NotHate", "NotHate", True),
        ("P3", "case-3", "Cruel", None, False),
    ]


async def test_who_cites_a_precedent_stands_in_the_record_and_what_is_not_there_is_struck_out() -> (
    None
):
    await store_of()
    script = {
        "investigation": {"cues": [cue("weeds", "Metaphor", justification="as was decided [P1]")]},
        "defence": {"arguments": [argument("it speaks of plants, as in [P2, P9]", "refute")]},
        "judge": {
            "category": "Racist",
            "explanation": "Like the earlier case [P1], and unlike another [P8].",
        },
    }
    record, requests = await tried(script=script, rounds=1)
    assert {each.id: each.cited_by for each in record.precedents} == {
        "P1": ("prosecutor/1", "judge"), "P2": ("defender/1",), "P3": (),
    }  # fmt: skip
    assert record.explanation == "Like the earlier case [P1], and unlike another."
    assert record.steps[0].evidence == ("P1",)
    assert (
        "the judge cited P8, which this case doesn't hold; that was struck out" in record.warnings
    )
    assert "cite that case by its id in brackets, as in [P1]" in requests[-1].text


async def test_a_post_never_sees_its_own_decision() -> None:
    await store_of([*WEEDS, decided(4, f" {POST.upper()} ", "Sexist")])
    record, requests = await tried()
    assert {each.case for each in record.precedents} == {"case-1", "case-2", "case-3"}
    assert not any("Sexist" in listed(request) for request in requests)


async def test_in_the_binary_scheme_a_kind_of_hate_is_hate() -> None:
    await store_of()
    record, requests = await tried(scheme="binary", precedents_k=2)
    assert [(each.category, each.here) for each in record.precedents] == [
        ("Racist", "Hateful"),
        ("NotHate", "NotHate"),
    ]
    assert "decided: Hateful\n  then called: Racist" in listed(requests[-1])


async def test_a_changed_store_is_another_question_and_an_equal_one_is_answered_from_the_cache(
    tmp_path: Path,
) -> None:
    await store_of()
    cache: dict[str, Any] = {"cache": str(tmp_path / "cache.sqlite"), "rounds": 1}
    async with ScriptedServer(court_script()) as server:
        for asked in (4, 4):
            await before(server, **cache)
            assert len(server.requests) == asked
        await store_of([WEEDS[0]._replace(note="on second thoughts"), *WEEDS[1:]])
        await before(server, **cache)
    assert [part(request) for request in server.requests[4:]] == [
        "investigation",
        "defence",
        "judge",
    ]
    assert "on second thoughts" in listed(server.requests[4])


async def test_without_a_store_no_request_is_another_one() -> None:
    sent = []
    for settings in ({"precedents": None}, {"precedents": "ours"}):
        await store_of([decided(1, POST)])
        _, requests = await tried(**settings)
        sent.append([json.dumps(request.body) for request in requests])
    assert sent[0] == sent[1]  # nor is it where the store holds nothing but the post itself


async def test_a_search_that_fails_takes_nothing_from_the_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.retrievers.precedents.counted import COUNTED

    monkeypatch.setenv("TRIBUNAL_ALLOW", f"code={COUNTED.name}")
    await store_of(embedding=COUNTED)
    monkeypatch.setattr(COUNTED, "dimension", 32)
    record, requests = await tried()
    assert (record.outcome, record.precedents) == ("verdict", ())
    assert any(
        "no precedent was at hand: precedents ours: its store holds vectors of 64" in w
        for w in record.warnings
    )
    assert len(requests) == 6


# A piece of one's own pipeline


def pipeline(*nodes: tuple[str, Any]) -> Any:
    builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
    before = START
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    builder.add_edge(before, END)
    return checked(builder).compile(name="mine")


async def test_the_piece_in_a_pipeline_of_ones_own_and_alone(scripted_model: ScriptedModel) -> None:
    await store_of()
    graph = pipeline(
        ("receive", receive), ("scan", scan), ("look_back", find_precedents), ("panel", panel), ("trial", deep_trial),
        ("judge", court_judge),
    )  # fmt: skip
    settings: dict[str, Any] = {"model": "openai:scripted", "precedents": "ours", "precedents_k": 1}
    settings |= {"perspectives": ["example-harm"]}
    state = await graph.ainvoke({"text": POST}, context=Context(**{**settings, "rounds": 1}))
    assert [each["case"] for each in state["precedents"]] == ["case-1"]
    for name in ("gatekeeper", "perspective"):
        assert "[P1]" not in scripted_model.told(name)[0]
    for name in ("investigation", "defence", "judge"):
        assert "[P1] similarity" in scripted_model.told(name)[0]


def test_the_piece_keeps_to_its_contract() -> None:
    assert check_piece(find_precedents, {"text": POST}) == [{"precedents": []}]


# What people are shown


async def test_what_is_brought_is_streamed_shown_and_drawn() -> None:
    from typer.testing import CliRunner

    from tests.untyped import graph
    from tribunal.commands import app
    from tribunal.events import PrecedentEvent, event_of

    await store_of([*WEEDS[:2], WEEDS[2]._replace(category="Cruel<script>\x1b[2J")])
    events = [
        event async for _, event in graph("tribunal").astream(
            {"text": POST}, context=Context(precedents="ours"), stream_mode="custom", subgraphs=True
        )
    ]  # fmt: skip
    brought = [event_of(each) for each in events if each["event"] == "precedent"]
    assert [each.case for each in brought if isinstance(each, PrecedentEvent)] == [
        "case-1",
        "case-2",
        "case-3",
    ]
    done = await asyncio.to_thread(
        CliRunner().invoke, app, ["judge", POST, "--set", "precedents=ours"]
    )
    words = " ".join(done.stdout.split())
    first = "Precedents P1 Racist; changed, 1 Oct 2026, under the current policy (case-1, similarity 0.71) P2 NotHate"
    assert first in words
    assert (
        "P3 Cruel<script>[U+001B][2J, here no category; changed, 3 Oct 2026, under an older policy"
        in words
    )
    assert "\x1b[2J" not in done.stdout
    record = await tribunal.ajudge(POST, precedents="ours")
    # They are words of another person, and are forgotten where their own case is forgotten.
    for told in (json.dumps(events), done.stdout, record.model_dump_json()):
        assert not any(case.text in told or case.note in told for case in WEEDS)
    page = record._repr_html_()
    assert "P2 NotHate; accepted, 2 Oct 2026" in page
    assert "<script>" not in page
