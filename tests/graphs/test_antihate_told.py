"""What each call of AntiHateAgent is told: the run's own policy, the paper's rules in every mode, what it may cite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles import Reply, Request
from tests.graphs.hybrid import hybrid
from tests.graphs.research_world import POST, html, part, researcher, world
from tribunal.prompts.policy import load_policy

RESEARCH = ("queries", "relevance", "passages", "weigh", "enough", "verdict")


def system(request: Request) -> str:
    return str(request.body["messages"][0]["content"])


async def told(mode: Any, **settings: Any) -> dict[str, Request]:
    """The last request of each part."""
    async with world(researcher(enough_at=2), two_pages()) as it:
        await it.decide(mode=mode, max_turns=3, **settings)
    return {part(request): request for request in it.model.requests}


def two_pages() -> dict[str, Any]:
    return {
        "/1": html("evidence-one says it is an insult."),
        "/2": html("evidence-two says so too."),
    }


@pytest.mark.parametrize("graph", ["antihate", "tribunal"])
@pytest.mark.parametrize("own", [False, True])
async def test_the_researcher_is_told_a_policy_only_if_the_run_names_one(
    graph: str, own: bool, tmp_path: Path
) -> None:
    in_force = load_policy("h-vli")
    (tmp_path / "own.toml").write_text(in_force.source, "utf-8")
    more: dict[str, Any] = {"policy": str(tmp_path / "own.toml")} if own else {}
    # The clauses, which the judge is told of a policy that is named, have the names of the categories.
    more |= {"web": True} if graph == "tribunal" else {"policy_clauses": False}
    async with hybrid() as it:
        it.graph = graph
        await it.decide(max_turns=2, **more)
    asked = [request for request in it.model.requests if it.part(request) in RESEARCH]
    assert {it.part(request) for request in asked} == set(RESEARCH) - (
        {"verdict"} if graph == "tribunal" else set()
    )
    for request in asked:
        assert "HATE or NON-HATE" in system(request)
        assert (
            "Reason and explain in English. Leave quotations in their original language."
            in system(request)
        )
        assert "Write search queries in the language of the post too." in system(request)
        held = (
            in_force.definition,
            in_force.exclusions,
            in_force.expression,
            ", ".join(in_force.protected_groups),
        )
        assert [words in system(request) for words in held] == [own] * 4
        for known_to_others in (
            in_force.excuses,
            in_force.together,
            *(each.name for each in in_force.fine),
        ):
            assert known_to_others not in request.text


@pytest.mark.parametrize("own", [False, True])
async def test_the_agent_and_its_zero_shot_peer_are_told_the_same_of_the_policy(
    own: bool, tmp_path: Path
) -> None:
    (tmp_path / "own.toml").write_text(load_policy("h-vli").source, "utf-8")
    more: dict[str, Any] = {"policy": str(tmp_path / "own.toml")} if own else {}
    async with world(researcher()) as it:
        records = [await it.decide(max_turns=1, **more), await it.decide(mode="zero-shot", **more)]
    told = {
        system(request).partition('# The policy "')[2].partition("# How to answer")[0]
        for request in it.model.requests
    }
    assert len(told) == 1
    assert bool(told.pop()) == own
    assert [bool(record.policy) for record in records] == [own, own]


async def test_queries_without_a_search_operator_are_warned_of() -> None:
    queries = [
        '"old image" meaning',
        "old image site:example.org",
        "image -shop",
        "pictures OR image",
        "old image",
    ]
    plan = {"thought": "", "entities": [], "claims": [], "queries": queries}
    async with world(researcher(queries=plan)) as it:
        record = await it.decide(max_turns=1)
    assert "turn 1: 1 of 5 queries use no search operator" in record.warnings
    assert "Each uses at least one search operator." in it.asked("queries")[0].text


async def test_the_thought_before_a_search_is_asked_for_kept_and_shown_again() -> None:
    async with world(researcher(enough_at=2)) as it:
        it.search.results = lambda query: [
            {"url": f"{it.site.url}/{query.split()[1][0]}", "title": "t"}
        ]
        record = await it.decide(max_turns=3)
    first, second = it.asked("queries")
    assert first.schema is not None
    assert list(first.schema["properties"]) == ["thought", "entities", "claims", "queries"]
    assert "thought-1" not in first.text
    for words in ("thought-1", "entity: entity-1", "claim: claim-1", "query 1a", "what-is-missing"):
        assert words in second.text
    assert record.research is not None
    assert record.research["plans"] == [
        {"id": f"T{turn}", "turn": turn, "thought": f"thought-{turn}", "entities": [f"entity-{turn}"],
         "claims": [f"claim-{turn}"]} for turn in (1, 2)
    ]  # fmt: skip


async def test_every_weighing_sees_all_passages_and_all_reasons_so_far() -> None:
    pages: dict[str, Any] = {f"/{each}": html(f"evidence-{each} is here.") for each in (1, 2, 3)}
    reasons = iter(["the-first-reason", "the-second-reason", "the-third-reason"])

    def weigh(request: Request) -> Reply:
        return Reply({"reasoning": next(reasons), "judgement": "undecided"})

    async with world(researcher(enough_at=2, weigh=weigh), pages) as it:
        it.search.results = lambda query: [
            {"url": f"{it.site.url}/{page}", "title": "t"}
            for page in ((1, 2) if " 1" in query else (3,))
        ]
        await it.decide(max_turns=2)
    third = it.asked("weigh")[2].text
    for words in (
        "evidence-1",
        "evidence-2",
        "evidence-3",
        "the-first-reason",
        "the-second-reason",
    ):
        assert third.count(words) == 1, words
    known, _, fresh = third.partition("The new evidence")
    assert "evidence-3" in fresh
    assert "evidence-1" in known
    for request in (*it.asked("enough"), *it.asked("verdict")):
        assert "the-first-reason" in request.text
        assert "the-second-reason" in request.text
    assert "the-third-reason" in it.asked("verdict")[0].text


async def test_what_may_be_answered_stands_in_the_schema_of_the_very_call() -> None:
    async with world(researcher(enough_at=1)) as it:
        await it.decide(max_turns=1)
        await it.decide("another post", mode="no-knowledge")
    [relevance], [verdict, without] = it.asked("relevance"), it.asked("verdict")
    assert relevance.schema is not None
    assert relevance.schema["properties"]["relevant"] == {
        "type": "array", "items": {"type": "integer", "enum": [1, 2]}, "maxItems": 2,
    }  # fmt: skip
    for request, cites in (
        (
            verdict,
            {"type": "array", "items": {"type": "string", "enum": ["E1", "E2"]}, "maxItems": 2},
        ),
        (without, {"type": "array", "items": {"type": "string"}, "maxItems": 0}),
    ):
        assert request.schema is not None
        step = request.schema["$defs"]["Step"]["properties"]["evidence"]
        step["items"].pop("maxLength", None)
        assert step == cites
        assert list(request.schema["properties"]) == ["steps", "label", "confidence"]
    assert "there is no evidence to cite" in without.text
    assert "evidence only" not in without.text


async def test_an_archive_from_before_thoughts_were_asked_for_is_replayed() -> None:
    old = {"queries": ["query 1a", "query 1b", "query 1c"]}
    async with world(researcher(queries=old)) as it:
        first = await it.decide()
        again = await it.decide(search="replay:evidence.sqlite", archive="replayed.sqlite")
    assert first.evidence == again.evidence
    assert POST in it.asked("verdict")[1].text
