"""AntiHateAgent without the web, without a search, without details; and its baseline."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles import Fault, Reply
from tests.graphs.hybrid import hybrid
from tests.graphs.research_world import researcher, world
from tribunal.settings.graph_settings import MODES


@pytest.mark.parametrize(
    ("mode", "parts"),
    [("no-knowledge", ["verdict"]), ("zero-shot", ["words"])],
)
async def test_modes_without_the_web(mode: str, parts: list[str]) -> None:
    async with world(
        researcher(
            verdict={
                "label": "NON-HATE",
                "confidence": 1,
                "steps": [{"claim": "x", "evidence": []}],
            }
        )
    ) as it:
        record = await it.decide(mode=mode)
        assert it.search.log == it.site.log == []
    assert it.parts == parts
    assert record.outcome == "verdict"
    if mode == "zero-shot":
        assert (record.hateful, record.explanation) == (True, "because")
        assert it.model.requests[0].max_tokens == 200
        assert it.model.requests[0].response_format is None


@pytest.mark.parametrize(
    ("said", "hateful"),
    [("not hate speech: fine", False), ("**Hate speech:** [bad]", True), ("Hate speech: x", True)],
)
async def test_the_baseline_is_read_from_words(said: str, hateful: bool) -> None:
    async with world(researcher(words=Reply(said))) as it:
        record = await it.decide(mode="zero-shot")
    assert record.hateful is hateful


async def test_the_baseline_that_answers_otherwise_is_a_failure_and_has_three_tries() -> None:
    async with world(researcher(words=Reply("It depends."))) as it:
        record = await it.decide(mode="zero-shot")
    assert (record.outcome, len(it.model.requests)) == ("failure", 2)
    async with world(researcher(words=Fault(500, "down"))) as it:
        record = await it.decide(mode="zero-shot")
    assert (record.outcome, len(it.model.requests)) == ("failure", 3)


async def test_the_baseline_that_is_cut_at_its_limit_is_taken_as_it_is() -> None:
    async with world(
        researcher(words=Reply("hate speech: it calls peo", finish_reason="length"))
    ) as it:
        record = await it.decide(mode="zero-shot")
    assert (record.hateful, record.explanation) == (True, "it calls peo")
    assert [request.max_tokens for request in it.model.requests] == [200]


async def test_the_baselines_limit_is_never_raised() -> None:
    answers = iter(
        [
            Reply("This comment is about gar", finish_reason="length"),
            Reply("not hate speech: plants"),
        ]
    )
    async with world(researcher(words=lambda request: next(answers))) as it:
        record = await it.decide(mode="zero-shot")
    assert record.hateful is False
    assert [request.max_tokens for request in it.model.requests] == [200, 200]


PARTS_OF = {
    "full": {"queries", "relevance", "passages", "weigh", "enough", "verdict"},
    "no-details": {"queries", "relevance", "passages", "weigh", "enough", "verdict"},
    "no-search": {"urls", "passages", "weigh", "enough", "verdict"},
    "no-knowledge": {"verdict"},
    "zero-shot": {"words"},
}


@pytest.mark.parametrize("mode", MODES["antihate"])
async def test_the_researchers_temperature_reaches_every_call(mode: Any) -> None:
    urls: dict[str, list[str]] = {"urls": []}
    async with world(researcher(enough_at=None, urls=lambda request: Reply(urls))) as it:
        urls["urls"] = [f"{it.site.url}/{page}" for page in (1, 2, 3)]
        enough = {"missing": "", "sufficient": True}
        it.model.script = researcher(urls=lambda request: Reply(urls), enough=enough)
        turns: dict[str, Any] = {} if mode in ("no-knowledge", "zero-shot") else {"max_turns": 2}
        record = await it.decide(mode=mode, temperatures={"researcher": 1.5}, **turns)
    assert {
        it.part(request): request.temperature for request in it.model.requests
    } == dict.fromkeys(PARTS_OF[mode], 1.5)
    assert {call.temperature for call in record.calls} == {1.5}


async def test_a_temperature_of_the_judges_own_beats_the_researchers() -> None:
    async with world(researcher()) as it:
        await it.decide(temperatures={"researcher": 1.5, "judge": 0.2})
    sent = {it.part(request): request.temperature for request in it.model.requests}
    assert (sent.pop("verdict"), set(sent.values())) == (0.2, {1.5})


async def test_in_the_hybrid_court_it_reaches_the_research_and_nothing_else() -> None:
    async with hybrid() as it:
        await it.decide(web=True, max_turns=2, temperatures={"researcher": 1.5})
    sent: dict[str, set[Any]] = {}
    for request in it.model.requests:
        sent.setdefault(it.part(request), set()).add(request.temperature)
    assert {name for name, temperatures in sent.items() if temperatures == {1.5}} == PARTS_OF[
        "full"
    ] - {"verdict"}
    assert (sent["gatekeeper"], sent["defence"], sent["judge"]) == ({0}, {0.8}, {0.1})


async def test_without_a_search_api_the_model_names_pages_and_none_may_carry_the_post_outward() -> (
    None
):
    secret = "a sentence of the post that is long enough to be told from others by anybody"
    urls: dict[str, list[str]] = {"urls": []}
    async with world(researcher(urls=lambda request: Reply(urls))) as it:
        urls["urls"] = [
            f"{it.site.url}/1",
            f"{it.site.url}/2",
            f"{it.site.url}/?q={secret.replace(' ', '+')}",
        ]
        record = await it.decide(secret, mode="no-search", max_turns=1)
        assert it.search.log == []
        assert not any("sentence" in seen.path for seen in it.site.log)
    assert it.parts[0] == "urls"
    assert "relevance" not in it.parts
    assert len(record.evidence) == 2
    assert record.research is not None
    [refused] = [page for page in record.research["pages"] if page["error"]]
    assert "outward" in refused["error"]
