"""AntiHateAgent over the wire: what it searches, reads, weighs and cites, and who is shown what."""

from __future__ import annotations

from tests.doubles import Reply
from tests.doubles.web import Site, SitePage
from tests.graphs.research_world import POST, html, researcher, world
from tribunal.retrievers.web.search.engine import normal_url


async def test_enough_after_one_turn() -> None:
    async with world(researcher(enough_at=1)) as it:
        record = await it.decide()
        assert it.parts[0] == "queries"
        assert sorted(it.search.queries) == ["query 1a", "query 1b", "query 1c"]
        assert {seen.path for seen in it.site.log} == {"/robots.txt", "/1", "/2"}
    # of three queries with the same hits, one has hits that are new
    assert it.parts.count("relevance") == 1
    assert it.parts[-2:] == ["enough", "verdict"]
    assert it.parts.count("weigh") == 2
    assert (record.outcome, record.label, record.category, record.scheme) == (
        "verdict",
        1,
        "Hateful",
        "binary",
    )
    assert record.confidence == 0.8
    assert record.research is not None
    assert (record.research["turn"], record.research["sufficient"]) == (1, True)
    assert {each.id for each in record.evidence} == {"E1", "E2"}
    assert record.steps[0].evidence == ("E1", "E2")
    for each in record.evidence:
        assert each.query.startswith("query 1")
        assert each.url.startswith(it.site.url)
        assert each.passage.startswith("evidence-")
        assert (each.title, each.stance, each.window, each.end - each.start) == (
            "A page",
            "supports",
            0,
            len(each.passage),
        )
    assert {request.temperature for request in it.model.requests} == {None}


async def test_who_sees_what() -> None:
    async with world(researcher(enough_at=1)) as it:
        await it.decide()
    # the post is restated, unchanged, in every call
    assert all(POST in request.text for request in it.model.requests)
    first, second = it.asked("weigh")
    assert "Undecided" in first.text
    assert "[E1]" in first.text
    assert "[E2]" not in first.text
    assert "weighed E1" in second.text  # the judgement so far
    assert "[E1]" in second.text  # the chain accumulates: what was weighed before is shown again
    assert "[E2]" in second.text
    [enough], [verdict] = it.asked("enough"), it.asked("verdict")
    for request in (enough, verdict):
        assert "[E1]" in request.text
        assert "[E2]" in request.text
        assert "1. hate\n  after: E1\n  reasoning: weighed E1" in request.text
        assert "2. hate\n  after: E2\n  reasoning: weighed E1 and E2" in request.text
    [page] = [request for request in it.asked("passages") if "evidence-one" in request.text]
    assert "evidence-two" not in page.text


async def test_enough_after_three_turns_with_nothing_tried_twice() -> None:
    def hits(site: Site, query: str) -> list[dict[str, str]]:
        turn = query.split()[1][0]
        return [
            {"url": f"{site.url}/{turn}", "title": "t", "content": "c"},
            {"url": f"{site.url}/1#again", "title": "t"},
        ]

    pages: dict[str, SitePage | str] = {
        f"/{each}": html(f"evidence-{each} is here.") for each in (1, 2, 3)
    }
    async with world(researcher(enough_at=3), pages, hits) as it:
        record = await it.decide(max_turns=5)
        assert len(it.search.queries) == len(set(it.search.queries)) == 9
        assert sorted(seen.path for seen in it.site.log if seen.path != "/robots.txt") == [
            "/1",
            "/2",
            "/3",
        ]
    second = it.asked("queries")[1].text
    assert "query 1a" in second
    assert "what-is-missing" in second
    assert "query 2c" in it.asked("queries")[2].text
    assert record.research is not None
    assert (record.research["turn"], record.research["sufficient"], len(record.evidence)) == (
        3,
        True,
        3,
    )


async def test_never_enough() -> None:
    async with world(researcher(enough_at=None)) as it:
        record = await it.decide(max_turns=2)
    assert it.parts.count("queries") == 2
    assert it.parts[-1] == "verdict"
    assert record.outcome == "verdict"
    assert any("not found to be enough in 2 turns" in warning for warning in record.warnings)


async def test_no_hit_relevant() -> None:
    async with world(researcher(relevance={"relevant": []})) as it:
        record = await it.decide(max_turns=2)
        assert it.site.log == []
    assert "passages" not in it.parts
    assert record.outcome == "verdict"
    assert any("no evidence was found on any page" in warning for warning in record.warnings)
    assert "None was found." in it.asked("verdict")[0].text


async def test_all_pages_failing() -> None:
    pages: dict[str, SitePage | str] = {
        "/1": SitePage("gone", "text/plain", 500),
        "/2": SitePage("x", "application/zip"),
    }
    async with world(researcher(), pages) as it:
        record = await it.decide(max_turns=1)
    assert it.parts == ["queries", "relevance", "verdict"]
    assert record.research is not None
    errors = {page["url"].rpartition("/")[2]: page["error"] for page in record.research["pages"]}
    assert "500" in errors["1"]
    assert "content_type" in errors["2"]
    assert any("no evidence was found on any page" in warning for warning in record.warnings)


async def test_a_search_that_fails_is_a_normal_outcome_and_said() -> None:
    async with world(researcher()) as it:
        it.search.results = lambda query: SitePage("busy", "text/plain", 429)
        record = await it.decide(max_turns=1)
    assert record.outcome == "verdict"
    assert any(warning.startswith("search: searxng") for warning in record.warnings)


async def test_a_page_longer_than_a_window_is_read_in_parts_with_overlap() -> None:
    long = html(
        *[f"filler sentence number {each} is here." for each in range(400)],
        "evidence-last is at the end.",
    )
    async with world(researcher(), {"/1": long}) as it:
        record = await it.decide(
            window_tokens=1000, window_overlap=100, max_turns=1, max_windows=20
        )
        few = await it.decide(
            "another post", window_tokens=1000, window_overlap=100, max_turns=1, max_windows=2
        )
    read = [request for request in it.asked("passages") if POST in request.text]
    assert len(read) > 3
    assert record.evidence[0].passage == "evidence-last is at the end."
    assert record.evidence[0].window == len(read) - 1
    assert len([request for request in it.asked("passages") if "another post" in request.text]) == 2
    assert few.evidence == ()


async def test_a_passage_that_the_page_does_not_hold_is_rejected() -> None:
    forged = {"passages": [{"passage": "words that nobody wrote", "stance": "supports"}]}
    async with world(researcher(passages=forged)) as it:
        record = await it.decide(max_turns=1)
    assert record.evidence == ()
    assert any("rejected" in warning for warning in record.warnings)
    assert "weigh" not in it.parts


async def test_a_citation_of_an_unknown_id_is_struck_out_and_costs_no_call() -> None:
    steps = [
        {"claim": "so [E7]", "evidence": ["e1", "E9", "[E1]"]},
        {"claim": "and so", "evidence": []},
    ]
    async with world(researcher(verdict={"steps": steps, "label": "hate", "confidence": 90})) as it:
        record = await it.decide(max_turns=1)
    assert (record.outcome, it.parts.count("verdict"), record.confidence) == ("verdict", 1, 0.9)
    assert [(step.claim, step.evidence) for step in record.steps] == [
        ("so", ("E1",)),
        ("and so", ()),
    ]
    for each in ("E9", "E7"):
        assert (
            f"the judge cited {each}, which this case doesn't hold; that was struck out"
            in record.warnings
        )


async def test_a_hit_that_is_not_listed_is_left_out_and_costs_no_call() -> None:
    async with world(researcher(relevance={"relevant": [2, 7, "2"]})) as it:
        record = await it.decide(max_turns=1)
        assert {seen.path for seen in it.site.log} == {"/robots.txt", "/2"}
    assert it.parts.count("relevance") == 1
    assert "the researcher chose 7 of 2 hits for “query 1a”; that was left out" in record.warnings


async def test_queries_that_repeat_are_asked_for_again() -> None:
    given = iter([{"queries": ["one", "One ", "two"]}, {"queries": ["one", "two", "three"]}])
    async with world(researcher(queries=lambda request: Reply(next(given)))) as it:
        await it.decide(max_turns=1)
        assert sorted(it.search.queries) == ["one", "three", "two"]


async def test_a_model_that_runs_out_of_queries_ends_the_research_and_not_the_case() -> None:
    same = {"queries": ["one", "two", "three"]}
    async with world(researcher(enough_at=None, queries=same)) as it:
        record = await it.decide(max_turns=3)
    assert it.parts.count("queries") == 3
    assert record.outcome == "verdict"
    assert len(record.evidence) == 2
    assert any("ended in turn 2" in warning for warning in record.warnings)


def test_urls_are_told_apart_by_what_they_fetch() -> None:
    assert normal_url("HTTP://Example.com:80/a#b") == normal_url("http://example.com/a")
